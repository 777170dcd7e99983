"""The order of jobs, and how many go at a time."""

from __future__ import annotations

import threading
import time
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.execution.bench import Bench
from tests.execution.supervisor import Script
from trace_bench.execution.job_runner import pause_before
from trace_bench.planning.job_order import spread
from trace_bench.planning.requirements import MEMORY_SHARE, MemoryPool

GIB = 1 << 30
SIZES = st.integers(1, 9)


@given(SIZES, SIZES, SIZES)
def test_every_place_comes_once(tasks: int, variants: int, seeds: int) -> None:
    assert sorted(spread(tasks, variants, seeds)) == list(range(tasks * variants * seeds))


@given(SIZES, SIZES, SIZES)
def test_the_first_jobs_meet_every_task_and_every_variant(tasks: int, variants: int, seeds: int) -> None:
    first = list(islice(spread(tasks, variants, seeds), max(tasks, variants)))
    assert {place // (variants * seeds) for place in first} == set(range(tasks))
    assert {place // seeds % variants for place in first} == set(range(variants))
    assert {place % seeds for place in first} == {0}


@given(SIZES, SIZES, SIZES)
def test_a_seed_is_done_before_the_next_begins(tasks: int, variants: int, seeds: int) -> None:
    met = [place % seeds for place in spread(tasks, variants, seeds)]
    assert met == sorted(met)


def test_memory_is_counted_and_given_back() -> None:
    pool = MemoryPool(10 * GIB)
    for _ in range(4):
        assert pool.fits(2 * GIB)
        pool.take(2 * GIB)
    assert not pool.fits(2 * GIB) and pool.fits(GIB), "a tenth is the host's own"
    pool.release(2 * GIB)
    assert pool.fits(2 * GIB)
    assert pool.jobs_at_a_time(2 * GIB) == int(10 * MEMORY_SHARE) // 2


def test_what_is_larger_than_the_whole_runs_alone() -> None:
    pool = MemoryPool(4 * GIB)
    assert pool.fits(64 * GIB) and pool.jobs_at_a_time(64 * GIB) == 1
    pool.take(64 * GIB)
    assert not pool.fits(1)
    pool.release(64 * GIB)
    pool.take(1)
    assert not pool.fits(64 * GIB)


def test_unknown_memory_holds_nobody_up() -> None:
    pool = MemoryPool(None)
    pool.take(1 << 60)
    assert pool.fits(1 << 60) and pool.jobs_at_a_time(1) is None


def test_jobs_start_in_the_order_of_the_plan(bench: Bench) -> None:
    plan = bench.plan(max_workers=1, seeds=[1, 2, 3])
    wanted = [plan.jobs[i].job_id for i in plan.order]
    assert wanted != [job.job_id for job in plan.jobs]
    result = bench.run(max_workers=1, seeds=[1, 2, 3])
    assert bench.backend.created == wanted
    assert [row.job_id for row in result.rows] == [job.job_id for job in plan.jobs], "rows are in the matrix's order"


def test_as_many_jobs_run_as_there_are_workers(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(seconds=0.05)
    assert bench.run(max_workers=3, seeds=[1, 2, 3, 4]).ok
    assert bench.backend.most_alive == 3


def test_few_sandboxes_start_at_once_however_many_workers_there_are(bench: Bench) -> None:
    bench.backend.cpus = 3
    bench.backend.script = lambda job_id, number: Script(starting=0.03, seconds=0.3)
    assert bench.run(max_workers=16, seeds=[1, 2, 3, 4]).ok
    assert bench.backend.most_starting == 3
    assert bench.backend.most_alive > 4, "whoever has started makes pool for the next"


def test_a_sandbox_that_dies_while_it_starts_leaves_its_place_to_others(bench: Bench) -> None:
    bench.backend.cpus = 1
    bench.backend.script = lambda job_id, number: Script(starting=0.02, ends="dies starting")
    result = bench.run(max_workers=8)
    assert [row.failure_kind for row in result.rows] == ["sandbox_died"] * 4
    assert bench.backend.most_starting == 1


def test_declared_memory_bounds_how_many_run(bench: Bench) -> None:
    bench.backend.memory_bytes = 7 * GIB
    bench.backend.script = lambda job_id, number: Script(seconds=0.02)
    result = bench.run(max_workers=8, seeds=[1, 2, 3])
    assert result.ok
    assert (bench.backend.most_alive, bench.backend.most_memory) == (3, 6 * GIB)


def test_a_large_job_is_not_overtaken(bench: Bench) -> None:
    """Large and small jobs take turns, and no two large ones fit: small ones that would fit wait for their turn."""
    bench.backend.memory_bytes = 8 * GIB
    large = {"id": "internal:numeric_param", "sandbox": {"memory": "5GiB"}}
    given_ = {"tasks": [large, "internal:code_param"], "trainers": ["NoOp"], "seeds": [1, 2, 3]}
    plan = bench.plan(**given_)
    sizes = {job.job_id: job.memory for job in plan.jobs}
    bench.backend.script = lambda job_id, number: Script(seconds=0.05 if sizes[job_id] > 2 * GIB else 0.0)
    assert bench.run(**given_).ok
    wanted = [plan.jobs[i].job_id for i in plan.order]
    assert [sizes[job_id] // GIB for job_id in wanted] == [5, 2] * 3
    pairs = [set(bench.backend.created[i : i + 2]) for i in (0, 2, 4)]  # two that start together may change places
    assert pairs == [set(wanted[i : i + 2]) for i in (0, 2, 4)]
    assert bench.backend.most_memory == 7 * GIB


def test_the_plan_says_how_many_jobs_the_memory_holds(bench: Bench) -> None:
    bench.backend.memory_bytes = 5 * GIB
    (said,) = bench.plan(max_workers=4).warnings
    assert "max_workers is 4" in said and "holds 2 jobs of sandbox.memory 2g" in said
    bench.backend.memory_bytes = GIB
    (said,) = bench.plan(max_workers=4).warnings
    assert "run one at a time" in said
    assert bench.run(max_workers=4).ok and bench.backend.most_alive == 1


def test_jobs_wait_for_their_turn_in_threads_that_cost_nothing(bench: Bench) -> None:
    """A thread per worker at most, and none left when the run is over."""
    most = 0

    def count(request: object) -> None:
        nonlocal most
        most = max(most, sum(thread.name.startswith("job") for thread in threading.enumerate()))

    bench.backend.on_create = count
    assert bench.run(max_workers=4, seeds=list(range(8))).ok
    assert most <= 4
    deadline = time.monotonic() + 10
    while any(t.name.startswith("job") for t in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(t.name.startswith("job") for t in threading.enumerate())


def test_each_retry_waits_twice_as_long_and_never_longer_than_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.execution.job_runner.FIRST_PAUSE", 1.0)
    assert [pause_before(attempt) for attempt in (2, 3, 4, 7, 8, 9, 2000)] == [1, 2, 4, 32, 60, 60, 60]
