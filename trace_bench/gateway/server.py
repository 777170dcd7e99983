"""The gateway: the host's LLM service, and the only way out of a sandbox.

A *scope* serves one job. It checks what the sandbox sent, answers from the cassette what has been answered
before, holds the rest against the budget, asks the provider, and writes the answer down before it gives it
away. Keys never leave the provider; nothing that a sandbox sends but the checked body reaches it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.records import LlmCall, LlmRequestRecord, Usage
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.gateway.base import (
    GatewayLimits,
    Hints,
    LlmRequest,
    LlmResponse,
    NotRecorded,
    Provider,
    ProviderError,
    ProviderReply,
    ProviderRequest,
    Refusal,
)
from trace_bench.gateway.cassettes import PROVIDER_FAILURE, Cassette
from trace_bench.gateway.estimates import estimate
from trace_bench.gateway.meter import Meter, RunMeter
from trace_bench.gateway.replies import encode, refused, respond
from trace_bench.gateway.requests import Call, check, check_names, models_answer
from trace_bench.gateway.response_cache import CachedAnswer, ResponseCache, Sample, identity_of
from trace_bench.gateway.sampling import seed_of

T = TypeVar("T")

MAX_LEFT_OUT = 20
"""Names of fields that a warning is given for; a sandbox could make up any number."""
MAX_REFUSALS = 1000
"""Refusals that a cassette keeps: a replay needs them, and a sandbox may ask for ever."""


class Gateway:
    """Opens scopes. One per controller, shared by all its threads.

    Args:
        providers: by the id of the model that each asks.
        run_meter: the budget that all jobs share.
        cache: answers of earlier runs.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        *,
        limits: GatewayLimits | None = None,
        run_meter: RunMeter | None = None,
        cache: ResponseCache | None = None,
    ) -> None:
        self._providers = dict(providers)
        self._limits = limits or GatewayLimits()
        self._run_meter = run_meter
        self._cache = cache
        self._open: set[str] = set()
        self._lock = threading.Lock()

    def open(
        self,
        job_id: str,
        seed: int,
        model: ModelRef,
        cassette_path: Path,
        budget: Budget | None = None,
        *,
        attempt: int = 1,
    ) -> Scope:
        """Start serving a job; what its cassette already holds counts against `budget` and is not paid again.

        Raises:
            ConfigError: there is no such provider.
            HarnessError: the job is being served already, or its cassette is damaged.
        """
        provider = self._providers.get(model.id)
        if provider is None:
            known = ", ".join(sorted(self._providers)) or "none"
            raise ConfigError(f"this gateway has no model {model.id!r}; it has {known}")
        with self._lock:
            if job_id in self._open:
                raise HarnessError(f"the gateway serves job {job_id} already; close its scope first")
            self._open.add(job_id)
        try:
            cassette = Cassette(cassette_path, durable=provider.paid)
        except BaseException:
            self._closed(job_id)
            raise
        return Scope(
            job_id=job_id,
            seed=seed,
            model=model,
            provider=provider,
            cassette=cassette,
            meter=Meter(budget or Budget(), before=cassette.restored, run=self._run_meter, job_id=job_id),
            limits=self._limits,
            attempt=attempt,
            cache=self._cache,
            cache_job=str(cassette_path.absolute()),
            on_close=lambda: self._closed(job_id),
        )

    def _closed(self, job_id: str) -> None:
        with self._lock:
            self._open.discard(job_id)


