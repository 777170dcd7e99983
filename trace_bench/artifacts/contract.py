"""The job contract as models: what host and sandbox hand each other (``docs/design/job-contract.md``).

Their JSON Schemas, and those of `trace_bench.artifacts.records`, are exported to ``schemas/`` by
`trace_bench.artifacts.schema`. Four rules hold for all of them: unknown keys are refused, numbers are finite, instances
are frozen, and a time is ISO 8601 in UTC with a ``Z``. A file that a sandbox wrote is read with
`trace_bench.artifacts.jsonio.read_model`, which converts nothing (``"1"`` is not a number, ``true`` is not 1).

Scores are in the task's natural units; `Results.score_direction` says whether higher or lower is better.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

CONTRACT = 1
"""Version of the job contract (``docs/design/job-contract.md``)."""

# Not Literal[1], which takes true for 1.
ContractVersion = Annotated[int, Field(ge=CONTRACT, le=CONTRACT)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Usd = Annotated[float, Field(ge=0)]
UtcTime = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Json = dict[str, JsonValue]
Value = str | int | float
State = dict[Name, Value]
"""``{parameter name: value}``: the unit in which states are saved and proposed."""
Split = Literal["train", "validate", "test"]
Direction = Literal["maximize", "minimize"]
Mode = Literal["stub", "real", "replay"]
Metrics = dict[Name, float]
"""Metrics by name, natural units."""
Integrity = Literal["protected", "unprotected"]
Status = Literal["ok", "failed", "skipped"]
StopReason = Literal["completed", "budget", "timeout", "interrupted"]


class Model(BaseModel):
    """Base: frozen, no unknown keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# ------------------------------------------------------------------------------------------- the job contract


class TaskRef(Model):
    """The task of a job. `spec` is its ``task.toml`` as a dict; `builder` is ``module:function``."""

    id: str
    suite: str
    builder: str
    spec: Json
    content_hash: str
    eval_kwargs: Json = {}


class TrainerRef(Model):
    """`entry` is ``module:class``; `params` holds every parameter, aliases resolved and defaults filled
    in."""

    id: str
    entry: str
    params: Json = {}


class OptimizerRef(Model):
    """The optimizer, which turns feedback into a proposal; `kwargs` with defaults filled in."""

    id: str
    kwargs: Json = {}


class GuideRef(Model):
    """The guide, which words the feedback for the optimizer; `kwargs` with defaults filled in."""

    id: str = "default"
    kwargs: Json = {}


class ModelRef(Model):
    """A model's identity; part of `job_id`. ``stub`` is a model like any other."""

    id: str
    provider: str = "stub"
    model: str = "stub"
    sampling: Json = {}


class Budget(Model):
    """The limits on what a job spends over all its attempts; None is no limit."""

    evaluations: Count | None = None
    calls: Count | None = None
    tokens: Count | None = None
    usd: Usd | None = None
    seconds: Seconds | None = None


class JobLimits(Model):
    """Limits that the supervisor applies. `job_timeout` limits training, `score_timeout` scoring
    (seconds)."""

    job_timeout: Seconds | None = None
    score_timeout: Seconds | None = None
    stdout_bytes: Count = 4 << 20
    out_bytes: Count = 256 << 20
    memory_bytes: Count | None = None
    pids: Count | None = None


class StopPoint(Model):
    """The point where training was stopped, in counts that need no clock.

    Attributes:
        checks: how often the trainer had looked whether it is to stop, and gone on.
        calls: LLM calls that the job had made.
        killed: it did not look in time, and was killed; there is no final state.
    """

    reason: StopReason
    checks: Count
    calls: Count = 0
    killed: bool = False


class MetricSpec(Model):
    """One metric of a task, as the run's objective reads it.

    Attributes:
        failure: what a candidate that fails on an example gets for it, natural units.
        reference: of the hypervolume, natural units; None where the task names none.
        range: lowest and highest value, natural units, in either order.
    """

    direction: Direction
    failure: float
    reference: float | None = None
    range: tuple[float, float] | None = None


class ObjectiveSpec(Model):
    """The objective by which states of one job are compared; no field is left to defaults.

    Attributes:
        score_key: of mode ``scalar``: what the score is. ``score`` is the task's own.
        score_direction: of the task's own score.
        weights: of the sum over metrics, each with its sign turned so that higher is better.
        metrics: what the task declares; empty for one that declares nothing but its score.
        pareto_metrics: what a front is of, in order; none where there is but a score.
        references: of the hypervolume, natural units, as the config names them; they go before the task's.
        missing_value: what a metric gets that a guide leaves out, its sign turned so that higher is better.
        seed: of ``random_seeded``; None is the job's.
    """

    mode: Literal["scalar", "weighted", "pareto"] = "scalar"
    score_key: Name = "score"
    score_direction: Direction = "maximize"
    weights: dict[Name, Annotated[float, Field(ge=0)]] = {}
    metrics: dict[Name, MetricSpec] = {}
    pareto_metrics: tuple[Name, ...] = ()
    references: Metrics = {}
    tie_break: Literal["weighted", "lexicographic", "random_seeded"] = "weighted"
    missing_value: float | None = None
    seed: int | None = None


class JobSpec(Model):
    """``job.json``: everything that a sandbox gets to know. No token, no test seed, no address.

    Attributes:
        objective: what states are compared by.
        until: the last phase that runs. A job that ends with ``build`` says what its problem is like: nothing is
            trained or scored, and no model is asked. One that ends with ``programs`` says besides what the programs
            that come with the task score. No part of its identity.
        programs: sources by name, of a job that ends with ``programs``: they are run, too. No part of its identity.
        stop_at: of mode replay: where training ends. No clock ends it there.
        states_given: the states that are scored come with the job; nothing is trained. No part of its identity.
        memo: a state that was evaluated on an example is not evaluated there again, nor counted. False where the task
            is not deterministic, and in a replay of a run that was made before there was such a rule.
        reader: version of the rules by which answers of the model are read (`trace_bench.worker.answer_text`). A replay
            has the version of the run that it repeats.
    """

    contract: ContractVersion = CONTRACT
    run_id: str
    job_id: str
    fingerprint: str
    task: TaskRef
    trainer: TrainerRef
    optimizer: OptimizerRef
    guide: GuideRef = GuideRef()
    seed: int
    mode: Mode
    model: ModelRef
    budget: Budget = Budget()
    limits: JobLimits = JobLimits()
    objective: ObjectiveSpec = ObjectiveSpec()
    until: Literal["build", "programs", "score"] = "score"
    programs: dict[Name, str] = {}
    stop_at: StopPoint | None = None
    states_given: bool = False
    memo: bool = False
    reader: int = 1
