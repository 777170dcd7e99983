"""Which provider answers which model of a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from trace_bench.artifacts.records import ModelPrices
from trace_bench.config.models import RunConfig
from trace_bench.controller.models import real_models
from trace_bench.controller.prices import frozen
from trace_bench.controller.recording import Recording
from trace_bench.controller.scripts import scripted_providers
from trace_bench.gateway.base import Provider
from trace_bench.gateway.masked import Masked
from trace_bench.gateway.replay import ReplayProvider
from trace_bench.gateway.stub import StubProvider
from trace_bench.images.paths import data_home
from trace_bench.matrix import models_of

LIMITS = "limits"
"""Folder of what the controllers of this host share about limits, below `data_home`."""


@contextlib.contextmanager
def providers_of(
    config: RunConfig,
    prices: Mapping[str, ModelPrices],
    environ: Mapping[str, str] | None = None,
    recording: Recording | None = None,
) -> Iterator[dict[str, Provider]]:
    """The providers of a completed `config`, by the id of the model that each answers for, until the block ends.

    Args:
        prices: those that are frozen with the run, by the model's id.
        environ: where keys are looked for; None is this process's.
        recording: the run that is replayed, in mode replay.

    Raises:
        ConfigError: one cannot be had.
    """
    if recording is not None:
        replay = ReplayProvider(recording.recorded, keep=config.max_workers + 1)
        yield {str(model["id"]): replay for model in models_of(config)}
        return
    stub = StubProvider()
    providers: dict[str, Provider] = {"stub": stub, **scripted_providers(config)}
    providers |= {llm.name: stub for llm in config.llms if llm.model == "stub"}
    models = real_models(config, os.environ if environ is None else environ, frozen(prices))
    if not models:
        yield providers
        return
    from trace_bench.gateway.provider_process import ProviderProcess  # brings asyncio, which no other run pays for

    with ProviderProcess(models, data_home() / LIMITS) as process:
        process.start()  # while the first sandboxes are made
        providers |= {model.id: Masked(process.provider(model.id)) for model in models}
        yield providers
