"""The forms of a task that asks its program step by step: whether a program remembers its earlier calls.

*Planned*: one process answers all calls of an instance, so that a program may plan at its first call. *Stateless*: each
call is answered by a fresh process, so that a program is a rule of what it is given, as in EoH (Liu et al.,
arXiv:2401.02051) and ReEvo (Ye et al., arXiv:2402.01145). A task has both if ``[candidates]`` of its ``task.toml``
names a ``stateless`` program: it is the reference of that form.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast, get_args

from trace_bench.worker.problem import CandidateError, Limits, Program

Form = Literal["planned", "stateless"]
PLANNED, STATELESS = FORMS = cast("tuple[Form, Form]", get_args(Form))
FORM = "form"
"""The argument of ``eval_kwargs`` that chooses. Without it a task is planned."""


def has_forms(spec: Mapping[str, Any]) -> bool:
    """Whether the task can be stateless.

    Args:
        spec: its ``task.toml`` as a dict.
    """
    return STATELESS in spec.get("candidates", {})


def form_of(spec: Mapping[str, Any], eval_kwargs: Mapping[str, Any]) -> Form:
    """The form of a problem with these arguments."""
    return cast("Form", eval_kwargs.get(FORM) or PLANNED) if has_forms(spec) else PLANNED


def candidates_of(spec: Mapping[str, Any], form: Form) -> Mapping[str, Any]:
    """``[candidates]`` of a spec in a form: the reference is that of the form. One of the stateless form alone has no
    levels below it."""
    table: Mapping[str, Any] = spec["candidates"]
    if form == PLANNED or table[STATELESS] == table.get("reference"):
        return table
    return {**table, "reference": table[STATELESS], "levels": 1}


def processes_described(spec: Mapping[str, Any], form: Form) -> str:
    """The sentence of a statement on processes and memory."""
    if spec.get("interaction") != "policy":
        return "Each instance is given to a fresh process without network or files; answer with plain data."
    if form == STATELESS:
        return (
            "Each call is answered by a fresh process without network or files: nothing is remembered from one call to "
            "the next. The limit of CPU time holds for all calls of an instance together. Answer with plain data."
        )
    return (
        "All calls of an instance are answered by the same process, without network or files: the program may remember "
        "what it likes for that instance, and nothing of another. Answer with plain data."
    )


class FreshProcesses:
    """A program whose every call is answered by a process of its own.

    All processes load the same source with the same random seed, so that equal calls have equal answers. The limits of
    CPU time, and of wall time of all calls, hold over all of them together.

    Args:
        open_one: starts a process with limits.
        limits: for all calls together.
    """

    def __init__(self, open_one: Callable[[Limits], Program], limits: Limits) -> None:
        self._open_one = open_one
        self._limits = limits
        self._cpu_seconds = 0.0
        self._wall_seconds = 0.0

    def __call__(self, *args: Any) -> Any:
        """See `Program.__call__`. Raises CandidateError, too, if all calls together have used up a limit."""
        return self._asked(lambda program: program(*args))

    def metered(self, *args: Any) -> tuple[Any, float]:
        """See `Program.metered`."""
        answer: tuple[Any, float] = self._asked(lambda program: program.metered(*args))
        return answer

    def _asked(self, ask: Callable[[Program], Any]) -> Any:
        self._check()
        rest = replace(self._limits, cpu_seconds=self._limits.cpu_seconds - self._cpu_seconds)
        began = time.monotonic()
        program = self._open_one(rest)
        try:
            with program:
                answer = ask(program)
        except CandidateError:
            self._count(program, began)
            self._check()
            raise
        self._count(program, began)
        self._check()
        return answer

    def _count(self, program: Program, began: float) -> None:
        self._cpu_seconds += program.cpu_seconds
        self._wall_seconds += time.monotonic() - began

    def _check(self) -> None:
        limits, all_calls = self._limits, "for all calls of the instance together"
        if self._cpu_seconds >= limits.cpu_seconds:
            raise CandidateError(
                "timeout", f"the program used more than {limits.cpu_seconds:g} s of CPU time {all_calls}"
            )
        if self._wall_seconds > limits.life_seconds:
            raise CandidateError("timeout", f"its answers took more than {limits.life_seconds:g} s {all_calls}")
