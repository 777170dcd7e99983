"""Builds the shipped tasks as a phase does, with real candidate processes (without the uids of a sandbox)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forking import ForkingSpawner
from trace_bench.suites.installed import load_suites
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.problem import AsksModel, AsksServices, BuildContext, Problem, Programs


@pytest.fixture
def spawner() -> Iterator[ForkingSpawner]:
    spawner = ForkingSpawner()
    yield spawner
    left = list(spawner.numbers)
    for number in left:
        spawner.close(number)
    assert left == [], "a test left candidate processes open"


@pytest.fixture
def programs(spawner: ForkingSpawner) -> Programs:
    return CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]


BuildTask = Callable[..., Problem]


@pytest.fixture
def build_task(programs: Programs) -> BuildTask:
    """``build_task(task_id, seed=…, test_seed=…, **eval_kwargs)`` through spec, registry and the suite's builder."""

    def build(task_id: str, *, seed: int = 1, test_seed: int | None = None, **given: Any) -> Problem:
        entry = resolve(task_id)
        return build_folder(entry.folder, programs, entry.suite, seed=seed, test_seed=test_seed, **given)

    return build


@pytest.fixture
def build_at(programs: Programs) -> BuildTask:
    """``build_at(folder, …)``: the same for a folder that a test wrote."""

    def build(folder: Path, *, seed: int = 1, test_seed: int | None = None, **given: Any) -> Problem:
        return build_folder(folder, programs, "internal", seed=seed, test_seed=test_seed, **given)

    return build


def build_folder(
    folder: Path,
    programs: Programs,
    suite: str,
    *,
    seed: int,
    test_seed: int | None,
    services: AsksServices | None = None,
    model: AsksModel | None = None,
    **given: Any,
) -> Problem:
    spec = load_task_spec(folder)
    module, function = (spec.owner or load_suites()[suite]).builder.split(":")
    context = BuildContext(
        task_dir=folder,
        spec=spec.raw,
        eval_kwargs=resolve_eval_kwargs(spec, given, lambda key: key),
        seed=seed,
        programs=programs,
        test_seed=test_seed,
        services=services,
        model=model,
    )
    problem = getattr(importlib.import_module(module), function)(context)
    assert isinstance(problem, Problem)
    return problem
