"""The config, as values: what a run is made of, checked, frozen, with defaults filled in.

A new key is one field here and one line in ``docs/reference/config.md``; a second name for it is one line in
`trace_bench.config.names`. The fields' comments are the reference in short.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    Strict,
    field_validator,
    model_validator,
)

from trace_bench.arguments import describe
from trace_bench.config.frozen import FrozenDict, FrozenMap, freeze, thaw
from trace_bench.config.places import DockerConfig, ModalConfig, SchedulingConfig
from trace_bench.config.sizes import Size, format_size
from trace_bench.config.source import Source
from trace_bench.config.values import Count, Names, Seconds, Section, Text, TimeLimit, Usd
from trace_bench.trainers.guides import DEFAULT_GUIDE, GUIDE_WORDS, GUIDES

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LARGEST_SEED = 2**63 - 1
SCRIPTED = "scripted:"
"""Before the file of a built-in model that follows a script."""
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


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY, and not its value")
    return value


def is_builtin(model: str | None) -> bool:
    """Whether `model` is one of the gateway's own, which ask no provider."""
    return model is not None and (model == "stub" or model.startswith(SCRIPTED))


def base_url_problem(value: str) -> str | None:
    """What is wrong with the address of a provider, without the address; None if nothing is."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        return "must begin with http:// or https:// and a host"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return "must hold no user, password, query or fragment; a key belongs in an environment variable"
    return None


def _base_url(value: str) -> str:
    if (wrong := base_url_problem(value)) is not None:
        raise ValueError(wrong)
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
        return LOGGER_WORDS.get(value.strip().lower(), value)
    return "none" if value is None else value


def _logger(value: Any) -> Any:
    name = logger_name(value)
    if isinstance(name, str) and name not in LOGGERS:
        why = " (it sends what a job does to a service on the network)" if name == "WandbLogger" else ""
        raise ValueError(f"is {describe(name)}, which this release does not have{why}; known are {', '.join(LOGGERS)}")
    return name


def default_job_timeout(mode: object) -> float | None:
    """Seconds of training where the config names none: stub jobs cost nothing and may take as long as they like."""
    return None if mode == "stub" else 600.0


class ImagesConfig(Section):
    """Images that jobs run in."""

    base: Text | None = None
    """Base image of all families; None lets ``images build`` find one."""
    accept_drift: bool = False
    """Go on with an image whose recipe has changed since it was locked."""


class SandboxConfig(Section):
    """The limits of one sandbox. In a task entry, what is not given is taken from the run's ``sandbox``."""

    cpus: Annotated[float, Field(ge=0.01, le=4096)] = 1.0
    memory: Annotated[Size, Field(ge=64 << 20)] = 2 << 30
    disk: Annotated[Size, Field(ge=1 << 20)] = 256 << 20
    """What may be written to the job's volume."""
    tmp: Annotated[Size, Field(ge=1 << 20)] = 256 << 20
    """Size of /tmp, which is memory."""
    pids: Annotated[int, Field(ge=8, le=1 << 22)] = 256
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    """Whole GPUs, which no other sandbox has meanwhile."""
    labels: Names = ()
    """What the host must be called, beside having room: labels of ``docker.hosts``."""
    pinned: bool = False
    """`cpus` whole cores that no other pinned sandbox has meanwhile."""
    exclusive: bool = False
    """A host on which nothing else of this program runs meanwhile."""
    runtime: Text | None = None
    """A stronger runtime of the engine, such as runsc; None is the engine's default."""
    require_controls: Names = ()
    """Controls to refuse to run without."""
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
    """``suite:name``; a bare name is one of llm4ad."""
    eval_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    """Arguments of the task, over the run's."""
    sandbox: SandboxConfig | None = None
    """What this task's sandboxes need otherwise than the run's."""


class TrainerConfig(Section):
    """One trainer of the run, with the variants of its parameters."""

    id: Text
    params_variants: Annotated[tuple[FrozenMap, ...], Strict(False), Field(min_length=1)] = (FrozenDict(),)
    """One set of jobs for each entry."""
    knobs: FrozenMap = Field(default_factory=FrozenDict)
    """Knobs written on the entry itself (``ps_steps: 3``): defaults of its variants."""
    optimizer: Text | None = None
    """None is the trainer's default."""
    optimizer_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    guide: Annotated[str, BeforeValidator(_guide)] = DEFAULT_GUIDE
    """Who words the optimizer's feedback; scores are always those of the task's own guide."""
    guide_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    logger: Annotated[Literal["default", "none", "ConsoleLogger", "TensorboardLogger"], BeforeValidator(_logger)] = (
        "default"
    )
    """The job's own files, and with TensorboardLogger its ``tb/``; the other names mean the same here."""
    logger_kwargs: FrozenMap = Field(default_factory=FrozenDict)


