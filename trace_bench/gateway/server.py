"""The gateway: the host's LLM service, and the only way out of a sandbox.

A *scope* serves one job. It checks what the sandbox sent, answers from the cassette what has been answered
before, holds the rest against the budget, asks the provider, and writes the answer down before it gives it
away. Keys never leave the provider; nothing that a sandbox sends but the checked body reaches it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.layout import asked_beside
from trace_bench.artifacts.records import LlmCall, Usage
from trace_bench.artifacts.usage import is_lost, usage_of
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.gateway.asking import Asking
from trace_bench.gateway.base import (
    GatewayLimits,
    LlmRequest,
    LlmResponse,
    NotRecorded,
    Provider,
    ProviderError,
    Refusal,
)
from trace_bench.gateway.cassettes import PROVIDER_FAILURE, Cassette
from trace_bench.gateway.meter import Meter, RunMeter
from trace_bench.gateway.replies import encode, refused, respond
from trace_bench.gateway.requests import Call, check, check_names, models_answer
from trace_bench.gateway.response_cache import ResponseCache

T = TypeVar("T")

MAX_LEFT_OUT = 20
"""Names of fields that a warning is given for; a sandbox could make up any number."""


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
        self._open: dict[str, Meter | None] = {}
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
            self._open[job_id] = None
        try:
            cassette = Cassette(cassette_path, durable=provider.paid)
        except BaseException:
            self._closed(job_id)
            raise
        meter = Meter(budget or Budget(), before=cassette.restored, run=self._run_meter, job_id=job_id)
        with self._lock:
            self._open[job_id] = meter
        try:
            asking = Asking(
                job_id=job_id,
                seed=seed,
                model=model,
                provider=provider,
                cassette=cassette,
                meter=meter,
                attempt=attempt,
                limits=self._limits,
                cache=self._cache,
                cache_job=str(cassette_path.absolute()),
            )
        except BaseException:
            cassette.close()
            self._closed(job_id)
            raise
        return Scope(
            job_id,
            model,
            asking,
            cassette=cassette,
            meter=meter,
            limits=self._limits,
            attempt=attempt,
            # Whoever shares a budget may have to wait for what the calls of others come to.
            quick=provider.quick and not (self._run_meter is not None and self._run_meter.account.wants_estimates),
            on_close=lambda: self._closed(job_id),
        )

    def usage(self) -> dict[str, Usage]:
        """What each job that is being served has used so far, over all its attempts."""
        with self._lock:
            meters = {job_id: meter for job_id, meter in self._open.items() if meter is not None}
        return {job_id: meter.usage() for job_id, meter in meters.items()}

    def _closed(self, job_id: str) -> None:
        with self._lock:
            self._open.pop(job_id, None)


class Scope:
    """Serves one attempt of one job. `handle` may be called from many threads at once."""

    def __init__(
        self,
        job_id: str,
        model: ModelRef,
        asking: Asking,
        *,
        cassette: Cassette,
        meter: Meter,
        limits: GatewayLimits,
        attempt: int,
        quick: bool,
        on_close: Callable[[], None],
    ) -> None:
        self.job_id = job_id
        self.quick = quick
        """True if an answer takes no longer than to compute it; see `Provider.quick`."""
        self._model = model
        self._asking = asking
        self._cassette = cassette
        self._meter = meter
        self._limits = limits
        self._attempt = attempt
        self._on_close = on_close
        self._lock = threading.Lock()
        self._running: dict[tuple[str, ...], Future[Any]] = {}
        self._failures: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._not_recorded: list[NotRecorded] = []
        for call in cassette.restored:
            if call.status == PROVIDER_FAILURE and call.attempt == attempt and not is_lost(call):
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
    def model_id(self) -> str:
        """What the job's model is asked for by."""
        return self._model.id

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
        """Warnings of the job: what of this attempt's requests was left out, and how often; requests whose answers are
        not known."""
        with self._lock:
            counts = dict(self._left_out)
        told = [
            f"the gateway left '{jsonio.printable(name, 60)}' out of {count} request{'s' if count > 1 else ''}"
            for name, count in sorted(counts.items())
        ]
        if lost := self._asking.lost:
            spent = usage_of(lost)
            which = (
                "1 request was sent whose answer is"
                if len(lost) == 1
                else f"{len(lost)} requests were sent whose answers are"
            )
            told.append(
                f"{which} not known; it may have been paid: {spent.prompt_tokens + spent.completion_tokens} tokens and "
                f"${spent.cost_usd:.6g} are counted for it"
            )
        return tuple(told)

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
        self._asking.carry_over(calls)

    def leave(self) -> None:
        """Begin no further call: the session has ended. Calls under way go on."""
        self._meter.leave()

    def give_up(self) -> None:
        """Write down that the answers of calls under way are not known, and may have been paid."""
        self._asking.give_up()

    def close(self) -> None:
        """Flush the cassette to the disk and stop serving."""
        self._cassette.close()
        with contextlib.suppress(OSError):
            asked_beside(self._cassette.path).rmdir()  # unless calls are still under way
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
        self._asking.recover()
        recorded = self._cassette.resent(self._attempt, call.request.id)
        if recorded is not None:
            return recorded
        self._note_left_out(call)
        if call.slot is None:
            draw, n = self._cassette.take(self._attempt, call.request_hash)
            return self._asking.ask(call, draw) if n is None else self._asking.reuse(call, n)
        slot, fresh = call.slot, False

        def at_slot() -> int:
            nonlocal fresh
            known = self._cassette.at_slot(slot, call.request_hash)
            if known is not None:
                return known
            fresh = True
            return self._asking.ask(call, self._cassette.in_vain(self._attempt, slot, call.request_hash)).n

        n = self._once(("slot", slot, call.request_hash), at_slot)
        return self._cassette.read(n) if fresh else self._asking.reuse(call, n)

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
