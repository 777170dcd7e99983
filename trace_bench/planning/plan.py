"""From a config to a plan: every job with its identity and what is done about it, and the records of the run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from trace_bench import __version__
from trace_bench.arguments import hint
from trace_bench.artifacts.contract import Budget, Direction
from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import package_versions
from trace_bench.artifacts.records import GitInfo, ImageRecord, Lock, ModelPrices, Results
from trace_bench.artifacts.versions import SCHEMA_VERSION
from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.config.objectives import direction_of
from trace_bench.config.resolve import Resolved
from trace_bench.config.sizes import format_size
from trace_bench.errors import ConfigError
from trace_bench.identity import FingerprintPrefix, JobIdPrefix, config_hash, prefix_of, run_id, salt_commitment
from trace_bench.matrix import Job, expand
from trace_bench.planning.hosts import MemoryPool, check_hosts, check_sandboxes
from trace_bench.planning.job_order import Duration, known_durations, spread
from trace_bench.planning.manifest import ManifestLines, Outcome, write_manifest
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import JobPlan, Material, model_ref, prepare
from trace_bench.planning.recording import Recording
from trace_bench.planning.resume import (
    NEW,
    Before,
    Stamp,
    Verdict,
    find_run_to_continue,
    is_recorded,
    look_back,
    read_lock,
    salt_of,
    stamp_of,
)
from trace_bench.planning.run_budget import RunBudget, Spent, limits_of, spent_before
from trace_bench.sandbox.base import CONTROLS, NEVER_WEAKER, Backend, Host, Sandbox
from trace_bench.sandbox.errors import ControlMissing, RuntimeMissing
from trace_bench.sandbox.runtimes import missing_runtime
from trace_bench.suites.spec import Task, pack_task


class ImageSource(Protocol):
    """Gives the image of a family (builds it if it must)."""

    def __call__(self, family: str) -> ImageRecord:
        """
        Raises:
            EnvironmentUnavailable: there is none and none can be made, or it has drifted.
        """


class PlanIsOld(ConfigError):
    """The run has changed since it was planned."""


@dataclass(frozen=True)
class RunPlan:
    """A whole run before its first job starts.

    Attributes:
        jobs: in the order of the matrix: task, trainer, variant, model, seed.
        order: indices of `jobs` in the order in which they start.
        continued: the run was started, or planned, before.
        reused: by job id, earlier results that count.
        adopted: by job id, sandboxes of a dead controller that jobs go on in.
        leftovers: such sandboxes that nobody goes on with.
        recording: the run that this one replays, if it is a replay.
        spent: of the run's budget, before.
        durations: by job id, what is known of jobs like it.
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

    @property
    def finished(self) -> bool:
        """All jobs have endings that count, and the run is recorded to its end: there is nothing to do."""
        done = self.continued and all(job.decision == "reuse" for job in self.jobs) and not self.leftovers
        return done and is_recorded(self.layout)

    def check(self) -> None:
        """To be called with the run's folder locked, before anything is written.

        Raises:
            PlanIsOld: another controller was at work in it since the plan was made.
        """
        if stamp_of(self.layout) != self.stamp:
            raise PlanIsOld(f"{self.layout.root}: another controller was at work in it; run the same command again")

    def prepare(self, planned: PlannedJob) -> JobPlan:
        """`planned` with all that running it takes."""
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
            stop_at=self.recording.stop_point(planned.job_id) if self.recording is not None else None,
        )

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


def jobs_of(config: RunConfig, resolved: Resolved) -> list[Job]:
    """The jobs of `config`, which can no longer be wrong then: to be called before an engine is asked.

    Raises:
        ConfigError: from the matrix, a control of its sandboxes that is not there or cannot be given up, or part of a
            core that is to be pinned.
    """
    jobs = expand(config, resolved.tasks, resolved.trainers)
    _check_controls(config)
    check_sandboxes(config)
    return jobs


