"""Problems and models for tests of searches over one program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trace_bench.trainers.base import Slot
from trace_bench.worker.problem import CandidateError, Example, Parameter, Problem

SIGNATURE = 'def answer():\n    """A number."""'


def program(number: float, note: str = "") -> str:
    """A program that gives `number`."""
    return f"def answer():\n    return {number}{note and '  # ' + note}\n"


def constant(
    train: Sequence[float] = (3.0,), validate: Sequence[float] = (), *, direction: str = "maximize", start: str = ""
) -> Problem:
    """Write a program that gives a number near each example's own target; source without one fails.

    The score is the distance, negated where higher is better. Nothing is run: the guide reads the number.
    """
    sign = -1.0 if direction == "maximize" else 1.0

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        found = re.search(r"return (-?[0-9.e+-]+)", response)
        if found is None:
            raise CandidateError("call", "there is no number")
        return sign * abs(float(found[1]) - reference), f"{found[1]} is not {reference:g}"

    return Problem(
        parameters=(
            Parameter(
                "code", start or program(0.0), "code", entry="answer", signature=SIGNATURE,
                alternatives=(program(1.0), program(2.0), program(2.5), "def answer():\n    raise ValueError\n"),
            ),
        ),
        guide=guide,
        train=tuple(Example(f"t{i}", reference=target) for i, target in enumerate(train)),
        validate=tuple(Example(f"v{i}", reference=target) for i, target in enumerate(validate)),
        objective="Find the number.",
        direction=direction,  # type: ignore[arg-type]
        failure_score=sign * 1000.0,
    )  # fmt: skip


def fenced(source: str, idea: str = "An idea.") -> str:
    """An answer with a code block."""
    return f"{idea}\n\n```python\n{source}```\n"


def writing(programs: Callable[[Slot], str | None]) -> Any:
    """A model that gives ``programs(slot)`` in a code block, no code for None, and describes a program by its slot."""

    def model(messages: list[dict[str, str]], slot: Slot, variables: list[Mapping[str, Any]]) -> str:
        if not variables:
            return f"describes {slot.candidate}.{slot.proposal}"
        source = programs(slot)
        return "I have no idea." if source is None else fenced(source, f"idea of {slot.candidate}.{slot.proposal}")

    return model


def answers(numbers: Mapping[str, float | str | None]) -> Any:
    """A model whose program at ``s1.i0.p2`` (step, place, proposal) gives the number of that name, or is the text."""

    def of(slot: Slot) -> str | None:
        value = numbers.get(f"s{slot.step}.{slot.candidate}.p{slot.proposal}")
        return program(value) if isinstance(value, int | float) else value

    return writing(of)
