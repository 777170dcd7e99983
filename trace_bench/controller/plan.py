"""From a config to jobs that can be started: identities, job specs, image pins, and the records of the run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from trace_bench import __version__
from trace_bench.arguments import hint
from trace_bench.artifacts.contract import (
    Budget,
    JobLimits,
    JobSpec,
    ModelRef,
    OptimizerRef,
    TaskRef,
    TrainerRef,
)
from trace_bench.artifacts.provenance import package_versions
from trace_bench.artifacts.records import (
    GitInfo,
    ImageRecord,
    JobMeta,
    Lock,
    Manifest,
    ManifestEntry,
)
from trace_bench.config.frozen import thaw
from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.config.resolve import Resolved
from trace_bench.controller.job import JobPlan
from trace_bench.errors import ConfigError
from trace_bench.identity import config_hash, fingerprint, run_id, test_seed
from trace_bench.matrix import Job, expand
from trace_bench.sandbox.base import CONTROLS, NEVER_WEAKER, Backend, Resources
from trace_bench.suites.spec import Task, pack_task
from trace_bench.trainers.registry import entry_of


class ImageSource(Protocol):
    """Gives the image of a family (builds it if it must)."""

    def __call__(self, family: str) -> ImageRecord:
        """
        Raises:
            EnvironmentUnavailable: there is none and none can be made, or it has drifted.
        """


@dataclass(frozen=True)
class RunPlan:
    """A whole run before its first job starts."""

    run_id: str
    config: RunConfig
    config_hash: str
    jobs: tuple[JobPlan, ...]
    manifest: Manifest
    lock: Lock
    salt: str
    warnings: tuple[str, ...]
    git: GitInfo = field(default_factory=GitInfo)


def plan_run(
    config: RunConfig,
    resolved: Resolved,
    backend: Backend,
    images: ImageSource,
    *,
    sources_hash: str,
    git: GitInfo | None = None,
    salt: str | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> RunPlan:
    """Expand `config` and fill in everything that its jobs need. Task code is packed, never imported.

    Args:
        git: state of the checkout that runs it, if it is one.
        salt: of the held-out seeds; None draws a new one.

    Raises:
        ConfigError: from the matrix. EnvironmentUnavailable: from `images`.
    """
    git = git or GitInfo()
    jobs = expand(config, resolved.tasks, resolved.trainers)
    _check_controls(config)
    used = {job.task_id: resolved.tasks[job.task_id] for job in jobs}
    hashes = {task_id: task.content_hash for task_id, task in used.items()}
    blobs = {task_id: pack_task(task.folder) for task_id, task in used.items()}
    pins = {family: images(family) for family in dict.fromkeys(job.image_family for job in jobs)}
    whole_hash = config_hash(config.to_snapshot(), hashes)
    name = config.run_id or run_id(now(), whole_hash, git.commit or "")
    salt = salt or secrets.token_hex(16)
    created = now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    planned = tuple(
        _plan_job(
            job,
            used[job.task_id],
            blobs[job.task_id],
            pins[job.image_family],
            config=config,
            run=name,
            salt=salt,
            backend=backend,
            sources_hash=sources_hash,
            created=created,
        )
        for job in jobs
    )
    models = {p.spec.model.id: p.spec.model for p in planned}
    lock = Lock(
        run_id=name,
        config_hash=whole_hash,
        code_version=__version__,
        sources_hash=sources_hash,
        images=pins,
        packages=package_versions(),
        tasks=hashes,
        models=tuple(models.values()),
    )
    manifest = Manifest(
        run_id=name,
        config_hash=whole_hash,
        generated_at=created,
        tags=config.tags,
        warnings=config.warnings,
        jobs=tuple(manifest_entry(p.meta) for p in planned),
    )
    return RunPlan(name, config, whole_hash, planned, manifest, lock, salt, config.warnings, git)


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


def _plan_job(
    job: Job,
    task: Task,
    blob: bytes,
    image: ImageRecord,
    *,
    config: RunConfig,
    run: str,
    salt: str,
    backend: Backend,
    sources_hash: str,
    created: str,
) -> JobPlan:
    budget = Budget(**config.budget.model_dump())
    limits = thaw(job.limits)
    sandbox = job.sandbox
    mark = fingerprint(
        job,
        task.content_hash,
        image.key,
        sources_hash,
        budget.model_dump(),
        job.splits,
        config.objective,
        limits,
    )
    job_limits = JobLimits(
        job_timeout=limits["job_timeout"],
        score_timeout=limits["score_timeout"],
        out_bytes=sandbox.disk,
        memory_bytes=sandbox.memory,
        pids=sandbox.pids,
    )
    model = _model(job.model)
    optimizer = OptimizerRef(id=job.optimizer, kwargs=thaw(job.optimizer_kwargs))
    spec = JobSpec(
        run_id=run,
        job_id=job.job_id,
        fingerprint=mark,
        task=TaskRef(
            id=job.task_id,
            suite=job.suite,
            builder=task.suite.builder,
            spec=task.spec.raw,
            content_hash=task.content_hash,
            eval_kwargs=thaw(job.eval_kwargs),
        ),
        trainer=TrainerRef(id=job.trainer_id, entry=entry_of(job.trainer_id), params=thaw(job.params)),
        optimizer=optimizer,
        seed=job.seed,
        mode=config.mode,
        model=model,
        budget=budget,
        limits=job_limits,
    )
    meta = JobMeta(
        run_id=run,
        job_id=job.job_id,
        fingerprint=mark,
        task_id=job.task_id,
        suite=job.suite,
        task_hash=task.content_hash,
        score_direction=task.spec.score.direction,
        eval_kwargs=thaw(job.eval_kwargs),
        trainer_id=job.trainer_id,
        variant=job.variant.label,
        raw_params=thaw(job.raw_params),
        params=thaw(job.params),
        optimizer=optimizer,
        guide=job.guide,
        guide_kwargs=thaw(job.guide_kwargs),
        logger=job.logger,
        seed=job.seed,
        mode=config.mode,
        model=model,
        budget=budget,
        limits=job_limits,
        image=image,
        backend=backend.name,
        integrity=backend.integrity,
        created_at=created,
    )
    return JobPlan(
        spec=spec,
        task=blob,
        test_seed=test_seed(salt, job.task_id, job.seed),
        meta=meta,
        image_ref=image.ref,
        resources=Resources(
            cpus=sandbox.cpus,
            memory_bytes=sandbox.memory,
            disk_bytes=sandbox.disk,
            tmp_bytes=sandbox.tmp,
            pids=sandbox.pids,
        ),
        runtime=sandbox.runtime,
        require_controls=frozenset(sandbox.require_controls),
        allow_weaker=frozenset(sandbox.allow_weaker),
    )


def _model(identity: Mapping[str, Any]) -> ModelRef:
    plain = thaw(identity)
    return ModelRef(
        id=plain["id"],
        provider=plain.get("provider", "stub"),
        model=plain.get("model", plain["id"]),
        sampling=plain.get("sampling", {}),
    )


def manifest_entry(meta: JobMeta, **outcome: Any) -> ManifestEntry:
    """The manifest's line for a job; `outcome` is ``status`` and ``reason`` once they are known."""
    return ManifestEntry(
        job_id=meta.job_id,
        task_id=meta.task_id,
        suite=meta.suite,
        trainer_id=meta.trainer_id,
        variant=meta.variant,
        seed=meta.seed,
        raw_params=meta.raw_params,
        resolved_optimizer=meta.optimizer.id,
        resolved_optimizer_kwargs=meta.optimizer.kwargs,
        resolved_guide=meta.guide,
        resolved_guide_kwargs=meta.guide_kwargs,
        resolved_logger=meta.logger,
        resolved_logger_kwargs=meta.logger_kwargs,
        resolved_trainer_kwargs=meta.params,
        eval_kwargs=meta.eval_kwargs,
        model=meta.model.id,
        **outcome,
    )
