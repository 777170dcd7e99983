"""Answers for the calls of a job: budget, response cache, provider, and the line of the cassette that is written before
anything else gets the answer."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from trace_bench.artifacts.calls import LlmCall, LlmTry
from trace_bench.artifacts.contract import ModelRef
from trace_bench.artifacts.layout import pending_beside
from trace_bench.gateway.base import (
    GatewayLimits,
    Hints,
    Provider,
    ProviderError,
    ProviderReply,
    ProviderRequest,
    Recovering,
    Refusal,
    SessionEnded,
)
from trace_bench.gateway.cassettes import MAX_REFUSALS, Cassette
from trace_bench.gateway.estimates import estimate
from trace_bench.gateway.masked import masked
from trace_bench.gateway.meter import NOTHING, Meter
from trace_bench.gateway.pending import Head, PendingRecord
from trace_bench.gateway.recovery import Recovery, line_head, no_answer
from trace_bench.gateway.requests import Call
from trace_bench.gateway.response_cache import ResponseCache, Sample, identity_of
from trace_bench.gateway.sampling import seed_of


@dataclass
class JobCalls:
    """The calls of one attempt of one job. Thread-safe.

    Attributes:
        cache: answers of earlier runs.
    """

    job_id: str
    seed: int
    model: ModelRef
    provider: Provider
    cassette: Cassette
    meter: Meter
    attempt: int
    limits: GatewayLimits
    cache: ResponseCache | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._folder = pending_beside(self.cassette.path)
        self.recovery = Recovery(self._folder, self.cassette, self.meter, self.provider, self.model.id)
        self._cache_model = identity_of(self.provider, self.model) if self.cache is not None else {}
        self._under_way: dict[Path, PendingRecord] = {}
        self._sent = 0
        self._records = isinstance(self.provider, Recovering)
        restored = self.cassette.restored
        self._refusals = sum(call.refused for call in restored)
        self._unslotted = sum(call.slot is None and call.reused_from is None for call in restored)

    def answer(self, call: Call, draw: int) -> LlmCall:
        """Pay for an answer and record it; record a refusal too, as a replay has to refuse the same.

        Args:
            draw: how often this attempt has sent the same request before and may get another answer now.

        Raises:
            Refusal, ProviderError, NotRecorded: there is no answer.
            OSError: it cannot be recorded.
        """
        try:
            if self.cassette.size >= self.limits.cassette_bytes:
                # 400 is a status that no client retries.
                message = (
                    f"the calls of this job fill {self.limits.cassette_bytes} bytes; no more is recorded of one job"
                )
                raise Refusal(400, "recording_full", message)
            return self._within_budget(call, draw)
        except Refusal as refusal:
            with self._lock:
                self._refusals += 1
                kept = self._refusals <= MAX_REFUSALS
            if kept:
                self._add(call, status=refusal.status, request=None, response=refusal.body(), refused=True)
            raise

    def reuse(self, call: Call, n: int) -> LlmCall:
        """Give the answer of line `n` again."""
        return self.cassette.read(self._again(call, n).n)

    def carry_over(self, calls: Iterable[LlmCall]) -> None:
        """Take over recorded answers that no request was for: they were paid for, and count."""
        for recorded in calls:
            mark = {"attempt": self.attempt, "unasked": True, "replayed_from": recorded.n, "reused_from": None}
            self.meter.note(self.cassette.add({**dict(recorded), **mark}))

    def give_up(self) -> None:
        """Record that the answers of calls under way are lost: the job has ended without them."""
        with self._lock:
            given_up = list(self._under_way.values())
            self._under_way.clear()
        for record in given_up:
            if record.path.exists():  # else nothing was sent
                record.on_lost(())

    def _within_budget(self, call: Call, draw: int) -> LlmCall:
        sample = f"#{draw}" if call.slot is None else call.slot
        request = ProviderRequest(
            call.path,
            call.body,
            self.model,
            self.seed,
            call.request_hash,
            Hints(call.slot, call.variables) if self.provider.uses_hints else None,
            seed_of(self.seed, call.request_hash, sample),
            job_id=self.job_id,
            phase=call.request.phase,
            draw=draw,
            number=self._number(call),
        )
        expected = estimate(self.provider, request) if self.meter.needs_estimates else (0, 0.0)
        hold = self.meter.hold(call.request.phase, *expected)
        try:
            line = self._cached_or_paid(call, request, sample)
        except BaseException as error:
            hold.settle(NOTHING)
            if isinstance(error, Refusal) and error.status == 429:
                self.meter.refuse(call.request.phase)
            raise
        if line.reused_from is not None:
            hold.settle(NOTHING)
            return self.cassette.read(line.n)
        self.meter.settle(hold, line)
        return line

    def _number(self, call: Call) -> int:
        """Which call without a slot this is; see `ProviderRequest.number`."""
        if call.slot is not None:
            return 0
        with self._lock:
            self._unslotted += 1
            return self._unslotted

    def _cached_or_paid(self, call: Call, request: ProviderRequest, sample: str) -> LlmCall:
        if self.cache is None or not self.provider.paid:
            return self._pay(call, request)[0]
        job = str(self.cassette.path.absolute())
        place = sample if call.slot is None else f"slot {sample}"
        found, wanted = self.cache.find(Sample(self._cache_model, self.seed, call.request_hash, place, job))
        if found is not None:
            return self._add(call, **found.line_of(call.path, call.body))
        line, reply = self._pay(call, request)
        if reply.status == 200:
            self.cache.keep(wanted, reply)
        return line

    def _pay(self, call: Call, request: ProviderRequest) -> tuple[LlmCall, ProviderReply]:
        """Ask the provider, and record its answer or its failure."""
        head = self._head(call)
        record = self._record(head) if self._records else None
        started = time.monotonic()
        failure: ProviderError | None = None
        try:
            reply = masked(lambda: self.provider.complete(replace(request, record=record)))
        except ProviderError as error:
            failure, reply = error, no_answer(error)
        finally:
            self._end(record)
        if (n := self.cassette.replayed_as(reply.replayed_from)) is not None:
            return self._again(call, n), reply  # as the recorded job did: it was paid for once
        latency = time.monotonic() - started if reply.latency is None else reply.latency
        line = self._add(call, **reply.line_of(call.path, call.body), latency=latency)
        if record is not None:
            record.path.unlink(missing_ok=True)
        if failure is not None:
            self.meter.recover(line)  # its provider may have reported tokens of discarded answers
            raise failure
        return line, reply

    def _record(self, head: Head) -> PendingRecord:
        """Where the call `head` is recorded while it is under way."""

        def on_lost(tries: tuple[LlmTry, ...]) -> None:
            self.recovery.note_lost(head, tries)
            path.unlink(missing_ok=True)

        with self._lock:
            self._sent += 1
            path = self._folder / f"{self.attempt:06d}-{self._sent:09d}-{secrets.token_hex(4)}.jsonl"
            self._under_way[path] = record = PendingRecord(path, head, on_lost)
        return record

    def _end(self, record: PendingRecord | None) -> None:
        """
        Raises:
            SessionEnded: the call was given up, and is recorded as lost.
        """
        with self._lock:
            if record is not None and self._under_way.pop(record.path, None) is None:
                raise SessionEnded("the job ended before the answer came, which counts as lost")

    def _again(self, call: Call, n: int) -> LlmCall:
        """The new line that says that line `n` was given again; it holds no copy of it."""
        source = self.cassette.read(n)
        line = self._add(call, status=source.status, request=None, reused_from=n, inert=source.inert)
        self.meter.note(line)
        return line

    def _head(self, call: Call) -> Head:
        return {
            "attempt": self.attempt,
            "request_id": call.request.id,
            "phase": call.request.phase,
            "slot": call.slot,
            "request_hash": call.request_hash,
            "path": call.path,
            "body": call.body,
        }

    def _add(self, call: Call, **fields: object) -> LlmCall:
        return self.cassette.add({**line_head(self._head(call), self.provider.name, self.model.id), **fields})
