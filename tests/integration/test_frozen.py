"""A sandbox that stands still holds no slot for longer than it may be silent, whatever its job may take."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS
from tests.integration.test_interruption import containers
from tests.sandbox.lab import SLOWNESS
from trace_bench.artifacts.records import ImageRecord
from trace_bench.config import parse_config
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import catalog_of
from trace_bench.execution import session
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.execution.run_records import write_records
from trace_bench.execution.session import Listener
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.images.lock import read_lock
from trace_bench.planning.images import Images
from trace_bench.planning.planner import PlanInputs, jobs_of, pack_tasks, plan_run
from trace_bench.sandbox.docker import DockerBackend

pytestmark = pytest.mark.docker
LEASE = 4.0


class Training(Listener):
    """Knows when training has begun."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def event(self, line: Mapping[str, Any]) -> None:
        if (line["event"], line.get("phase")) == ("phase.start", "train"):
            self.begun.set()


def test_a_container_that_is_paused_for_good_is_ended(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SLACK", 1.0)
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 600.0}}
    config = parse_config(
        {"tasks": [task], "trainers": ["PrioritySearch"], "job_timeout": 600, "runs_dir": str(tmp_path / "runs")}
    )
    backend, core = DockerBackend(), read_lock(images).images["core"]
    resolved = resolve(config, catalog_of(config, [TASKS]))
    image = ImageRecord(family="core", ref=core.ref, key=core.key)
    jobs, prepared = jobs_of(config, resolved), Images({"core": image})
    plan = plan_run(PlanInputs(config, pack_tasks(jobs, resolved), jobs, backend, prepared, sources_hash="x"))
    write_records(plan)
    gateway, training = Gateway({"stub": StubProvider()}), Training()
    resources = RunResources(backend, gateway, plan.layout, lease=LEASE)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(Attempt(resources, plan.prepare(plan.jobs[0]), listener=training).run)
        assert training.begun.wait(60 * SLOWNESS)
        (container,) = containers(plan.run_id)
        subprocess.run(["docker", "pause", container["Id"]], check=True, capture_output=True)
        paused = time.monotonic()
        row = ended.result(60 * SLOWNESS)
    assert time.monotonic() - paused < 4 * LEASE * SLOWNESS
    assert (row.failure_boundary, row.failure_kind) == ("sandbox", "sandbox_silent"), row.feedback
    assert "docker pause" in row.feedback and containers(plan.run_id) == []
