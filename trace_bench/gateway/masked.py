"""A provider whose answers and errors hold no secret that this process knows, whatever it echoes.

It stands before everything that sees an answer: the sandbox, the cassette, the messages of failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from trace_bench.artifacts.records import LlmTry
from trace_bench.artifacts.secrets import known
from trace_bench.gateway.base import Provider, ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.estimates import estimate
from trace_bench.gateway.response_cache import Addressed


class Masked:
    """`provider`, with secrets in what comes from it masked."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.name = provider.name
        self.paid = provider.paid
        self.wants_hints = provider.wants_hints
        self.quick = provider.quick

    @property
    def identity(self) -> Mapping[str, Any]:
        return self._provider.identity if isinstance(self._provider, Addressed) else {}

    def estimate(self, request: ProviderRequest) -> tuple[int, float | None]:
        return estimate(self._provider, request)

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """Raises: as the provider."""
        try:
            reply = self._provider.complete(request)
        except ProviderError as error:
            raise ProviderError(known.text(str(error)), tries=_tries(error.tries)) from None
        except Refusal as error:
            raise Refusal(error.status, error.code, known.text(error.message), param=error.param) from None
        body = cast(dict[str, Any], known.value(reply.body))
        sent = cast(dict[str, Any], known.value(reply.sent))
        return replace(reply, body=body, sent=sent, tries=_tries(reply.tries))


def _tries(tries: tuple[LlmTry, ...]) -> tuple[LlmTry, ...]:
    return tuple(one.model_copy(update={"error": known.text(one.error)}) for one in tries)
