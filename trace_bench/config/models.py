"""The config, as values: what a run is made of, checked, frozen, with defaults filled in.

A new key is one field here and one line in ``docs/reference/config.md``; a second name for it is one line in
`trace_bench.config.names`. The fields' comments are the reference in short.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    Strict,
    WithJsonSchema,
    model_validator,
)

from trace_bench.arguments import describe
from trace_bench.config.frozen import FrozenDict, FrozenMap, freeze, thaw
from trace_bench.config.llms import LlmConfig
from trace_bench.config.places import DockerConfig, ModalConfig, SchedulingConfig
from trace_bench.config.sizes import Size, format_size
from trace_bench.config.source import Source
from trace_bench.config.values import (
    Calls,
    Count,
    Evaluations,
    Names,
    Seconds,
    Section,
    Text,
    TimeLimit,
    Tokens,
    Usd,
    any_case,
    measured,
)
from trace_bench.trainers.guides import DEFAULT_GUIDE, GUIDE_WORDS, GUIDES

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LARGEST_SEED = 2**63 - 1
TENSORBOARD = "TensorboardLogger"
LOGGERS = ("default", "none", "ConsoleLogger", TENSORBOARD)
LOGGER_WORDS = {
    **dict.fromkeys(("none", "null", "off", "disable", "disabled"), "none"),
    **dict.fromkeys(("default", "config", ""), "default"),
}
"""Words that stand for a logger, in any case."""


def is_run_id(text: str) -> bool:
    """True for a name that a run can have."""
    return _RUN_ID.fullmatch(text) is not None


def _run_id(value: str) -> str:
    if not is_run_id(value):
        raise ValueError(
            "must be a folder name: up to 128 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return value


def _tracking_uri(value: str) -> str:
    try:
        parts = urlsplit(value)
        secret = parts.username is not None or parts.password is not None or parts.query
    except ValueError:
        raise ValueError("must be an address such as http://127.0.0.1:5000") from None
    if secret:
        raise ValueError(
            "must hold no user, password or query; they belong in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    return value


def _guide(value: Any) -> Any:
    name = DEFAULT_GUIDE if value is None else GUIDE_WORDS.get(value, value) if isinstance(value, str) else value
    if isinstance(name, str) and name not in GUIDES:
        raise ValueError(f"is {describe(name)}, which this release does not have; known are {', '.join(GUIDES)}")
    return name


def logger_name(value: Any) -> Any:
    """A logger's own name for any of the ways to write it; what is none of them is returned as it is.

    >>> logger_name("off"), logger_name(None), logger_name("config"), logger_name("ConsoleLogger")
    ('none', 'none', 'default', 'ConsoleLogger')
    """
    if isinstance(value, str):
        return LOGGER_WORDS.get(value.strip().lower(), value)  # a name without a logger: see `config.loader`
    return "none" if value is None else value


def default_job_timeout(mode: object) -> float | None:
    """Seconds of training where the config names none: stub jobs cost nothing and may take as long as they like."""
    return None if mode == "stub" else 600.0


class ImagesConfig(Section):
    """Images that jobs run in."""

    base: Text | None = None
    """Base image of all image families, best with a digest; null lets `images build` find one."""
    accept_drift: bool = False
    """Continue with an image whose recipe has changed since it was locked."""


class SandboxConfig(Section):
    """The limits of one sandbox. In a task entry, a key that is not given has the value of the run's ``sandbox``."""

    cpus: Annotated[float, Field(ge=0.01, le=4096)] = 1.0
    """Number of CPUs: CPU time per wall time."""
    memory: Annotated[Size, Field(ge=64 << 20)] = 2 << 30
    """Memory of all processes of a job; there is no swap. Text with a unit, such as `2g`, or bytes."""
    disk: Annotated[Size, Field(ge=1 << 20)] = 256 << 20
    """Size of all files that a job may write to its volume. Text with a unit, such as `256m`, or bytes."""
    tmp: Annotated[Size, Field(ge=1 << 20)] = 256 << 20
    """Size of `/tmp`, which is memory. Text with a unit, such as `256m`, or bytes."""
    pids: Annotated[int, Field(ge=8, le=1 << 22)] = 256
    """Number of processes and threads."""
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    """Number of GPUs that no other sandbox has at the same time."""
    labels: Names = ()
    """Labels of `docker.hosts` that the host must have."""
    pinned: bool = False
    """Give the sandbox `cpus` whole cores that no other pinned sandbox has at the same time."""
    exclusive: bool = False
    """Give the sandbox a host on which nothing else of this program runs at the same time."""
    runtime: Text | None = None
    """Stronger runtime of the engine, such as `runsc`; null is the engine's default."""
    require_controls: Names = ()
    """Controls without which no job starts (`docs/reference/sandbox-controls.md`)."""
    allow_weaker: Names = ()
    """Controls that may be missing."""

    @model_validator(mode="after")
    def _not_both(self) -> SandboxConfig:
        both = sorted(set(self.require_controls) & set(self.allow_weaker))
        if both:
            raise ValueError(f"{both[0]!r} is in require_controls and in allow_weaker; name it in one of them")
        return self

    def over(self, base: SandboxConfig) -> SandboxConfig:
        """These values where they were given, else those of `base`."""
        return base.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class TaskConfig(Section):
    """One task of the run."""

    id: Text
    """Id of the task, `suite:name`; a bare name is a task of `llm4ad`. A pattern, a folder or `suite:tag=NAME` selects
    several tasks."""
    eval_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Arguments of the task; they override the run's."""
    sandbox: SandboxConfig | None = None
    """Keys of the run's `sandbox` that differ for this task."""


