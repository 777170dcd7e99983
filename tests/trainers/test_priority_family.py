"""What PrioritySearch and the searches that share its engine have in common; each parameter changes something."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainers.memory_context import MemoryContext, seeded
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.pareto_search import ParetobasedPS
from trace_bench.trainers.polca import POLCA
from trace_bench.trainers.priority_search import PrioritySearch
from trace_bench.trainers.streaming_search import StreamingPrioritySearch
from trace_bench.worker.problem import Example, Parameter, Problem

FAMILY = [PrioritySearch, StreamingPrioritySearch, ParetobasedPS, POLCA]


def spread(train: int = 6, validate: int = 0, direction: str = "maximize") -> Problem:
    """Each example wants another number, so that no candidate is best at all of them."""
    sign = -1.0 if direction == "maximize" else 1.0

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return sign * abs(response - reference), f"{response:g} is too {'low' if response < reference else 'high'}"

    def examples(name: str, count: int) -> tuple[Example, ...]:
        return tuple(Example(f"{name}{i}", f"number {i}?", 1.0 + 4.0 * i / max(1, count - 1)) for i in range(count))

    return Problem(
        parameters=(Parameter("x", 0.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples("t", train),
        validate=examples("v", validate),
        objective="Find the number.",
        direction=direction,  # type: ignore[arg-type]
        failure_score=sign * 100.0,
        score_range=(-15.0, 0.0) if sign < 0 else (0.0, 15.0),
    )


def behaviour(memory: MemoryContext) -> Any:
    """All that a search does: its steps, what it asked and evaluated, what it embedded, and its events."""
    steps = [(s.step, s.candidate, s.parents, s.state, s.rollouts, s.split, s.accepted, s.extra) for s in memory.steps]
    calls = [(str(c.slot), c.messages, c.request) for c in memory.calls]
    return steps, calls, memory.evaluated, memory.embedded, memory.events


SHARED: dict[str, tuple[dict[str, Any], Any]] = {
    "num_steps": ({}, 2),
    "num_epochs": ({"num_steps": 1}, 3),
    "num_batches": ({}, 2),
    "num_candidates": ({}, 3),
    "num_proposals": ({"num_candidates": 6}, 3),
    "train_batch_size": ({}, 3),
    "memory_update_frequency": ({"num_steps": 9, "num_candidates": 4}, 3),
    "long_term_memory_size": ({"num_steps": 6}, 2),
    "short_term_memory_size": ({"num_steps": 6, "memory_update_frequency": 5}, 1),
}
RANKED: dict[str, tuple[dict[str, Any], Any]] = {
    "score_function": ({}, "time"),
    "ucb_exploration_constant": ({"score_function": "ucb"}, 0.01),
    "use_best_candidate_to_explore": ({"score_function": "time", "num_candidates": 1}, False),
}
AGAIN: dict[str, tuple[dict[str, Any], Any]] = {
    "validate_exploration_candidates": ({}, True),
    "validation_batch": ({}, 1),
}
CASES: dict[Any, dict[str, tuple[dict[str, Any], Any]]] = {
    PrioritySearch: {**SHARED, **RANKED, **AGAIN},
    StreamingPrioritySearch: {
        **SHARED,
        **RANKED,
        "memory_update_frequency": ({"num_steps": 12, "exploration_ratio": 0.25}, 4),
        "exploration_ratio": ({}, 0.25),
        "exploration_temperature": ({"num_steps": 8}, 0.0),
    },
    ParetobasedPS: {
        **SHARED,
        **AGAIN,
        "memory_update_frequency": ({"num_steps": 9, "num_candidates": 2}, 2),
        "front_selection": ({"num_steps": 6}, "wins"),
    },
    POLCA: {
        **SHARED,
        **RANKED,
        **AGAIN,
        "epsilon": ({}, 1.2),
        "embedding_model": ({}, "job"),
        "use_summarizer": ({}, True),
        "summary_frequency": ({"use_summarizer": True}, 2),
    },
}


@pytest.mark.parametrize(
    ("trainer", "name"), [(t, p.name) for t in FAMILY for p in t.params if p.changes_results], ids=str
)
def test_each_parameter_changes_what_the_search_does(context: Any, trainer: Any, name: str) -> None:
    base, value = CASES[trainer][name]
    runs = []
    for params in (base, {**base, name: value}):
        memory = context(spread(validate=3), seeded(1))
        memory.search(trainer, **{"num_steps": 4, **params})
        runs.append(behaviour(memory))
    assert runs[0] != runs[1]


@pytest.mark.parametrize("trainer", FAMILY)
def test_threads_and_verbose_change_nothing_that_is_recorded(
    context: Any, capsys: pytest.CaptureFixture[str], trainer: Any
) -> None:
    together = threading.Barrier(2, timeout=20)

    def overlapping(messages: Any, slot: Slot, variables: Any) -> str:
        if slot.step == 4:  # two calls are in flight at once, or the barrier breaks
            together.wait()
        return seeded(1)(messages, slot, variables)

    params = {"num_steps": 4, "num_candidates": 4, "num_proposals": 2}
    one, two = context(spread(), seeded(1)), context(spread(), overlapping)
    assert one.search(trainer, **params) == two.search(trainer, **params, num_threads=2, verbose=True)
    # Which thread's call is noted down first is chance; the slots are the same.
    assert sorted(map(str, behaviour(one)[1])) == sorted(map(str, behaviour(two)[1]))
    one.calls, two.calls = [], []
    assert behaviour(one) == behaviour(two)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [f"step {i}" for i in (1, 2, 3, 4)]


@pytest.mark.parametrize("trainer", FAMILY)
def test_a_search_is_a_function_of_its_seed(context: Any, trainer: Any) -> None:
    params = {"use_summarizer": True} if trainer is POLCA else {}
    params |= {"front_selection": "wins"} if trainer is ParetobasedPS else {}
    runs = []
    for seed in (1, 1, 2):
        memory = context(spread(), seeded(1), seed=seed)
        memory.search(trainer, num_steps=6, **params)
        runs.append(behaviour(memory))
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 3])
@pytest.mark.parametrize("trainer", FAMILY)
def test_the_best_is_found_in_either_direction(context: Any, trainer: Any, validate: int, direction: str) -> None:
    runs = []
    for way in (direction, "maximize"):
        memory = context(spread(validate=validate, direction=way), seeded(1))
        best = memory.search(trainer, num_steps=10, num_candidates=4, num_proposals=2)
        # The mean distance to 1, 3, 5 is least at 3; to 1, 1.8 … 5 between 2.6 and 3.4.
        assert 2.2 < best["x"] < 3.8
        runs.append([s.state for s in memory.steps])
        start = memory.steps[0]
        whole = [s for s in memory.steps if (s.split, len(s.rollouts)) == (start.split, len(start.rollouts))]
        assert memory.best_state == min(whole, key=lambda s: abs(s.score)).state
    assert runs[0] == runs[1], "the search does not depend on which way scores point"


@pytest.mark.parametrize("budget", [Budget(evaluations=40), Budget(calls=5)], ids=str)
@pytest.mark.parametrize("trainer", FAMILY)
def test_a_budget_ends_the_search_in_order(context: Any, trainer: Any, budget: Budget) -> None:
    whole, cut = context(spread(), seeded(1)), context(spread(), seeded(1), budget=budget)
    for memory in (whole, cut):
        memory.search(trainer, num_steps=20)
    assert (whole.stop_reason, cut.stop_reason) == ("completed", "budget")
    assert cut.evaluations <= (budget.evaluations or 10**6) and len(cut.calls) <= (budget.calls or 10**6)
    assert len(whole.steps) > len(cut.steps) > 1
    told = [(s.candidate, s.state, s.rollouts) for s in whole.steps]
    assert [(s.candidate, s.state, s.rollouts) for s in cut.steps] == told[: len(cut.steps)]


@pytest.mark.parametrize("trainer", FAMILY)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 999), candidates=st.integers(1, 5), proposals=st.integers(1, 3), batches=st.integers(1, 2),
    frequency=st.integers(0, 3), size=st.integers(0, 3),
)  # fmt: skip
def test_whatever_the_answers_the_history_is_in_order(
    context: Any, trainer: Any, seed: int, candidates: int, proposals: int, batches: int, frequency: int, size: int
) -> None:
    candidates = max(candidates, next(p.minimum for p in trainer.params if p.name == "num_candidates"))
    memory = context(spread(train=3), seeded(seed), seed=seed)
    memory.search(
        trainer, num_steps=4, num_candidates=candidates, num_proposals=proposals, num_batches=batches,
        memory_update_frequency=frequency, long_term_memory_size=size, short_term_memory_size=size,
    )  # fmt: skip
    known = {"seed"}
    for step in memory.steps[1:]:
        assert set(step.parents) <= known | {""}
        known.add(step.candidate)
    told = memory.told("search.step")
    assert [t["step"] for t in told] == [1, 2, 3, 4]
    forgotten: set[str] = set()
    made = {"seed"}
    for step in told:
        assert 1 <= len(step["explored"]) <= candidates and len(set(step["explored"])) == len(step["explored"])
        assert set(step["explored"]) <= made - forgotten
        made |= set(step["children"])
        forgotten |= set(step["forgotten"])
    assert len({str(c.slot) for c in memory.calls}) == len(memory.calls)
    assert len({str(s.state) for s in memory.steps}) == len({s.candidate for s in memory.steps})