def plan_run(
    config: RunConfig,
    resolved: Resolved,
    jobs: Sequence[Job],
    backend: Backend,
    images: ImageSource,
    *,
    sources_hash: str,
    git: GitInfo | None = None,
    warnings: Sequence[str] = (),
    prices: Mapping[str, ModelPrices] | None = None,
    recording: Recording | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> RunPlan:
    """Find the run that `config` continues, and decide about every one of its `jobs`. Nothing is written, no task code
    is imported, and no sandbox touched.

    Args:
        git: state of the checkout that runs it, if it is one.
        warnings: to be recorded beside the config's own.
        prices: of its models, by id; those that the run began with go before them.
        recording: the run that is replayed, which has all of `jobs`.

    Raises:
        ConfigError: from the matrix; the run that ``run_id`` names is of another config; nothing is there to continue
            and ``resume`` is ``failed``; no host can run one of its jobs. EnvironmentUnavailable: from `images`.
            SandboxError: the engine is gone.
    """
    git = git or GitInfo()
    used = {job.task_id: resolved.tasks[job.task_id] for job in jobs}
    hashes = {task_id: task.content_hash for task_id, task in used.items()}
    blobs = {task_id: pack_task(task.folder, task.data) for task_id, task in used.items()}
    pins = {family: images(family) for family in dict.fromkeys(job.image_family for job in jobs)}
    whole_hash = config_hash(config.to_snapshot(), hashes)
    notes = [*config.warnings, *warnings]
    for job in jobs:
        if job.executes_candidates:
            why = used[job.task_id].spec.execution(job.eval_kwargs)
            notes.append(f"{job.task_id}: {why}; its jobs are unprotected")

    runs_dir = Path(config.runs_dir)
    if config.run_id is not None:
        layout = RunLayout(runs_dir / config.run_id)
        _check_run(layout, whole_hash, sources_hash, pins, notes)
    else:
        found = find_run_to_continue(runs_dir, config.resume, whole_hash, sources_hash, pins)
        if found.layout is None and config.resume == "failed":
            raise ConfigError(
                f"{config.source.where(('resume',))} is failed, but no run of this config below {runs_dir} has failed "
                "jobs; leave it out to start a run, or name one with --run-id"
            )
        notes += [found.note] if found.note else []
        layout = found.layout or RunLayout(runs_dir / run_id(now(), whole_hash, git.commit or ""))
    stamp = stamp_of(layout)
    before = look_back(layout, backend, config.resume)
    if config.run_id is not None and config.resume == "failed" and before is None:
        raise ConfigError(
            f"{config.source.where(('resume',))} is failed, but there is no run {config.run_id} below {runs_dir}; "
            "leave it out to start that run, or name one that has failed jobs with --run-id"
        )
    spent = Spent()
    if before is not None and config.resume != "none":
        spent = spent_before(layout, (job.job_id for job in jobs), limits_of(config))
        before.budget_left = RunBudget(limits_of(config), spent).used_up() is None
        notes += spent.notes
    engine = backend.describe()
    _check_runtimes(jobs, engine.get("runtimes"))
    _check_required(jobs, backend)
    notes += _memory_notes(config, jobs, engine.get("memory_bytes"))
    notes += _width_notes(config, backend.name, len(jobs))

    salt = salt_of(layout) or (recording and recording.salt) or secrets.token_hex(16)
    lock = Lock(
        schema_version=SCHEMA_VERSION,
        run_id=layout.run_id,
        config_hash=whole_hash,
        code_version=__version__,
        sources_hash=sources_hash,
        images=pins,
        packages=package_versions(),
        tasks=hashes,
        prices={**(prices or {}), **_prices_before(layout)},
        models=tuple({m.id: m for m in (model_ref(job.model) for job in _first_of_each(jobs))}.values()),
        salt_commitment=salt_commitment(salt),
    )
    lacking = recording.lacking if recording is not None else {}
    planned, reused = _decided(jobs, config, used, pins, sources_hash, before, lacking)
    hosts = backend.hosts()
    check_hosts(config, planned, hosts)
    notes += _out_of_sight(before, hosts)
    if recording is not None:
        keys = {family: image.key for family, image in pins.items()}
        notes += recording.notes(hashes, keys, sources_hash, {p.job_id: p.fingerprint for p in planned})
    known = {p.job_id for p in planned} if before and before.sandboxes else set()
    strangers = [s for j, ss in (before.sandboxes if before else {}).items() if j not in known for s in ss]
    seeds = len(config.seeds)
    tasks = len(config.tasks)
    return RunPlan(
        run_id=layout.run_id,
        layout=layout,
        config=config,
        config_hash=whole_hash,
        backend=backend,
        jobs=planned,
        order=tuple(spread(tasks, len(jobs) // (tasks * seeds), seeds)),
        lock=lock,
        salt=salt,
        created=now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        warnings=tuple(dict.fromkeys(notes)),
        git=git,
        continued=before is not None,
        reused=reused,
        adopted=before.adopted if before else {},
        leftovers=(*before.leftovers, *strangers) if before else (),
        material={task_id: Material(task, blobs[task_id]) for task_id, task in used.items()},
        stamp=stamp,
        recording=recording,
        spent=spent,
        durations=_durations(config, planned),
    )


def _out_of_sight(before: Before | None, hosts: Sequence[Host]) -> list[str]:
    """Where sandboxes of the run may be that nobody will look for."""
    names = before.out_of_sight([host.name for host in hosts]) if before is not None else []
    return [
        f"jobs were under way on {f'host {printable(name, 100)}' if name else 'the only host of then'} when the last "
        "controller ended, and it is not among the hosts that answer now: they begin anew, their sandboxes there end "
        "by themselves, and trace-bench clean --config with a config that names it removes what is left of them"
        for name in names
    ]


def _durations(config: RunConfig, planned: Sequence[PlannedJob]) -> dict[str, Duration]:
    """What is known of the jobs that are to run, if anything depends on it."""
    timed = config.scheduling.within_budget and limits_of(config).seconds is not None
    if config.mode == "replay" or not (timed or config.scheduling.longest_first):
        return {}
    return known_durations(Path(config.runs_dir), (job.job for job in planned if job.decision == "run"))


def _prices_before(layout: RunLayout) -> Mapping[str, ModelPrices]:
    """What the run that is continued reckons by."""
    lock = read_lock(layout)
    return {} if lock is None else lock.prices


def _decided(
    jobs: Sequence[Job],
    config: RunConfig,
    tasks: Mapping[str, Task],
    pins: Mapping[str, ImageRecord],
    sources_hash: str,
    before: Before | None,
    lacking: Mapping[str, str],
) -> tuple[tuple[PlannedJob, ...], dict[str, Results]]:
    """Every job with its fingerprint and decision; and the results that are reused.

    Args:
        lacking: why jobs cannot be replayed, by id.
    """
    budget = Budget(**config.budget.model_dump(exclude={"run"})).model_dump()
    planned: list[PlannedJob] = []
    reused: dict[str, Results] = {}
    last: Job | None = None
    prefix: JobIdPrefix
    marks: FingerprintPrefix
    direction: Direction
    for job in jobs:
        if last is None or not _same_but_seed(last, job):
            task = tasks[job.task_id]
            prefix = prefix_of(job)
            marks = FingerprintPrefix(
                task.content_hash,
                pins[job.image_family].key,
                sources_hash,
                budget,
                job.splits,
                job.objective,
                job.limits,
            )
            direction = direction_of(job.objective)
            last = job
        mark = marks.fingerprint(prefix.full_digest(job.seed))
        verdict: Verdict = before.decide(job.job_id, mark) if before is not None else NEW
        if job.job_id in lacking:
            verdict = Verdict("skip", f"its recording cannot be replayed: {lacking[job.job_id]}")
        if verdict.row is not None:
            reused[job.job_id] = verdict.row
        planned.append(PlannedJob(job, mark, direction, verdict.decision, verdict.reason))
    return tuple(planned), reused


def _same_but_seed(one: Job, other: Job) -> bool:
    """`expand` gives the jobs of one task entry, variant and model the very same objects."""
    return (
        one.params is other.params
        and one.model is other.model
        and one.eval_kwargs is other.eval_kwargs
        and one.limits is other.limits
        and one.optimizer_kwargs is other.optimizer_kwargs
        and one.task_id == other.task_id
        and one.trainer_id == other.trainer_id
    )


def _first_of_each(jobs: Sequence[Job]) -> Iterator[Job]:
    last: Job | None = None
    for job in jobs:
        if last is None or last.model is not job.model:
            yield job
        last = job


def _check_run(
    layout: RunLayout, config_hash: str, sources_hash: str, pins: Mapping[str, ImageRecord], notes: list[str]
) -> None:
    """Whether the run that the user named can be continued with this config.

    Raises:
        ConfigError: it is of another config.
    """
    lock = read_lock(layout)
    if lock is None:
        return
    if lock.config_hash != config_hash:
        raise ConfigError(
            f"{layout.root}: this run was made from another config; give another --run-id, or take "
            "run_id out of the config"
        )
    changed = [
        name
        for name, same in (
            ("code", lock.sources_hash == sources_hash),
            ("images", {f: i.key for f, i in lock.images.items()} == {f: i.key for f, i in pins.items()}),
        )
        if not same
    ]
    if changed:
        notes.append(f"the run is continued with other {' and '.join(changed)} than it was started with")


def _check_runtimes(jobs: Sequence[Job], known: Any) -> None:
    """
    Args:
        known: names of the engine's runtimes; not a list where the backend has none.

    Raises:
        RuntimeMissing: a sandbox asks for one that the engine does not have.
    """
    for runtime in sorted(
        {sandbox.runtime or "" for sandbox in {id(job.sandbox): job.sandbox for job in jobs}.values()}
    ):
        if runtime and isinstance(known, list) and runtime not in known:
            raise RuntimeMissing(missing_runtime(runtime, known))


def _check_required(jobs: Sequence[Job], backend: Backend) -> None:
    """What is sure to be refused when a sandbox is made is refused before.

    Raises:
        ControlMissing: a sandbox requires a control that the backend says it cannot put in force.
    """
    # Of a runtime that a config names, `cannot` does not speak.
    sandboxes = [s for s in {id(job.sandbox): job.sandbox for job in jobs}.values() if s.runtime is None]
    required = {name for sandbox in sandboxes for name in sandbox.require_controls}
    if not required:
        return
    cannot = backend.cannot
    if lacking := sorted(required & cannot.keys()):
        told = "; ".join(f"{name} ({cannot[name]})" for name in lacking)
        remedy = "Mend the host, or name it in allow_weaker" if backend.name == "docker" else "Use --backend docker"
        raise ControlMissing(f"the {backend.name} backend cannot put in force: {told}. {remedy}.")


def _memory_notes(config: RunConfig, jobs: Sequence[Job], memory: Any) -> list[str]:
    """What the user should know of how many jobs the engine's memory holds."""
    if not isinstance(memory, int):
        return []
    pool = MemoryPool(memory)
    notes = []
    for declared in sorted({sandbox.memory for sandbox in {id(job.sandbox): job.sandbox for job in jobs}.values()}):
        fit = pool.jobs_at_a_time(declared)
        if declared > memory:
            notes.append(
                f"sandbox.memory {format_size(declared)} is more than the engine has ({memory / 2**30:.1f} GiB): "
                "such jobs run one at a time, and may be killed for want of memory"
            )
        elif fit is not None and fit < min(config.max_workers, len(jobs)):
            notes.append(
                f"max_workers is {config.max_workers}, but the engine's memory ({memory / 2**30:.1f} GiB) holds "
                f"{fit} jobs of sandbox.memory {format_size(declared)} at a time"
            )
    return notes


def _width_notes(config: RunConfig, backend: str, jobs: int) -> list[str]:
    """Where there is room for many jobs, one at a time is seldom what was meant; more of them may cost more."""
    hosts = len(config.docker.hosts) if backend == "docker" else 0
    if jobs == 1 or "max_workers" in config.model_fields_set or not (hosts > 1 or backend == "modal"):
        return []
    return [
        f"max_workers is not given: jobs run one at a time, on {'Modal' if backend == 'modal' else 'all hosts'} too"
    ]


def _check_controls(config: RunConfig) -> None:
    """Names of controls, before any image is looked at.

    Raises:
        ConfigError: an unknown control, or one that cannot be given up.
    """
    problems = []
    sections: list[tuple[tuple[str | int, ...], SandboxConfig]] = [(("sandbox",), config.sandbox)]
    sections += [(("tasks", i, "sandbox"), task.sandbox) for i, task in enumerate(config.tasks) if task.sandbox]
    for path, section in sections:
        for key in ("require_controls", "allow_weaker"):
            for name in getattr(section, key):
                where = config.source.where((*path, key))
                if name not in CONTROLS:
                    problems.append(f"{where}: there is no control {name!r}{hint(name, CONTROLS)}")
                elif key == "allow_weaker" and name in NEVER_WEAKER:
                    problems.append(f"{where}: the control {name!r} cannot be given up; take it out")
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
