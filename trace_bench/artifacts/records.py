"""The host's records of jobs and runs as models; the rules are those of `trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.contract import (
    Budget,
    Calls,
    Count,
    Direction,
    EvalKwargs,
    Evaluations,
    Fingerprint,
    Hypervolume,
    Integrity,
    JobId,
    JobLimits,
    Json,
    Metrics,
    Mode,
    Model,
    ModelRef,
    Name,
    ObjectiveSpec,
    OptimizerRef,
    RunId,
    Score,
    Seconds,
    Seed,
    Status,
    StopPoint,
    StopReason,
    SuiteName,
    TaskId,
    Tokens,
    TrainerId,
    Usd,
    UsdPerMillion,
    UtcTime,
    Variant,
)
from trace_bench.artifacts.outputs import Failure, StateKind, WorkerEvidence, WorkerIntegrity
from trace_bench.config.values import measured
from trace_bench.errors import Boundary

SchemaVersion = Annotated[
    int,
    Field(ge=1, description="Version of all files of the run (`trace_bench.artifacts.versions`). The first had none."),
]
OptimizerName = Annotated[str, Field(description="Optimizer of the trainer; `none` where it uses none.")]
OptimizerKwargs = Annotated[Json, Field(description="Arguments of the optimizer, defaults filled in.")]
GuideName = Annotated[str, Field(description="Guide that words the feedback; `default` is the task's own.")]
GuideKwargs = Annotated[Json, Field(description="Arguments of the guide, defaults filled in.")]
LoggerName = Annotated[str, Field(description="Logger of the trainer.")]
LoggerKwargs = Annotated[Json, Field(description="Arguments of the logger.")]
TrainerKwargs = Annotated[Json, Field(description="Every parameter of the trainer, defaults filled in.")]
ModelName = Annotated[str, Field(description="Name of the model.")]


class ImageRecord(Model):
    """The image of a job. `key` is identity, `image_id` is evidence only (see DESIGN "Identity")."""

    family: str
    """Image family, such as `core`."""
    ref: str
    """Reference by which the engine knows the image."""
    key: str
    """Hash of the recipe, or digest in the registry: the identity of the image."""
    image_id: str = ""
    """Id of the image on its engine."""
    base: str = ""
    """Base image."""
    built_at: str = ""
    """Time of the build, as the engine reports it; empty if unknown."""
    repo_digest: str | None = None
    """Digest in the registry; null if the image was not pulled or pushed."""
    plugins: dict[str, str] = {}
    """Packages in the image beside the worker: name to version, and commit where there is one."""


class ControlRecord(Model):
    """One hardening control: the wanted value and the effect."""

    name: str
    """Name of the control (`docs/reference/sandbox-controls.md`)."""
    wanted: str
    """Wanted value."""
    in_force: bool
    """The control is in force."""
    detail: str = ""
    """Value that was found, or why the control is missing."""


class IntegrityReport(WorkerIntegrity):
    """The evidence about the trust in a job's scores."""

    flags: tuple[Name, ...] = ()
    """Words of `trace_bench.records.integrity.FLAGS`: reasons to inspect the job."""
    found: dict[StateKind, Score] = {}
    """Score that the scorer found over the examples of each claim, by state."""


class AttemptEvidence(Model):
    """The evidence about the end of an attempt's sandbox. Unknown values are null or empty."""

    error: str = ""
    """Kind of failure that ended the session; empty if it was complete."""
    message: str = ""
    """The same in a sentence."""
    state: Literal["created", "running", "exited", "removed"] | None = None
    """State of the sandbox at that time, before the controller ended it."""
    exit_code: int | None = None
    """Exit code of the sandbox; 128 + number of the signal that killed it."""
    oom_killed: bool | None = None
    """The engine reports that some process was killed for lack of memory."""
    engine_error: str = ""
    """Further error that the engine reports."""
    last_words: str = ""
    """Last line on the sandbox's stderr."""
    phase: str = ""
    """Last phase at work, by the supervisor's events."""
    failure: Failure | None = None
    """First failure in the supervisor's events."""
    worker: WorkerEvidence | None = None
    """Evidence in the sandbox's result; null if there is no result."""


