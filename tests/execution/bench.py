"""Runs of a config on the simulated backend, in a folder of their own."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.execution.simulated import SimulatedBackend, SimulatedSandbox
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import ImageRecord
from trace_bench.artifacts.writers import write_json
from trace_bench.cancellation import Cancellation
from trace_bench.config import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.execution.events import Subscriber, ignore
from trace_bench.execution.result import RunResult
from trace_bench.execution.run import Run
from trace_bench.execution.run_records import write_records
from trace_bench.execution.session import Connection, Listener, Session
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.planning.images import prepare_images
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.planner import PlanInputs, jobs_of, pack_tasks, plan_run
from trace_bench.planning.recording import recording_of
from trace_bench.sandbox.base import SandboxRequest
from trace_bench.sandbox.labels import job_labels

TASKS = ("internal:numeric_param", "internal:code_param")
SEARCH = {"id": "PrioritySearch", "params_variants": [{"num_steps": 1}, {"num_steps": 2}]}
LEASE = 60.0


class ControllerDied(BaseException):
    """Raised where a controller is to leave everything as it is."""


@dataclass
class Bench:
    """What a test needs for its runs.

    Attributes:
        sources, image: stand for the worker's code and for the recipe of its image.
        no_image: families without an image, for `why_no_image`.
        config: what every run of this bench has, unless it is given otherwise.
    """

    folder: Path
    backend: SimulatedBackend = field(default_factory=SimulatedBackend)
    sources: str = "s"
    image: str = "i"
    no_image: set[str] = field(default_factory=set)
    why_no_image: type[EnvironmentUnavailable] = EnvironmentUnavailable
    config: dict[str, Any] = field(default_factory=dict)
    _clock: datetime = field(default_factory=lambda: datetime(2026, 1, 2, tzinfo=UTC))

    def load(self, **config: Any) -> RunConfig:
        """Two tasks, one trainer with two variants, one seed; eight workers."""
        whole = {
            "tasks": list(TASKS), "trainers": [SEARCH], "seeds": [1], "max_workers": 8, "retries": 0,
            "runs_dir": str(self.folder / "runs"), **self.config, **config,
        }  # fmt: skip
        return parse_config(whole)

    def plan(self, **config: Any) -> RunPlan:
        loaded = self.load(**config)
        recording = recording_of(loaded)
        if recording is not None:
            loaded = recording.fitted(loaded)
        resolved = resolve(loaded)
        jobs = jobs_of(loaded, resolved)
        if recording is not None:
            recording.check(jobs, loaded.source.where(("replay_from",)))
        inputs = PlanInputs(
            loaded, pack_tasks(jobs, resolved), jobs, self.backend,
            prepare_images(jobs, self._image, require_all=loaded.require_all),
            sources_hash=self.sources, recording=recording,
        )  # fmt: skip
        return plan_run(inputs, now=self._now).without_unmet(require_all=loaded.require_all)

    def run(
        self,
        subscriber: Subscriber = ignore,
        stop_wanted: Callable[[], str | None] = lambda: None,
        **config: Any,
    ) -> RunResult:
        return Run(self.plan(**config), subscriber=subscriber, stop=Cancellation(stop_wanted)).execute()

    def runs(self) -> list[Path]:
        folder = self.folder / "runs"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def _image(self, family: str) -> ImageRecord:
        if family in self.no_image:
            raise self.why_no_image(f"the image of {family} cannot be built; get what it needs")
        return ImageRecord(family=family, ref="image", key=self.image)

    def _now(self) -> datetime:
        self._clock += timedelta(seconds=1)
        return self._clock

    # -- what a controller that was killed leaves --------------------------------------------------------------------

    def records(self, **config: Any) -> RunPlan:
        """A run whose controller was killed after it had written its records."""
        plan = self.plan(**config)
        if not plan.continued:
            write_records(plan)
        return plan

    def sandbox(self, plan: RunPlan, planned: PlannedJob, *, start: bool = True, run_id: str = "") -> SimulatedSandbox:
        """A sandbox of `planned` whose controller was killed before it said a word; its record says ``running``."""
        job = plan.layout.job(planned.job_id).make()
        job.attempt(1).mkdir(exist_ok=True)
        meta = plan.prepare(planned).meta.model_copy(update={"status": "running", "started_at": now()})
        write_json(job.meta, meta, durable=False)
        base = self.backend.default_uid_base + 16 * (1000 + len(self.backend.created))
        request = SandboxRequest(
            name=f"trace-bench-{planned.job_id}-{base}", image="image", command=("python3",),
            labels=job_labels(run_id or plan.run_id, planned.job_id, LEASE), uid_base=base,
        )  # fmt: skip
        sandbox = self.backend.create(request)
        if start:
            sandbox.start()
        return sandbox

    def converse(self, plan: RunPlan, planned: PlannedJob, sandbox: SimulatedSandbox, *, until: str = "done") -> None:
        """See the job through up to the event `until` (``history`` is the first line of that), and die."""
        job_plan = plan.prepare(planned)
        job = plan.layout.job(planned.job_id)
        gateway = Gateway({"stub": StubProvider()})
        with gateway.open(planned.job_id, planned.seed, job_plan.spec.model, job.cassette) as scope:
            session = Session(
                connection=Connection(sandbox.attach(), LEASE), handler=scope,
                job=job_plan.spec.model_dump(mode="json"), task=job_plan.task,
                test_seed=job_plan.test_seed, listener=_Until(until),
            )  # fmt: skip
            try:
                session.run()
            except ControllerDied:
                return
            assert until == "done", f"no {until} came"


@dataclass(frozen=True)
class _Until(Listener):
    kind: str

    def event(self, line: Any) -> None:
        if line["event"] == self.kind:
            raise ControllerDied

    def history(self, line: Any) -> None:
        if self.kind == "history":
            raise ControllerDied


# ------------------------------------------------------------------------------------------------ what files say


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def table(layout: RunLayout) -> list[dict[str, str]]:
    with layout.results_csv.open(newline="") as file:
        return list(csv.DictReader(file))


def entries(layout: RunLayout) -> dict[str, Any]:
    """The manifest's jobs by id."""
    return {entry["job_id"]: entry for entry in read(layout.manifest)["jobs"]}


def journal(layout: RunLayout) -> list[dict[str, Any]]:
    return [json.loads(line) for line in layout.events.read_text().splitlines()]


def attempts(layout: RunLayout, job_id: str) -> list[tuple[int, str]]:
    return [(attempt["number"], attempt["status"]) for attempt in read(layout.job(job_id).meta)["attempts"]]


def fingerprints_of_files(folder: Path) -> dict[str, tuple[int, str]]:
    """Time of change and content of every file."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
