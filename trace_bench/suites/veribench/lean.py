"""Has Lean compile files, each in a process of its own that is thrown away.

One process is always started ahead: it waits for its file while the optimizer thinks. It has compiled nothing before,
so no file can leave anything for the next one. The processes of a job run under the uids of candidates, without
network, and with limits on time, memory and processes.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import NamedTuple

from trace_bench.suites.veribench.harness import Message, messages
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Program, Programs

SCRIPT = files("trace_bench.suites.veribench").joinpath("elaborate.py").read_text(encoding="utf-8")
ENTRY = "trace_bench_lean"
VARIABLE = "LEAN"
"""Environment variable that names the program, where it is not on PATH."""
UNAVAILABLE = 69
"""Exit code (``EX_UNAVAILABLE``) of a `lean` that cannot answer: the fault of no candidate."""
_NEEDS = frozenset({"compiler"})
_LARGEST = 64 << 20
"""Bytes of a file that Lean writes."""
_HINTS = {
    "timeout": "a definition, a proof or a test takes too long, or does not end",
    "memory": "a definition, a proof or a test needs too much memory",
    "died": "Lean crashed on this file, as it does on very deep recursion",
}


class Compiled(NamedTuple):
    """What Lean made of a file.

    Attributes:
        files: compiled; empty if there are errors.
    """

    said: list[Message]
    files: Sequence[bytes]


def lean_here(environ: Mapping[str, str]) -> str:
    """The path of the program `lean`.

    Raises:
        ProblemError: there is none.
    """
    found = environ.get(VARIABLE) or shutil.which("lean", path=environ.get("PATH"))
    if not found:
        raise ProblemError(
            "found no program 'lean'; the image needs a toolchain (docs/how-to/lean.md says how it gets one), "
            f"and without a container 'lean' has to be on PATH or named by {VARIABLE}"
        )
    return found


@dataclass
class Lean:
    """Compiles files.

    Attributes:
        limits: of each process.
        command: the program, and its arguments before ours.
        environment: that it gets, beside a home of its own.
    """

    programs: Programs
    limits: Limits
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    _waiting: tuple[ExitStack, Program] | None = None

    def prepare(self) -> None:
        """Start a process that waits for a file, if there is none."""
        if self._waiting is None:
            with ExitStack() as stack:
                limits = replace(self.limits, needs=_NEEDS, file_bytes=_LARGEST, output_bytes=_LARGEST)
                program = stack.enter_context(self.programs.open("", ENTRY, limits, SCRIPT))
                program("begin", list(self.command), dict(self.environment))
                self._waiting = (stack.pop_all(), program)

    def elaborate(self, text: str) -> Compiled:
        """Have Lean elaborate and compile `text`.

        Raises:
            CandidateError: it takes too long or too much memory, or Lean crashes. ProblemError: Lean does not work.
        """
        try:
            self.prepare()
        except CandidateError as error:
            raise ProblemError(f"{self.command[0]} cannot be started: {error}") from error
        assert self._waiting is not None
        (stack, program), self._waiting = self._waiting, None
        with stack:
            try:
                found = program("compile", text)
            except CandidateError as error:
                raise _explained(error, self.limits) from error
        self.prepare()
        code = found["code"]
        if code == -signal.SIGXCPU:
            seconds = f"{self.limits.cpu_seconds:g} s of CPU time"
            raise CandidateError("timeout", f"Lean has not finished within {seconds}: {_HINTS['timeout']}")
        if code < 0 or code > 128:
            raise CandidateError("died", _HINTS["died"])
        if code not in (0, 1):
            raise ProblemError(f"{self.command[0]} ended with {code}: {found['said'].strip()[-2000:]}")
        said = messages(found["printed"])
        if code and not said:
            raise ProblemError(f"{self.command[0]} refuses the file and says nothing: {found['said'].strip()[-2000:]}")
        return Compiled(said, [] if code else list(found["files"]))

    def close(self) -> None:
        """End the process that waits."""
        if self._waiting is not None:
            self._waiting[0].close()
            self._waiting = None


def lean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the environment a toolchain may need."""
    found = {name: environ[name] for name in ("LEAN_PATH", "LEAN_SYSROOT") if name in environ}
    return {"PATH": environ.get("PATH", os.defpath), **found}


def _explained(error: CandidateError, limits: Limits) -> CandidateError:
    hint = _HINTS.get(error.phase)
    if hint is None:
        return error
    if error.phase == "timeout":
        return CandidateError("timeout", f"Lean has not finished within {limits.wall_seconds:g} s: {hint}")
    return CandidateError(error.phase, f"{error.message}; {hint}")
