"""The job contract as models: what host and sandbox hand each other (``docs/design/job-contract.md``).

Their JSON Schemas, and those of `trace_bench.artifacts.records`, are exported to ``schemas/`` by
`trace_bench.artifacts.schema`. The docstring below a field describes its property; a type such as `Seconds` adds the
unit, and types such as `RunId` bring a description with them. Four rules hold for all models: unknown keys are refused,
numbers are finite, instances are frozen, and a time is ISO 8601 in UTC with a ``Z``. A file that a sandbox wrote is
read with `trace_bench.artifacts.jsonio.read_model`, which converts nothing (``"1"`` is not a number, ``true`` is not
1).

Scores are in the task's natural units; `Results.score_direction` says whether higher or lower is better.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from trace_bench.config.values import measured

CONTRACT = 1
"""Version of the job contract (``docs/design/job-contract.md``)."""

# Not Literal[1], which takes true for 1.
ContractVersion = Annotated[
    int, Field(ge=CONTRACT, le=CONTRACT, description="Version of the contract between host and sandbox.")
]
Count = Annotated[int, Field(ge=0)]
Calls = Annotated[Count, measured("calls")]
Tokens = Annotated[Count, measured("tokens")]
Evaluations = Annotated[Count, measured("evaluations")]
Bytes = Annotated[Count, measured("bytes")]
Seconds = Annotated[float, Field(ge=0), measured("seconds")]
Usd = Annotated[float, Field(ge=0), measured("US dollars")]
UsdPerMillion = Annotated[float, Field(ge=0), measured("US dollars per million tokens")]
UtcTime = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$"), measured("ISO 8601, UTC")]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Json = dict[str, JsonValue]
Value = str | int | float
State = dict[Name, Value]
"""``{parameter name: value}``: the unit in which states are saved and proposed."""
Split = Literal["train", "validate", "test"]
Direction = Annotated[
    Literal["maximize", "minimize"], Field(description="`maximize`: higher is better. `minimize`: lower is better.")
]
Mode = Literal["stub", "real", "replay"]
Score = Annotated[float, measured("natural unit of the task's score", "as `score_direction` of the job says")]
Metric = Annotated[float, measured("natural unit of each metric", "as `objective.metrics` of job_meta.json says")]
Metrics = dict[Name, Metric]
"""Metrics by name, natural units."""
Hypervolume = Annotated[float, measured("product of the metrics' natural units", "higher")]
Integrity = Annotated[
    Literal["protected", "unprotected"],
    Field(description="`unprotected` where a candidate could have written its own score."),
]
Status = Literal["ok", "failed", "skipped"]
StopReason = Literal["completed", "budget", "timeout", "interrupted"]

# What several files have, described once.
RunId = Annotated[str, Field(description="Id of the run: the name of its folder.")]
JobId = Annotated[str, Field(description="Id of the job: 12 hexadecimal digits of a hash of its definition.")]
Fingerprint = Annotated[
    str,
    Field(description="Hash of everything that determines the job's result. A result is reused only if it is equal."),
]
TaskId = Annotated[str, Field(description="Id of the task, `suite:name`.")]
SuiteName = Annotated[str, Field(description="Suite of the task.")]
TrainerId = Annotated[str, Field(description="Name of the trainer.")]
Variant = Annotated[str, Field(description="Parameters that tell this variant of the trainer from its others.")]
Seed = Annotated[int, Field(description="Seed of the job.")]
EvalKwargs = Annotated[Json, Field(description="Arguments of the task, defaults filled in.")]


class Model(BaseModel):
    """Base: frozen, no unknown keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# ------------------------------------------------------------------------------------------- the job contract


class TaskRef(Model):
    """The task of a job."""

    id: TaskId
    suite: SuiteName
    builder: str
    """Function that builds the problem, `module:function`."""
    spec: Json
    """Content of the task's `task.toml`."""
    content_hash: str
    """SHA-256 of the task's files."""
    eval_kwargs: EvalKwargs = {}


class TrainerRef(Model):
    """The trainer of a job."""

    id: TrainerId
    entry: str
    """Class of the trainer, `module:class`."""
    params: Json = {}
    """Every parameter under its own name, defaults filled in."""


class OptimizerRef(Model):
    """The optimizer, which turns feedback into a proposal."""

    id: str
    """Name of the optimizer; `none` for a trainer that uses none."""
    kwargs: Json = {}
    """Arguments of the optimizer, defaults filled in."""


class GuideRef(Model):
    """The guide, which words the feedback for the optimizer."""

    id: str = "default"
    """Name of the guide; `default` is the task's own."""
    kwargs: Json = {}
    """Arguments of the guide, defaults filled in."""


