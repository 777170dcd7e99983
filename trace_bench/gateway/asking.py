"""The asking side of a job's scope: the budget, the response cache, the provider, and the line in the cassette that is
written before anybody gets the answer."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import ModelRef
from trace_bench.artifacts.layout import asked_beside
from trace_bench.artifacts.records import LlmCall, LlmRequestRecord, LlmTry
from trace_bench.gateway.asked import Keep
from trace_bench.gateway.base import (
    GatewayLimits,
    Hints,
    NobodyWaits,
    Provider,
    ProviderError,
    ProviderReply,
    ProviderRequest,
    Recovering,
    Refusal,
)
from trace_bench.gateway.cassettes import Cassette
from trace_bench.gateway.estimates import estimate
from trace_bench.gateway.meter import Meter
from trace_bench.gateway.recovery import Head, Recovery, asked_with, line_of, no_answer
from trace_bench.gateway.requests import Call
from trace_bench.gateway.response_cache import CachedAnswer, ResponseCache, Sample, identity_of
from trace_bench.gateway.sampling import seed_of

MAX_REFUSALS = 1000
"""Refusals that a cassette keeps: a replay needs them, and a sandbox may ask for ever."""


class Asking:
    """Has calls of one attempt of one job answered, each by a line of its cassette. Safe to use from many threads.

    Args:
        cache: answers of earlier runs.
        cache_job: a text that no other job has.
    """

    def __init__(
        self,
        *,
        job_id: str,
        seed: int,
        model: ModelRef,
        provider: Provider,
        cassette: Cassette,
        meter: Meter,
        attempt: int,
        limits: GatewayLimits | None = None,
        cache: ResponseCache | None = None,
        cache_job: str = "",
    ) -> None:
        self._job_id = job_id
        self._seed = seed
        self._model = model
        self._provider = provider
        self._cassette = cassette
        self._meter = meter
        self._attempt = attempt
        self._limits = limits or GatewayLimits()
        self._cache = cache
        self._cache_job = cache_job
        self._cache_model = identity_of(provider, model) if cache is not None else {}
        self._lock = threading.Lock()
        self._folder = asked_beside(cassette.path)
        self._recovery = Recovery(self._folder, cassette, meter, provider, model.id, lambda: meter.left)
        self._under_way: dict[Path, Keep] = {}
        self._sent = 0
        self._keeps = isinstance(provider, Recovering)
        self._refusals = sum(call.refused for call in cassette.restored)
        self._unslotted = sum(call.slot is None and call.reused_from is None for call in cassette.restored)

    def ask(self, call: Call, draw: int) -> LlmCall:
        """Pay for an answer and write it down; a refusal too, as a replay has to refuse the same.

        Args:
            draw: how often this attempt has asked the same before and may get another answer now.

        Raises:
            Refusal, ProviderError, NotRecorded: there is no answer.
            OSError: it cannot be written down.
        """
        try:
            self._check_room()
            return self._paid(call, draw)
        except Refusal as refusal:
            self._note(call, refusal)
            raise

    def recover(self) -> None:
        """Have in the cassette what came of calls of earlier attempts, before any is looked for there.

        Raises:
            NobodyWaits: the session ended meanwhile.
        """
        self._recovery.recover(wait=True)

    def give_up(self) -> None:
        """Write down that the answers of calls under way are lost: the job has ended without them."""
        with self._lock:
            given_up = list(self._under_way.values())
            self._under_way.clear()
        for keep in given_up:
            if keep.path.exists():  # else nothing was sent
                keep.lost(())

    @property
    def lost(self) -> list[LlmCall]:
        """Lines of requests that were sent and whose answers are not known, over all attempts."""
        return self._recovery.lost

    def reuse(self, call: Call, n: int) -> LlmCall:
        """Give the answer of line `n` again."""
        return self._cassette.read(self._again(call, n).n)

    def carry_over(self, calls: Iterable[LlmCall]) -> None:
        """Take over recorded answers that nothing asked for: they were paid for, and count."""
        for recorded in calls:
            mark = {"attempt": self._attempt, "unasked": True, "replayed_from": recorded.n, "reused_from": None}
            line = self._cassette.add(lambda n, of=recorded, mark=mark: of.model_copy(update={"n": n, **mark}))  # type: ignore[misc]
            self._meter.note(line)

    def _check_room(self) -> None:
        """Raises Refusal: the cassette holds what a job may put on the host's disk."""
        if self._cassette.size >= self._limits.cassette_bytes:
            # 400 is what no client asks again for.
            raise Refusal(
                400,
                "recording_full",
                f"the calls of this job fill {self._limits.cassette_bytes} bytes; no more is recorded of one job",
            )

    def _note(self, call: Call, refusal: Refusal) -> None:
        with self._lock:
            self._refusals += 1
            if self._refusals > MAX_REFUSALS:
                return
        body = refusal.body()
        self._cassette.add(
            lambda n: self._line(n, call, status=refusal.status, request=None, response=body, refused=True)
        )

    def _paid(self, call: Call, draw: int) -> LlmCall:
        """An answer, as far as the budgets go."""
        hints = Hints(call.slot, call.variables) if self._provider.wants_hints else None
        sample = f"#{draw}" if call.slot is None else call.slot
        request = ProviderRequest(
            call.path,
            call.body,
            self._model,
            self._seed,
            call.request_hash,
            hints,
            seed_of(self._seed, call.request_hash, sample),
            job_id=self._job_id,
            phase=call.request.phase,
            draw=draw,
            number=self._number(call),
        )
        expected = estimate(self._provider, request) if self._meter.wants_estimates else (0, 0.0)
        hold = self._meter.hold(call.request.phase, *expected)
        try:
            line = self._have(call, request, sample)
        except BaseException as error:
            self._meter.release(hold)
            if isinstance(error, Refusal) and error.status == 429:
                self._meter.refuse(call.request.phase)
            raise
        if line.reused_from is not None:
            self._meter.release(hold)
            return self._cassette.read(line.n)
        self._meter.settle(hold, line)
        return line

    def _have(self, call: Call, request: ProviderRequest, sample: str) -> LlmCall:
        """An answer: of the response cache, or of the provider."""
        if self._cache is None or not self._provider.paid:
            line, _ = self._pay(call, request)
            return line
        place = sample if call.slot is None else f"slot {sample}"
        wanted = Sample(self._cache_model, self._seed, call.request_hash, place, self._cache_job)
        found, wanted = self._cache.find(wanted)
        if found is not None:
            return self._give(call, found)
        line, reply = self._pay(call, request)
        if reply.status == 200:
            self._cache.keep(wanted, reply)
        return line

    def _give(self, call: Call, found: CachedAnswer) -> LlmCall:
        """Write down an answer that an earlier run has paid for."""
        return self._cassette.add(
            lambda n: self._line(
                n,
                call,
                status=200,
                request=LlmRequestRecord(method="POST", path=call.path, body=call.body),
                response=found.response,
                prompt_tokens=found.prompt_tokens,
                completion_tokens=found.completion_tokens,
                cached_tokens=found.cached_tokens,
                reasoning_tokens=found.reasoning_tokens,
                sent=found.sent,
                estimated=found.estimated,
                cached=True,
            )
        )

    def _pay(self, call: Call, request: ProviderRequest) -> tuple[LlmCall, ProviderReply]:
        """Ask the provider, and write its answer down, or that it gave none."""
        head = self._head(call)
        keep = self._keep(head) if self._keeps else None
        started = time.monotonic()
        failure: ProviderError | None = None
        try:
            reply = self._provider.complete(replace(request, keep=keep))
        except ProviderError as error:
            failure, reply = error, no_answer(error)
        finally:
            self._end(keep)
        if (n := self._cassette.replayed_as(reply.replayed_from)) is not None:
            return self._again(call, n), reply  # as the recorded job did: it was paid for once
        latency = time.monotonic() - started if reply.latency is None else reply.latency
        line = self._cassette.add(
            lambda n: line_of(n, head, self._provider.name, self._model.id, latency=latency, **asked_with(head, reply))
        )
        if keep is not None:
            keep.path.unlink(missing_ok=True)
        if failure is not None:
            self._meter.note(line)
            raise failure
        return line, reply

    def _keep(self, head: Head) -> Keep:
        """Where the call `head` is written down while it is with the provider."""

        def lost(tries: tuple[LlmTry, ...]) -> None:
            self._recovery.note_lost(head, tries)
            path.unlink(missing_ok=True)

        with self._lock:
            self._sent += 1
            path = self._folder / f"{self._attempt:06d}-{self._sent:09d}-{secrets.token_hex(4)}.jsonl"
            self._under_way[path] = keep = Keep(path, head, lost)
        return keep

    def _end(self, keep: Keep | None) -> None:
        """
        Raises:
            NobodyWaits: the call was given up, and is written down as lost.
        """
        with self._lock:
            if keep is not None and self._under_way.pop(keep.path, None) is None:
                raise NobodyWaits("the job ended before the answer came, which counts as lost")

    def _again(self, call: Call, n: int) -> LlmCall:
        """The line that says that line `n` was given again; it holds no copy of it."""
        source = self._cassette.read(n)
        line = self._cassette.add(
            lambda new: self._line(new, call, status=source.status, request=None, reused_from=n, inert=source.inert)
        )
        self._meter.note(line)
        return line

    def _number(self, call: Call) -> int:
        """Which call without a slot this is; see `ProviderRequest.number`."""
        if call.slot is not None:
            return 0
        with self._lock:
            self._unslotted += 1
            return self._unslotted

    def _head(self, call: Call) -> Head:
        return {
            "attempt": self._attempt,
            "request_id": call.request.id,
            "phase": call.request.phase,
            "slot": call.slot,
            "request_hash": call.request_hash,
            "path": call.path,
            "body": call.body,
        }

    def _line(self, n: int, call: Call, **fields: Any) -> LlmCall:
        return line_of(n, self._head(call), self._provider.name, self._model.id, **fields)
