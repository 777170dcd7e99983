"""FunSearch: what prompts show, which island a program joins, what is discarded, and resets."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.trainers.memory_context import numeric
from tests.trainers.program_search import answers, constant, fenced, program, writing
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.funsearch import FunSearch


def inventive(slot: Slot) -> str:
    """A program at each place that is another one, and no better the later it comes."""
    return program((slot.step * 7 + slot.proposal * 3) % 11, str(slot))


def lines(memory: Any) -> list[tuple[str, tuple[str, ...], bool | None, str]]:
    return [(s.candidate, s.parents, s.accepted, s.reason) for s in memory.steps]


def versions(prompt: str) -> list[float]:
    """The numbers of the programs that a prompt shows, in order."""
    return [float(number) for _, number in re.findall(r"def answer_v(\d+)\(\):\n    return ([0-9.-]+)", prompt)]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_new_programs_join_the_island_of_their_prompt_and_failing_ones_are_discarded(
    context: Any, direction: str
) -> None:
    given = {"s1.i0.p0": 1.0, "s1.i0.p1": "def answer(): pass\n", "s1.i0.p2": None, "s2.i0.p0": 2.0}
    memory = context(constant(direction=direction), answers(given))
    final = memory.search(FunSearch, num_steps=2, num_islands=1, samples_per_prompt=3)
    assert lines(memory) == [
        ("seed", (), None, "start"),
        ("s1.i0.p0", ("seed",), True, "joins island 0"),
        ("s1.i0.p1", ("seed",), False, "failed on t0: discarded"),
        ("s2.i0.p0", ("s1.i0.p0",), True, "joins island 0"),
    ]
    assert final == {"code": program(2.0)} == memory.best_state
    assert [f["slot"] for f in memory.told("proposal.unusable")] == [
        f"step={step};candidate=i0;proposal={n};attempt=0" for step, n in [(1, 2), (2, 1), (2, 2)]
    ]
    assert memory.steps[1].extra == {"island": 0}


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_prompt_shows_versions_from_the_worst_to_the_best_and_asks_for_the_next(context: Any, direction: str) -> None:
    memory = context(constant(direction=direction), answers({"s1.i0.p0": 2.0, "s1.i0.p1": 1.0}))
    memory.search(FunSearch, num_steps=40, num_islands=1, samples_per_prompt=2, cluster_sampling_temperature_init=5.0)
    first, *later = [call.prompt for call in memory.calls if call.slot.proposal == 0]
    assert versions(first) == [0.0] and "the first version" in first and "def answer_v1():" in first
    shown = {tuple(versions(prompt)) for prompt in later}
    assert shown == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}  # 3 is the target: never (1, 0), (2, 0), (2, 1)
    assert all('def answer_v2():\n    """A number."""' in prompt for prompt in later)
    assert all(call.variables[0]["name"] == "code" for call in memory.calls)


def test_a_version_that_is_written_is_the_function_of_the_task(context: Any) -> None:
    memory = context(constant(), lambda *_: fenced("def answer_v1():\n    return 3.0\n"))
    assert memory.search(FunSearch, num_steps=1) == {"code": "def answer():\n    return 3.0\n"}


def test_a_program_of_another_island_joins_with_its_scores_and_a_copy_on_the_island_is_dropped(context: Any) -> None:
    memory = context(constant(), writing(lambda slot: program(1.0)))
    memory.search(FunSearch, num_steps=30, num_islands=2, samples_per_prompt=2)
    assert [s.candidate for s in memory.steps] == ["seed", memory.steps[1].candidate]
    (joined,) = memory.told("proposal.known")
    assert {joined["island"], memory.steps[1].extra["island"]} == {0, 1}
    assert joined["same_as"] == memory.steps[1].candidate and memory.evaluations == 2
    assert len(memory.told("proposal.dropped")) == 60 - 2


def test_a_program_that_failed_stays_discarded_when_it_is_written_again(context: Any) -> None:
    memory = context(constant(), writing(lambda slot: "def answer(): pass\n"))
    memory.search(FunSearch, num_steps=10, num_islands=2)
    assert [s.accepted for s in memory.steps] == [None, False] and memory.told("proposal.known") == []


def test_worse_islands_are_reset_after_each_period_and_begin_with_the_best_of_another(context: Any) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(FunSearch, num_steps=6, num_islands=4, samples_per_prompt=2, reset_period=4)
    resets = memory.told("funsearch.reset")
    assert [r["step"] for r in resets] == [2, 4, 6]
    by_then = [s for s in memory.steps if 1 <= s.step <= 2]
    best = max(by_then, key=lambda s: s.score)
    founders = resets[0]["founders"]
    assert best.score > memory.steps[0].score and len(founders) == 2
    assert str(best.extra["island"]) not in founders and set(founders.values()) <= {s.candidate for s in memory.steps}
    # A prompt from an island that was reset shows the founder alone.
    later = next((c for c in memory.calls if c.slot.step > 2 and c.slot.candidate[1:] in founders), None)
    assert later is not None
    founder = next(s for s in memory.steps if s.candidate == founders[later.slot.candidate[1:]])
    assert versions(later.prompt) == [float(re.findall(r"return ([0-9.]+)", str(founder.state["code"]))[0])]


def test_no_island_is_reset_without_a_period(context: Any) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(FunSearch, num_steps=6, num_islands=4, samples_per_prompt=2, reset_period=0)
    assert memory.told("funsearch.reset") == []


def test_programs_are_judged_on_all_of_the_selection_split_and_clustered_by_their_scores_there(context: Any) -> None:
    memory = context(constant([9.0] * 5, [1.0, 2.0, 3.0]), answers({"s1.i0.p0": 2.0}))
    memory.search(FunSearch, num_steps=1, num_islands=1, samples_per_prompt=1)
    assert {s.split for s in memory.steps} == {"validate"} and [len(s.rollouts) for s in memory.steps] == [3, 3]
    assert [split for split, _ in memory.evaluated] == ["validate"] * 2


def test_the_same_seed_searches_the_same_and_another_one_does_not(context: Any) -> None:
    runs = []
    for seed in (1, 1, 2):
        memory = context(constant(), writing(inventive), seed=seed)
        memory.search(FunSearch, num_steps=8)
        runs.append([(s.candidate, s.parents, s.state, s.score) for s in memory.steps])
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    "changed",
    [
        {"num_steps": 3}, {"samples_per_prompt": 1}, {"functions_per_prompt": 1}, {"num_islands": 2},
        {"reset_period": 4}, {"cluster_sampling_temperature_init": 50.0}, {"cluster_sampling_temperature_period": 2},
    ],
)  # fmt: skip
def test_each_parameter_changes_the_search(context: Any, changed: dict[str, Any]) -> None:
    base = {"num_steps": 40, "num_islands": 3, "cluster_sampling_temperature_init": 1.0}
    seen = []
    for params in (base, {**base, **changed}):
        memory = context(constant(), writing(inventive))
        memory.search(FunSearch, **params)
        seen.append([(c.slot, c.prompt) for c in memory.calls])
    assert seen[0] != seen[1]


def test_limits_on_answers_go_with_each_request(context: Any, capsys: pytest.CaptureFixture[str]) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(FunSearch, num_steps=1, samples_per_prompt=1, max_tokens=99, temperature=0.5, verbose=True)
    assert [c.request for c in memory.calls] == [{"max_tokens": 99, "temperature": 0.5}]
    assert "step 1: 1 new; best" in capsys.readouterr().out


def test_an_initial_program_that_fails_is_where_the_search_begins_all_the_same(context: Any) -> None:
    memory = context(constant(start="def answer(): pass\n"), answers({"s1.i0.p0": 1.0}))
    memory.search(FunSearch, num_steps=2, num_islands=1, samples_per_prompt=1)
    assert lines(memory)[1] == ("s1.i0.p0", ("seed",), True, "joins island 0")


def test_empty_answers_end_no_search(context: Any) -> None:
    memory = context(constant(), lambda *_: "")
    assert memory.search(FunSearch, num_steps=3) == {"code": program(0.0)}
    assert len(memory.told("proposal.unusable")) == 12 and memory.stop_reason == "completed"


def test_a_budget_ends_it(context: Any) -> None:
    memory = context(constant(), writing(inventive), budget=Budget(evaluations=7))
    memory.search(FunSearch, num_steps=0)
    assert memory.stop_reason == "budget" and memory.evaluations == 7


def test_a_problem_without_one_program_is_refused(context: Any) -> None:
    with pytest.raises(TrainerError, match="searches for one program"):
        context(numeric(), answers({})).search(FunSearch)