class PricesConfig(Section):
    """The prices of a model, in US dollars per million tokens; over litellm's own table."""

    prompt: Usd
    completion: Usd = 0.0
    cached: Usd | None = None
    """Of prompt tokens that the provider had in its cache; None is the price of `prompt`."""


class LlmLimitsConfig(Section):
    """Limits on requests to the provider from all jobs of this host together; None is no limit."""

    requests_per_minute: Annotated[float, Field(gt=0, le=1e9)] | None = None
    tokens_per_minute: Annotated[float, Field(gt=0, le=1e12)] | None = None
    concurrent: Annotated[int, Field(ge=1, le=4096)] | None = None


class LlmConfig(Section):
    """The model behind the gateway. Keys are never in the config: ``api_key_env`` names a variable of the host."""

    id: Text | None = None
    """What the model is called in tables, and by sandboxes; None is `model`."""
    provider: Text | None = None
    base_url: Annotated[Text, AfterValidator(_base_url)] | None = None
    model: Text | None = None
    api_key_env: Annotated[Text, AfterValidator(_variable)] | None = None
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of one answer: a request that asks for more, or does not say, gets this."""
    seed: bool = True
    """Send a seed derived from the job's, where the provider takes one."""
    stream: bool = False
    """Have the provider send long answers piece by piece. Sandboxes get them whole all the same."""
    timeout: Seconds = 600.0
    """Seconds for one try of one call."""
    retries: Annotated[int, Field(ge=0, le=100)] = 5
    """Further tries of a call after 429, 5xx, a time-out or a broken connection."""
    options: FrozenMap = Field(default_factory=FrozenDict)
    """Further arguments of litellm, such as ``api_version`` for Azure; part of the model's identity."""
    prices: PricesConfig | None = None
    limits: LlmLimitsConfig = LlmLimitsConfig()

    @property
    def script(self) -> str | None:
        """The file of a built-in model ``scripted:FILE``; None for any other."""
        return self.model.removeprefix(SCRIPTED) if self.model and self.model.startswith(SCRIPTED) else None

    @property
    def name(self) -> str:
        """The name of the model in tables, and in sandboxes."""
        return self.id or (f"{SCRIPTED}{Path(self.script).stem}" if self.script else self.model or "")

    @field_validator("options")
    @classmethod
    def _are_further_ones(cls, options: FrozenDict) -> FrozenDict:
        taken = sorted(name for name in options if name in _NOT_AMONG_OPTIONS or name.startswith("mock_"))
        if taken:
            raise ValueError(f"must not hold {taken[0]}: it is a key of its own here, or the gateway's")
        return options


_NOT_AMONG_OPTIONS = frozenset(
    (
        *LlmConfig.model_fields,
        *("api_base", "api_key", "custom_llm_provider", "input", "max_completion_tokens", "max_output_tokens"),
        *("max_retries", "messages", "num_retries", "prompt", "request_timeout", "stream_options"),
    )
)


class RunBudgetConfig(Section):
    """Limits on what all jobs of a run spend together; None is no limit."""

    calls: Count | None = None
    tokens: Count | None = None
    usd: Usd | None = None
    seconds: Seconds | None = None


class BudgetConfig(RunBudgetConfig):
    """Limits on what one job spends over all its attempts; None is no limit."""

    evaluations: Count | None = None
    """Runs of a candidate on one example, while training."""
    run: RunBudgetConfig = RunBudgetConfig()


class SplitsConfig(Section):
    """Examples of each split, for all tasks that let them be set; None is what the task says."""

    train: Annotated[int, Field(ge=1)] | None = None
    validate_: Annotated[Count | None, Field(alias="validate")] = None
    test: Count | None = None


