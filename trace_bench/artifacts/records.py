"""The host's records of jobs and runs as models; the rules are those of `trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.contract import (
    Budget,
    Count,
    Direction,
    Integrity,
    JobLimits,
    Json,
    Metrics,
    Mode,
    Model,
    ModelRef,
    Name,
    ObjectiveSpec,
    OptimizerRef,
    Seconds,
    Status,
    StopPoint,
    StopReason,
    Usd,
    UtcTime,
)
from trace_bench.artifacts.outputs import Failure, StateKind, WorkerEvidence, WorkerIntegrity
from trace_bench.errors import Boundary

SchemaVersion = Annotated[int, Field(ge=1)]
"""Files of before it was written down do not have it."""


class ImageRecord(Model):
    """The image of a job. `key` is identity, `image_id` is evidence only (see DESIGN "Identity"). `plugins` are
    packages whose files it holds beside the worker: name to version, and commit where there is one."""

    family: str
    ref: str
    key: str
    image_id: str = ""
    base: str = ""
    built_at: str = ""
    repo_digest: str | None = None
    plugins: dict[str, str] = {}


class ControlRecord(Model):
    """One hardening control: what was wanted and what is in force."""

    name: str
    wanted: str
    in_force: bool
    detail: str = ""


class IntegrityReport(WorkerIntegrity):
    """The evidence about the trust in a job's scores.

    Attributes:
        flags: words of `trace_bench.records.integrity.FLAGS`, none where there is nothing to look at.
        found: by state, what the scorer found over the examples of its claim.
    """

    flags: tuple[Name, ...] = ()
    found: dict[StateKind, float] = {}


class AttemptEvidence(Model):
    """The evidence about the end of an attempt's sandbox. Unknown values are None or empty.

    Attributes:
        error: what ended the session, as a kind of failure; empty if it was complete.
        message: the same in words.
        state: of the sandbox when that was met, before the controller ended it.
        exit_code: 128 + signal where it was killed.
        oom_killed: as the engine has it: some process was killed for want of memory, no matter which.
        engine_error: what the engine says besides.
        last_words: the last line on stderr.
        phase: the last phase that was at work, by the supervisor's events.
        failure: the first failure that the supervisor had noted in its events.
        worker: what it says in its result; None if there is none.
    """

    error: str = ""
    message: str = ""
    state: Literal["created", "running", "exited", "removed"] | None = None
    exit_code: int | None = None
    oom_killed: bool | None = None
    engine_error: str = ""
    last_words: str = ""
    phase: str = ""
    failure: Failure | None = None
    worker: WorkerEvidence | None = None


class Attempt(Model):
    """One try of a job; its evidence lies under ``attempts/<number>/``. `host` is as in `JobMeta`."""

    number: Annotated[int, Field(ge=1)]
    started_at: UtcTime
    ended_at: UtcTime | None = None
    status: Literal["running", "ok", "failed", "interrupted"] = "running"
    failure: Failure | None = None
    sandbox_id: str = ""
    host: str | None = None
    evidence: AttemptEvidence | None = None


class JobMeta(Model):
    """``job_meta.json``: what a job is, where it ran, and its outcome.

    Attributes:
        host: name of the host that its last attempt was on; None where the backend has but one.
        usage: of all its attempts. `usage_by_phase`: each phase's share (``other``: from no phase of ours).
        cut_by_run_budget: the run's budget ended its training.
        devices, cpuset: names of the GPUs, and numbers of the cores, that its last sandbox had on its host.
        tolerance: relative, of the task: what a score may differ by elsewhere.
        timing_sensitive: its scores depend on how fast the machine is, says the task.
        memo, reader: see `JobSpec`. False and 1 in records of earlier versions.
        test_seed_commitment: `trace_bench.identity.seed_commitment` of the seed of held-out data that the scorer gets.
    """

    run_id: str
    job_id: str
    fingerprint: str
    task_id: str
    suite: str
    task_hash: str
    score_direction: Direction
    tolerance: Annotated[float, Field(ge=0)] = 1e-9
    timing_sensitive: bool = False
    memo: bool = False
    reader: int = 1
    eval_kwargs: Json = {}
    trainer_id: str
    variant: str
    raw_params: Json = {}
    params: Json = {}
    optimizer: OptimizerRef
    guide: str = ""
    guide_kwargs: Json = {}
    logger: str = ""
    logger_kwargs: Json = {}
    seed: int
    mode: Mode
    model: ModelRef
    budget: Budget = Budget()
    limits: JobLimits = JobLimits()
    objective: ObjectiveSpec = ObjectiveSpec()
    image: ImageRecord | None = None
    backend: str = ""
    host: str | None = None
    integrity: Integrity
    controls: tuple[ControlRecord, ...] = ()
    devices: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    cpu_model: str = ""
    attempts: tuple[Attempt, ...] = ()
    created_at: UtcTime
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    status: Literal["planned", "running", "ok", "failed", "skipped"] = "planned"
    stop_reason: StopReason | None = None
    stop_point: StopPoint | None = None
    cut_by_run_budget: bool = False
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    integrity_report: IntegrityReport = IntegrityReport()
    usage: Usage = Usage()
    usage_by_phase: dict[Name, Usage] = {}
    test_seed_commitment: str | None = None


class Results(Model):
    """``results.json`` and one row of ``results.csv``, columns in this order.

    `score_initial`, `score_final` and `score_best` are official means on the validation split, or on the training split
    of a task without one; `score_test` is the best state's on held-out data. `score_claimed` is what training said of
    the best state, and counts for nothing. All are values of the `objective`; `metrics_…` are official means of each
    metric on the same splits (`metrics_test` of the best state), natural units, and `hypervolume` is that of
    ``pareto.json``. `integrity_flags` are words of `trace_bench.records.integrity.FLAGS`, with a space between. Paths
    are relative to the run. `llm_calls` and all that is counted with it is what `Usage` says. `evaluations` and
    `train_seconds` are what training spent over all its attempts; rows of earlier versions, which have no
    `score_evaluations`, count the scorer's evaluations among them. `hardware` is what the scores of a
    ``timing_sensitive`` task were measured on (`Hardware.name`), empty for others: scores of different hardware are in
    no common mean. See `WorkerResult` for the last three."""

    run_id: str
    job_id: str
    task_id: str
    suite: str
    trainer_id: str
    variant: str
    seed: int
    status: Status
    failure_kind: str | None = None
    stop_reason: StopReason | None = None
    integrity: Integrity
    score_initial: float | None = None
    score_final: float | None = None
    score_best: float | None = None
    score_test: float | None = None
    score_direction: Direction
    time_seconds: Seconds | None = None
    evaluations: Count = 0
    llm_calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    total_tokens: Count = 0
    cost_usd: Usd = 0.0
    resolved_optimizer: str
    resolved_optimizer_kwargs: Json = {}
    resolved_guide: str = ""
    resolved_guide_kwargs: Json = {}
    resolved_logger: str = ""
    resolved_logger_kwargs: Json = {}
    resolved_trainer_kwargs: Json = {}
    eval_kwargs: Json = {}
    model: str
    llm_provider: str = ""
    llm_model: str = ""
    image_key: str | None = None
    backend: str = ""
    fingerprint: str
    failure_boundary: Boundary | None = None
    feedback: str = ""
    stub_inert: bool = False
    cut_by_run_budget: bool = False
    llm_tries: Count = 0
    llm_reused: Count = 0
    llm_cached: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    score_claimed: float | None = None
    integrity_flags: str = ""
    score_evaluations: Count = 0
    train_seconds: Seconds | None = None
    objective: str = "scalar"
    metrics_initial: Metrics = {}
    metrics_final: Metrics = {}
    metrics_best: Metrics = {}
    metrics_test: Metrics = {}
    hypervolume: float | None = None
    hardware: str = ""
    initial_state_path: str | None = None
    best_state_path: str | None = None
    final_state_path: str | None = None
    state_history_path: str | None = None
    pareto_path: str | None = None
    tb_logdir: str | None = None
    evaluations_saved: Count | None = None
    search_answers: Count | None = None
    unusable_answers: dict[Name, Count] | None = None


class ManifestEntry(Model):
    """A planned job.

    Attributes:
        decision: what the plan does about it: ``run``, ``reuse`` an equal result, ``adopt`` a sandbox that a dead
            controller left, or ``skip``; `decision_reason` says why.
        status: None until it has one; ``not_executed`` exists only here (its row says ``skipped``).
        reason: why it is not ok, or why training ended where it is.
    """

    job_id: str
    task_id: str
    suite: str
    trainer_id: str
    variant: str
    seed: int
    fingerprint: str
    integrity: Integrity
    score_direction: Direction
    decision: Literal["run", "reuse", "adopt", "skip"] = "run"
    decision_reason: str = ""
    raw_params: Json = {}
    resolved_optimizer: str
    resolved_optimizer_kwargs: Json = {}
    resolved_guide: str = ""
    resolved_guide_kwargs: Json = {}
    resolved_logger: str = ""
    resolved_logger_kwargs: Json = {}
    resolved_trainer_kwargs: Json = {}
    eval_kwargs: Json = {}
    model: str
    status: Literal["ok", "failed", "skipped", "not_executed"] | None = None
    reason: str | None = None


class Manifest(Model):
    """``manifest.json``: every job of the run, in the order of the plan; written before the first one
    starts. `schema_version` is that of all files of the run (`trace_bench.artifacts.versions`)."""

    schema_version: SchemaVersion = 1
    run_id: str
    config_hash: str
    generated_at: UtcTime
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    jobs: tuple[ManifestEntry, ...]


class ModelPrices(Model):
    """US dollars per million tokens; `cached` is of prompt tokens that the provider had in its cache, None the price of
    `prompt`."""

    prompt: Usd
    completion: Usd = 0.0
    cached: Usd | None = None


class Lock(Model):
    """``lock.json``: everything that determines a run.

    `prices` are those that were known when the run was planned first, by the model's id. The config's decide the cost.
    `salt` (hex) makes the test seeds; it is None until the run has ended, when no job can profit from it any
    more. `salt_commitment` (`trace_bench.identity.salt_commitment`) is there from the start. `schema_version`: as in
    the manifest."""

    schema_version: SchemaVersion = 1
    run_id: str
    config_hash: str
    code_version: str
    sources_hash: str
    images: dict[str, ImageRecord]
    packages: dict[str, str] = {}
    tasks: dict[str, str]
    models: tuple[ModelRef, ...] = ()
    prices: dict[str, ModelPrices] = {}
    salt: str | None = None
    salt_commitment: str | None = None


class EnvInfo(Model):
    """``env.json``: allow-listed variables with secrets masked whole, versions, and the backend as it
    describes itself."""

    captured_at: UtcTime
    env: dict[str, str]
    python_version: str
    platform: str
    cpu_model: str = ""
    packages: dict[str, str] = {}
    backend: dict[str, Any] = {}


class GitInfo(Model):
    """``git.json`` of the code that ran; all None outside a repository."""

    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None
