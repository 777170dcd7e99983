"""Plan a run: find the run that a config continues, and decide about every job."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trace_bench import __version__
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import package_versions
from trace_bench.artifacts.records import GitInfo, Lock, ModelPrices, Results
from trace_bench.artifacts.versions import SCHEMA_VERSION
from trace_bench.config.models import RunConfig
from trace_bench.config.objectives import direction_of
from trace_bench.config.resolve import Resolved
from trace_bench.errors import ConfigError, ImageDrift
from trace_bench.identity import FingerprintPrefix, JobIdPrefix, config_hash, prefix_of, run_id, salt_commitment
from trace_bench.matrix import Job, expand
from trace_bench.planning.images import Images
from trace_bench.planning.job_order import Duration, known_durations, spread
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.preconditions import Check, missing_by, unmet_of
from trace_bench.planning.prepare import Material, job_budget, model_ref
from trace_bench.planning.recording import Recording
from trace_bench.planning.requirements import (
    check_controls,
    check_required_controls,
    check_runtimes,
    check_sandboxes,
    host_check,
    memory_warnings,
    worker_warnings,
)
from trace_bench.planning.resume import (
    NEW,
    EarlierRun,
    Verdict,
    earlier_run,
    find_run_to_continue,
    have_same_keys,
    read_lock,
    salt_of,
    stamp_of,
)
from trace_bench.planning.run_budget import RunBudget, Spent, limits_of, spent_before
from trace_bench.sandbox.base import Backend, Host
from trace_bench.suites.task_files import pack_task


def jobs_of(config: RunConfig, resolved: Resolved) -> list[Job]:
    """The jobs of `config`. All of the config is checked that can be checked without an engine.

    Raises:
        ConfigError: from the matrix; a control of its sandboxes does not exist or cannot be given up; or part of a core
            is to be pinned.
    """
    jobs = expand(config, resolved.tasks, resolved.trainers)
    check_controls(config)
    check_sandboxes(config)
    return jobs


def pack_tasks(jobs: Iterable[Job], resolved: Resolved) -> dict[str, Material]:
    """The tasks of `jobs` by id, each with its folder as a tar."""
    tasks = {job.task_id: resolved.tasks[job.task_id] for job in jobs}
    return {task_id: Material(task, pack_task(task.folder, task.data)) for task_id, task in tasks.items()}


@dataclass(frozen=True)
class PlanInputs:
    """What determines a plan, besides the runs that exist already.

    Attributes:
        material: the tasks of `jobs`, as of `pack_tasks`.
        jobs: of `config`, as of `jobs_of`.
        images: of `jobs`, as of `prepare_images`.
        sources_hash: of the code of worker, suites and trainers.
        git: state of the checkout that runs it, if it is one.
        warnings: to be recorded beside the config's own.
        prices: of the models, by id; those that the run began with take precedence.
        recording: the run that is replayed, which has all of `jobs`.
        missing_data: why the data set of a task is not here, by task id.
        checks: further preconditions of single jobs.
    """

    config: RunConfig
    material: Mapping[str, Material]
    jobs: Sequence[Job]
    backend: Backend
    images: Images
    sources_hash: str
    git: GitInfo = field(default_factory=GitInfo)
    warnings: Sequence[str] = ()
    prices: Mapping[str, ModelPrices] = field(default_factory=dict)
    recording: Recording | None = None
    missing_data: Mapping[str, ConfigError] = field(default_factory=dict)
    checks: Sequence[Check] = ()


def plan_run(inputs: PlanInputs, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> RunPlan:
    """Find the run that the config continues, and decide about every job. Nothing is written, no task code is imported,
    and no sandbox is changed. Jobs that lack a precondition are still to run: `RunPlan.without_unmet` skips them.

    Raises:
        ConfigError: the run that ``run_id`` names is of another config; there is nothing to continue and ``resume`` is
            ``failed``. SandboxError: the engine is gone.
    """
    return _Planner(inputs, now).plan()


class _Planner:
    """The steps of one plan. `warnings` collects what is recorded with the run."""

    def __init__(self, inputs: PlanInputs, now: Callable[[], datetime]) -> None:
        self._inputs = inputs
        self._now = now
        self._runs_dir = Path(inputs.config.runs_dir)
        # Where a data set or an image is missing, the hash or key is empty: nothing is known of it.
        lost = inputs.missing_data
        self._hashes = {id: "" if id in lost else one.task.content_hash for id, one in inputs.material.items()}
        self._images = dict(inputs.images.records)
        self._config_hash = config_hash(inputs.config.to_snapshot(), self._hashes)
        self.warnings = [*inputs.config.warnings, *inputs.warnings, *_unprotected(inputs.jobs, inputs.material)]

    def plan(self) -> RunPlan:
        inputs, config = self._inputs, self._inputs.config
        layout = self._find_run()
        self._fill_in(read_lock(layout))
        stamp = stamp_of(layout)
        earlier = self._earlier_run(layout)
        spent = self._spent(layout, earlier)
        self._check_backend()
        salt = salt_of(layout) or (inputs.recording and inputs.recording.salt) or secrets.token_hex(16)
        jobs, reused = self._decide(earlier)
        if config.resume == "failed" and not any(job.decision in ("run", "adopt") for job in jobs):
            self.warnings.append(f"nothing to do: resume is failed, and no job of run {layout.run_id} has failed")
        hosts = inputs.backend.hosts()
        self.warnings += _unreachable_hosts(earlier, hosts)
        if inputs.recording is not None:
            keys = {family: image.key for family, image in self._images.items() if image.key}
            fingerprints = {job.job_id: job.fingerprint for job in jobs}
            self.warnings += inputs.recording.notes(self._hashes, keys, inputs.sources_hash, fingerprints)
        tasks, seeds = len(config.tasks), len(config.seeds)
        return RunPlan(
            run_id=layout.run_id,
            layout=layout,
            config=config,
            config_hash=self._config_hash,
            backend=inputs.backend,
            jobs=jobs,
            order=tuple(spread(tasks, len(jobs) // (tasks * seeds), seeds)),
            lock=self._lock(layout, salt),
            salt=salt,
            created=self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            warnings=tuple(dict.fromkeys(self.warnings)),
            git=inputs.git,
            continued=earlier is not None,
            reused=reused,
            adopted=earlier.adopted if earlier else {},
            leftovers=earlier.all_leftovers({job.job_id for job in jobs}) if earlier else (),
            material=inputs.material,
            stamp=stamp,
            recording=inputs.recording,
            spent=spent,
            durations=_durations(config, jobs),
            unmet=unmet_of(inputs.jobs, self._checks(hosts)),
        )

    def _checks(self, hosts: Sequence[Host]) -> list[Check]:
        """The preconditions of the jobs, those that name the nearest remedy first."""
        inputs = self._inputs
        return [
            missing_by(lambda job: job.task_id, inputs.missing_data),
            missing_by(lambda job: job.image_family, inputs.images.missing),
            host_check(inputs.config, hosts),
            *inputs.checks,
        ]

    def _fill_in(self, lock: Lock | None) -> None:
        """Take from the `lock` of the run that is continued what is missing here, so that its results still count. They
        do not if the recipe of their image has changed: results of old code are not those of the new."""
        if lock is None:
            return
        for family, why in self._inputs.images.missing.items():
            if not isinstance(why, ImageDrift):
                self._images[family] = lock.images.get(family, self._images[family])
        self._hashes |= {id: lock.tasks.get(id, "") for id in self._inputs.missing_data if id in self._hashes}
        self._config_hash = config_hash(self._inputs.config.to_snapshot(), self._hashes)

    def _hash_beside(self, theirs: object) -> str:
        """The hash of the config, in which the content of a task counts as in a run of the task hashes `theirs` if the
        content is unknown here, or was unknown there."""
        tasks = theirs if isinstance(theirs, Mapping) else {}
        unknown = {id: tasks.get(id, "") for id, mine in self._hashes.items() if "" in (mine, tasks.get(id))}
        if not unknown:
            return self._config_hash
        return config_hash(self._inputs.config.to_snapshot(), {**self._hashes, **unknown})

    def _find_run(self) -> RunLayout:
        """The folder of the run that the config names or continues, or of a new run."""
        inputs, config = self._inputs, self._inputs.config
        if config.run_id is not None:
            layout = RunLayout(self._runs_dir / config.run_id)
            self._check_named_run(layout)
            return layout
        found = find_run_to_continue(
            self._runs_dir, config.resume, self._hash_beside, inputs.sources_hash, self._images
        )
        if found.layout is None and config.resume == "failed":
            raise ConfigError(
                f"{config.source.where(('resume',))} is failed, but no run of this config below {self._runs_dir} "
                "has ended; leave it out to start a run, or name one with --run-id"
            )
        self.warnings += [found.note] if found.note else []
        return found.layout or RunLayout(
            self._runs_dir / run_id(self._now(), self._config_hash, inputs.git.commit or "")
        )

    def _check_named_run(self, layout: RunLayout) -> None:
        """Check that the run that the user named can be continued with this config.

        Raises:
            ConfigError: it is of another config.
        """
        lock = read_lock(layout)
        if lock is None:
            return
        if lock.config_hash != self._hash_beside(lock.tasks):
            raise ConfigError(
                f"{layout.root}: this run was made from another config; give another --run-id, or take "
                "run_id out of the config"
            )
        same_code = lock.sources_hash == self._inputs.sources_hash
        same_images = have_same_keys({family: image.key for family, image in lock.images.items()}, self._images)
        changed = [name for name, same in (("code", same_code), ("images", same_images)) if not same]
        if changed:
            self.warnings.append(f"the run is continued with other {' and '.join(changed)} than it was started with")

    def _earlier_run(self, layout: RunLayout) -> EarlierRun | None:
        config = self._inputs.config
        earlier = earlier_run(layout, self._inputs.backend, config.resume)
        if config.run_id is not None and config.resume == "failed" and earlier is None:
            raise ConfigError(
                f"{config.source.where(('resume',))} is failed, but there is no run {config.run_id} below "
                f"{self._runs_dir}; leave it out to start that run, or name one that has failed jobs with --run-id"
            )
        return earlier

    def _spent(self, layout: RunLayout, earlier: EarlierRun | None) -> Spent:
        """What the run has spent of its budget. It determines which jobs of `earlier` count as finished."""
        config = self._inputs.config
        if earlier is None or config.resume == "none":
            return Spent()
        limits = limits_of(config)
        spent = spent_before(layout, (job.job_id for job in self._inputs.jobs), limits)
        earlier.budget_left = RunBudget(limits, spent).used_up() is None
        self.warnings += spent.notes
        return spent

    def _check_backend(self) -> None:
        inputs = self._inputs
        engine = inputs.backend.describe()
        check_runtimes(inputs.jobs, engine.get("runtimes"))
        check_required_controls(inputs.jobs, inputs.backend)
        self.warnings += memory_warnings(inputs.config, inputs.jobs, engine.get("memory_bytes"))
        self.warnings += worker_warnings(inputs.config, inputs.backend, len(inputs.jobs))

    def _lock(self, layout: RunLayout, salt: str) -> Lock:
        inputs = self._inputs
        before = read_lock(layout)
        models = (model_ref(model) for model in {id(job.model): job.model for job in inputs.jobs}.values())
        return Lock(
            schema_version=SCHEMA_VERSION,
            run_id=layout.run_id,
            config_hash=self._config_hash,
            code_version=__version__,
            sources_hash=inputs.sources_hash,
            images=self._images,
            packages=package_versions(),
            tasks=self._hashes,
            prices={**inputs.prices, **(before.prices if before is not None else {})},
            models=tuple({model.id: model for model in models}.values()),
            salt_commitment=salt_commitment(salt),
        )

    def _decide(self, earlier: EarlierRun | None) -> tuple[tuple[PlannedJob, ...], dict[str, Results]]:
        """Every job with its fingerprint and decision, and the results that are reused."""
        inputs = self._inputs
        lacking = inputs.recording.lacking if inputs.recording is not None else {}
        budget = job_budget(inputs.config).model_dump()
        planned: list[PlannedJob] = []
        reused: dict[str, Results] = {}
        last: Job | None = None
        id_prefix: JobIdPrefix
        fingerprint_prefix: FingerprintPrefix
        direction: Direction
        for job in inputs.jobs:
            if last is None or not _differ_in_seed(last, job):
                id_prefix = prefix_of(job)
                fingerprint_prefix = FingerprintPrefix(
                    self._hashes[job.task_id],
                    self._images[job.image_family].key,
                    inputs.sources_hash,
                    budget,
                    job.splits,
                    job.objective,
                    job.limits,
                )
                direction = direction_of(job.objective)
                last = job
            fingerprint = fingerprint_prefix.fingerprint(id_prefix.full_digest(job.seed))
            verdict = earlier.decide(job.job_id, fingerprint) if earlier is not None else NEW
            if job.job_id in lacking:
                verdict = Verdict("skip", f"its recording cannot be replayed: {lacking[job.job_id]}")
            if verdict.row is not None:
                reused[job.job_id] = verdict.row
            planned.append(PlannedJob(job, fingerprint, direction, verdict.decision, verdict.reason))
        return tuple(planned), reused


def _unprotected(jobs: Sequence[Job], material: Mapping[str, Material]) -> list[str]:
    """Warnings about jobs whose task executes candidates itself."""
    found = []
    for job in jobs:
        if job.executes_candidates:
            why = material[job.task_id].task.spec.execution(job.eval_kwargs)
            found.append(f"{job.task_id}: {why}; its jobs are unprotected")
    return found


def _unreachable_hosts(earlier: EarlierRun | None, hosts: Sequence[Host]) -> list[str]:
    """Warnings about hosts that may have sandboxes of the run, and are not among `hosts`."""
    names = earlier.unreachable_hosts([host.name for host in hosts]) if earlier is not None else []
    return [
        f"jobs were under way on {f'host {name}' if name else 'the only host of then'} when the last "
        "controller ended, and it is not among the hosts that answer now: they begin anew, their sandboxes there end "
        "by themselves, and trace-bench clean --config with a config that names it removes what is left of them"
        for name in names
    ]


def _durations(config: RunConfig, planned: Sequence[PlannedJob]) -> dict[str, Duration]:
    """Durations of jobs like those that are to run, if the config uses them."""
    timed = config.scheduling.within_budget and limits_of(config).seconds is not None
    if config.mode == "replay" or not (timed or config.scheduling.longest_first):
        return {}
    return known_durations(Path(config.runs_dir), (job.job for job in planned if job.decision == "run"))


def _differ_in_seed(one: Job, other: Job) -> bool:
    """Whether two jobs differ in nothing but their seeds: `expand` gives such jobs the very same objects."""
    return (
        one.params is other.params
        and one.model is other.model
        and one.eval_kwargs is other.eval_kwargs
        and one.limits is other.limits
        and one.optimizer_kwargs is other.optimizer_kwargs
        and one.task_id == other.task_id
        and one.trainer_id == other.trainer_id
    )
