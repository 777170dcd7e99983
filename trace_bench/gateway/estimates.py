"""Estimates of a call's tokens and cost, for budgets and limits while it is under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from trace_bench.artifacts import jsonio
from trace_bench.gateway.base import Provider, ProviderRequest
from trace_bench.gateway.fields import ANSWER_LIMITS

BYTES_PER_TOKEN = 4


@runtime_checkable
class Estimating(Protocol):
    """A provider with estimates of its own."""

    def estimate(self, request: ProviderRequest) -> tuple[int, float | None]:
        """Tokens, answer included, and US dollars; None if the price is unknown."""


def estimate(provider: Provider, request: ProviderRequest) -> tuple[int, float | None]:
    """Expected tokens and US dollars (None: unknown) of `request`."""
    if isinstance(provider, Estimating):
        return provider.estimate(request)
    return tokens_of(request.body, request.model.sampling.get("max_tokens")), None if provider.paid else 0.0


def tokens_of(body: Mapping[str, Any], max_tokens: object = None) -> int:
    """Expected tokens of prompt and answers; see `split`."""
    return sum(split(body, max_tokens))


def split(body: Mapping[str, Any], max_tokens: object = None) -> tuple[int, int]:
    """A token for every four bytes of the prompt, and the limits of all answers (0 for an answer without a limit).

    Args:
        max_tokens: of one answer, if `body` has no limit.
    """
    answer = max(_count(body.get(key)) for key in ANSWER_LIMITS) or _count(max_tokens)
    return -(-len(jsonio.canonical(dict(body))) // BYTES_PER_TOKEN), answer * _answers(body)


def _answers(body: Mapping[str, Any]) -> int:
    """How many answers the provider writes: ``n`` or ``best_of``, for each of several prompts."""
    prompt = body.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list) and any(isinstance(one, str | list) for one in prompt) else 1
    return max(1, _count(body.get("n")), _count(body.get("best_of"))) * prompts


def _count(value: object) -> int:
    """`value` if it is a plausible number of tokens or answers; it came from a sandbox."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 32 else 0