class TrainerConfig(Section):
    """One trainer of the run, with the variants of its parameters."""

    id: Text
    """Name of the trainer; `trace-bench trainers` lists all."""
    params_variants: Annotated[tuple[FrozenMap, ...], Strict(False), Field(min_length=1)] = (FrozenDict(),)
    """Sets of parameters; each makes jobs of its own. A set may hold `optimizer_kwargs`."""
    knobs: FrozenMap = Field(default_factory=FrozenDict)
    """Knobs written on the entry itself (`ps_steps: 3`): defaults of its variants."""
    optimizer: Text | None = None
    """Optimizer; null is the trainer's default."""
    optimizer_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Arguments of the optimizer."""
    guide: Annotated[str, BeforeValidator(_guide), WithJsonSchema({"enum": [*GUIDES, *GUIDE_WORDS, None]})] = (
        DEFAULT_GUIDE
    )
    """Guide that words the optimizer's feedback; scores are always those of the task's own guide."""
    guide_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Arguments of the guide."""
    logger: Annotated[
        Literal["default", "none", "ConsoleLogger", "TensorboardLogger"],
        BeforeValidator(logger_name),
        WithJsonSchema({"anyOf": [{"enum": [*LOGGERS, None]}, {"type": "string", "pattern": any_case(LOGGER_WORDS)}]}),
    ] = "default"
    """Files of a job: `TensorboardLogger` adds event files in `tb/`; the others write the job's own files only."""
    logger_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Must be empty: no logger takes arguments."""


class RunBudgetConfig(Section):
    """Limits on what all jobs of a run spend together; null is no limit."""

    calls: Calls | None = None
    """Limit on calls to models."""
    tokens: Tokens | None = None
    """Limit on tokens, prompts and answers together."""
    usd: Usd | None = None
    """Limit on the cost of calls."""
    seconds: Seconds | None = None
    """Limit on training time of a job, or on the wall time of a run."""


class BudgetConfig(RunBudgetConfig):
    """Limits on what one job spends over all its attempts; null is no limit."""

    evaluations: Evaluations | None = None
    """Limit on evaluations in training."""
    run: RunBudgetConfig = RunBudgetConfig()
    """Limits on what all jobs of the run spend together."""


class SplitsConfig(Section):
    """Examples of each split, for all tasks that let them be set; null is the task's number."""

    train: Annotated[int, Field(ge=1)] | None = None
    """Number of examples to train on."""
    validate_: Annotated[Count | None, Field(alias="validate")] = None
    """Number of examples by which states are compared."""
    test: Count | None = None
    """Number of held-out examples."""


