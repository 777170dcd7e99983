"""Complete a loaded config: select tasks, fill in models, and settle prices. Done once for each command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts.records import ModelPrices
from trace_bench.config.models import RunConfig
from trace_bench.config.selectors import select
from trace_bench.errors import ConfigError
from trace_bench.planning.data_sets import with_rows
from trace_bench.planning.models import mask_secrets, with_models
from trace_bench.planning.prices import prices_of
from trace_bench.planning.recording import Recording, recording_of
from trace_bench.planning.scripts import with_scripts


@dataclass(frozen=True)
class CompleteConfig:
    """A config with everything that it leaves to the environment.

    Attributes:
        roots: extra folders with task folders.
        prices: of its models, by id, as far as they are known.
        warnings: to be recorded with the run, beside the config's own.
        recording: the run that a replay repeats.
        missing_data: why the data set of a task is not here, by task id.
    """

    config: RunConfig
    roots: Sequence[Path]
    prices: Mapping[str, ModelPrices]
    warnings: tuple[str, ...]
    recording: Recording | None
    missing_data: Mapping[str, ConfigError]


def complete_config(
    config: RunConfig, roots: Sequence[Path] = (), recording: Recording | None = None
) -> CompleteConfig:
    """Complete `config`. Its secrets are masked from now on.

    Args:
        recording: the run that `config`, of mode replay, names, if it was read before.

    Raises:
        ConfigError: a task selector, model, script or price is wrong, a key is part of the config, or the run to replay
            or its data set cannot be read.
    """
    config = select(config, roots)
    recording = recording or recording_of(config)
    config, missing_data = with_rows(config, roots, recording)
    if recording is None:
        config = complete_models(config)
    else:
        config = recording.fitted(config)
        mask_secrets(config, os.environ)
    warnings: list[str] = []
    prices = prices_of(config, warnings)
    return CompleteConfig(config, roots, prices, tuple(warnings), recording, missing_data)


def complete_models(config: RunConfig) -> RunConfig:
    """`config` with its models filled in from scripts and the environment, whose secrets are masked from now on.

    Raises:
        ConfigError: a model or its provider is unknown, a script is wrong, or a key is part of the config.
    """
    config = with_models(with_scripts(config), os.environ)
    mask_secrets(config, os.environ)
    return config
