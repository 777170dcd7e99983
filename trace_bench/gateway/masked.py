"""A provider whose answers and errors hold no secret that this process knows, whatever it echoes.

It stands before everything that sees an answer: the sandbox, the cassette, the messages of failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from trace_bench.artifacts.records import LlmTry
from trace_bench.errors import HarnessError
from trace_bench.gateway.base import Provider, ProviderError, ProviderReply, ProviderRequest, Recovering, Refusal
from trace_bench.gateway.estimates import estimate
from trace_bench.gateway.response_cache import Addressed
from trace_bench.secrets import known


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
        return self._of(lambda: self._provider.complete(request))

    def recover(
        self, head: Mapping[str, Any], answer: Mapping[str, Any] | None, tries: tuple[LlmTry, ...]
    ) -> ProviderReply:
        """See `Recovering`."""
        provider = self._provider
        if not isinstance(provider, Recovering):
            raise HarnessError(
                f"provider {self.name} has written no call down, and {len(tries)} tries of one are there"
            )
        return self._of(lambda: provider.recover(head, answer, tries))

    def _of(self, reply_to: Callable[[], ProviderReply]) -> ProviderReply:
        try:
            reply = reply_to()
        except ProviderError as error:
            raise ProviderError(known.text(str(error)), tries=_tries(error.tries)) from None
        except Refusal as error:
            raise Refusal(error.status, error.code, known.text(error.message), param=error.param) from None
        body = cast(dict[str, Any], known.value(reply.body))
        sent = cast(dict[str, Any], known.value(reply.sent))
        return replace(reply, body=body, sent=sent, tries=_tries(reply.tries))


def _tries(tries: tuple[LlmTry, ...]) -> tuple[LlmTry, ...]:
    return tuple(one.model_copy(update={"error": known.text(one.error)}) for one in tries)
