"""Prepare a planned job for an attempt: its ``job.json``, its record so far, and the limits of its sandbox.

Done when the job starts: a plan of a hundred thousand jobs holds only a `PlannedJob` of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    State,
    TaskRef,
    TrainerRef,
)
from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.outputs import StateKind
from trace_bench.artifacts.records import ImageRecord, JobMeta
from trace_bench.config.frozen import thaw
from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.config.objectives import direction_of
from trace_bench.identity import seed_commitment, test_seed
from trace_bench.matrix import Job
from trace_bench.sandbox.base import Backend, Integrity, Resources
from trace_bench.suites.spec import Task
from trace_bench.trainers.registry import entry_of, executes_candidates, remembered_by_itself
from trace_bench.worker.answer_text import READER

DAY = 86_400.0
MARGIN = 300.0
"""Seconds that a sandbox may exist beyond all limits of its job."""


@dataclass(frozen=True)
class PreparedJob:
    """Everything that an attempt at one job needs.

    Attributes:
        task: the task folder as a tar.
        test_seed: of held-out data; handed over after training.
        meta: the record so far (status ``planned``).
        states: of a job with ``states_given``: initial, best and final as JSON, as far as they exist.
        services: names of the services of the host that it may call.
        task_folder: the task's folder on the host.
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


def prepare(  # long, as it lists the fields of three values
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
    recorded: JobMeta | None = None,
) -> PreparedJob:
    """Make ``job.json``, the record and the limits of the sandbox for attempts at `job`.

    Args:
        created: when it was planned, in UTC.
        recorded: of a replay: the record of the job, which says where training ends, and whether known evaluations
            were made again.
    """
    task, sandbox = material.task, job.sandbox
    spec = _spec(job, task, fingerprint, config, run_id, recorded)
    held_out = test_seed(salt, job.task_id, job.seed)
    meta = JobMeta(
        **{name: getattr(spec, name) for name in _OF_SPEC},
        task_id=job.task_id,
        suite=job.suite,
        task_hash=task.content_hash,
        score_direction=direction_of(job.objective),
        tolerance=task.spec.tolerance,
        timing_sensitive=task.spec.timing_sensitive,
        eval_kwargs=spec.task.eval_kwargs,
        trainer_id=job.trainer_id,
        variant=job.variant.label,
        raw_params=thaw(job.raw_params),
        params=spec.trainer.params,
        guide=job.guide,
        guide_kwargs=spec.guide.kwargs,
        logger=job.logger,
        image=image,
        backend=backend.name,
        integrity=integrity_of(job, backend.integrity),
        created_at=created,
        test_seed_commitment=seed_commitment(salt, held_out),
    )
    return PreparedJob(
        spec=spec,
        task=material.blob,
        test_seed=held_out,
        meta=meta,
        image_ref=image.ref,
        resources=_resources(sandbox),
        runtime=sandbox.runtime,
        require_controls=frozenset(sandbox.require_controls),
        allow_weaker=frozenset(sandbox.allow_weaker),
        services=task.suite.services,
        task_folder=task.folder,
    )


def scoring_only(prepared: PreparedJob, run: str, states: Mapping[StateKind, State]) -> PreparedJob:
    """`prepared` as a job of `run` that scores `states`, and trains nothing."""
    spec = prepared.spec.model_copy(update={"run_id": run, "states_given": True})
    meta = prepared.meta.model_copy(update={"run_id": run})
    return replace(prepared, spec=spec, meta=meta, states=dumps(dict(states)).encode())


_OF_SPEC = (
    *("run_id", "job_id", "fingerprint", "optimizer", "seed", "mode", "model"),
    *("budget", "limits", "objective", "memo", "reader"),
)
"""Fields of a job's record that are those of its ``job.json``."""


def _spec(job: Job, task: Task, fingerprint: str, config: RunConfig, run_id: str, recorded: JobMeta | None) -> JobSpec:
    limits, sandbox = thaw(job.limits), job.sandbox
    return JobSpec(
        run_id=run_id,
        job_id=job.job_id,
        fingerprint=fingerprint,
        task=TaskRef(
            id=job.task_id,
            suite=job.suite,
            builder=task.builder,
            spec=task.spec.raw,
            content_hash=task.content_hash,
            eval_kwargs=thaw(job.eval_kwargs),
        ),
        trainer=TrainerRef(id=job.trainer_id, entry=entry_of(job.trainer_id), params=thaw(job.params)),
        optimizer=OptimizerRef(id=job.optimizer, kwargs=thaw(job.optimizer_kwargs)),
        guide=GuideRef(id=job.guide, kwargs=thaw(job.guide_kwargs)),
        seed=job.seed,
        mode=config.mode,
        model=model_ref(job.model),
        budget=job_budget(config),
        limits=JobLimits(
            job_timeout=limits["job_timeout"],
            score_timeout=limits["score_timeout"],
            out_bytes=sandbox.disk,
            memory_bytes=sandbox.memory,
            pids=sandbox.pids,
        ),
        objective=ObjectiveSpec(**job.objective),
        stop_at=recorded.stop_point if recorded is not None else None,
        memo=task.spec.repeats if recorded is None else _remembered(recorded),
        reader=READER if recorded is None else recorded.reader,
    )


def _remembered(recorded: JobMeta) -> bool:
    if "memo" in recorded.model_fields_set:
        return recorded.memo
    return remembered_by_itself(recorded.trainer_id, recorded.params)  # the record is of an earlier version


def _resources(sandbox: SandboxConfig) -> Resources:
    return Resources(
        cpus=sandbox.cpus,
        memory_bytes=sandbox.memory,
        disk_bytes=sandbox.disk,
        tmp_bytes=sandbox.tmp,
        pids=sandbox.pids,
        gpus=sandbox.gpus,
    )


def job_budget(config: RunConfig) -> Budget:
    """The budget of each job: that of the config without the run's."""
    return Budget(**config.budget.model_dump(exclude={"run"}))


def most_seconds(limits: JobLimits, lease: float) -> float | None:
    """The longest time that an attempt with `limits` can take, from build to collection; None without a limit."""
    if limits.job_timeout is None or limits.score_timeout is None:
        return None
    return limits.job_timeout + 2 * limits.score_timeout + 2 * lease + MARGIN


def outlives_a_day(job: Job, mode: str) -> bool:
    """Whether the limits of `job` allow more than a day. A job without limits may take that with real models."""
    limits = thaw(job.limits)
    timeouts = JobLimits(job_timeout=limits["job_timeout"], score_timeout=limits["score_timeout"])
    seconds = most_seconds(timeouts, 0.0)
    return mode == "real" if seconds is None else seconds > DAY


def integrity_of(job: Job, of_backend: Integrity) -> Integrity:
    """The integrity of the results of `job` on a backend. Trainers and tasks that execute candidates lower it."""
    return "unprotected" if job.executes_candidates or executes_candidates(job.trainer_id) else of_backend


def model_ref(identity: Mapping[str, Any]) -> ModelRef:
    """The model of a job's identity, as records have it."""
    plain = thaw(identity)
    return ModelRef(
        id=plain["id"],
        provider=plain.get("provider", "stub"),
        model=plain.get("model", plain["id"]),
        sampling=plain.get("sampling", {}),
    )