class ObjectiveConfig(Section):
    """The objective that compares states. A metric is one that every task of the run declares, or its ``score``."""

    mode: Literal["scalar", "weighted", "pareto"] = "scalar"
    """One number as it is; a weighted sum of metrics; dominance, with `tie_break` among those that none dominates."""
    score_key: Text = "score"
    """Of mode scalar: the metric that is compared; ``score`` is the task's own score."""
    weights: Annotated[dict[str, Annotated[float, Field(ge=0)]], AfterValidator(freeze)] = Field(
        default_factory=FrozenDict
    )
    """Of the sum of metrics, each with its sign turned so that higher is better; empty: the tasks' own weights."""
    minimize: Names = ()
    """Metrics of which lower is better, whatever the task says."""
    pareto_metrics: Names = ()
    """What dominance looks at, in order; empty: all metrics of the task."""
    tie_break: Literal["weighted", "lexicographic", "random_seeded"] = "weighted"
    """Of mode pareto: who is best among the states that none dominates."""
    missing_value: float | None = None
    """What a metric gets that a guide leaves out, its sign turned so that higher is better; None: that is an error."""
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED)] | None = None
    """Of tie_break random_seeded; None is the job's."""
    reference: Annotated[dict[str, float], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
    """Where the hypervolume is measured from, by metric, over what the task says."""

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
    """Its address; None is that of MLFLOW_TRACKING_URI. User and password are in the environment, never here."""
    experiment: Text | None = None
    """None is that of MLFLOW_EXPERIMENT_NAME, else ``trace-bench``."""
    wait: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """Seconds that the end of the run waits for the copy at most."""


class MirrorsConfig(Section):
    """Copies of the run on other people's servers, made of its files by processes of their own."""

    mlflow: MlflowMirrorConfig | None = None


class RunConfig(Section):
    """A whole config."""

    tasks: Annotated[tuple[TaskConfig, ...], Strict(False), Field(min_length=1)]
    trainers: Annotated[tuple[TrainerConfig, ...], Strict(False), Field(min_length=1)] = (
        TrainerConfig(id="PrioritySearch"),
    )
    name: Text | None = None
    """For people; it is part of the config's hash."""
    mode: Literal["stub", "real", "replay"] = "stub"
    """Where LLM answers come from: the built-in stub, a provider, or what an earlier run recorded."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, le=_LARGEST_SEED)], ...], Strict(False), Field(min_length=1)] = (
        123,
    )
    run_id: Annotated[Text, AfterValidator(_run_id)] | None = None
    """None makes a new one for each run."""
    runs_dir: Text = "runs"
    max_workers: Annotated[int, Field(ge=1, le=4096)] = 1
    fail_fast: bool = False
    require_all: bool = False
    """Refuse to start where single jobs cannot run, for want of an image, a data set, a key, a host or a service."""
    resume: Literal["auto", "failed", "none"] = "auto"
    job_timeout: TimeLimit = None
    """Seconds of training of one job; None is no limit. Not given, it is that of `default_job_timeout`."""
    score_timeout: TimeLimit = 600.0
    """Seconds of scoring of one job; None is no limit."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    """Further attempts after a failure of provider, sandbox or harness."""
    tags: Names = ()
    eval_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    trainer_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    optimizer_kwargs: FrozenMap = Field(default_factory=FrozenDict)
    task_roots: Names = ()
    """Further folders with task folders."""
    data_root: Text | None = None
    """A folder with published data (CO-Bench, OR-Library), for the tasks that read them."""
    backend: Literal["auto", "docker", "modal", "local"] = "auto"
    """``auto`` is docker."""
    docker: DockerConfig = DockerConfig()
    modal: ModalConfig = ModalConfig()
    scheduling: SchedulingConfig = SchedulingConfig()
    images: ImagesConfig = ImagesConfig()
    sandbox: SandboxConfig = SandboxConfig()
    llm: LlmConfig | None = None
    """The model; of mode real and replay."""
    llms: Annotated[tuple[LlmConfig, ...], Strict(False)] = ()
    """Several models, each asked by jobs of its own; in place of `llm`."""
    llm_cache: bool = False
    """Keep answers beyond the run, for later runs that ask the same."""
    replay_from: Text | None = None
    """Of mode replay: the run (a folder, or its name below ``runs_dir``) whose recorded answers are given again."""
    replay_services: bool = False
    """Of mode replay: services of the host give their recorded answers too, and do nothing."""
    budget: BudgetConfig = BudgetConfig()
    splits: SplitsConfig = SplitsConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    """What states are compared by; as they come, the task's own score."""
    mirrors: MirrorsConfig = MirrorsConfig()
    """Who looks on, and no part of what is run: in no snapshot, so that a repetition elsewhere writes to no server of
    the first one's."""

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
