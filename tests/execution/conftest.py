"""Runs without an engine: a simulated backend, short pauses, lock files of the test's own."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.execution.bench import Bench
from trace_bench.execution import cancel, job_runner, run
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE
from trace_bench.scheduling import outage


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setenv(LOCK_DIR_VARIABLE, str(locks))
    monkeypatch.setattr(job_runner, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(run, "EngineOutage", functools.partial(outage.EngineOutage, patience=0.5))
    monkeypatch.setattr(outage, "INTERVAL", 0.01)
    monkeypatch.setattr(cancel, "INTERVAL", 0.01)
    return Bench(tmp_path)
