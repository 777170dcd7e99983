"""Calls that an earlier controller, or an earlier attempt, had under way: what came of them goes into the cassette."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trace_bench.artifacts.records import LlmCall, LlmRequestRecord, LlmTry
from trace_bench.artifacts.usage import is_lost
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import HarnessError
from trace_bench.gateway.asked import Left, files_in, left_at
from trace_bench.gateway.base import NobodyWaits, Provider, ProviderError, ProviderReply, Recovering, Refusal
from trace_bench.gateway.cassettes import PROVIDER_FAILURE, Cassette
from trace_bench.gateway.meter import Meter

LOOK = 0.1
"""Seconds between two looks at whether a process has ended with a call."""
AFTER_ITS_TIME = 60.0
"""Seconds beyond the time limit of a request after which its answer counts as lost."""

Head = Mapping[str, Any]
"""Of a call: what a line of the cassette says of it, with ``path`` and ``body`` of the request."""


def line_of(n: int, head: Head, provider: str, model: str, **fields: Any) -> LlmCall:
    """A line of the cassette about the call `head`."""
    return LlmCall(
        n=n,
        t=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        provider=provider,
        model=model,
        **{name: head[name] for name in ("attempt", "request_id", "phase", "slot", "request_hash")},
        **fields,
    )


def asked_with(head: Head, reply: ProviderReply) -> dict[str, Any]:
    """Fields of the line of a call that was asked of a provider, and what it replied."""
    return {
        "status": reply.status,
        "request": LlmRequestRecord(method="POST", path=head["path"], body=head["body"]),
        "response": dict(reply.body),
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "cached_tokens": reply.cached_tokens,
        "reasoning_tokens": reply.reasoning_tokens,
        "cost_usd": reply.cost_usd,
        "inert": reply.inert,
        "sent": dict(reply.sent),
        "tries": reply.tries,
        "estimated": reply.estimated,
        "cached": reply.cached,
        "replayed_from": reply.replayed_from,
    }


def no_answer(error: ProviderError) -> ProviderReply:
    """A failure of the provider as a line of the cassette has it."""
    body = Refusal(PROVIDER_FAILURE, "provider_failure", f"the provider gave no answer: {error}").body()
    return ProviderReply(PROVIDER_FAILURE, body, tries=error.tries)


class Recovery:
    """Writes down what came of calls that have a file and no line. Thread-safe.

    Args:
        folder: of the files; those that are there now are of an earlier process.
        left: whether the session has ended, so that no caller waits for an answer.
    """

    def __init__(
        self, folder: Path, cassette: Cassette, meter: Meter, provider: Provider, model: str, left: Callable[[], bool]
    ) -> None:
        self._cassette = cassette
        self._meter = meter
        self._provider = provider
        self._model = model
        self._left = left
        self._lock = threading.Lock()
        self._files = files_in(folder)
        self.lost = [call for call in cassette.restored if is_lost(call)]
        """Lines of requests whose answers are lost."""
        self.recover(wait=False)

    def recover(self, *, wait: bool) -> None:
        """Write down what is known of the calls, in the order in which they were asked.

        Args:
            wait: for those that another process still asks. Without it, they and all later ones are left.

        Raises:
            NobodyWaits: the session has ended.
            HarnessError: a file is damaged.
        """
        if not self._files:
            return
        with self._lock:
            while self._files:
                found = self._look(self._files[0], wait)
                if found is None:
                    return
                if found.head:
                    self._write(found)
                self._files.pop(0).unlink(missing_ok=True)

    def note_lost(self, head: Head, tries: tuple[LlmTry, ...]) -> None:
        """A request was sent, and its answer is lost."""
        self._write(Left(head, tries, None, lost=True))

    def _look(self, path: Path, wait: bool) -> Left | None:
        """None if it is still with the provider as the session ended. A `Left` without head if nothing was sent."""
        end: float | None = None
        while True:
            try:
                return left_at(path) or Left({}, (), None, lost=False)
            except BlockingIOError:
                if not wait:
                    return None
            if self._left():
                raise NobodyWaits("the session ended before an answer that an earlier one had asked for was there")
            lines = read_journal(path).lines
            if end is None:
                end = time.monotonic() + AFTER_ITS_TIME + (float(lines[0]["asked"]["timeout"]) if lines else 0.0)
            if time.monotonic() > end:
                return Left(lines[0]["asked"] if lines else {}, (), None, lost=True)
            time.sleep(LOOK)

    def _write(self, left: Left) -> None:
        if not isinstance(self._provider, Recovering):
            raise HarnessError(
                f"{self._cassette.path.parent} holds a call that was under way, of a provider that writes none down"
            )
        answer = left.answer
        if answer is None and not left.lost:
            answer = {"error": left.tries[-1].error if left.tries else "the process that asked it has ended"}
        try:
            reply = self._provider.recover(left.head, answer, left.tries)
        except ProviderError as error:
            reply = no_answer(error)
        known = (left.head["attempt"], left.head["request_id"], reply.status, reply.tries)
        if any((c.attempt, c.request_id, c.status, c.tries) == known for c in self._cassette.restored):
            return  # the controller died before it could remove the file
        latency = sum(one.seconds + one.waited for one in reply.tries)
        fields = asked_with(left.head, reply)
        line = self._cassette.add(
            lambda n: line_of(n, left.head, self._provider.name, self._model, latency=latency, **fields)
        )
        self._meter.recover(line)
        if is_lost(line):
            self.lost.append(line)