class ModelRef(Model):
    """A model's identity; part of `job_id`. ``stub`` is a model like any other."""

    id: str
    """Name of the model in tables and in sandboxes."""
    provider: str = "stub"
    """Provider of the model."""
    model: str = "stub"
    """Name of the model at its provider."""
    sampling: Json = {}
    """Arguments that the gateway adds to each request, such as `temperature`."""


class Budget(Model):
    """The limits on what a job spends over all its attempts; null is no limit."""

    evaluations: Evaluations | None = None
    """Limit on evaluations in training."""
    calls: Calls | None = None
    """Limit on calls to the model."""
    tokens: Tokens | None = None
    """Limit on tokens, prompts and answers together."""
    usd: Usd | None = None
    """Limit on the cost of calls."""
    seconds: Seconds | None = None
    """Limit on training time."""


class JobLimits(Model):
    """Limits that the supervisor applies; null is no limit."""

    job_timeout: Seconds | None = None
    """Limit on training."""
    score_timeout: Seconds | None = None
    """Limit on scoring."""
    stdout_bytes: Bytes = 4 << 20
    """Largest output of all phases that is kept."""
    out_bytes: Bytes = 256 << 20
    """Largest size of all files that the job writes."""
    memory_bytes: Bytes | None = None
    """Memory of all processes of the job."""
    pids: Count | None = None
    """Number of processes and threads."""


class StopPoint(Model):
    """The point where training was stopped, in counts that need no clock."""

    reason: StopReason
    """Reason of the stop."""
    checks: Count
    """Number of times that the trainer checked for a stop and continued."""
    calls: Calls = 0
    """Calls to the model before the stop."""
    killed: bool = False
    """The trainer did not check in time and was killed; there is no final state."""


class MetricSpec(Model):
    """One metric of a task, as the run's objective reads it."""

    direction: Direction
    failure: Metric
    """Value for an example on which a candidate fails."""
    reference: Metric | None = None
    """Reference point of the hypervolume; null where the task names none."""
    range: tuple[Metric, Metric] | None = None
    """Lowest and highest value, in either order."""


class ObjectiveSpec(Model):
    """The objective by which states of one job are compared; no field is left to defaults."""

    mode: Literal["scalar", "weighted", "pareto"] = "scalar"
    """One number; a weighted sum of metrics; or dominance."""
    score_key: Name = "score"
    """Metric that is the score in mode `scalar`; `score` is the task's own."""
    score_direction: Direction = "maximize"
    weights: dict[Name, Annotated[float, Field(ge=0), measured("dimensionless")]] = {}
    """Weights of the sum over metrics. The sign of each metric is turned so that higher is better."""
    metrics: dict[Name, MetricSpec] = {}
    """Metrics that the task declares; empty where it declares only its score."""
    pareto_metrics: tuple[Name, ...] = ()
    """Metrics that dominance compares, in order; empty where the task has only a score."""
    references: Metrics = {}
    """Reference points of the hypervolume that the config names. They override the task's."""
    tie_break: Literal["weighted", "lexicographic", "random_seeded"] = "weighted"
    """Rule that picks the best of the states that no other state dominates."""
    missing_value: Annotated[float, measured("natural unit of each metric", "higher")] | None = None
    """Value of a metric that a guide leaves out, its sign turned so that higher is better; null makes that an error."""
    seed: int | None = None
    """Seed of tie-break `random_seeded`; null is the job's."""


class JobSpec(Model):
    """``job.json``: everything that a sandbox gets to know. No token, no test seed, no address."""

    contract: ContractVersion = CONTRACT
    run_id: RunId
    job_id: JobId
    fingerprint: Fingerprint
    task: TaskRef
    """Task of the job."""
    trainer: TrainerRef
    """Trainer of the job, with its parameters."""
    optimizer: OptimizerRef
    """Optimizer of the trainer."""
    guide: GuideRef = GuideRef()
    """Guide that words the feedback for the optimizer."""
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
    until: Literal["build", "programs", "score"] = "score"
    """Last phase that runs. `build` describes the problem and stops. `programs` also scores the programs that come with
    the task. No part of the job's identity."""
    programs: dict[Name, str] = {}
    """Further programs for a job that ends with `programs`: source by name. No part of the job's identity."""
    stop_at: StopPoint | None = None
    """Point where training ends in mode `replay`, in place of a clock."""
    states_given: bool = False
    """The states to score come with the job, and nothing is trained. No part of the job's identity."""
    memo: bool = False
    """A state that was evaluated on an example is not evaluated there again, nor counted. False where the task is not
    deterministic, and in a replay of a run that was made without this rule."""
    reader: int = 1
    """Version of the rules by which answers of the model are read (`trace_bench.worker.answer_text`). A replay has the
    version of the run that it repeats."""
