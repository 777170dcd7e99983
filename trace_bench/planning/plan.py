"""The plan of a run: every job with its identity and a decision, and all that the run needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import GitInfo, Lock, Results
from trace_bench.artifacts.versions import SCHEMA_VERSION
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, TraceBenchError
from trace_bench.planning.job_order import Duration
from trace_bench.planning.manifest import ManifestLines, Outcome, write_manifest
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.preconditions import without_unmet
from trace_bench.planning.prepare import Material, PreparedJob, prepare
from trace_bench.planning.recording import Recording
from trace_bench.planning.resume import Stamp, is_recorded, stamp_of
from trace_bench.planning.run_budget import Spent
from trace_bench.planning.search_costs import SearchCost
from trace_bench.sandbox.base import Backend, Sandbox


class PlanIsOld(ConfigError):
    """The run has changed since it was planned."""


@dataclass(frozen=True)
class RunPlan:
    """A run before its first job starts: its jobs with a decision about each, and all that they share.

    Attributes:
        jobs: in the order of the matrix: task, trainer, variant, model, seed.
        order: indices of `jobs` in the order in which they start.
        continued: the run was started, or planned, before.
        reused: by job id, earlier results that count.
        adopted: by job id, sandboxes of a dead controller in which jobs go on.
        leftovers: sandboxes of a dead controller that are to be removed.
        recording: the run that this one replays, if it is a replay.
        spent: of the run's budget, by earlier controllers.
        durations: by job id, how long jobs like it took.
        unmet: by job id, the precondition that a job lacks on this machine.
        costs: of searches, as far as they can be estimated.
        notes: what is to be said of budgets before the run, and is not recorded.
    """

    run_id: str
    layout: RunLayout
    config: RunConfig
    config_hash: str
    backend: Backend
    jobs: tuple[PlannedJob, ...]
    order: tuple[int, ...]
    lock: Lock
    salt: str
    created: str
    warnings: tuple[str, ...] = ()
    git: GitInfo = field(default_factory=GitInfo)
    continued: bool = False
    reused: Mapping[str, Results] = field(default_factory=dict)
    adopted: Mapping[str, Sandbox] = field(default_factory=dict)
    leftovers: Sequence[Sandbox] = ()
    material: Mapping[str, Material] = field(default_factory=dict)
    stamp: Stamp = ()
    recording: Recording | None = None
    spent: Spent = field(default_factory=Spent)
    durations: Mapping[str, Duration] = field(default_factory=dict)
    unmet: Mapping[str, TraceBenchError] = field(default_factory=dict)
    costs: Sequence[SearchCost] = ()
    notes: Sequence[str] = ()

    @property
    def finished(self) -> bool:
        """Whether all jobs have results that count, and the run is recorded to its end: there is nothing to do."""
        done = self.continued and all(job.decision == "reuse" for job in self.jobs) and not self.leftovers
        return done and is_recorded(self.layout)

    def check(self) -> None:
        """Check that the plan is current. To be called with the run's folder locked, before anything is written.

        Raises:
            PlanIsOld: another controller was at work in it since the plan was made.
        """
        if stamp_of(self.layout) != self.stamp:
            raise PlanIsOld(f"{self.layout.root}: another controller was at work in it; run the same command again")

    def prepare(self, planned: PlannedJob) -> PreparedJob:
        """Prepare a job for its attempts; see `trace_bench.planning.prepare`."""
        return prepare(
            planned.job,
            self.material[planned.task_id],
            self.lock.images[planned.job.image_family],
            planned.fingerprint,
            config=self.config,
            run_id=self.run_id,
            salt=self.salt,
            backend=self.backend,
            created=self.created,
            recorded=self.recording.meta(planned.job_id) if self.recording is not None else None,
        )

    def without_unmet(self, *, require_all: bool) -> RunPlan:
        """This plan, in which jobs that lack a precondition are skipped; arguments and errors as of
        `trace_bench.planning.preconditions.without_unmet`."""
        return replace(self, jobs=without_unmet(self.jobs, self.unmet, require_all=require_all))

    def of_suites(self, suites: Collection[str]) -> RunPlan:
        """This plan with only the jobs of `suites`."""
        kept = [index for index, planned in enumerate(self.jobs) if planned.job.suite in suites]
        position = {index: position for position, index in enumerate(kept)}
        order = tuple(position[index] for index in self.order if index in position)
        return replace(self, jobs=tuple(self.jobs[index] for index in kept), order=order)

    def write_manifest(
        self, layout: RunLayout, outcomes: Mapping[str, Outcome] | None = None, *, durable: bool = False
    ) -> None:
        """Write ``manifest.json``.

        Args:
            outcomes: status and reason of the jobs that have ended, by job id.
        """
        head = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "config_hash": self.config_hash,
            "generated_at": self.created,
            "tags": list(self.config.tags),
            "warnings": list(self.warnings),
        }
        write_manifest(layout.manifest, head, self.manifest_lines(outcomes or {}), durable=durable)

    def manifest_lines(self, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
        """The entries of the manifest as JSON, in the order of `jobs`."""
        lines = ManifestLines(self.backend.integrity)
        for p in self.jobs:
            yield lines.line(p.job, p.fingerprint, p.score_direction, p.decision, p.reason, outcomes.get(p.job_id))
