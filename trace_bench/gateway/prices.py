"""The cost of a call by the prices of the config, and estimates by litellm's table.

The table is read as a file, because importing litellm takes seconds. Where the config gives no prices, the provider
process has litellm compute the cost of each answer (`trace_bench.gateway.litellm_calls`): prices by the length of a
prompt, for tokens that are written to a cache, or for reasoning are not in `Prices`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trace_bench.gateway.real import Prices, RealModel
from trace_bench.gateway.usage import Counted

TABLE = "model_prices_and_context_window_backup.json"
MILLION = 1e6


def known_price(model: RealModel) -> Prices | None:
    """The prices of `model`: its own, or else those of litellm's table; None if they are unknown.

    The table holds prices of providers at their own address. Behind any other `base_url` a price is unknown, whatever
    the name of the model.
    """
    if model.prices is not None:
        return model.prices
    if model.base_url is not None and not _is_own_address(model.base_url, model.provider):
        return None
    table = _table(_table_path())
    for name in (f"{model.provider}/{model.model}", model.model):
        entry = table.get(name)
        if isinstance(entry, dict) and _sold_by(entry, model.provider):
            return _prices(entry)
    return None


def by_litellm(model: RealModel) -> bool:
    """True if litellm computes the cost of the answers of `model`: the config gives no prices, and the table does."""
    return model.table_prices or (model.prices is None and known_price(model) is not None)


def cost(counted: Counted, prices: Prices | None) -> float:
    """US dollars; 0 if the prices are unknown."""
    if prices is None:
        return 0.0
    cached = min(counted.cached, counted.prompt)
    cached_price = prices.prompt if prices.cached is None else prices.cached
    parts = ((counted.prompt - cached) * prices.prompt, cached * cached_price, counted.completion * prices.completion)
    return math.fsum(parts) / MILLION


def _prices(entry: Mapping[str, Any]) -> Prices | None:
    if isinstance(tiers := entry.get("tiered_pricing"), list) and tiers and isinstance(tiers[0], dict):
        entry = {**tiers[0], **entry}  # the prices of short prompts
    prompt = _per_million(entry.get("input_cost_per_token"))
    completion = _per_million(entry.get("output_cost_per_token", 0.0))
    if prompt is None or completion is None:
        return None
    return Prices(prompt, completion, _per_million(entry.get("cache_read_input_token_cost")))


def _per_million(price: object) -> float | None:
    if not isinstance(price, int | float) or isinstance(price, bool) or not 0 <= price < math.inf:
        return None
    return round(price * MILLION, 9)  # 1.5e-07 a token is 0.15, not 0.15000000000000002


def _sold_by(entry: Mapping[str, Any], provider: str) -> bool:
    """Whether `provider` sells the model. The table splits some providers: ``vertex_ai-language-models``."""
    seller = str(entry.get("litellm_provider", ""))
    return seller == provider or seller.startswith((f"{provider}-", f"{provider}_"))


def _is_own_address(base_url: str, provider: str) -> bool:
    return provider.partition("_")[0] in (urlsplit(base_url).hostname or "")


def _table_path() -> Path | None:
    spec = find_spec("litellm")  # imports nothing
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        return Path(folder) / TABLE
    return None


@lru_cache(maxsize=1)
def _table(path: Path | None) -> Mapping[str, Any]:
    try:
        table = json.loads(path.read_bytes()) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
