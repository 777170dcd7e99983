"""Every search ends in order where its budget ends, whatever it is doing then, and has used what it was given.

Tokens, dollars and seconds are counted by others than the trainer's process: `tests/worker/test_equal_terms.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.searches import SEARCHES, endless, only_programs
from tests.trainers.memory_context import MemoryContext, greeting, numeric, suggest
from tests.trainers.program_search import constant, program
from trace_bench.planning.search_costs import amounts_of, costs_of
from trace_bench.trainers.base import Budget, Slot, StopTraining
from trace_bench.worker.problem import Problem

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "value": lambda: numeric(train=4, validate=3, score_range=(-13.0, 0.0)),
    "agent": greeting,
}


def problem_of(name: str, problem: str) -> Problem:
    """The problem `problem` for the search `name`, which may need a program to change."""
    return constant([3.0] * 4, [3.0] * 3) if only_programs(name) else PROBLEMS[problem]()


def inventive(messages: Any, slot: Slot, variables: list[Mapping[str, Any]]) -> str:
    """A model that has something new to say at each place of a search."""
    chance = random.Random(str(slot))
    number = chance.uniform(-9.0, 9.0)
    # A statement, as a comment is no difference between two programs, and a long one, as little is none to a filter.
    note = f"note_{chance.randrange(1 << 30)} = {[chance.randrange(100) for _ in range(30)]}\n"
    if [v["name"] for v in variables] == ["code"]:
        return suggest(code=program(number))
    return suggest(**{v["name"]: number if v["kind"] == "float" else v["value"] + note for v in variables})


def seen(context: MemoryContext) -> list[Any]:
    return [
        (s.step, s.candidate, s.parents, s.state, s.score, s.split, s.accepted, s.evaluations) for s in context.steps
    ]


class Counting(MemoryContext):
    """Notes what is asked for once the budget has ended the search."""

    stops = 0

    def count_evaluations(self, number: int) -> None:
        try:
            super().count_evaluations(number)
        except StopTraining:
            self.stops += 1
            raise

    def chat(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        assert not self.stops, "a search that was stopped asks no model"
        return super().chat(*args, **kwargs)


def searched(programs: Any, name: str, problem: str, **budget: Any) -> Counting:
    context = Counting(problem_of(name, problem), programs, inventive, budget=Budget(**budget))
    trainer = SEARCHES[name]
    final = context.search(trainer, **endless(name))
    assert final.keys() == context.problem.initial_state().keys()
    return context


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        # The agent, whose programs are processes, for every fourth search.
        pytest.param(name, problem, marks=pytest.mark.slow if problem == "agent" and number % 4 else [])
        for number, name in enumerate(SEARCHES)
        for problem in PROBLEMS
        if problem == "value" or not only_programs(name)
        if (name, problem) != ("RandomProposals", "agent")  # a program without alternatives cannot be drawn
    ],
)
def test_evaluations_are_exact_and_a_larger_budget_only_goes_on(programs: Any, name: str, problem: str) -> None:
    small, large = (searched(programs, name, problem, evaluations=number) for number in (13, 26))
    for context, allowed in ((small, 13), (large, 26)):
        assert context.evaluations <= allowed
        assert context.stop_reason == "budget", "it would have gone on"
        # What it was refused is no more than what one candidate takes on all examples of a split.
        assert context.evaluations > allowed - 4
        assert context.stops >= 1
    assert seen(small) == seen(large)[: len(small.steps)]


@pytest.mark.parametrize("name", [name for name, trainer in SEARCHES.items() if trainer.uses_llm])
def test_calls_are_exact_and_a_larger_budget_only_goes_on(programs: Any, name: str) -> None:
    small, large = (searched(programs, name, "value", calls=number) for number in (3, 7))
    assert [len(c.calls) for c in (small, large)] == [3, 7]
    assert {c.stop_reason for c in (small, large)} == {"budget"}
    assert seen(small) == seen(large)[: len(small.steps)]
    assert [call.slot for call in small.calls] == [call.slot for call in large.calls[:3]]


@pytest.mark.parametrize("name", SEARCHES)
def test_what_a_proposal_costs_is_what_the_plan_estimates(programs: Any, name: str) -> None:
    """The first is judged with what its trainer declares, and not with one evaluation or one call less."""
    trainer = SEARCHES[name]
    costs = costs_of(trainer)
    assert costs is not None
    params = {param.name: param.default for param in trainer.params}
    start, proposal, _ = amounts_of(costs, params, train=4, validate=3)
    evaluations, calls = (first + each for first, each in zip(start, proposal, strict=True))
    assert judged(searched(programs, name, "value", evaluations=evaluations, calls=calls or None)) >= 1
    assert judged(searched(programs, name, "value", evaluations=evaluations - 1)) == 0
    if calls:
        assert judged(searched(programs, name, "value", calls=calls - 1)) == 0


def judged(context: MemoryContext) -> int:
    return len({step.candidate for step in context.steps if step.parents})


@pytest.mark.parametrize("name", SEARCHES)
def test_a_budget_that_the_start_uses_up_leaves_the_start(programs: Any, name: str) -> None:
    nothing, start = (searched(programs, name, "value", evaluations=number) for number in (2, 3))
    assert nothing.steps == [] and nothing.evaluations == 0
    assert [s.candidate for s in start.steps] == ["seed"] and start.evaluations == 3
    assert {c.stop_reason for c in (nothing, start)} == {"budget"}


@pytest.mark.parametrize("name", SEARCHES)
def test_wherever_it_is_stopped_it_ends_in_order_with_its_best(programs: Any, name: str) -> None:
    for place in range(1, 12):
        context = Stopped(problem_of(name, "value"), programs, inventive)
        context.place = place
        final = context.search(SEARCHES[name], **endless(name))
        assert context.stop_reason == "interrupted"
        assert final == context.best_state
        # What came before a stop among a step's proposals is still handed on: its evaluation is asked for, and refused.
        assert context.asked in (place, place + 1), "it asks for nothing more"


class Stopped(MemoryContext):
    """Is stopped at the `place`-th thing that it asks for."""

    place = 0
    asked = 0

    def _passed(self) -> None:
        self.asked += 1
        if self.asked >= self.place:
            raise StopTraining("interrupted")

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        self._passed()
        return super().evaluate(*args, **kwargs)

    def chat(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._passed()
        return super().chat(*args, **kwargs)
