"""Calls that an earlier controller or attempt had under way: their outcomes go into the cassette."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from trace_bench.artifacts.calls import LlmTry
from trace_bench.artifacts.usage import NO_ANSWER, is_lost
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import HarnessError
from trace_bench.gateway.base import Provider, ProviderError, ProviderReply, Recovering, Refusal, SessionEnded
from trace_bench.gateway.cassettes import Cassette
from trace_bench.gateway.masked import masked
from trace_bench.gateway.meter import Meter
from trace_bench.gateway.pending import Head, PendingCall, read_pending

POLL_SECONDS = 0.1
"""Interval between two checks whether a process has ended with a call."""
GRACE_SECONDS = 60.0
"""Time beyond the time limit of a request after which its answer counts as lost."""


def line_head(head: Head, provider: str, model: str) -> dict[str, Any]:
    """The fields of a cassette's line that identify the call `head`."""
    names = ("attempt", "request_id", "phase", "slot", "request_hash")
    return {"provider": provider, "model": model, **{name: head[name] for name in names}}


def no_answer(error: ProviderError) -> ProviderReply:
    """A failure of the provider in the form in which the cassette records it."""
    body = Refusal(NO_ANSWER, "provider_failure", f"the provider gave no answer: {error}").body()
    return ProviderReply(NO_ANSWER, body, tries=error.tries)


class Recovery:
    """Records calls that have a file and no line. Thread-safe.

    Args:
        folder: of the files; those that are there now are of an earlier process.
    """

    def __init__(self, folder: Path, cassette: Cassette, meter: Meter, provider: Provider, model: str) -> None:
        self._cassette = cassette
        self._meter = meter
        self._provider = provider
        self._model = model
        self._lock = threading.Lock()
        self._files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []  # in the order of their calls
        self.lost = [call for call in cassette.restored if is_lost(call)]
        """Lines of requests whose answers are lost."""
        self.recover(wait=False)

    def recover(self, *, wait: bool) -> None:
        """Record what is known of the calls, in the order in which they were made.

        Args:
            wait: for those that another process has still under way. Without it, they and all later ones are left.

        Raises:
            SessionEnded: the session has ended.
            HarnessError: a file is damaged.
        """
        if not self._files:
            return
        with self._lock:
            while self._files:
                found = self._read(self._files[0], wait)
                if found is None:
                    return
                if found.head:
                    self._add(found)
                self._files.pop(0).unlink(missing_ok=True)

    def note_lost(self, head: Head, tries: tuple[LlmTry, ...]) -> None:
        """Record that a request was sent and its answer is lost."""
        self._add(PendingCall(head, tries, lost=True))

    def _read(self, path: Path, wait: bool) -> PendingCall | None:
        """The call in the file at `path`; None if it is still under way and is not to be waited for."""
        end: float | None = None
        while True:
            try:
                return read_pending(path) or PendingCall({})
            except BlockingIOError:
                if not wait:
                    return None
            if self._meter.stopped:
                raise SessionEnded("the session ended before an answer that an earlier one had asked for was there")
            lines = read_journal(path).lines
            head = lines[0]["asked"] if lines else {}
            if end is None:
                end = time.monotonic() + GRACE_SECONDS + float(head.get("timeout", 0.0))
            if time.monotonic() > end:
                return PendingCall(head, lost=True)
            time.sleep(POLL_SECONDS)

    def _add(self, call: PendingCall) -> None:
        provider = self._provider
        if not isinstance(provider, Recovering):
            raise HarnessError(
                f"{self._cassette.path.parent} holds a call that was under way, of a provider that records none"
            )
        answer = call.answer
        if answer is None and not call.lost:
            answer = {"error": call.tries[-1].error if call.tries else "the process that asked it has ended"}
        try:
            reply = masked(lambda: provider.recover(call.head, answer, call.tries))
        except ProviderError as error:
            reply = no_answer(error)
        known = (call.head["attempt"], call.head["request_id"], reply.status, reply.tries)
        if any((c.attempt, c.request_id, c.status, c.tries) == known for c in self._cassette.restored):
            return  # the controller died before it could remove the file
        line = self._cassette.add({
            **line_head(call.head, self._provider.name, self._model),
            **reply.line_of(call.head["path"], call.head["body"]),
            "latency": sum(one.seconds + one.waited for one in reply.tries),
        })  # fmt: skip
        self._meter.recover(line)
        if is_lost(line):
            self.lost.append(line)