class Attempt(Model):
    """One try of a job; its evidence lies under ``attempts/<number>/``."""

    number: Annotated[int, Field(ge=1)]
    """Number of the attempt, from 1."""
    started_at: UtcTime
    """Time of its start."""
    ended_at: UtcTime | None = None
    """Time of its end; null while it runs."""
    status: Literal["running", "ok", "failed", "interrupted"] = "running"
    """Status of the attempt."""
    failure: Failure | None = None
    """Failure of the attempt; null if there is none."""
    sandbox_id: str = ""
    """Id of its sandbox at the backend."""
    host: str | None = None
    """Name of its host; null where the backend has only one."""
    evidence: AttemptEvidence | None = None
    """Evidence about the end of its sandbox; null while it runs."""


class JobMeta(Model):
    """``job_meta.json``: the definition of a job, its place, and its outcome."""

    run_id: RunId
    job_id: JobId
    fingerprint: Fingerprint
    task_id: TaskId
    suite: SuiteName
    task_hash: str
    """SHA-256 of the task's files."""
    score_direction: Direction
    tolerance: Annotated[float, Field(ge=0), measured("dimensionless")] = 1e-9
    """Relative difference that a score may show on another machine, by the task."""
    timing_sensitive: bool = False
    """The task's scores depend on the speed of the machine."""
    memo: bool = False
    """Known evaluations were not made again (see `JobSpec`). False in records of earlier versions."""
    reader: int = 1
    """Version of the rules by which answers were read (see `JobSpec`). 1 in records of earlier versions."""
    eval_kwargs: EvalKwargs = {}
    trainer_id: TrainerId
    variant: Variant
    raw_params: Json = {}
    """Parameters as the variant gives them."""
    params: Json = {}
    """Every parameter of the trainer, defaults filled in."""
    optimizer: OptimizerRef
    """Optimizer of the trainer."""
    guide: str = ""
    """Name of the guide."""
    guide_kwargs: Json = {}
    """Arguments of the guide, defaults filled in."""
    logger: str = ""
    """Name of the logger."""
    logger_kwargs: Json = {}
    """Arguments of the logger."""
    seed: Seed
    mode: Mode
    """Source of the model's answers: the built-in stub, a provider, or a recorded run."""
    model: ModelRef
    """Model of the job."""
    budget: Budget = Budget()
    """Limits on what the job spends."""
    limits: JobLimits = JobLimits()
    """Limits on time, memory and output."""
    objective: ObjectiveSpec = ObjectiveSpec()
    """Objective by which states are compared."""
    image: ImageRecord | None = None
    """Image of the job; null where it has none."""
    backend: str = ""
    """Backend of its sandboxes, such as `docker`."""
    host: str | None = None
    """Name of the host of its last attempt; null where the backend has only one."""
    integrity: Integrity
    controls: tuple[ControlRecord, ...] = ()
    """Hardening controls of its last sandbox."""
    devices: tuple[str, ...] = ()
    """Names of the GPUs that were leased to its last sandbox."""
    cpuset: tuple[int, ...] = ()
    """Numbers of the cores that were leased to its last sandbox."""
    cpu_model: str = ""
    """CPU that the sandbox saw, or the controller's own where the sandbox left no result."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts of the job, in order."""
    created_at: UtcTime
    """Time at which the record was made."""
    started_at: UtcTime | None = None
    """Time of the first attempt's start; null before it."""
    ended_at: UtcTime | None = None
    """Time of the last attempt's end; null before it."""
    status: Literal["planned", "running", "ok", "failed", "skipped"] = "planned"
    """Status of the job."""
    stop_reason: StopReason | None = None
    """Reason that training ended; null if it never began."""
    stop_point: StopPoint | None = None
    """Point where training was ended; null if it finished by itself."""
    cut_by_run_budget: bool = False
    """The run's budget ended its training."""
    failure: Failure | None = None
    """Failure of the job; null if there is none."""
    warnings: tuple[str, ...] = ()
    """Warnings about the job."""
    integrity_report: IntegrityReport = IntegrityReport()
    """Evidence about the trust in its scores."""
    usage: Usage = Usage()
    """Usage of models in all attempts."""
    usage_by_phase: dict[Name, Usage] = {}
    """Usage of each phase; `other` is usage outside of the phases."""
    test_seed_commitment: str | None = None
    """HMAC, under the run's salt, of the seed of held-out data (`trace_bench.identity.seed_commitment`); null in
    records of earlier versions."""


