"""The matrix: a config becomes jobs, task by task, trainer by trainer, variant by variant, model by
model, seed by seed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.config.frozen import FrozenDict
from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.config.task_choices import TaskChoice, resolve_tasks
from trace_bench.config.variants import Variant, resolve_variants
from trace_bench.errors import ConfigError
from trace_bench.identity import JobIdPrefix
from trace_bench.suites.spec import Task
from trace_bench.trainers.base import Trainer
from trace_bench.trainers.registry import additions_of

STUB = FrozenDict({"id": "stub"})
"""The identity of the built-in model that needs no provider."""


@dataclass(frozen=True)
class VariantName:
    """The entry of ``params_variants`` of a job: its index, and a label for people."""

    index: int
    label: str


@dataclass(frozen=True, slots=True)
class Job:
    """Task × trainer × variant × model × seed: the unit of isolation, timeout, retry and resume.

    Attributes:
        job_id: 12 hex digits; see `trace_bench.identity.job_id`.
        params: every parameter of the trainer, aliases resolved, defaults filled in.
        raw_params: what the variant says itself; for the record.
        optimizer: ``none`` for a trainer that uses none.
        model: ``id``, and for a real model ``provider``, ``model`` and ``sampling``.
        splits: examples of each split, as far as spec and config say.
        limits: all limits that can change a score: ``job_timeout``, ``score_timeout`` (seconds or None), ``candidate``
            (``wall_seconds``, ``cpu_seconds``, ``memory_bytes``) and ``sandbox`` (``cpus``, ``memory_bytes``,
            ``disk_bytes``, ``tmp_bytes``, ``pids``, ``gpus``).
        sandbox: resources (bytes) and controls of the job's sandbox.
        image_family: the family of the pinned image that the job runs in: that of its task, with what its trainer adds
            (``core+gepa``).
        objective: what its states are compared by.
        executes_candidates: whether the task may run a candidate's source in the process that scores it.
    """

    job_id: str
    task_id: str
    suite: str
    trainer_id: str
    variant: VariantName
    params: FrozenDict
    raw_params: FrozenDict
    optimizer: str
    optimizer_kwargs: FrozenDict
    guide: str
    guide_kwargs: FrozenDict
    logger: str
    eval_kwargs: FrozenDict
    seed: int
    model: FrozenDict
    splits: FrozenDict
    limits: FrozenDict
    sandbox: SandboxConfig
    image_family: str
    objective: FrozenDict
    executes_candidates: bool = False


def expand(config: RunConfig, tasks: Mapping[str, Task], trainers: Mapping[str, type[Trainer]]) -> list[Job]:
    """The jobs of `config`, in the order task, trainer, variant, model, seed.

    Args:
        tasks, trainers: what `trace_bench.config.resolve.resolve` found, by id.

    Raises:
        ConfigError: an argument that a task or trainer does not take, or one job twice; one line each, with its place.
    """
    problems: list[str] = []
    choices = resolve_tasks(config, tasks, problems)
    variants = resolve_variants(config, trainers, problems)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    models = models_of(config)
    additions = {name: additions_of(name, trainer) for name, trainer in trainers.items()}
    jobs: list[Job] = []
    first: dict[str, tuple[TaskChoice, Variant]] = {}
    for choice in choices:
        for variant in variants:
            prefixes = [(model, _prefix(config, choice, variant, model)) for model in models]
            same = first.setdefault(prefixes[0][1].job_id(config.seeds[0]), (choice, variant))
            if same != (choice, variant):
                problems.append(_repeated(config, (choice, variant), same))
                continue
            for model, prefix in prefixes:
                family = image_family(choice.task.image_family(choice.eval_kwargs), additions[variant.trainer_id])
                jobs += _jobs(config, choice, variant, model, prefix, family)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    return jobs


def models_of(config: RunConfig) -> tuple[FrozenDict, ...]:
    """The identities of the models that answer, each by jobs of its own.

    A real one has ``id``, ``provider``, ``model`` and ``sampling``: what of its ``llm`` block can change an answer.
    Addresses, keys, prices and limits are no part of it. In mode stub, real ones are not asked: their place is the
    stub's.
    """
    entries = config.llms or ((config.llm,) if config.llm else ())
    if config.mode == "stub":
        scripted = tuple(_identity(llm) for llm in entries if llm.script is not None)
        return scripted if len(scripted) == len(entries) and scripted else (STUB, *scripted)
    return tuple(_identity(llm) for llm in entries) or (STUB,)


def _identity(llm: LlmConfig) -> FrozenDict:
    if llm.model == STUB["id"]:
        return STUB if llm.id is None else FrozenDict({"id": llm.id})
    if llm.script is not None:
        return FrozenDict({"id": llm.name, "provider": "scripted", "model": llm.name, "sampling": llm.options})
    sampling = {name: getattr(llm, name) for name in ("temperature", "top_p", "max_tokens")}
    given: dict[str, Any] = {name: value for name, value in sampling.items() if value is not None}
    if not llm.seed:
        given["seed"] = False
    if llm.options:
        given["options"] = llm.options
    return FrozenDict(
        {"id": llm.id or llm.model, "provider": llm.provider, "model": llm.model, "sampling": FrozenDict(given)}
    )


def _prefix(config: RunConfig, choice: TaskChoice, variant: Variant, model: FrozenDict) -> JobIdPrefix:
    trainer = config.trainers[variant.trainer]
    return JobIdPrefix(
        task_id=choice.task.id,
        eval_kwargs=choice.eval_kwargs,
        trainer_id=variant.trainer_id,
        params=variant.params,
        optimizer=variant.optimizer,
        optimizer_kwargs=variant.optimizer_kwargs,
        guide=trainer.guide,
        guide_kwargs=variant.guide_kwargs,
        model=model,
    )


def image_family(of_task: str, additions: Sequence[str]) -> str:
    """The family of a task's image with what a trainer needs besides: ``core+gepa``."""
    return "+".join(dict.fromkeys((*of_task.split("+"), *additions)))


def _jobs(
    config: RunConfig, choice: TaskChoice, variant: Variant, model: FrozenDict, prefix: JobIdPrefix, family: str
) -> list[Job]:
    """One job for each seed. Everything but id and seed is shared between them."""
    trainer = config.trainers[variant.trainer]
    name = VariantName(variant.index, variant.label)
    executes = choice.task.spec.executes_candidates(choice.eval_kwargs)
    return [
        Job(
            job_id=prefix.job_id(seed),
            task_id=choice.task.id,
            suite=choice.task.suite.name,
            trainer_id=variant.trainer_id,
            variant=name,
            params=variant.params,
            raw_params=variant.given,
            optimizer=variant.optimizer,
            optimizer_kwargs=variant.optimizer_kwargs,
            guide=trainer.guide,
            guide_kwargs=variant.guide_kwargs,
            logger=trainer.logger,
            eval_kwargs=choice.eval_kwargs,
            seed=seed,
            model=model,
            splits=choice.splits,
            limits=choice.limits,
            sandbox=choice.sandbox,
            image_family=family,
            objective=choice.objective,
            executes_candidates=executes,
        )
        for seed in config.seeds
    ]


def _repeated(config: RunConfig, here: tuple[TaskChoice, Variant], there: tuple[TaskChoice, Variant]) -> str:
    """The sentence for two entries that make the same jobs once aliases and defaults are filled in."""
    part = 0 if here[0] is not there[0] else 1
    mine, other = config.source.where(here[part].path), config.source.where(there[part].path)
    return f"{mine} makes the same jobs as {other}, once aliases and defaults are filled in; delete one of them"
