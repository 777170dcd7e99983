"""SequentialSearch and SequentialUpdate are special cases of each other and of others, as OpenTrace says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.memory_context import numeric, seeded
from tests.trainers.scripted_search import explored, history, kept, lines, script, targets
from trace_bench.trainers.basic_search import BasicSearch
from trace_bench.trainers.minibatch import Minibatch
from trace_bench.trainers.sequential import SequentialSearch, SequentialUpdate


def run(context: Any, trainer: Any, model: Any = None, problem: Any = None, **params: Any) -> Any:
    memory = context(problem or targets([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 6.0]), model or seeded(1))
    memory.final = memory.search(trainer, **params)
    return memory


def same(first: Any, second: Any) -> bool:
    prompts = [[(str(c.slot), c.prompt) for c in memory.calls] for memory in (first, second)]
    return bool(
        history(first) == history(second)
        and first.events == second.events
        and first.final == second.final
        and prompts[0] == prompts[1]
    )


def test_sequential_search_with_one_minibatch_is_basic_search_on_all_examples(context: Any) -> None:
    given = {"num_steps": 6, "num_proposals": 3, "train_batch_size": 2}
    assert same(run(context, SequentialSearch, **given), run(context, BasicSearch, **given))


def test_sequential_update_is_sequential_search_with_one_proposal(context: Any) -> None:
    given = {"num_steps": 6, "train_batch_size": 2, "num_batches": 2}
    assert same(run(context, SequentialUpdate, **given), run(context, SequentialSearch, num_proposals=1, **given))


@pytest.mark.parametrize("frequency", [0, 1, 2])
def test_sequential_update_without_validation_of_proposals_is_minibatch(context: Any, frequency: int) -> None:
    given = {"num_steps": 5, "train_batch_size": 2, "eval_frequency": frequency}
    assert same(run(context, SequentialUpdate, validate_proposals=False, **given), run(context, Minibatch, **given))


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 2])
def test_update_goes_on_with_the_newest_and_search_with_the_best(context: Any, direction: str, validate: int) -> None:
    answers = script({"s1.c0.p0": 1.0, "s2.c0.p0": -1.0, "s3.c0.p0": 2.0})
    problem = numeric(direction=direction, train=2, validate=validate)
    update = run(context, SequentialUpdate, answers, problem, num_steps=3, validate_proposals=False)
    assert explored(update) == [["seed"], ["s1.c0.p0"], ["s2.c0.p0"]]
    search = run(context, SequentialSearch, answers, problem, num_steps=3, num_proposals=1)
    assert explored(search) == [["seed"], ["s1.c0.p0"], ["s1.c0.p0"]]
    assert kept(search)[-1] == ["s3.c0.p0"] and search.final == search.best_state == {"x": 2.0}
    assert [accepted for *_, accepted in lines(search)] == [True, False, True]


def test_each_minibatch_of_a_step_gives_proposals_of_its_own(context: Any) -> None:
    memory = run(context, SequentialSearch, num_steps=1, num_batches=2, num_proposals=2, train_batch_size=2)
    assert [(c.slot.candidate, c.slot.proposal) for c in memory.calls] == [
        ("c0.b0", 0), ("c0.b0", 1), ("c0.b1", 0), ("c0.b1", 1),
    ]  # fmt: skip
    batches = [indices for split, indices in memory.evaluated if split == "train"]
    assert len(batches) == 2 and not set(batches[0]) & set(batches[1])
    assert memory.calls[0].prompt == memory.calls[1].prompt != memory.calls[2].prompt


def test_the_best_over_all_minibatches_of_a_step_goes_on(context: Any) -> None:
    answers = script({"s1.c0.b0.p0": 1.0, "s1.c0.b1.p0": 2.0, "s1.c0.b2.p0": 1.5, "s2.c0.b1.p0": 4.0})
    memory = run(context, SequentialUpdate, answers, numeric(train=3), num_steps=2, num_batches=3)
    assert kept(memory) == [["s1.c0.b1.p0"], ["s2.c0.b1.p0"]]  # 4 is as good as 2, and newer