class Results(Model):
    """``results.json`` and one row of ``results.csv``, columns in this order. Paths are relative to the run."""

    run_id: RunId
    job_id: JobId
    task_id: TaskId
    suite: SuiteName
    trainer_id: TrainerId
    variant: Variant
    seed: Seed
    status: Status
    """Status of the job. `skipped` jobs were not executed."""
    failure_kind: str | None = None
    """Short word for the failure; null if there is none."""
    stop_reason: StopReason | None = None
    """Reason that training ended, apart from `status`; null if it never began. An interrupted job is left out of the
    leaderboard, and runs again when the run is continued."""
    integrity: Integrity
    score_initial: Score | None = None
    """Official mean score of the state before training, on the validation split, or on the training split of a task
    without one."""
    score_final: Score | None = None
    """Official mean score of the state at the end of the search, on the same split."""
    score_best: Score | None = None
    """Official mean score of the best state of the search, on the same split."""
    score_test: Score | None = None
    """Official mean score of the best state on held-out data."""
    score_direction: Direction
    time_seconds: Seconds | None = None
    """Wall time of the job's last attempt, as the host measured it."""
    evaluations: Evaluations = 0
    """Evaluations in training, over all attempts, each once; `budget.evaluations` limits them. Rows of earlier versions
    without `score_evaluations` include the scorer's."""
    llm_calls: Calls = 0
    """Calls that a provider or the response cache answered, over all attempts, as the gateway counted them."""
    prompt_tokens: Tokens = 0
    """Tokens of prompts over all attempts."""
    completion_tokens: Tokens = 0
    """Tokens of answers over all attempts."""
    total_tokens: Tokens = 0
    """Sum of `prompt_tokens` and `completion_tokens`."""
    cost_usd: Usd = 0.0
    """Cost of calls over all attempts."""
    resolved_optimizer: OptimizerName
    resolved_optimizer_kwargs: OptimizerKwargs = {}
    resolved_guide: GuideName = ""
    resolved_guide_kwargs: GuideKwargs = {}
    resolved_logger: LoggerName = ""
    resolved_logger_kwargs: LoggerKwargs = {}
    resolved_trainer_kwargs: TrainerKwargs = {}
    eval_kwargs: EvalKwargs = {}
    model: ModelName
    llm_provider: str = ""
    """Provider of the model."""
    llm_model: str = ""
    """Name of the model at its provider."""
    image_key: str | None = None
    """Identity of the image: hash of its recipe, or digest in the registry; null where the job has no image."""
    backend: str = ""
    """Backend of its sandboxes, such as `docker`."""
    fingerprint: Fingerprint
    failure_boundary: Boundary | None = None
    """Side at fault: config, task, trainer, candidate, provider, sandbox or harness; null if nothing failed."""
    feedback: str = ""
    """Reason of the failure, or the guide's words on the best state, never on held-out data."""
    stub_inert: bool = False
    """The stub model got only requests for which it could change nothing: nothing was optimized."""
    cut_by_run_budget: bool = False
    """The run's budget ended its training. Such a job is left out of the leaderboard, and runs again when the run is
    continued with a larger budget."""
    llm_tries: Count = 0
    """Number of requests to the provider, retries and requests of calls without an answer included."""
    llm_reused: Calls = 0
    """Calls answered from the job's own cassette; they count nowhere else."""
    llm_cached: Calls = 0
    """Calls answered from the response cache, part of `llm_calls`; they cost nothing."""
    cached_tokens: Tokens = 0
    """Prompt tokens from the cache of the provider, part of `prompt_tokens`."""
    reasoning_tokens: Tokens = 0
    """Reasoning tokens, part of `completion_tokens`."""
    score_claimed: Score | None = None
    """Mean score that training claims for the best state, over the examples that it tried, which can be fewer than
    those of `score_best`. It is no result. Null where scores were withheld."""
    integrity_flags: str = ""
    """Words of `trace_bench.records.integrity.FLAGS`, separated by spaces: reasons to inspect the job before it is
    quoted; empty if there are none."""
    score_evaluations: Evaluations = 0
    """Evaluations by the scorer in its last attempt. No budget counts them."""
    train_seconds: Seconds | None = None
    """Training time over all attempts, as far as it is known; `budget.seconds` limits it."""
    objective: str = "scalar"
    """Mode of the objective: `scalar`, `weighted` or `pareto`. All of it is in `job_meta.json`."""
    metrics_initial: Metrics = {}
    """Official mean of each metric for the state of `score_initial`, on the same split; empty for a task without
    metrics. `score` is the task's own score."""
    metrics_final: Metrics = {}
    """Official mean of each metric for the state of `score_final`, on the same split."""
    metrics_best: Metrics = {}
    """Official mean of each metric for the state of `score_best`, on the same split."""
    metrics_test: Metrics = {}
    """Official mean of each metric for the best state on held-out data."""
    hypervolume: Hypervolume | None = None
    """Hypervolume of the front in `pareto.json`, as training saw it; null where there is none."""
    hardware: str = ""
    """Hardware of a `timing_sensitive` task's scores: CPU, number of CPUs, GPUs with their driver, version of PyTorch.
    Scores of different hardware are in no common mean. Empty for other tasks, and in rows of earlier versions."""
    initial_state_path: str | None = None
    """Path of the state before training; null if there is none."""
    best_state_path: str | None = None
    """Path of the best state; null if there is none."""
    final_state_path: str | None = None
    """Path of the final state; null if there is none."""
    state_history_path: str | None = None
    """Path of the history of states; null if there is none."""
    pareto_path: str | None = None
    """Path of the front; null if there is none."""
    tb_logdir: str | None = None
    """Folder of the event files for TensorBoard; null if there is none."""
    evaluations_saved: Evaluations | None = None
    """Evaluations that training asked for and that were known already, so that they were neither made nor counted; null
    where none are remembered."""
    search_answers: Count | None = None
    """Number of answers of the model to the search of the last attempt, reused ones included. Calls of a program under
    improvement, and embeddings, do not count. Null where the search asked for nothing."""
    unusable_answers: dict[Name, Count] | None = None
    """Number of these answers that the search could not use, by kind, such as `{"cut_off": 9}`; null as
    `search_answers`."""
    scoring_calls: Calls | None = None
    """Calls of official scoring, part of `llm_calls`. No budget of the job counts them. Null where scoring asked no
    model."""


