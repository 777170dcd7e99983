"""PrioritySearch: finds optima, is a function of its seed, and ranks candidates as the formulas say."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from tests.trainers.memory_context import (
    DECIDE_BROKEN,
    DECIDE_RIGHT,
    GREET_RIGHT,
    MemoryContext,
    greeting,
    numeric,
    seeded,
    suggest,
)
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Slot, StopTraining
from trace_bench.trainers.priority_search import PrioritySearch
from trace_bench.worker.problem import Example, Parameter, Problem


def search(context: MemoryContext, **params: Any) -> Any:
    return context.search(PrioritySearch, **params)


def history(context: MemoryContext) -> list[Any]:
    return [(s.step, s.candidate, s.parents, s.state, s.rollouts, s.split, s.extra) for s in context.steps]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 2])
def test_a_number_is_found_in_either_direction(context: Any, direction: str, validate: int) -> None:
    memory = context(numeric(direction=direction, train=4, validate=validate), seeded(1))
    best = search(memory, num_steps=12, num_candidates=3, num_proposals=4)
    assert best["x"] == pytest.approx(3.0, abs=0.1)
    better = min if direction == "minimize" else max
    assert best == better(memory.steps, key=lambda s: s.score).state


def test_equal_seeds_give_equal_histories_and_prompts(context: Any) -> None:
    runs = [context(numeric(train=5), seeded(1)) for _ in range(2)]
    finals = [search(run, num_steps=4, num_batches=2, train_batch_size=2) for run in runs]
    assert finals[0] == finals[1]
    assert history(runs[0]) == history(runs[1])
    assert [(c.slot, c.messages) for c in runs[0].calls] == [(c.slot, c.messages) for c in runs[1].calls]
    assert runs[0].events == runs[1].events


def test_another_seed_of_the_model_gives_another_history(context: Any) -> None:
    runs = [context(numeric(), seeded(seed)) for seed in (1, 2)]
    for run in runs:
        search(run)
    assert history(runs[0]) != history(runs[1])


def test_another_seed_of_the_job_gives_other_minibatches(context: Any) -> None:
    runs = [context(numeric(train=20), seeded(1), seed=seed, deterministic=False) for seed in (1, 2)]
    for run in runs:
        search(run)
    assert runs[0].evaluated != runs[1].evaluated


def test_verbose_prints_a_line_for_each_step_and_changes_nothing(
    context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet, loud = context(numeric(train=3), seeded(1)), context(numeric(train=3), seeded(1))
    best = search(quiet, num_steps=3)
    assert capsys.readouterr().out == ""
    assert search(loud, num_steps=3, verbose=True) == best
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 1", "step 2", "step 3"]
    told = loud.told("search.step")
    for line, step in zip(lines, told, strict=True):
        assert f" best {step['best']} {step['best_mean']:.6g}, {len(step['children'])} new candidates" in line
    assert history(loud) == history(quiet) and loud.events == quiet.events


def test_threads_change_nothing_but_the_overlap_of_calls(context: Any) -> None:
    together = threading.Barrier(4, timeout=20)

    def overlapping(messages: Any, slot: Slot, variables: Any) -> str:
        if slot.step > 1:  # four calls of one step are in flight at once, or the barrier breaks
            together.wait()
        return seeded(1)(messages, slot, variables)

    one, four = context(numeric(train=3), seeded(1)), context(numeric(train=3), overlapping)
    assert search(one, num_threads=1) == search(four, num_threads=4)
    assert history(one) == history(four)
    assert one.events == four.events


def test_one_backward_pass_and_n_proposals_are_n_calls_with_slots_of_their_own(context: Any) -> None:
    memory = context(numeric(train=4), seeded(1))
    search(memory, num_steps=1, num_proposals=3, num_batches=2)
    assert [str(call.slot) for call in memory.calls] == [
        f"step=1;candidate=c0.b{b};proposal={p};attempt=0" for b in (0, 1) for p in (0, 1, 2)
    ]
    prompts = [call.prompt for call in memory.calls]
    assert len(set(prompts[:3])) == 1  # one graph, one prompt


def test_slots_are_unique_over_a_search_and_children_carry_them(context: Any) -> None:
    memory = context(numeric(train=4), seeded(1))
    search(memory, num_steps=4, num_candidates=3)
    slots = [str(call.slot) for call in memory.calls]
    assert len(set(slots)) == len(slots)
    names = {f"s{c.slot.step}.{c.slot.candidate}.p{c.slot.proposal}" for c in memory.calls}
    assert {s.candidate for s in memory.steps} - {"seed"} <= names


def test_every_child_is_recorded_with_its_parent_and_the_seed_comes_first(context: Any) -> None:
    memory = context(numeric(train=2, validate=3), seeded(1))
    search(memory)
    first, *rest = memory.steps
    assert (first.step, first.candidate, first.parent) == (0, "seed", None)
    known = {"seed"}
    for step in rest:
        assert step.parent in known
        known.add(step.candidate)
    assert {s.split for s in memory.steps} == {"validate"}
    assert {len(s.rollouts) for s in memory.steps} == {3}


def test_without_validation_children_are_scored_on_all_training_data(context: Any) -> None:
    memory = context(numeric(train=9), seeded(1), deterministic=False)
    search(memory, num_steps=2, num_batches=2, train_batch_size=2, num_candidates=1, num_proposals=1)
    runs = [len(indices) for _, indices in memory.evaluated]
    assert runs == [9, *[2, 2, 9, 9] * 2]  # the start; then two minibatches and a child of each


def test_explored_candidates_are_validated_again_only_if_asked_to(context: Any) -> None:
    counts = {}
    for again in (False, True):
        memory = context(numeric(train=1, validate=4), seeded(1), deterministic=False)
        search(memory, num_steps=3, num_candidates=1, num_proposals=1, validate_exploration_candidates=again)
        counts[again] = sum(split == "validate" for split, _ in memory.evaluated)
        judged_again = [s for s in memory.steps if s.reason == "explored, and judged again"]
        assert [len(s.rollouts) for s in judged_again] == ([4] * 3 if again else [])
    assert counts == {False: 1 + 3, True: 1 + 3 + 3}


SCRIPT = {1: (1.0, 2.0), 2: (2.9, 0.5, 2.5, -4.0), 3: (3.2, 3.1, -9.0, 9.0)}


def scripted(messages: Any, slot: Slot, variables: Any) -> str:
    index = int(slot.candidate[1:]) * 2 + slot.proposal
    return suggest(x0=SCRIPT[slot.step][index])


def independent_priorities(context: MemoryContext, bonus: Any) -> dict[str, float]:
    """Priorities at the time of recording, from nothing but the recorded rollouts."""
    return {s.candidate: -abs(s.state["x"] - 3.0) + bonus(s) for s in context.steps[1:]}  # type: ignore[operator]


def test_the_priority_by_mean_is_the_mean(context: Any) -> None:
    memory = context(numeric(score_range=(-13.0, 0.0)), scripted)
    search(memory, num_steps=3, score_function="mean")
    expected = independent_priorities(memory, lambda s: 0.0)
    assert {s.candidate: s.extra["priority"] for s in memory.steps[1:]} == pytest.approx(expected)


def test_the_priority_by_ucb_adds_the_bonus_and_clips(context: Any) -> None:
    memory = context(numeric(score_range=(-13.0, 0.0)), scripted)
    search(memory, num_steps=3, score_function="ucb", ucb_exploration_constant=0.05)
    # Each child has one rollout when it is recorded, in iteration `step`, and the spread is that of all scored so far.
    means = [float(s.score) for s in memory.steps]
    spread = {s.candidate: max(means[: i + 1]) - min(means[: i + 1]) for i, s in enumerate(memory.steps)}
    expected = {
        name: min(priority, 0.0)
        for name, priority in independent_priorities(
            memory, lambda s: 0.05 * math.sqrt(math.log(s.step + 2)) * spread[s.candidate]
        ).items()
    }
    assert {s.candidate: s.extra["priority"] for s in memory.steps[1:]} == pytest.approx(expected)


def test_ucb_explores_what_was_seen_less_where_mean_explores_what_scored_more(context: Any) -> None:
    """Step 2 explores the best child and the seed or the other child; from then on the counts differ."""
    explored = {}
    for function in ("mean", "ucb"):
        memory = context(numeric(score_range=(-13.0, 0.0)), scripted)
        search(memory, num_steps=3, score_function=function, ucb_exploration_constant=5.0)
        explored[function] = [e["explored"] for e in memory.told("search.step")]
    assert explored["mean"] == [["seed"], ["s1.c0.p1", "s1.c0.p0"], ["s2.c0.p0", "s2.c1.p0"]]
    # With this constant every bound is clipped to the top, so the newest go first: the least visited ones.
    assert explored["ucb"] == [["seed"], ["s1.c0.p1", "s1.c0.p0"], ["s2.c0.p0", "s2.c1.p1"]]


def test_priority_by_time_explores_the_oldest_first(context: Any) -> None:
    memory = context(numeric(), scripted)
    search(memory, num_steps=3, score_function="time")
    assert [e["explored"] for e in memory.told("search.step")] == [
        ["seed"], ["s1.c0.p1", "seed"], ["s2.c0.p0", "seed"],
    ]  # fmt: skip


def test_the_declared_range_clips_bounds_and_scales_no_bonus(context: Any) -> None:
    for score_range in (None, (-1000.0, 0.0)):
        memory = context(numeric(score_range=score_range), scripted)
        search(memory, num_steps=1, score_function="ucb", ucb_exploration_constant=1.0)
        by_name = {s.candidate: s.extra["priority"] for s in memory.steps[1:]}
        spread = 2.0  # of -3 (seed), -2 and -1
        bound = -1.0 + math.sqrt(math.log(3)) * spread
        assert by_name["s1.c0.p1"] == pytest.approx(bound if score_range is None else 0.0)
        assert by_name["s1.c0.p0"] == pytest.approx(-2.0 + math.sqrt(math.log(3)) * 1.0)
        assert not memory.warnings


def test_minimised_scores_stay_in_natural_units_and_priorities_point_up(context: Any) -> None:
    memory = context(numeric(direction="minimize"), scripted)
    search(memory, num_steps=1)
    assert [s.score for s in memory.steps] == [3.0, 2.0, 1.0]
    assert [s.extra["priority"] for s in memory.steps[1:]] == [-2.0, -1.0]
    assert memory.told("search.step")[0]["best_mean"] == 1.0


def test_what_changes_nothing_or_is_known_already_is_dropped_with_a_reason(context: Any) -> None:
    answers = {0: 0.0, 1: 1.0, 2: 1.0}

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(x0=answers[slot.proposal])

    memory = context(numeric(), model)
    search(memory, num_steps=1, num_proposals=3)
    assert [s.candidate for s in memory.steps] == ["seed", "s1.c0.p1"]
    dropped = [(d["reason"], d["same_as"]) for d in memory.told("proposal.dropped")]
    assert dropped == [("unchanged", "seed"), ("duplicate", "s1.c0.p1")]


def test_a_model_that_answers_nonsense_ends_with_the_start(context: Any) -> None:
    memory = context(numeric(), lambda *_: "I am a teapot")
    assert search(memory, num_steps=3) == {"x": 0.0}
    assert len(memory.told("proposal.unusable")) == len(memory.calls) == 6
    assert [s.candidate for s in memory.steps] == ["seed"]


def test_short_term_memory_is_explored_until_it_is_merged(context: Any) -> None:
    """With a frequency of 2 all of the first step is pushed apart, and is merged when the second step ends: until
    then both memories hold the same candidates, and the search is the same."""
    runs = {}
    for frequency in (0, 2):
        memory = context(numeric(train=1), scripted)
        search(memory, num_steps=3, memory_update_frequency=frequency, num_candidates=2)
        runs[frequency] = [e["explored"] for e in memory.told("search.step")]
    assert runs[2] == runs[0]


def test_what_stays_in_long_term_memory_is_out_of_reach_until_the_merge(context: Any) -> None:
    memory = context(numeric(train=1), seeded(3))
    search(memory, num_steps=8, memory_update_frequency=4, num_candidates=2, num_proposals=3)
    explored = [e["explored"] for e in memory.told("search.step")]
    # After step 4 all is in long-term memory; steps 5 to 8 push to the short-term one what step 5 explored or made.
    reachable = set(explored[4])
    reachable.update(s.candidate for s in memory.steps if s.step >= 5)
    for names in explored[5:8]:
        assert set(names) <= reachable


def test_a_memory_of_one_explores_what_has_most_priority_and_nothing_else(context: Any) -> None:
    memory = context(numeric(train=1), scripted)
    search(memory, num_steps=3, long_term_memory_size=1, num_candidates=2)
    steps = memory.told("search.step")
    assert [e["explored"] for e in steps] == [["seed"], ["s1.c0.p1"], ["s2.c0.p0"]]
    assert [set(e["forgotten"]) for e in steps[:2]] == [{"seed", "s1.c0.p0"}, {"s1.c0.p1", "s2.c0.p1"}]


def test_a_short_term_memory_forgets_what_the_long_term_one_keeps(context: Any) -> None:
    memory = context(numeric(train=1), scripted)
    search(memory, num_steps=3, memory_update_frequency=3, short_term_memory_size=1)
    assert [e["explored"] for e in memory.told("search.step")] == [["seed"], ["s1.c0.p1"], ["s2.c0.p0"]]


def test_the_best_is_explored_whatever_its_priority_unless_told_otherwise(context: Any) -> None:
    """By time the oldest goes first: the seed, and the best only because it is the best."""
    explored = {}
    for best in (True, False):
        memory = context(numeric(), scripted)
        search(memory, num_steps=2, score_function="time", num_candidates=1, use_best_candidate_to_explore=best)
        explored[best] = [e["explored"] for e in memory.told("search.step")]
    assert explored == {True: [["seed"], ["s1.c0.p1"]], False: [["seed"], ["seed"]]}


def test_num_epochs_goes_on_until_the_data_was_seen(context: Any) -> None:
    memory = context(numeric(train=6), seeded(1))
    search(memory, num_steps=1, num_epochs=2, train_batch_size=2, num_candidates=1, num_proposals=1)
    assert len(memory.told("search.step")) == 6


def test_a_minibatch_larger_than_the_data_is_said(context: Any) -> None:
    memory = context(numeric(train=2), seeded(1))
    search(memory, num_steps=1, train_batch_size=50)
    assert "there are 2 training examples" in memory.warnings[0]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stop_passes_through_and_keeps_what_was_paid_for(context: Any, threads: int) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        if (slot.step, slot.candidate, slot.proposal) == (2, "c0", 1):
            raise StopTraining("budget")
        return seeded(1)(messages, slot, variables)

    memory = context(numeric(), model)
    search(memory, num_threads=threads, num_proposals=2)
    assert memory.stop_reason == "budget"
    assert [s.candidate for s in memory.steps] == ["seed", "s1.c0.p0", "s1.c0.p1", "s2.c0.p0"]


def test_an_agent_of_two_operators_is_learned_and_its_errors_reach_the_model(context: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        names = [v["name"] for v in variables]
        if "greet0" not in names:  # decide raised, so greet was never reached
            return suggest(decide0=DECIDE_RIGHT)
        return suggest(greet0=GREET_RIGHT)

    memory = context(greeting(decide=DECIDE_BROKEN), model)
    best = search(memory, num_steps=2, num_candidates=1, num_proposals=1, train_batch_size=2)
    assert best == {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}
    assert [s.score for s in memory.steps] == [0.0, 0.5, 1.0]
    assert memory.steps[0].rollouts[0].failed
    assert "no idea about" in memory.calls[0].prompt
    assert "no idea about" not in memory.calls[1].prompt


def test_a_response_without_parameters_is_skipped_with_an_event(context: Any) -> None:
    problem = Problem(
        parameters=(Parameter("x", 1, "int"),),
        guide=lambda query, response, reference: (0.0, ""),
        train=(Example("e"),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
        agent=lambda ops, query: "constant",
    )
    memory = context(problem, seeded(1))
    assert search(memory, num_steps=1) == {"x": 1}
    assert memory.calls == []
    assert "depends on" in memory.told("proposal.skipped")[0]["reason"]


@pytest.mark.parametrize("missing", ["trainable", "train"])
def test_nothing_to_train_is_one_sentence(context: Any, missing: str) -> None:
    problem = Problem(
        parameters=(Parameter("x", 1, "int", trainable=missing != "trainable"),),
        guide=lambda query, response, reference: (0.0, ""),
        train=() if missing == "train" else (Example("e"),),
        objective="o",
        direction="maximize",
        failure_score=0.0,
    )
    with pytest.raises(TrainerError, match=r"^a search needs .*none\.$"):
        search(context(problem, seeded(1)))