class ObjectiveConfig(Section):
    """The objective that compares states. A metric is one that every task of the run declares, or its ``score``."""

    mode: Literal["scalar", "weighted", "pareto"] = "scalar"
    """`scalar`: one number. `weighted`: a weighted sum of metrics. `pareto`: dominance, with `tie_break` among the
    states that no other one dominates."""
    score_key: Text = "score"
    """Metric that is compared in mode `scalar`; `score` is the task's own score."""
    weights: Annotated[dict[str, Annotated[float, Field(ge=0), measured("dimensionless")]], AfterValidator(freeze)] = (
        Field(default_factory=FrozenDict)
    )
    """Weights of the sum of metrics, each with its sign turned so that higher is better; empty: the tasks' own
    weights."""
    minimize: Names = ()
    """Metrics of which lower is better, whatever the task declares."""
    pareto_metrics: Names = ()
    """Metrics that dominance compares, in order; empty: all metrics of the task."""
    tie_break: Literal["weighted", "lexicographic", "random_seeded"] = "weighted"
    """Rule of mode `pareto` that picks the best of the states that no other one dominates."""
    missing_value: Annotated[float, measured("natural unit of each metric", "higher")] | None = None
    """Value of a metric that a guide leaves out, its sign turned so that higher is better; null makes that an error."""
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED)] | None = None
    """Seed of tie-break `random_seeded`; null is the job's."""
    reference: Annotated[
        dict[str, Annotated[float, measured("natural unit of each metric")]], AfterValidator(freeze)
    ] = Field(default_factory=FrozenDict)
    """Reference point of the hypervolume, by metric; it overrides the task's."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, data: Any) -> Any:
        if isinstance(data, Mapping | cls):
            return data
        raise ValueError(
            f"must be score, weighted, pareto, or a mapping such as {{mode: pareto}}, not {describe(data)}"
        )

    @model_validator(mode="after")
    def _all_of_it_counts(self) -> ObjectiveConfig:
        if self.weights and not any(self.weights.values()):
            raise ValueError("has weights that are all 0, which compares nothing; give one of them more")
        unused = [
            (self.weights and self.mode == "scalar", "weights", "mode weighted or pareto"),
            (self.score_key != "score" and self.mode != "scalar", "score_key", "mode scalar"),
            (self.tie_break != "weighted" and self.mode != "pareto", "tie_break", "mode pareto"),
            (self.seed is not None and self.tie_break != "random_seeded", "seed", "tie_break random_seeded"),
        ]
        for given, key, where in unused:
            if given:
                raise ValueError(f"has {key}, which counts with {where} only; take it out, or change that")
        for key in ("minimize", "pareto_metrics"):
            names = getattr(self, key)
            if len(set(names)) < len(names):
                raise ValueError(f"names a metric twice in {key}; name each once")
        if len(self.pareto_metrics) == 1:
            raise ValueError("has one metric in pareto_metrics, and nothing to trade it for; name two or more")
        return self


class MlflowMirrorConfig(Section):
    """A copy of the run on an MLflow server."""

    tracking_uri: Annotated[Text, AfterValidator(_tracking_uri)] | None = None
    """Address of the server; null is that of `MLFLOW_TRACKING_URI`. User and password are in the environment, never
    here."""
    experiment: Text | None = None
    """Name of the experiment; null is that of `MLFLOW_EXPERIMENT_NAME`, else `trace-bench`."""
    wait: Annotated[float, Field(ge=0, le=3600), measured("seconds")] = 10.0
    """Longest wait for an answer of the server."""


class MirrorsConfig(Section):
    """Copies of the run on other servers, made from the files of each job at its end."""

    mlflow: MlflowMirrorConfig | None = None
    """Copy on an MLflow server; null makes none."""


class RunConfig(Section):
    """A whole config."""

    tasks: Annotated[tuple[TaskConfig, ...], Strict(False), Field(min_length=1)]
    """Tasks of the run: ids, or mappings with arguments."""
    trainers: Annotated[tuple[TrainerConfig, ...], Strict(False), Field(min_length=1)] = (
        TrainerConfig(id="PrioritySearch"),
    )
    """Trainers of the run: names, or mappings with parameters."""
    name: Text | None = None
    """Name of the run, for people; part of the config's hash."""
    mode: Literal["stub", "real", "replay"] = "stub"
    """Source of the models' answers: the built-in stub, a provider, or the recording of an earlier run."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, le=_LARGEST_SEED)], ...], Strict(False), Field(min_length=1)] = (
        123,
    )
    """Seeds; each makes jobs of its own."""
    run_id: Annotated[Text, AfterValidator(_run_id)] | None = None
    """Name of the run's folder; null makes a new one for each run."""
    runs_dir: Text = "runs"
    """Folder of all runs."""
    max_workers: Annotated[int, Field(ge=1, le=4096)] = 1
    """Number of jobs at a time."""
    fail_fast: bool = False
    """Start no further job after the first failure."""
    require_all: bool = False
    """Refuse to start if a job cannot run because an image, a data set, a key, a host or a service is missing."""
    gaps: bool = True
    """After the jobs, score each task's reference program on their instances, which the metric `gap` needs. It can take
    as long as a job."""
    resume: Literal["auto", "failed", "none"] = "auto"
    """Jobs of an existing run to run again: `auto` those without an equal result, `failed` only failed ones, `none`
    all."""
    job_timeout: TimeLimit = None
    """Limit on training of one job; null is no limit. Not given: no limit in mode `stub`, the recorded run's in mode
    `replay`, else 600."""
    score_timeout: TimeLimit = 600.0
    """Limit on scoring of one job; null is no limit."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    """Number of further attempts of a job after a failure of provider, sandbox or harness."""
    tags: Names = ()
    """Tags that are copied to the run's records."""
    eval_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Arguments for all tasks that take them."""
    trainer_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Parameters for all trainers that take them."""
    optimizer_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Arguments for the optimizers of all trainers that take them."""
    task_roots: Names = ()
    """Further folders with task folders."""
    data_root: Text | None = None
    """Folder with published data (CO-Bench, OR-Library), for the tasks that read them."""
    backend: Literal["auto", "docker", "modal", "local"] = "auto"
    """Maker of sandboxes. `auto` is the backend that `SANDBOX_BACKEND` names, else `docker`."""
    docker: DockerConfig = DockerConfig()
    """Engines of backend `docker`."""
    modal: ModalConfig = ModalConfig()
    """Settings of backend `modal`."""
    scheduling: SchedulingConfig = SchedulingConfig()
    """Limits and order of jobs."""
    images: ImagesConfig = ImagesConfig()
    """Images that jobs run in."""
    sandbox: SandboxConfig = SandboxConfig()
    """Limits of each sandbox."""
    llm: LlmConfig | None = None
    """Model of modes `real` and `replay`; a scripted one also of mode `stub`."""
    llms: Annotated[tuple[LlmConfig, ...], Strict(False)] = ()
    """Several models, each with jobs of its own; in place of `llm`."""
    llm_cache: bool = False
    """Keep answers beyond the run, for later runs that ask the same."""
    replay_from: Text | None = None
    """Recorded run of mode `replay`: a folder, or its name below `runs_dir`."""
    replay_services: bool = False
    """In mode `replay`, services of the host give their recorded answers too, and do nothing."""
    budget: BudgetConfig = BudgetConfig()
    """Limits on what one job spends, and all jobs together."""
    splits: SplitsConfig = SplitsConfig()
    """Sizes of the splits, for all tasks that let them be set."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """Objective by which states are compared; not given, the task's own score."""
    mirrors: MirrorsConfig = MirrorsConfig()
    """Copies of the run elsewhere; no part of what is run, and in no snapshot."""

    _source: Source = PrivateAttr(default_factory=Source)
    _recorded_defaults: Mapping[str, Mapping[str, Any]] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _job_timeout_of_the_mode(cls, data: Any) -> Any:
        if isinstance(data, dict) and "job_timeout" not in data:
            return {**data, "job_timeout": default_job_timeout(data.get("mode", "stub"))}
        return data

    @property
    def source(self) -> Source:
        """The place of each value; no part of the config's equality."""
        return self._source

    @property
    def recorded_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """Of the run that this config is to repeat: by trainer, the values of parameters that nothing gave. There a
        default of an earlier version stands for today's."""
        return self._recorded_defaults

    def with_recorded_defaults(self, defaults: Mapping[str, Mapping[str, Any]]) -> RunConfig:
        """A copy with these `recorded_defaults`."""
        made = self.model_copy()
        made._recorded_defaults = defaults
        return made

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about values that were read in an unexpected way; recorded with the run."""
        return self._source.warnings

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunConfig:
        """Return `trace_bench.load_config` of a mapping; the Trace-Bench prototype has this name for it."""
        loaded: RunConfig = import_module("trace_bench.config.loader").load_config(data)
        return loaded

    def changed(
        self, changes: Mapping[str, Any] | None = None, *, warnings: Iterable[str] = (), source: Source | None = None
    ) -> RunConfig:
        """A copy with `changes` of fields, further `warnings`, and another `source` if one is given."""
        made = self.model_copy(update=dict(changes or {}))
        source = source or self._source
        made._source = replace(source, warnings=tuple(dict.fromkeys((*source.warnings, *warnings))))
        return made

    def to_snapshot(self) -> dict[str, Any]:
        """Plain data that loads again to an equal config: every key, defaults included, but for ``mirrors``."""
        plain: dict[str, Any] = thaw(self.model_dump(mode="python", by_alias=True, exclude={"mirrors"}))
        plain["sandbox"] = _sizes_for_people(plain["sandbox"])
        for entry, task in zip(plain["tasks"], self.tasks, strict=True):
            if task.sandbox is None:
                del entry["sandbox"]
            else:
                given = task.sandbox.model_fields_set
                entry["sandbox"] = _sizes_for_people({k: v for k, v in entry["sandbox"].items() if k in given})
        for entry in plain["trainers"]:
            entry.update(entry.pop("knobs"))
        return plain


def _sizes_for_people(sandbox: dict[str, Any]) -> dict[str, Any]:
    return {k: format_size(v) if k in ("memory", "disk", "tmp") else v for k, v in sandbox.items()}
