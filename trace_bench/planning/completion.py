"""Complete a loaded config, step by step, from what is on this machine. Done once for each command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts.records import ModelPrices
from trace_bench.config.frozen import FrozenDict
from trace_bench.config.models import RunConfig
from trace_bench.config.selectors import catalog_of, select
from trace_bench.config.task_choices import FIXTURE, fixture_default
from trace_bench.errors import ConfigError
from trace_bench.planning.models import mask_secrets, with_models
from trace_bench.planning.prices import prices_of
from trace_bench.planning.recording import Recording, recording_of
from trace_bench.planning.scripts import with_scripts
from trace_bench.suites.catalog import Catalog
from trace_bench.suites.data_sets import missing_splits


@dataclass(frozen=True)
class CompleteConfig:
    """A config with everything that it leaves to the environment.

    Attributes:
        catalog: the tasks that it can name.
        prices: of its models, by id, as far as they are known.
        warnings: to be recorded with the run, beside the config's own.
        recording: the run that a replay repeats.
    """

    config: RunConfig
    catalog: Catalog
    prices: Mapping[str, ModelPrices]
    warnings: tuple[str, ...]
    recording: Recording | None


def complete_config(
    config: RunConfig, roots: Sequence[Path] = (), recording: Recording | None = None
) -> CompleteConfig:
    """Complete `config`. Its secrets are masked from now on.

    Args:
        roots: extra folders with task folders.
        recording: the run that `config`, of mode replay, names, if it was read before.

    Raises:
        ConfigError: a task selector, model, script or price is wrong, a key is part of the config, or the run to replay
            cannot be read.
    """
    catalog = catalog_of(config, roots)
    config = select(config, catalog)
    recording = recording or recording_of(config)
    if recording is None:
        config = with_fixtures(config, catalog)
        config = complete_models(config)
    else:
        config = with_recorded_fixtures(config, recording)
        config = recording.fitted(config)
        mask_secrets(config, os.environ)
    warnings: list[str] = []
    prices = prices_of(config, warnings)
    return CompleteConfig(config, catalog, prices, tuple(warnings), recording)


def complete_models(config: RunConfig) -> RunConfig:
    """`config` with its models filled in from scripts and the environment, whose secrets are masked from now on.

    Raises:
        ConfigError: a model or its provider is unknown, a script is wrong, or a key is part of the config.
    """
    config = with_scripts(config)
    config = with_models(config, os.environ)
    mask_secrets(config, os.environ)
    return config


def with_fixtures(config: RunConfig, catalog: Catalog) -> RunConfig:
    """`config` whose tasks take the few rows that come with the program, with a warning, where their data set was not
    fetched and the config does not choose. In mode stub only: a model is never asked about them unless a user wants it.
    """
    if config.mode != "stub" or not catalog.has_roots:
        return config
    missing = {task.id for task in config.tasks if _lacks_data(catalog, task.id)}
    changed = _with_fixture(config, missing)
    names = list(dict.fromkeys(new.id for new, old in zip(changed.tasks, config.tasks, strict=True) if new is not old))
    if not names:
        return config
    first = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    sets, has, run = ("", "has", "it runs") if len(names) == 1 else ("s", "have", "they run")
    warning = (
        f"{first}: the data set{sets} {has} not been fetched, so {run} on the few rows that come with the program "
        "(fixture: true); trace-bench data fetch gets the data"
    )
    return changed.changed({}, warnings=[warning])


def with_recorded_fixtures(config: RunConfig, recording: Recording) -> RunConfig:
    """`config` whose tasks take the fixture if it does not choose, and all recorded jobs of the task took it."""
    jobs = recording.jobs.values()
    others = {job.task_id for job in jobs if job.eval_kwargs.get(FIXTURE) is not True}
    return _with_fixture(config, {job.task_id for job in jobs} - others)


def _with_fixture(config: RunConfig, names: set[str]) -> RunConfig:
    """`config` with ``fixture: true`` for the tasks `names`, unless it has the argument."""
    tasks = tuple(
        task.model_copy(update={"eval_kwargs": FrozenDict({**task.eval_kwargs, FIXTURE: True})})
        if task.id in names and FIXTURE not in task.eval_kwargs and FIXTURE not in config.eval_kwargs
        else task
        for task in config.tasks
    )
    return config.changed({"tasks": tasks})


def _lacks_data(catalog: Catalog, task_id: str) -> bool:
    """Return True if a task has a fixture and takes the data set, which was not fetched. What is broken, `resolve`
    reports."""
    try:
        entry = catalog.find(task_id)
        if entry is None or fixture_default(catalog.spec(entry)) is not False:
            return False
        return any(map(missing_splits, catalog.data_sets([entry])))
    except ConfigError:
        return False
