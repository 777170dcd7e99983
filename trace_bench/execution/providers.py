"""The providers that answer the models of a run, and the cache of their answers."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from trace_bench.artifacts.records import ModelPrices
from trace_bench.config.models import RunConfig
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.gateway.base import Provider
from trace_bench.gateway.real import OnWait
from trace_bench.gateway.replay import ReplayProvider
from trace_bench.gateway.response_cache import ResponseCache
from trace_bench.gateway.stub import StubProvider
from trace_bench.homes import data_home
from trace_bench.matrix import models_of
from trace_bench.planning.models import real_models
from trace_bench.planning.prices import frozen
from trace_bench.planning.recording import Recording
from trace_bench.planning.scripts import scripted_providers
from trace_bench.sandbox.locks import default_directory


@contextlib.contextmanager
def providers_of(
    config: RunConfig,
    prices: Mapping[str, ModelPrices],
    environ: Mapping[str, str] | None = None,
    recording: Recording | None = None,
    on_wait: OnWait | None = None,
) -> Iterator[dict[str, Provider]]:
    """The providers of a completed `config`, by the id of the model that each answers for, until the block ends.

    Args:
        prices: those that are frozen with the run, by the model's id.
        environ: variables with keys; None is this process's.
        recording: the run that is replayed, in mode replay.
        on_wait: called for every wait of a call to a real model.

    Raises:
        ConfigError: a provider is not available.
        EnvironmentUnavailable: as `limits_folder`, or litellm is not installed.
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

    with ProviderProcess(models, limits_folder(), on_wait=on_wait) as process:
        process.start()  # while the first sandboxes are made
        providers |= {model.id: process.provider(model.id) for model in models}
        yield providers


def cache_folder() -> Path:
    """``llm-cache`` among the user's data; may not exist yet."""
    return data_home() / "llm-cache"


def cache_of(config: RunConfig) -> ResponseCache | None:
    """The response cache, if `config` uses it. With ``resume: none`` it only stores answers."""
    return ResponseCache(cache_folder(), fresh=config.resume == "none") if config.llm_cache else None


def limits_folder() -> Path:
    """Where all controllers of this user on this host count their requests to providers; made if missing.

    It is below the folder of the uid locks, since one user may have several homes: of a test, a project, a container.

    Raises:
        EnvironmentUnavailable: it cannot be made, or is another user's.
    """
    user = os.getuid()
    folder = default_directory() / f"limits-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
        raise EnvironmentUnavailable(
            f"{folder}, where this host counts what it asks of providers, is not a folder of yours; have it removed, "
            "or set TRACE_BENCH_LOCK_DIR to another place"
        )
    return folder
