"""The fields that the gateway adds to a request, or changes in it, before it goes to a real model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.gateway.draws import Draws
from trace_bench.gateway.real import RealModel

LIMIT_NAMES: Mapping[str, tuple[str, ...]] = {
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
}
"""Names of an answer's limit. The gateway uses the first if a request has none."""
SEEDED = ("/v1/chat/completions", "/v1/completions")
MAX_SEED = 1 << 31


def additions(model: RealModel, path: str, body: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The fields that the gateway sets: sampling and seed if `body` does not have them, and the smaller limit.

    Embeddings are sent as they are.
    """
    names = LIMIT_NAMES.get(path)
    if names is None:
        return {}
    added: dict[str, Any] = {}
    for name, value in (("temperature", model.temperature), ("top_p", model.top_p)):
        if value is not None and body.get(name) is None:
            added[name] = value
    if model.max_tokens is not None:
        given = [name for name in names if body.get(name) is not None]
        for name in given or names[:1]:
            asked = body.get(name)
            if not isinstance(asked, int) or asked > model.max_tokens:
                added[name] = model.max_tokens
    if model.send_seed and path in SEEDED and body.get("seed") is None:
        added["seed"] = seed
    return added


def seed_of(job_seed: int, request_hash: str, sample: str) -> int:
    """A seed for the provider: another one for each sample of a request, the same in every attempt and run.

    Args:
        sample: the slot of the request, or how often it was sent before.
    """
    return Draws(job_seed, request_hash, sample, "seed").below(MAX_SEED)