class Scope:
    """Serves one attempt of one job. `handle` may be called from many threads at once."""

    def __init__(
        self,
        *,
        job_id: str,
        seed: int,
        model: ModelRef,
        provider: Provider,
        cassette: Cassette,
        meter: Meter,
        limits: GatewayLimits,
        attempt: int,
        on_close: Callable[[], None],
        cache: ResponseCache | None = None,
        cache_job: str = "",
    ) -> None:
        self.job_id = job_id
        self._seed = seed
        self._model = model
        self._provider = provider
        self._cassette = cassette
        self._meter = meter
        self._limits = limits
        self._attempt = attempt
        self._on_close = on_close
        self._cache = cache
        self._cache_job = cache_job
        self._cache_model = identity_of(provider, model)
        self._lock = threading.Lock()
        self._running: dict[tuple[str, ...], Future[Any]] = {}
        self._failures: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._not_recorded: list[NotRecorded] = []
        self._refusals = sum(call.refused for call in cassette.restored)
        self._unslotted = sum(call.slot is None and call.reused_from is None for call in cassette.restored)
        for call in cassette.restored:
            if call.status == PROVIDER_FAILURE and call.attempt == attempt:
                self._failures.append(call.tries[-1].error if call.tries else "it gave no answer")

    def handle(self, request: LlmRequest) -> LlmResponse:
        """Answer one request. Never raises for what a sandbox sent: a refusal is an error body in OpenAI's
        shape.

        A request that was answered before (same id) gets the same bytes again.
        """
        try:
            check_names(request)
            if (listing := models_answer(request, self._model)) is not None:
                return LlmResponse(200, encode(listing))
            call = check(request, self._model, self._limits)
            line = self._once(("id", request.id), lambda: self._answer(call))
            usage = {
                "prompt_tokens": line.prompt_tokens,
                "completion_tokens": line.completion_tokens,
                "cost_usd": line.cost_usd,
            }
            return respond(call, line.status, line.response, self._model.id, inert=line.inert, usage=usage)
        except Refusal as refusal:
            return refused(refusal)
        except NotRecorded as error:
            with self._lock:
                self._not_recorded.append(error)
            # 400 is what no client asks again for.
            return refused(Refusal(400, "not_recorded", f"the recording does not hold this request: {error}"))
        except ProviderError as error:
            with self._lock:
                self._failures.append(str(error))
            # Why is the host's to know: it may tell of addresses.
            return refused(
                Refusal(PROVIDER_FAILURE, "provider_failure", "the provider gave no answer; the job's record says why")
            )

    @property
    def quick(self) -> bool:
        """True if an answer takes no longer than to compute it; see `Provider.quick`."""
        return self._provider.quick

    def usage(self, phase: str | None = None) -> Usage:
        """What the job, or one phase of it, has used over all its attempts."""
        return self._meter.usage(phase)

    def usage_by_phase(self) -> dict[str, Usage]:
        """The same for each phase that asked for anything."""
        return self._meter.by_phase()

    @property
    def cut_by_run_budget(self) -> bool:
        """Whether the run's budget kept a call of this attempt out."""
        return self._meter.cut_by_run

    def provider_failures(self) -> tuple[str, ...]:
        """Why calls of this attempt got no answer. Not empty means: the attempt failed at ``provider``."""
        with self._lock:
            return tuple(self._failures)

    def warnings(self) -> tuple[str, ...]:
        """What of this attempt's requests was left out, and how often: a warning of the job."""
        with self._lock:
            counts = dict(self._left_out)
        return tuple(
            f"the gateway left '{jsonio.printable(name, 60)}' out of {count} request{'s' if count > 1 else ''}"
            for name, count in sorted(counts.items())
        )

    def not_recorded(self) -> NotRecorded | None:
        """The first request of this attempt that its recording does not hold: the job is to end."""
        with self._lock:
            return self._not_recorded[0] if self._not_recorded else None

    @property
    def replayed(self) -> frozenset[int]:
        """The lines of the recorded cassette that have been answered from, or carried over."""
        return self._cassette.replayed

    def carry_over(self, calls: Iterable[LlmCall]) -> None:
        """Take over recorded answers that nothing asked for: they were paid for, and count."""
        for recorded in calls:
            mark = {"attempt": self._attempt, "unasked": True, "replayed_from": recorded.n, "reused_from": None}
            line = self._cassette.add(lambda n, of=recorded, mark=mark: of.model_copy(update={"n": n, **mark}))  # type: ignore[misc]
            self._meter.note(line)

    def close(self) -> None:
        """Flush the cassette to the disk and stop serving."""
        self._cassette.close()
        self._on_close()

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _note_left_out(self, call: Call) -> None:
        with self._lock:
            for name in call.left_out[:MAX_LEFT_OUT]:
                if name in self._left_out or len(self._left_out) < MAX_LEFT_OUT:
                    self._left_out[name] += 1

    def _answer(self, call: Call) -> LlmCall:
        recorded = self._cassette.resent(self._attempt, call.request.id)
        if recorded is not None:
            return recorded
        self._note_left_out(call)
        if call.slot is None:
            draw, n = self._cassette.take(self._attempt, call.request_hash)
            return self._ask(call, draw) if n is None else self._reuse(call, n)
        slot, fresh = call.slot, False

        def at_slot() -> int:
            nonlocal fresh
            known = self._cassette.at_slot(slot, call.request_hash)
            if known is not None:
                return known
            fresh = True
            return self._ask(call, self._cassette.in_vain(self._attempt, slot, call.request_hash)).n

        n = self._once(("slot", slot, call.request_hash), at_slot)
        return self._cassette.read(n) if fresh else self._reuse(call, n)

    def _ask(self, call: Call, draw: int) -> LlmCall:
        """Pay for an answer and write it down; a refusal too, as a replay has to refuse the same."""
        try:
            return self._paid(call, draw)
        except Refusal as refusal:
            self._note(call, refusal)
            raise

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
            job_id=self.job_id,
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
        started = time.monotonic()
        try:
            reply = self._provider.complete(request)
        except ProviderError as error:
            self._meter.note(
                self._cassette.add(
                    lambda n, error=error: self._line(  # type: ignore[misc]
                        n,
                        call,
                        status=PROVIDER_FAILURE,
                        request=LlmRequestRecord(method="POST", path=call.path, body=call.body),
                        response=_failure(error).body(),
                        tries=error.tries,
                        latency=time.monotonic() - started,
                    )
                )
            )
            raise
        if (n := self._cassette.replayed_as(reply.replayed_from)) is not None:
            return self._again(call, n), reply  # as the recorded job did: it was paid for once
        latency = time.monotonic() - started if reply.latency is None else reply.latency
        line = self._cassette.add(
            lambda n: self._line(
                n,
                call,
                status=reply.status,
                request=LlmRequestRecord(method="POST", path=call.path, body=call.body),
                response=dict(reply.body),
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                cached_tokens=reply.cached_tokens,
                reasoning_tokens=reply.reasoning_tokens,
                cost_usd=reply.cost_usd,
                inert=reply.inert,
                sent=dict(reply.sent),
                tries=reply.tries,
                estimated=reply.estimated,
                latency=latency,
                replayed_from=reply.replayed_from,
            )
        )
        return line, reply

    def _number(self, call: Call) -> int:
        """Which call without a slot this is; see `ProviderRequest.number`."""
        if call.slot is not None:
            return 0
        with self._lock:
            self._unslotted += 1
            return self._unslotted

    def _reuse(self, call: Call, n: int) -> LlmCall:
        """Give the answer of line `n` again."""
        return self._cassette.read(self._again(call, n).n)

    def _again(self, call: Call, n: int) -> LlmCall:
        """The line that says that line `n` was given again; it holds no copy of it."""
        source = self._cassette.read(n)
        line = self._cassette.add(
            lambda new: self._line(new, call, status=source.status, request=None, reused_from=n, inert=source.inert)
        )
        self._meter.note(line)
        return line

    def _line(self, n: int, call: Call, **fields: Any) -> LlmCall:
        return LlmCall(
            n=n,
            t=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            attempt=self._attempt,
            request_id=call.request.id,
            phase=call.request.phase,
            slot=call.slot,
            request_hash=call.request_hash,
            provider=self._provider.name,
            model=self._model.id,
            **fields,
        )

    def _once(self, key: tuple[str, ...], work: Callable[[], T]) -> T:
        """Run `work` once for all threads that ask for `key` at the same time; the others get its outcome."""
        with self._lock:
            future = self._running.get(key)
            if future is None:
                mine: Future[T] = Future()
                self._running[key] = mine
        if future is not None:
            outcome: T = future.result()
            return outcome
        try:
            result = work()
            mine.set_result(result)
            return result
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._running[key]


def _failure(error: ProviderError) -> Refusal:
    """As the cassette has it."""
    return Refusal(PROVIDER_FAILURE, "provider_failure", f"the provider gave no answer: {error}")
