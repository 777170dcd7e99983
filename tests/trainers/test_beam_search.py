"""BeamSearch: the best of a beam and its proposals, on a fresh sample at each depth, are the next beam."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.memory_context import numeric, seeded
from tests.trainers.scripted_search import examples, explored, kept, lines, script, targets
from trace_bench.trainers.beam_search import BeamSearch

ANSWERS = {
    "s1.c0.p0": 1.0, "s1.c0.p1": 2.0,
    "s2.c0.p0": 2.5, "s2.c0.p1": 0.5, "s2.c1.p0": 2.0, "s2.c1.p1": 2.9,
}  # fmt: skip


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 3])
def test_the_best_of_each_depth_are_the_next_beam(context: Any, direction: str, validate: int) -> None:
    memory = context(numeric(direction=direction, train=3, validate=validate), script(ANSWERS))
    final = memory.search(BeamSearch, max_depth=2, beam_width=2, num_proposals=2)
    assert explored(memory) == [["seed"], ["s1.c0.p1", "s1.c0.p0"]]  # best first
    assert kept(memory) == [["s1.c0.p1", "s1.c0.p0"], ["s2.c1.p1", "s2.c0.p0"]]
    split = "validate" if validate else "train"
    assert lines(memory) == [
        (1, "s1.c0.p0", split, 3, True), (1, "s1.c0.p1", split, 3, True),
        (2, "s2.c0.p0", split, 3, True), (2, "s2.c0.p1", split, 3, False), (2, "s2.c1.p1", split, 3, True),
    ]  # fmt: skip
    assert memory.told("proposal.dropped")[0]["same_as"] == "s1.c0.p1"
    assert final == memory.best_state == {"x": 2.9}


def test_a_state_stays_in_the_beam_for_as_long_as_nothing_better_comes(context: Any) -> None:
    memory = context(numeric(), script({"s1.c0.p0": -5.0, "s2.c0.p0": -6.0, "s2.c1.p0": -7.0}))
    assert memory.search(BeamSearch, max_depth=2, beam_width=2, num_proposals=1) == {"x": 0.0}
    assert kept(memory) == [["seed", "s1.c0.p0"]] * 2


def test_of_equal_means_the_newest_stay(context: Any) -> None:
    memory = context(numeric(), script({"s1.c0.p0": 6.0, "s1.c0.p1": 2.0, "s1.c0.p2": 4.0}))
    memory.search(BeamSearch, max_depth=1, beam_width=3, num_proposals=3)
    assert kept(memory) == [["s1.c0.p2", "s1.c0.p1", "s1.c0.p0"]]  # 4 and 2 are as good; so are 6 and the start


@pytest.mark.parametrize("width", [1, 2, 5])
def test_no_more_than_the_width_go_on(context: Any, width: int) -> None:
    memory = context(numeric(train=4), seeded(1))
    memory.search(BeamSearch, max_depth=4, beam_width=width, num_proposals=3)
    assert [len(beam) for beam in kept(memory)] == [min(width, 4)] + [width] * 3


def test_each_state_of_the_beam_has_a_minibatch_of_its_own(context: Any) -> None:
    memory = context(targets([1.0, 2.0, 3.0, 4.0], [3.0]), script(ANSWERS))
    memory.search(BeamSearch, max_depth=2, beam_width=2, num_proposals=2)
    batches = [indices for split, indices in memory.evaluated if split == "train"]
    assert len(batches) == 3 and len(set(batches)) == 3  # one epoch of four examples
    assert [(c.slot.step, c.slot.candidate, c.slot.proposal) for c in memory.calls] == [
        (1, "c0", 0), (1, "c0", 1), (2, "c0", 0), (2, "c0", 1), (2, "c1", 0), (2, "c1", 1),
    ]  # fmt: skip


def test_a_depth_scores_all_on_one_sample_and_the_next_on_another(context: Any) -> None:
    memory = context(targets([3.0], [float(i) for i in range(30)]), seeded(1))
    memory.search(BeamSearch, max_depth=3, beam_width=2, num_proposals=2, validation_dataset_size=4, eval_frequency=0)
    samples = [{ids for ids in examples(memory, depth) if len(ids) == 4} for depth in (1, 2, 3)]
    assert [len(sample) for sample in samples] == [1, 1, 1] and len(set.union(*samples)) == 3
    assert [len(ids) for ids in examples(memory, 1)] == [4] * 3  # the start, two children
    assert [len(ids) for ids in examples(memory, 3)] == [4] * 6 + [30] * 2  # and the last beam on everything


def test_the_final_state_is_the_best_of_the_last_beam_on_everything(context: Any) -> None:
    """Where the sample is the one odd example, 9 leads the beam, and yet the start is picked."""
    led = set()
    for seed in range(1, 9):
        memory = context(targets([0.0], [0.0, 0.0, 0.0, 10.0]), script({"s1.c0.p0": 9.0}), seed=seed)
        final = memory.search(
            BeamSearch, max_depth=1, beam_width=2, num_proposals=1, validation_dataset_size=1, eval_frequency=0
        )
        assert final == memory.best_state == {"x": 0.0}
        led.add(kept(memory)[0][0])
    assert led == {"seed", "s1.c0.p0"}


@pytest.mark.parametrize(("frequency", "judged"), [(0, [4]), (1, [1, 2, 3, 4]), (2, [2, 4])])
def test_the_first_of_the_beam_is_judged_on_everything_now_and_then(
    context: Any, frequency: int, judged: list[int]
) -> None:
    closer = script({f"s{depth}.c0.p0": depth / 2 for depth in range(1, 5)})
    memory = context(numeric(validate=4), closer)
    memory.search(
        BeamSearch, max_depth=4, beam_width=1, num_proposals=1, validation_dataset_size=2, eval_frequency=frequency
    )
    assert [s.step for s in memory.steps[1:] if len(s.rollouts) == 4] == judged


def remembered(prompt: str) -> list[str]:
    """The lines of `prompt` about states that were kept."""
    return [line for line in prompt.splitlines() if line.startswith(("The best values so far", '{"values"'))]


@pytest.mark.parametrize(("direction", "better"), [("maximize", "higher"), ("minimize", "lower")])
def test_prompts_tell_what_was_kept_and_its_scores(context: Any, direction: str, better: str) -> None:
    memory = context(numeric(direction=direction), script(ANSWERS))
    memory.search(BeamSearch, max_depth=2, beam_width=2, num_proposals=2, max_history_size=5)
    told = [remembered(call.prompt) for call in memory.calls]
    assert told[:2] == [[], []]
    sign = -1.0 if direction == "maximize" else 1.0
    expected = [
        f"The best values so far, oldest first, with their mean scores on validation examples ({better} is better):",
        f'{{"values": {{"x": 1.0}}, "score": {2.0 * sign}}}',
        f'{{"values": {{"x": 2.0}}, "score": {1.0 * sign}}}',
    ]
    assert told[2:] == [expected] * 4


def test_the_history_is_no_longer_than_asked_for_and_keeps_the_latest(context: Any) -> None:
    memory = context(numeric(), seeded(1))
    memory.search(BeamSearch, max_depth=4, beam_width=2, num_proposals=2, max_history_size=3)
    shown = [len(remembered(call.prompt)) for call in memory.calls]
    assert shown == [0, 0] + [1 + 2] * 4 + [1 + 3] * 8
    best_of_third = kept(memory)[2][0]
    x = next(s.state["x"] for s in memory.steps if s.candidate == best_of_third)
    assert f'{{"values": {{"x": {x}}}' in remembered(memory.calls[-1].prompt)[-1]
    without = context(numeric(), seeded(1))
    without.search(BeamSearch, max_depth=4, beam_width=2, num_proposals=2)
    assert all("The best values" not in call.prompt for call in without.calls)
