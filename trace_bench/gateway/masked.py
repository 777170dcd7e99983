"""Masks the secrets that this process knows in all that comes from a provider, before anything else sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from trace_bench.artifacts.calls import LlmTry
from trace_bench.gateway.base import ProviderError, ProviderReply, Refusal
from trace_bench.secrets import known


def masked(reply_to: Callable[[], ProviderReply]) -> ProviderReply:
    """The reply that `reply_to` returns, with its secrets masked.

    Raises:
        ProviderError, Refusal: as `reply_to`, with the secrets in the message masked.
    """
    try:
        reply = reply_to()
    except ProviderError as error:
        raise ProviderError(known.text(str(error)), tries=_tries(error.tries)) from None
    except Refusal as error:
        raise Refusal(error.status, error.code, known.text(error.message), param=error.param) from None
    body = cast(dict[str, Any], known.value(reply.body))
    if body is reply.body:
        return reply  # no secret is known
    sent = cast(dict[str, Any], known.value(reply.sent))
    return replace(reply, body=body, sent=sent, tries=_tries(reply.tries))


def _tries(tries: tuple[LlmTry, ...]) -> tuple[LlmTry, ...]:
    return tuple(one.model_copy(update={"error": known.text(one.error)}) for one in tries)
