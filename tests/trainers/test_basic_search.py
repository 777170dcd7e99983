"""BasicSearch: the best of several proposals and the held state goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.memory_context import numeric, seeded
from tests.trainers.scripted_search import examples, explored, kept, lines, script, targets
from trace_bench.trainers.basic_search import BasicSearch


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 2])
def test_the_best_of_all_goes_on_and_the_held_state_is_one_of_them(context: Any, direction: str, validate: int) -> None:
    answers = script(
        {"s1.c0.p0": -2.0, "s1.c0.p1": 2.0, "s1.c0.p2": 1.0, "s2.c0.p0": 5.0, "s2.c0.p1": 9.0, "s3.c0.p2": 2.5}
    )
    memory = context(numeric(direction=direction, train=2, validate=validate), answers)
    final = memory.search(BasicSearch, num_steps=3, num_proposals=3)
    assert explored(memory) == [["seed"], ["s1.c0.p1"], ["s1.c0.p1"]]
    assert kept(memory) == [["s1.c0.p1"], ["s1.c0.p1"], ["s3.c0.p2"]]
    assert final == memory.best_state == {"x": 2.5}
    split = "validate" if validate else "train"
    assert lines(memory) == [
        (1, "s1.c0.p0", split, 2, False), (1, "s1.c0.p1", split, 2, True), (1, "s1.c0.p2", split, 2, False),
        (2, "s2.c0.p0", split, 2, False), (2, "s2.c0.p1", split, 2, False),
        (3, "s3.c0.p2", split, 2, True),
    ]  # fmt: skip
    assert memory.steps[3].reason == "worse than s1.c0.p1"


def test_of_equal_means_the_newest_goes_on_and_a_plateau_is_crossed(context: Any) -> None:
    memory = context(numeric(), script({"s1.c0.p0": 1.0, "s1.c0.p1": 5.0, "s2.c0.p0": 1.0, "s2.c0.p1": 4.0}))
    memory.search(BasicSearch, num_steps=2, num_proposals=2)
    assert kept(memory) == [["s1.c0.p1"], ["s2.c0.p1"]]  # 1 and 5 are as good; 1 again is dropped
    assert memory.told("proposal.dropped")[0]["same_as"] == "s1.c0.p0"
    memory = context(numeric(), script({"s1.c0.p0": 6.0}))
    memory.search(BasicSearch, num_steps=1, num_proposals=1)
    assert kept(memory) == [["s1.c0.p0"]]  # as far from 3 as the start
    assert memory.told("search.step")[0]["best"] == "seed" and memory.best_state == {"x": 0.0}  # the saved one


def test_one_backward_pass_gives_all_proposals_of_a_step(context: Any) -> None:
    memory = context(numeric(train=4), seeded(1), deterministic=False)
    memory.search(BasicSearch, num_steps=2, num_proposals=3, train_batch_size=2)
    assert [(c.slot.step, c.slot.candidate, c.slot.proposal) for c in memory.calls] == [
        (step, "c0", p) for step in (1, 2) for p in (0, 1, 2)
    ]
    assert len({c.prompt for c in memory.calls}) == 2
    assert [len(indices) for _, indices in memory.evaluated] == [4, *[2, 4, 4, 4] * 2]


def test_a_step_compares_on_one_sample_and_the_next_on_another(context: Any) -> None:
    memory = context(targets([0.0], [float(i) for i in range(20)]), seeded(1))
    memory.search(BasicSearch, num_steps=3, num_proposals=2, validate_examples=3, eval_frequency=0)
    samples = [set(examples(memory, step)) for step in (1, 2)]
    assert all(len(sample) == 1 for sample in samples) and samples[0] != samples[1]
    assert [len(ids) for ids in examples(memory, 3)] == [3, 3, 3, 20]  # the last is judged on all
    for step in (1, 2, 3):
        first = next(s for s in memory.steps[1:] if s.step == step)
        assert [first.candidate] == explored(memory)[step - 1] and first.accepted is True


def test_a_sample_decides_what_goes_on_and_all_examples_what_is_best(context: Any) -> None:
    """On one example of four the start is 10 off, on the others it is right."""
    decided = set()
    for seed in range(1, 9):
        memory = context(targets([0.0], [0.0, 0.0, 0.0, 10.0]), script({"s1.c0.p0": 9.0}), seed=seed)
        final = memory.search(BasicSearch, num_steps=1, num_proposals=1, validate_examples=1)
        (sample, *_) = examples(memory, 1)
        assert kept(memory) == [["s1.c0.p0"] if sample == ("v3",) else ["seed"]]
        assert final == {"x": 9.0 if sample == ("v3",) else 0.0} and memory.best_state == {"x": 0.0}
        decided.add(sample == ("v3",))
    assert decided == {True, False}


@pytest.mark.parametrize(("frequency", "judged"), [(0, [5]), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5])])
def test_leaders_by_samples_are_judged_on_everything_now_and_then(
    context: Any, frequency: int, judged: list[int]
) -> None:
    closer = script({f"s{step}.c0.p0": step / 2 for step in range(1, 6)})
    memory = context(numeric(validate=4), closer)
    memory.search(BasicSearch, num_proposals=1, validate_examples=2, eval_frequency=frequency)
    assert [s.step for s in memory.steps[1:] if len(s.rollouts) == 4] == judged


def test_a_frequency_without_effect_is_said(context: Any) -> None:
    memory = context(numeric(validate=3), seeded(1))
    memory.search(BasicSearch, num_steps=1, eval_frequency=2, validate_examples=3)
    assert "eval_frequency has no effect: validate_examples is 3 and there are 3 examples" in memory.warnings[0]


def test_without_a_child_nothing_is_compared(context: Any) -> None:
    memory = context(numeric(validate=5), script({}))
    assert memory.search(BasicSearch, num_steps=2, validate_examples=2) == {"x": 0.0}
    assert [s.candidate for s in memory.steps] == ["seed"] and memory.evaluations == 5 + 1, "the start; a minibatch"