class ManifestEntry(Model):
    """A planned job."""

    job_id: JobId
    task_id: TaskId
    suite: SuiteName
    trainer_id: TrainerId
    variant: Variant
    seed: Seed
    fingerprint: Fingerprint
    integrity: Integrity
    score_direction: Direction
    decision: Literal["run", "reuse", "adopt", "skip"] = "run"
    """Plan for the job: `run`, `reuse` an equal result, `adopt` a sandbox that a dead controller left, or `skip`."""
    decision_reason: str = ""
    """Reason of the decision."""
    raw_params: Json = {}
    """Parameters as the variant gives them."""
    resolved_optimizer: OptimizerName
    resolved_optimizer_kwargs: OptimizerKwargs = {}
    resolved_guide: GuideName = ""
    resolved_guide_kwargs: GuideKwargs = {}
    resolved_logger: LoggerName = ""
    resolved_logger_kwargs: LoggerKwargs = {}
    resolved_trainer_kwargs: TrainerKwargs = {}
    eval_kwargs: EvalKwargs = {}
    model: ModelName
    status: Literal["ok", "failed", "skipped", "not_executed"] | None = None
    """Status of the job; null before it has one. `not_executed` exists only here: the row in `results.csv` says
    `skipped`."""
    reason: str | None = None
    """Kind of a failed job's failure, stop reason of an `ok` job, or what kept the job from running."""


