"""Which provider answers which model of a run."""

from __future__ import annotations

from trace_bench.config.models import RunConfig
from trace_bench.controller.recording import Recording
from trace_bench.errors import ConfigError
from trace_bench.gateway.base import Provider
from trace_bench.gateway.replay import ReplayProvider
from trace_bench.gateway.stub import StubProvider
from trace_bench.matrix import models_of


def providers_of(config: RunConfig, recording: Recording | None = None) -> dict[str, Provider]:
    """The providers of `config`, by the id of the model that each answers for.

    Args:
        recording: the run that is replayed, in mode replay.

    Raises:
        ConfigError: one cannot be had.
    """
    if config.mode == "stub":
        return {"stub": StubProvider()}
    if recording is not None:
        replay = ReplayProvider(recording.recorded, keep=config.max_workers + 1)
        return {str(model["id"]): replay for model in models_of(config)}
    raise ConfigError(f"this release has no mode {config.mode}; write 'mode: stub'")
