"""Scripted answers and problems for tests of decisions: who is the parent, what is kept, how ties break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.trainers.memory_context import MemoryContext, Model, suggest
from trace_bench.trainers.base import Slot
from trace_bench.worker.problem import Example, Parameter, Problem


def script(answers: Mapping[str, float]) -> Model:
    """A model that proposes ``answers[candidate]`` for the numeric parameter x, and nothing where there is no such."""

    def model(messages: list[dict[str, str]], slot: Slot, variables: list[Mapping[str, Any]]) -> str:
        name = f"s{slot.step}.{slot.candidate}.p{slot.proposal}"
        return suggest(x0=answers[name]) if name in answers else "no idea"

    return model


def targets(
    train: Sequence[float],
    validate: Sequence[float] = (),
    *,
    start: float = 0.0,
    direction: str = "maximize",
    score_range: tuple[float, float] | None = None,
    scale: float = 1.0,
) -> Problem:
    """Guess a number that is near each example's own target. The score is the distance times `scale`, negated where
    higher is better. Examples are t0, t1, … and v0, v1, …."""
    sign = -scale if direction == "maximize" else scale

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return sign * abs(response - reference), f"{response:g} is not {reference:g}"

    return Problem(
        parameters=(Parameter("x", start, "float", bounds=(-100.0, 100.0)),),
        guide=guide,
        train=tuple(Example(f"t{i}", reference=target) for i, target in enumerate(train)),
        validate=tuple(Example(f"v{i}", reference=target) for i, target in enumerate(validate)),
        objective="Find the number.",
        direction=direction,  # type: ignore[arg-type]
        failure_score=sign * 1000.0,
        score_range=score_range,
    )


def lines(memory: MemoryContext) -> list[tuple[int, str, str, int, bool | None]]:
    """(step, candidate, split, examples, accepted) of each step after the start."""
    return [(s.step, s.candidate, s.split, len(s.rollouts), s.accepted) for s in memory.steps[1:]]


def examples(memory: MemoryContext, step: int, split: str = "validate") -> list[tuple[str, ...]]:
    """The examples of each line of a step on `split`."""
    return [tuple(r.example_id for r in s.rollouts) for s in memory.steps if (s.step, s.split) == (step, split)]


def kept(memory: MemoryContext) -> list[list[str]]:
    """What the search goes on with after each step."""
    return [event["kept"] for event in memory.told("search.step")]


def explored(memory: MemoryContext) -> list[list[str]]:
    """What proposals were asked for in each step."""
    return [event["explored"] for event in memory.told("search.step")]


def history(memory: MemoryContext) -> list[Any]:
    """All that is recorded of each step."""
    return [
        (s.step, s.candidate, s.parents, s.state, s.rollouts, s.split, s.accepted, s.reason, s.extra)
        for s in memory.steps
    ]
