from __future__ import annotations

from typing import Any

import pytest

from tests.trainers.memory_context import numeric
from trace_bench.trainers.noop import NoOp


@pytest.mark.parametrize(("validate", "split", "count"), [(3, "validate", 3), (0, "train", 2)])
def test_the_start_is_evaluated_once_on_all_of_one_split(context: Any, validate: int, split: str, count: int) -> None:
    problem = numeric(train=2, validate=validate)
    memory = context(problem, None)
    assert memory.search(NoOp) == {"x": 0.0}
    (step,) = memory.steps
    assert (step.step, step.candidate, step.parent, step.split, step.score) == (0, "seed", None, split, -3.0)
    assert len(step.rollouts) == count
    assert (memory.calls, memory.evaluations) == ([], count)
