"""Prices of the models of a run. They are recorded with the run, and a run that is continued keeps them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from trace_bench.artifacts.records import ModelPrices
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.gateway.prices import known_price
from trace_bench.gateway.real import GET_LITELLM, Prices
from trace_bench.planning.models import real_models

NO_LITELLM = f"mode real asks providers through litellm, which is not installed: {GET_LITELLM}"


def has_litellm() -> bool:
    return importlib.util.find_spec("litellm") is not None


def check_litellm(config: RunConfig) -> None:
    """Raise EnvironmentUnavailable if `config` is of mode real, and litellm is not installed."""
    if config.mode == "real" and not has_litellm():
        raise EnvironmentUnavailable(NO_LITELLM)


def prices_of(config: RunConfig, warn: list[str]) -> dict[str, ModelPrices]:
    """The prices of a completed `config`'s real models, by id. A model without a known price is a warning.

    Raises:
        ConfigError: a budget in US dollars has no meaning, since a price is not known.
    """
    models = real_models(config, {})
    if not models:
        return {}
    table = has_litellm()
    found: dict[str, ModelPrices] = {}
    unknown = []
    for model in models:
        price = model.prices or (known_price(model) if table else None)
        if price is None:
            unknown.append(model.id)
        else:
            found[model.id] = ModelPrices(prompt=price.prompt, completion=price.completion, cached=price.cached)
    names = ", ".join(unknown)
    if unknown and not table:
        warn.append(f"{NO_LITELLM}; without it the price of {names} is not known")
    elif unknown:
        for path, limit in ((("budget", "usd"), config.budget.usd), (("budget", "run", "usd"), config.budget.run.usd)):
            if limit is not None:
                raise ConfigError(
                    f"{config.source.where(path)}: the price of {names} is not known, so that its cost cannot be "
                    "limited; write llm.prices (US dollars per million tokens), or a budget of tokens"
                )
        warn.append(f"the price of {names} is not known: its calls are counted as costing nothing; write llm.prices")
    return found


def frozen(prices: Mapping[str, ModelPrices]) -> dict[str, Prices | None]:
    """The same prices in the gateway's type."""
    return {name: Prices(price.prompt, price.completion, price.cached) for name, price in prices.items()}
