"""Makes a planned job into one that can be started: its ``job.json``, its record so far, its sandbox's limits.

Done when the job's turn comes: a plan of a hundred thousand jobs holds one `PlannedJob` of each and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import (
    Budget,
    GuideRef,
    JobLimits,
    JobSpec,
    ModelRef,
    ObjectiveSpec,
    OptimizerRef,
    StopPoint,
    TaskRef,
    TrainerRef,
)
from trace_bench.artifacts.records import ImageRecord, JobMeta
from trace_bench.config.frozen import thaw
from trace_bench.config.models import RunConfig
from trace_bench.config.objectives import direction_of
from trace_bench.identity import seed_commitment, test_seed
from trace_bench.matrix import Job
from trace_bench.sandbox.base import Backend, Integrity, Resources
from trace_bench.suites.spec import Task
from trace_bench.trainers.registry import entry_of, executes_candidates

DAY = 86_400.0
MARGIN = 300.0
"""Seconds, beyond all limits of a job, that its sandbox may be there."""


@dataclass(frozen=True)
class JobPlan:
    """All that running one job takes.

    Attributes:
        task: the task folder as a tar.
        test_seed: of held-out data; handed over after training.
        meta: the record so far (status ``planned``).
        states: of a job with ``states_given``: initial, best and final as JSON, as far as they are there.
        services: names of those of the host that it may ask.
        task_folder: where the task lies on the host.
    """

    spec: JobSpec
    task: bytes
    test_seed: int
    meta: JobMeta
    image_ref: str
    resources: Resources = field(default_factory=Resources)
    runtime: str | None = None
    require_controls: frozenset[str] = frozenset()
    allow_weaker: frozenset[str] = frozenset()
    states: bytes = b""
    services: tuple[str, ...] = ()
    task_folder: Path = field(default_factory=Path)


@dataclass(frozen=True)
class Material:
    """What the jobs of one task share; `blob` is its folder as a tar."""

    task: Task
    blob: bytes


def prepare(
    job: Job,
    material: Material,
    image: ImageRecord,
    fingerprint: str,
    *,
    config: RunConfig,
    run_id: str,
    salt: str,
    backend: Backend,
    created: str,
    stop_at: StopPoint | None = None,
) -> JobPlan:
    """`job` in full. `created` is when it was planned, in UTC; `stop_at` is where a replay of it ends."""
    task = material.task
    budget = Budget(**config.budget.model_dump(exclude={"run"}))
    limits = thaw(job.limits)
    sandbox = job.sandbox
    job_limits = JobLimits(
        job_timeout=limits["job_timeout"],
        score_timeout=limits["score_timeout"],
        out_bytes=sandbox.disk,
        memory_bytes=sandbox.memory,
        pids=sandbox.pids,
    )
    model = model_ref(job.model)
    objective = ObjectiveSpec(**job.objective)
    optimizer = OptimizerRef(id=job.optimizer, kwargs=thaw(job.optimizer_kwargs))
    eval_kwargs, params = thaw(job.eval_kwargs), thaw(job.params)
    spec = JobSpec(
        run_id=run_id,
        job_id=job.job_id,
        fingerprint=fingerprint,
        task=TaskRef(
            id=job.task_id,
            suite=job.suite,
            builder=task.suite.builder,
            spec=task.spec.raw,
            content_hash=task.content_hash,
            eval_kwargs=eval_kwargs,
        ),
        trainer=TrainerRef(id=job.trainer_id, entry=entry_of(job.trainer_id), params=params),
        optimizer=optimizer,
        guide=GuideRef(id=job.guide, kwargs=thaw(job.guide_kwargs)),
        seed=job.seed,
        mode=config.mode,
        model=model,
        budget=budget,
        limits=job_limits,
        objective=objective,
        stop_at=stop_at,
    )
    held_out = test_seed(salt, job.task_id, job.seed)
    meta = JobMeta(
        run_id=run_id,
        job_id=job.job_id,
        fingerprint=fingerprint,
        task_id=job.task_id,
        suite=job.suite,
        task_hash=task.content_hash,
        score_direction=direction_of(job.objective),
        tolerance=task.spec.tolerance,
        timing_sensitive=task.spec.timing_sensitive,
        eval_kwargs=eval_kwargs,
        trainer_id=job.trainer_id,
        variant=job.variant.label,
        raw_params=thaw(job.raw_params),
        params=params,
        optimizer=optimizer,
        guide=job.guide,
        guide_kwargs=thaw(job.guide_kwargs),
        logger=job.logger,
        seed=job.seed,
        mode=config.mode,
        model=model,
        budget=budget,
        limits=job_limits,
        objective=objective,
        image=image,
        backend=backend.name,
        integrity=integrity_of(job, backend.integrity),
        created_at=created,
        test_seed_commitment=seed_commitment(salt, held_out),
    )
    return JobPlan(
        spec=spec,
        task=material.blob,
        test_seed=held_out,
        meta=meta,
        image_ref=image.ref,
        resources=resources_of(job),
        runtime=sandbox.runtime,
        require_controls=frozenset(sandbox.require_controls),
        allow_weaker=frozenset(sandbox.allow_weaker),
        services=material.task.suite.services,
        task_folder=material.task.folder,
    )


def most_seconds(limits: JobLimits, lease: float) -> float | None:
    """The longest that a job with `limits` can take: build, train and score, each with its patience, and until it is
    collected; None without a limit."""
    if limits.job_timeout is None or limits.score_timeout is None:
        return None
    return limits.job_timeout + 2 * limits.score_timeout + 2 * lease + MARGIN


def outlives_a_day(job: Job, mode: str) -> bool:
    """Whether the limits of `job` let it take longer than a day; one without limits can where it asks real models."""
    limits = thaw(job.limits)
    timeouts = JobLimits(job_timeout=limits["job_timeout"], score_timeout=limits["score_timeout"])
    seconds = most_seconds(timeouts, 0.0)
    return mode == "real" if seconds is None else seconds > DAY


def integrity_of(job: Job, of_backend: Integrity) -> Integrity:
    """What the results of `job` are worth on a backend: what its trainer or its task may execute itself counts."""
    return "unprotected" if job.executes_candidates or executes_candidates(job.trainer_id) else of_backend


def resources_of(job: Job) -> Resources:
    sandbox = job.sandbox
    return Resources(
        cpus=sandbox.cpus,
        memory_bytes=sandbox.memory,
        disk_bytes=sandbox.disk,
        tmp_bytes=sandbox.tmp,
        pids=sandbox.pids,
        gpus=sandbox.gpus,
    )


def model_ref(identity: Mapping[str, Any]) -> ModelRef:
    """The model of a job's identity, as records have it."""
    plain = thaw(identity)
    return ModelRef(
        id=plain["id"],
        provider=plain.get("provider", "stub"),
        model=plain.get("model", plain["id"]),
        sampling=plain.get("sampling", {}),
    )
