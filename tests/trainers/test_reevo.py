"""ReEvo: which pairs are compared, what prompts and reflections hold, and who is the elite."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.trainers.program_search import answers, constant, fenced, program, writing
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.candidates import Candidate
from trace_bench.trainers.reevo import ReEvo, pairs

SMALL = {"num_steps": 2, "init_size": 2, "population_size": 2}


def member(created: int, score: float) -> Candidate:
    return Candidate(f"c{created}", {}, (), created, scores=[score])


def inventive(slot: Slot) -> str:
    """A program at each place that is another one."""
    return program(random.Random(str(slot)).uniform(-9, 9), str(slot))


def prompts(memory: Any) -> dict[str, str]:
    """By step, place and attempt."""
    return {f"s{c.slot.step}.{c.slot.candidate}.{c.slot.attempt}": c.prompt for c in memory.calls}


def shown(prompt: str) -> list[float]:
    return [float(number) for number in re.findall(r"    return ([0-9.-]+)", prompt)]


def test_pairs_have_different_scores_and_the_worse_first() -> None:
    found = pairs([member(0, 1.0), member(1, 3.0), member(2, 1.0), member(3, 2.0)])
    assert [(worse.id, better.id) for worse, better in found] == [
        ("c0", "c1"), ("c0", "c3"), ("c2", "c1"), ("c3", "c1"), ("c2", "c3"),
    ]  # fmt: skip
    assert pairs([member(0, 1.0), member(1, 1.0)]) == pairs([member(0, 1.0)]) == pairs([]) == []


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_an_iteration_compares_crosses_over_reflects_and_mutates(context: Any, direction: str) -> None:
    given: dict[str, float | str | None] = {
        "s1.i0.p0": 1.0, "s1.i1.p0": "def answer(): pass\n", "s1.i2.p0": 2.0,
        "s2.x0.p0": 2.25, "s2.x1.p0": 2.5, "s2.m0.p0": 2.75,
    }  # fmt: skip
    memory = context(constant(direction=direction), answers(given))
    assert memory.search(ReEvo, **{**SMALL, "init_size": 3}) == {"code": program(2.75)} == memory.best_state
    assert list(prompts(memory)) == [
        "s1.i0.0", "s1.i1.0", "s1.i2.0", "s2.x0.1", "s2.x0.0", "s2.x1.1", "s2.x1.0", "s2.reflection.0", "s2.m0.0",
    ]  # fmt: skip
    # The one that failed is no parent, and the initial program is not the elite any more.
    assert [(s.candidate, s.parents, s.accepted, s.reason) for s in memory.steps[1:]] == [
        ("s1.i0.p0", ("seed",), True, "by initial"),
        ("s1.i1.p0", ("seed",), False, "failed on t0"),
        ("s1.i2.p0", ("seed",), True, "by initial"),
        ("s2.x0.p0", ("s1.i2.p0", "s1.i0.p0"), True, "by crossover"),
        ("s2.x1.p0", ("s1.i2.p0", "s1.i0.p0"), True, "by crossover"),
        ("s2.m0.p0", ("s2.x1.p0",), True, "by mutation"),
    ]
    assert memory.steps[4].extra == {"operator": "crossover"}


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_prompts_show_the_worse_program_first_and_hand_reflections_on(context: Any, direction: str) -> None:
    given = {
        "s1.i0.p0": 1.0, "s1.i1.p0": 2.0, "s2.x0.p0": 2.25, "s2.x1.p0": 2.5, "s2.m0.p0": 2.75, "s3.m0.p0": 2.8,
    }  # fmt: skip
    memory = context(constant(direction=direction), answers(given))
    memory.search(ReEvo, **{**SMALL, "num_steps": 3})
    said = prompts(memory)
    assert shown(said["s1.i0.0"]) == shown(said["s1.i1.0"]) == [0.0]
    assert shown(said["s2.x0.1"]) == shown(said["s2.x0.0"]) == [1.0, 2.0]
    assert "describes x0.0" in said["s2.x0.0"] and "`answer`" in said["s2.x0.0"]
    assert "(none)" in said["s2.reflection.0"] and "describes x0.0\ndescribes x1.0" in said["s2.reflection.0"]
    # The elite is the best of all, offspring of this step included.
    assert shown(said["s2.m0.0"]) == [2.5] and "describes reflection.0" in said["s2.m0.0"]
    assert "describes reflection.0" in said["s3.reflection.0"] and "(none)" not in said["s3.reflection.0"]
    parents = {s.candidate: s.parents for s in memory.steps}
    assert parents["s2.x0.p0"] == ("s1.i1.p0", "s1.i0.p0") and parents["s2.m0.p0"] == ("s2.x1.p0",)
    assert [e["elite"] for e in memory.told("search.step")] == ["s1.i1.p0", "s2.m0.p0", "s3.m0.p0"]
    # The offspring of a step are the next population.
    assert memory.told("search.step")[2]["explored"] == ["s2.x0.p0", "s2.x1.p0", "s2.m0.p0"]


def test_the_elite_joins_the_parents_where_it_left_the_population(context: Any) -> None:
    memory = context(constant(), answers({"s1.i0.p0": 9.0}))
    memory.search(ReEvo, **SMALL)
    # 3 is the target: the initial program, 0, is better than 9.
    assert shown(prompts(memory)["s2.x0.1"]) == [9.0, 0.0] and shown(prompts(memory)["s2.m0.0"]) == [0.0]


def test_where_no_scores_differ_the_elite_alone_is_mutated(context: Any) -> None:
    memory = context(constant(), answers({"s1.i0.p0": 1.0, "s1.i1.p0": 5.0}))
    memory.search(ReEvo, **{**SMALL, "population_size": 5})
    assert [name for name in prompts(memory) if name.startswith("s2")] == ["s2.m0.0", "s2.m1.0"]
    assert "(none)" in prompts(memory)["s2.m0.0"] and memory.told("reevo.reflection") == []


def test_an_initial_program_that_fails_is_no_parent(context: Any) -> None:
    memory = context(constant(start="def answer(): pass\n"), answers({"s1.i0.p0": 1.0, "s2.m0.p0": 2.0}))
    memory.search(ReEvo, **SMALL)
    assert not any(name.startswith("s2.x") for name in prompts(memory))
    assert [e["elite"] for e in memory.told("search.step")] == ["s1.i0.p0", "s2.m0.p0"]


def test_a_known_program_joins_the_next_population_once_and_one_that_failed_does_not(context: Any) -> None:
    memory = context(constant(), lambda *_: fenced(program(1.0)))
    memory.search(ReEvo, **{**SMALL, "num_steps": 3})
    assert memory.evaluations == 2 and [e["same_as"] for e in memory.told("proposal.known")] == ["s1.i0.p0"] * 2
    assert [e["children"] for e in memory.told("search.step")] == [["s1.i0.p0"]] * 3
    failing = context(constant(), lambda *_: fenced("def answer(): pass\n"))
    failing.search(ReEvo, **SMALL)
    assert failing.told("proposal.known") == [] and [s.accepted for s in failing.steps] == [None, False]


def test_empty_answers_end_no_search_and_keep_the_reflection(context: Any) -> None:
    memory = context(constant(), lambda *_: "")
    assert memory.search(ReEvo, **SMALL) == {"code": program(0.0)} and memory.stop_reason == "completed"

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        silent = slot.candidate == "reflection" and slot.step == 3
        return "" if silent else str(writing(inventive)(messages, slot, variables))

    memory = context(constant(), model)
    memory.search(ReEvo, **{**SMALL, "num_steps": 3})
    assert [e["reflection"] for e in memory.told("reevo.reflection")] == ["describes reflection.0"] * 2


@pytest.mark.parametrize(("rate", "mutations"), [(0.0, 0), (0.5, 2), (0.9, 4), (2.0, 10)])
def test_the_rate_says_how_often_the_elite_is_mutated(context: Any, rate: float, mutations: int) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(ReEvo, **{**SMALL, "population_size": 5, "mutation_rate": rate})
    assert sum(name.startswith("s2.m") for name in prompts(memory)) == mutations


def test_programs_are_judged_on_all_of_the_selection_split(context: Any) -> None:
    memory = context(constant([9.0] * 5, [1.0, 2.0, 3.0]), writing(inventive))
    memory.search(ReEvo, **SMALL)
    assert {s.split for s in memory.steps} == {"validate"} and {len(s.rollouts) for s in memory.steps} == {3}


def test_the_same_seed_searches_the_same_and_another_one_does_not(context: Any) -> None:
    runs = []
    for seed in (1, 1, 2):
        memory = context(constant(), writing(inventive), seed=seed)
        memory.search(ReEvo, num_steps=3, init_size=6, population_size=4)
        runs.append([(s.candidate, s.parents, s.state, s.score) for s in memory.steps])
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    "changed", [{"num_steps": 2}, {"init_size": 5}, {"population_size": 3}, {"mutation_rate": 1.0}]
)
def test_each_parameter_changes_the_search(context: Any, changed: dict[str, Any]) -> None:
    base = {"num_steps": 3, "init_size": 4, "population_size": 4}
    seen = []
    for params in (base, {**base, **changed}):
        memory = context(constant(), writing(inventive))
        memory.search(ReEvo, **params)
        seen.append([(c.slot, c.prompt) for c in memory.calls])
    assert seen[0] != seen[1]


def test_a_budget_ends_it(context: Any) -> None:
    memory = context(constant(), writing(inventive), budget=Budget(evaluations=17))
    memory.search(ReEvo, num_steps=0, init_size=3, population_size=2)
    assert memory.stop_reason == "budget" and memory.evaluations == 17
