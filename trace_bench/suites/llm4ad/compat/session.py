"""How candidates run for the task that is built in this process: what guides of foreign code find here."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.worker.problem import BuildContext, ProblemError, Programs

OWN = ("execute_in_scorer",)
"""Arguments of a config that are not the task's but ours."""


@dataclass(frozen=True)
class Session:
    """Of one problem.

    Attributes:
        folder: of the task.
        memory_bytes: that a candidate may use.
        in_scorer: candidates run in this process. Asked for in the config; the job is unprotected.
        in_place: positions of the arguments that a program is to change.
        executes: the code of the task executes source itself.
    """

    programs: Programs
    folder: Path
    memory_bytes: int
    in_scorer: bool
    executes: bool
    in_place: tuple[int, ...] = ()

    @classmethod
    def of(cls, context: BuildContext) -> Session:
        limits: Mapping[str, Any] = context.spec.get("limits", {})
        return cls(
            context.programs,
            context.task_dir,
            int(limits.get("memory_mb", 1024)) << 20,
            bool(context.eval_kwargs.get("execute_in_scorer", False)),
            bool(context.spec["foreign"].get("executes_candidates", False)),
            tuple(context.spec["foreign"].get("in_place", ())),
        )


_current: list[Session] = []
_lock = threading.RLock()


@contextmanager
def entered(session: Session) -> Iterator[None]:
    """While code of the task runs, `current` is `session`."""
    with _lock:
        _current.append(session)
        try:
            yield
        finally:
            _current.pop()


def current() -> Session:
    """The session that is entered.

    Raises:
        ProblemError: none is.
    """
    if not _current:
        raise ProblemError("this guide was made outside build_trace_problem(); make it there")
    return _current[-1]


def arguments(context: BuildContext) -> dict[str, Any]:
    """What the config gives to the task's own code."""
    return {name: value for name, value in context.eval_kwargs.items() if name not in OWN}
