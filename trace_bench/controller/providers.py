"""Which provider answers which model of a run."""

from __future__ import annotations

from trace_bench.config.models import RunConfig
from trace_bench.controller.scripts import scripted_providers
from trace_bench.errors import ConfigError
from trace_bench.gateway.base import Provider
from trace_bench.gateway.stub import StubProvider


def providers_of(config: RunConfig) -> dict[str, Provider]:
    """The providers of `config`, by the id of the model that each answers for.

    Raises:
        ConfigError: one cannot be had.
    """
    if config.mode == "stub":
        return {"stub": StubProvider(), **scripted_providers(config)}
    raise ConfigError(f"this release has no mode {config.mode}; write 'mode: stub'")
