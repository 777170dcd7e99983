"""Which references a server takes: those of a folder of official problems, or any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.kernel_server.submission import BadSubmission, Submission
from trace_bench.suites.registry import discover

KERNELS = "kernelbench"
_NAME = re.compile(r"level(?P<level>\d+)/(?P<problem>\d+)_[^/]*")


@dataclass(frozen=True)
class Problems:
    """The official problems of a server.

    Attributes:
        files: ``levelN/ID_NAME.py`` of KernelBench, by level and id; empty takes any reference.
    """

    files: Mapping[tuple[int, int], Path] = field(default_factory=dict)

    @classmethod
    def below(cls, roots: Sequence[Path]) -> Problems:
        """The problems in folders ``level1``, ``level2`` … below `roots`. Without roots, any reference is taken.

        Raises:
            ConfigError: there are no problems, or two with one level and id.
        """
        files: dict[tuple[int, int], Path] = {}
        for level, problem, path in _found(roots) if roots else ():
            if (other := files.setdefault((level, problem), path)) != path:
                raise ConfigError(f"problem {problem} of level {level} is in {other} and in {path}; remove one")
        if roots and not files:
            raise ConfigError(f"--root {roots[0]}: it holds no problem of KernelBench, such as level1/19_ReLU.py")
        return cls(files)

    def check(self, submission: Submission) -> None:
        """
        Raises:
            BadSubmission: the problem is unknown, or its reference another one.
        """
        if not self.files:
            return
        if submission.level is None:
            raise BadSubmission(422, "$.level: this server has official problems; name the level")
        path = self.files.get((submission.level, submission.problem_id))
        if path is None:
            what = f"problem {submission.problem_id} in level {submission.level}"
            raise BadSubmission(422, f"$.problem_id: this server has no {what}")
        if _lines(submission.ref_arch_src) != _lines(path.read_text(encoding="utf-8")):
            raise BadSubmission(422, f"$.ref_arch_src: it is not the reference of this server, {path.name}")

    def reference(self, submission: Submission) -> str:
        """The source that a kernel is measured against."""
        if submission.level is None or not self.files:
            return submission.ref_arch_src
        return self.files[submission.level, submission.problem_id].read_text(encoding="utf-8")


def _found(roots: Sequence[Path]) -> Iterable[tuple[int, int, Path]]:
    for entry in discover([KERNELS], roots):
        found = _NAME.fullmatch(entry.id.removeprefix(f"{KERNELS}:"))
        if found is not None and entry.folder.is_file():
            yield int(found["level"]), int(found["problem"]), entry.folder


def _lines(source: str) -> list[str]:
    """The lines of `source`; how they end, and blank space at their ends, makes no difference."""
    return [line.rstrip() for line in source.strip().splitlines()]
