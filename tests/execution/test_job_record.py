"""What the record of a job says that only the host knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench
from tests.execution.simulated import SimulatedBackend
from tests.execution.supervisor import Script
from tests.execution.volumes import changed, link, whole
from trace_bench.artifacts.records import Results
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.gateway.base import Provider, ProviderError, ProviderReply, ProviderRequest
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider


class Silent(StubProvider):
    """Gives no answer, and says where it looked for one."""

    def complete(self, request: ProviderRequest) -> ProviderReply:
        raise ProviderError("https://models.example answered 503 three times")


def ran(folder: Path, provider: Provider, script: Script, archive: Any = None) -> tuple[Results, dict[str, Any]]:
    """Row and ``job_meta.json`` of a job."""
    backend = SimulatedBackend(script=lambda job_id, number: script, archive=archive)
    bench = Bench(folder, backend)
    plan = bench.records(tasks=["internal:numeric_param"], trainers=["NoOp"])
    (planned,) = plan.jobs
    resources = RunResources(
        backend=backend,
        gateway=Gateway({"stub": provider}),
        layout=plan.layout,
    )
    row = Attempt(resources, plan.prepare(planned)).run()
    job = plan.layout.job(planned.job_id)
    return row, json.loads(job.meta.read_bytes())


def test_why_a_provider_gave_no_answer_is_in_the_record(tmp_path: Path) -> None:
    row, meta = ran(tmp_path, Silent(), Script(failure="provider"))
    said = "https://models.example answered 503 three times"
    assert (row.failure_boundary, row.failure_kind) == ("provider", "provider_error")
    assert said in str(row.feedback) and meta["failure"]["message"] == said


@pytest.mark.parametrize("boundary", ["trainer", "task"])
def test_a_failure_of_the_jobs_own_stays_its_own(tmp_path: Path, boundary: str) -> None:
    row, _ = ran(tmp_path, Silent(), Script(failure=boundary))
    assert row.failure_boundary == boundary


def test_a_volume_that_is_refused_is_the_trainers_fault_whatever_a_provider_did(tmp_path: Path) -> None:
    """Else who leaves a link there would have another attempt for every call that had no answer."""

    def archive(job: Mapping[str, Any], files: dict[str, bytes]) -> Iterator[bytes]:
        yield whole(files, link("out/extra/link", "/etc/passwd"))

    row, _ = ran(tmp_path, Silent(), Script(), archive)
    assert (row.failure_boundary, row.failure_kind) == ("trainer", "bad_output")


def test_the_cpu_of_a_job_is_the_one_that_its_sandbox_saw(tmp_path: Path) -> None:
    """On a remote host the controller's own would be another one's."""
    seen = {"cpu": "Remote CPU", "cpus": 2.0, "gpus": [], "driver": "", "torch": ""}

    def archive(job: Mapping[str, Any], files: dict[str, bytes]) -> Iterator[bytes]:
        yield from changed("result.json", lambda result: {**result, "hardware": seen})(files)

    assert ran(tmp_path, Silent(), Script(), archive)[1]["cpu_model"] == "Remote CPU"
