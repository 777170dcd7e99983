"""Where the answers lie that outlive their runs, and whether a run uses them."""

from __future__ import annotations

from pathlib import Path

from trace_bench.config.models import RunConfig
from trace_bench.gateway.response_cache import ResponseCache
from trace_bench.images.paths import data_home


def cache_folder() -> Path:
    """``llm-cache`` among the user's data; may not exist yet."""
    return data_home() / "llm-cache"


def cache_of(config: RunConfig) -> ResponseCache | None:
    """The response cache, if `config` asks for it: one that only takes answers for a run that is to pay again."""
    return ResponseCache(cache_folder(), fresh=config.resume == "none") if config.llm_cache else None