class Manifest(Model):
    """``manifest.json``: every job of the run, in the order of the plan; written before the first one starts."""

    schema_version: SchemaVersion = 1
    run_id: RunId
    config_hash: str
    """Hash of the resolved config and of its tasks."""
    generated_at: UtcTime
    """Time of the plan."""
    tags: tuple[str, ...] = ()
    """Tags of the config."""
    warnings: tuple[str, ...] = ()
    """Warnings about the config and the plan."""
    jobs: tuple[ManifestEntry, ...]
    """Every planned job, in the order task, trainer, variant, model, seed."""


class ModelPrices(Model):
    """The prices of a model."""

    prompt: UsdPerMillion
    """Price of prompts."""
    completion: UsdPerMillion = 0.0
    """Price of answers."""
    cached: UsdPerMillion | None = None
    """Price of prompt tokens that the provider had in its cache; null is the price of `prompt`."""


class Lock(Model):
    """``lock.json``: everything that determines a run."""

    schema_version: SchemaVersion = 1
    run_id: RunId
    config_hash: str
    """Hash of the resolved config and of its tasks."""
    code_version: str
    """Version of Trace-Bench."""
    sources_hash: str
    """Hash of the code that runs in sandboxes."""
    images: dict[str, ImageRecord]
    """Image of each family."""
    packages: dict[str, str] = {}
    """Versions of the host's packages."""
    tasks: dict[str, str]
    """SHA-256 of the files of each task, by id."""
    models: tuple[ModelRef, ...] = ()
    """Models of the run."""
    prices: dict[str, ModelPrices] = {}
    """Prices by the model's id, as known when the run was planned first. Prices in the config decide the cost."""
    salt: str | None = None
    """Salt (hexadecimal) of the seeds of held-out data; null until the run has ended, when no job can profit from
    it."""
    salt_commitment: str | None = None
    """Hash of the salt (`trace_bench.identity.salt_commitment`), known from the start."""


class EnvInfo(Model):
    """``env.json``: the machine and its settings."""

    captured_at: UtcTime
    """Time of the record."""
    env: dict[str, str]
    """Allow-listed environment variables; values of secrets are masked."""
    python_version: str
    """Version of Python."""
    platform: str
    """System, release, machine and C library."""
    cpu_model: str = ""
    """Model name of the first processor; empty if unknown."""
    packages: dict[str, str] = {}
    """Versions of Trace-Bench and its packages."""
    backend: dict[str, Any] = {}
    """The backend's description of itself."""


class GitInfo(Model):
    """``git.json`` of the code that ran; all null outside a repository."""

    commit: str | None = None
    """Id of the commit."""
    branch: str | None = None
    """Name of the branch; null without one."""
    dirty: bool | None = None
    """Tracked files differ from the commit."""


OTHER_NAMES = {"score_val_initial": "score_initial", "score_val_final": "score_final", "score_val": "score_best"}
"""The last columns of ``results.csv``: scores under the names that they have in the Trace-Bench prototype."""
