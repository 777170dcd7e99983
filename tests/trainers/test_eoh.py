"""EoH: who are parents, what strategies show, what survives, and how a search ends."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest

from tests.trainers.memory_context import numeric
from tests.trainers.program_search import answers, constant, program, writing
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.candidates import Candidate
from trace_bench.trainers.eoh import OPERATORS, TASKS, EoH, Member, drawn, survivors


def inventive(slot: Slot) -> str:
    """A program at each place that is another one."""
    number = sum(map(ord, str(slot))) * 37 % 1000 / 100
    return program(number, str(slot))


def member(created: int, score: float) -> Member:
    return Member(Candidate(f"c{created}", {}, (), created, scores=[score]), "", "")


def shown(prompt: str) -> list[float]:
    return [float(number) for number in re.findall(r"    return ([0-9.-]+)", prompt)]


def prompt_at(memory: Any, place: str) -> str:
    (call,) = [c for c in memory.calls if f"s{c.slot.step}.{c.slot.candidate}.p{c.slot.proposal}" == place]
    return str(call.prompt)


def kept(memory: Any) -> list[list[str]]:
    return [event["kept"] for event in memory.told("search.step")]


def test_parents_are_drawn_by_rank() -> None:
    """Three members: weights 1/4, 1/5, 1/6, so that the best is drawn first in 15 of 37 draws."""
    ranked = [member(0, 3.0), member(1, 2.0), member(2, 1.0)]
    chance = random.Random(1)
    first = Counter(drawn(ranked, 1, chance)[0].candidate.id for _ in range(20_000))
    expected = {"c0": 15 / 37, "c1": 12 / 37, "c2": 10 / 37}
    assert {name: count / 20_000 for name, count in first.items()} == pytest.approx(expected, abs=0.015)
    # Given that c0 is drawn first, c1 and c2 are left with 1/5 and 1/6: c1 in 6 of 11.
    pairs = [tuple(m.candidate.id for m in drawn(ranked, 2, chance)) for _ in range(20_000)]
    after = Counter(second for one, second in pairs if one == "c0")
    assert after["c1"] / after.total() == pytest.approx(6 / 11, abs=0.02) and after["c0"] == 0
    assert len(drawn(ranked, 5, chance)) == 3 and drawn([], 2, chance) == []


def test_the_best_survive_and_of_equal_ones_the_older() -> None:
    members = [member(3, 1.0), member(1, 1.0), member(2, 5.0), member(0, -2.0)]
    assert [m.candidate.id for m in survivors(members, 3)] == ["c2", "c1", "c3"]


FIRST = {"s1.i1-0.p0": 1.0, "s1.i1-1.p0": 2.0}


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_generation_uses_each_strategy_as_often_as_there_are_members(context: Any, direction: str) -> None:
    # The target is 3: distances 2 and 1 at first, then e1 gives 0.5 and 7, e2 0.75, m1 4 (as far as 2.0 is), m2 0.25.
    second = {
        "s2.e1.p0": 2.5, "s2.e1.p1": 10.0, "s2.e2.p0": 2.25, "s2.e2.p1": None, "s2.m1.p0": 4.0,
        "s2.m1.p1": "def answer(): pass\n", "s2.m2.p0": 2.75, "s2.m2.p1": 2.5, "s2.m3.p0": -1.0, "s2.m3.p1": 0.5,
    }  # fmt: skip
    memory = context(constant(direction=direction), answers({**FIRST, **second}))
    final = memory.search(EoH, num_steps=2, population_size=2)
    assert [f"s{c.slot.step}.{c.slot.candidate}.p{c.slot.proposal}" for c in memory.calls] == [*FIRST, *second]
    assert {s.candidate: s.reason for s in memory.steps if s.accepted is False} == {
        "s2.m1.p0": "scores as s1.i1-1.p0 does", "s2.m1.p1": "failed on t0"
    }  # fmt: skip
    assert [(d["slot"], d["reason"]) for d in memory.told("proposal.dropped")] == [
        ("step=2;candidate=m2;proposal=1;attempt=0", "duplicate")
    ]
    assert kept(memory) == [["s1.i1-1.p0", "s1.i1-0.p0"], ["s2.m2.p0", "s2.e1.p0"]]
    assert final == {"code": program(2.75)} == memory.best_state


def test_strategies_show_what_they_build_on(context: Any) -> None:
    memory = context(constant(), answers(FIRST))
    memory.search(EoH, num_steps=2, population_size=2, parents=2)
    assert shown(prompt_at(memory, "s1.i1-0.p0")) == [] and TASKS["i1"] in prompt_at(memory, "s1.i1-0.p0")
    for operator in OPERATORS:
        said = prompt_at(memory, f"s2.{operator}.p0")
        assert TASKS[operator] in said and "Find the number." in said and "`answer`" in said
        assert sorted(shown(said)) == [1.0, 2.0] if operator in ("e1", "e2") else len(shown(said)) == 1
    said = prompt_at(memory, "s2.e1.p0")
    assert "idea of i1-0.0" in said and "Its score is -2 (higher is better)" in said
    assert "Its score is -1 (higher is better)" in said


@pytest.mark.parametrize(("direction", "said"), [("maximize", "-2 (higher"), ("minimize", "2 (lower")])
def test_a_prompt_gives_scores_in_the_units_of_the_task(context: Any, direction: str, said: str) -> None:
    memory = context(constant(direction=direction), answers(FIRST))
    memory.search(EoH, num_steps=2, population_size=2)
    assert f"Its score is {said} is better)" in prompt_at(memory, "s2.e1.p0")


def test_steps_name_their_parents_and_hold_the_thought(context: Any) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(EoH, num_steps=2, population_size=3, parents=2)
    for step in memory.steps[1:]:
        place = step.candidate.split(".")[1]
        assert step.extra["thought"] == f"idea of {place}.{step.candidate.split('.p')[1]}"
        assert len(step.parents) == (2 if place in ("e1", "e2") else 1)
    assert memory.steps[1].parents == ("seed",)


def test_a_first_program_is_asked_for_three_times_and_an_empty_population_again(context: Any) -> None:
    given = {"s2.i1-0.p1": 1.0}
    memory = context(constant(), answers(given))
    memory.search(EoH, num_steps=2, population_size=1)
    assert [f"s{c.slot.step}.{c.slot.candidate}.p{c.slot.proposal}" for c in memory.calls] == [
        "s1.i1-0.p0", "s1.i1-0.p1", "s1.i1-0.p2", "s2.i1-0.p0", "s2.i1-0.p1",
    ]  # fmt: skip
    assert kept(memory) == [[], ["s2.i1-0.p1"]]


def test_operators_are_used_in_their_order(context: Any) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(EoH, num_steps=2, population_size=2, operators=["m3", "e1"])
    assert [c.slot.candidate for c in memory.calls if c.slot.step == 2] == ["m3", "m3", "e1", "e1"]


@pytest.mark.parametrize(
    ("operators", "said"), [(["m1", "x9"], r"names 'x9'; the strategies are e1, e2"), ([], "empty")]
)
def test_unknown_operators_are_refused(context: Any, operators: list[str], said: str) -> None:
    memory = context(constant(), writing(inventive))
    with pytest.raises(TrainerError, match=said):
        memory.search(EoH, operators=operators)
    assert not memory.calls


def test_a_problem_without_one_program_is_refused(context: Any) -> None:
    with pytest.raises(TrainerError, match="this trainer searches for one program"):
        context(numeric(), writing(inventive)).search(EoH)


def test_programs_are_judged_on_all_of_the_selection_split(context: Any) -> None:
    memory = context(constant([9.0] * 5, [1.0, 2.0, 3.0]), answers(FIRST))
    memory.search(EoH, num_steps=1, population_size=2)
    assert {s.split for s in memory.steps} == {"validate"} and {len(s.rollouts) for s in memory.steps} == {3}


def test_the_same_seed_searches_the_same_and_another_one_does_not(context: Any) -> None:
    runs = []
    for seed in (1, 1, 2):
        memory = context(constant(), writing(inventive), seed=seed)
        memory.search(EoH, num_steps=3, population_size=4, parents=2)
        runs.append([(s.candidate, s.parents, s.state, s.score) for s in memory.steps])
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("changed", [{"num_steps": 3}, {"population_size": 2}, {"parents": 1}, {"operators": ["m1"]}])
def test_each_parameter_changes_the_search(context: Any, changed: dict[str, Any]) -> None:
    base = {"num_steps": 2, "population_size": 3, "parents": 3}
    seen = []
    for params in (base, {**base, **changed}):
        memory = context(constant(), writing(inventive))
        memory.search(EoH, **params)
        seen.append([(c.slot, c.prompt) for c in memory.calls])
    assert seen[0] != seen[1]


def test_a_budget_ends_it_with_its_best(context: Any) -> None:
    memory = context(constant(), writing(inventive), budget=Budget(evaluations=17))
    final = memory.search(EoH, num_steps=0, population_size=4)
    assert memory.stop_reason == "budget" and memory.evaluations == 17 and final == memory.best_state


def test_empty_answers_end_no_search(context: Any) -> None:
    memory = context(constant(), lambda *_: "")
    assert memory.search(EoH, num_steps=2, population_size=2) == {"code": program(0.0)}
    assert len(memory.told("proposal.unusable")) == 2 * 2 * 3 and memory.stop_reason == "completed"
