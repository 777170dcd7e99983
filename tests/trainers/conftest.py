"""Fixtures of the trainer tests; what they are made of is in memory_context.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.forking import ForkingSpawner
from tests.trainers.memory_context import MemoryContext, Model
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.problem import Problem, Programs


@pytest.fixture
def programs() -> Iterator[Programs]:
    spawner = ForkingSpawner()
    yield CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]
    left = list(spawner.numbers)
    for number in left:
        spawner.close(number)
    assert left == [], "candidate processes were left open"


@pytest.fixture
def context(programs: Programs) -> Callable[..., MemoryContext]:
    """``context(problem, model, **fields)``."""

    def make(problem: Problem, model: Model, **fields: Any) -> MemoryContext:
        return MemoryContext(problem, programs, model, **fields)

    return make
