"""The gateway: the host's LLM service, and the only way out of a sandbox.

A *scope* serves one job. It checks what the sandbox sent, answers from the cassette what has been answered before,
holds the rest against the budget, asks the provider, and records the answer before the sandbox gets it. Keys never
leave the provider, and of what a sandbox sends only the checked body reaches it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from trace_bench.artifacts.calls import LlmCall, Usage
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.layout import pending_beside
from trace_bench.artifacts.usage import NO_ANSWER, is_lost, usage_of
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.gateway.base import (
    GatewayLimits,
    LlmRequest,
    LlmResponse,
    NotRecorded,
    Provider,
    ProviderError,
    Refusal,
)
from trace_bench.gateway.calls import JobCalls
from trace_bench.gateway.cassettes import Cassette
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
        providers: by the id of the model that each answers for.
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
        """Start serving a job. What its cassette already holds counts against `budget` and is not paid again.

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
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self._closed, job_id)
            cassette = Cassette(cassette_path, durable=provider.paid)
            on_failure.callback(cassette.close)
            meter = Meter(budget or Budget(), before=cassette.restored, run=self._run_meter, job_id=job_id)
            with self._lock:
                self._open[job_id] = meter
            calls = JobCalls(
                job_id, seed, model, provider, cassette, meter, attempt, limits=self._limits, cache=self._cache
            )
            on_failure.pop_all()
        # A call may have to wait for the outcome of other jobs' calls where they share a budget.
        shares_budget = self._run_meter is not None and self._run_meter.needs_estimates
        return Scope(calls, quick=provider.quick and not shares_budget, on_close=lambda: self._closed(job_id))

    def usage(self) -> dict[str, Usage]:
        """What each job that is being served has used so far, over all its attempts."""
        with self._lock:
            meters = {job_id: meter for job_id, meter in self._open.items() if meter is not None}
        return {job_id: meter.usage() for job_id, meter in meters.items()}

    def _closed(self, job_id: str) -> None:
        with self._lock:
            self._open.pop(job_id, None)


class Scope:
    """Serves one attempt of one job. `handle` may be called from many threads at once.

    Args:
        quick: an answer takes only computing time; see `Provider.quick`.
    """

    def __init__(self, calls: JobCalls, *, quick: bool, on_close: Callable[[], None]) -> None:
        self.job_id = calls.job_id
        self.model_id = calls.model.id
        self.quick = quick
        self._calls = calls
        self._cassette = calls.cassette
        self._meter = calls.meter
        self._on_close = on_close
        self._lock = threading.Lock()
        self._running: dict[tuple[str, ...], Future[Any]] = {}
        self._left_out: Counter[str] = Counter()
        self._not_recorded: list[NotRecorded] = []
        self._failures = [
            call.tries[-1].error if call.tries else "it gave no answer"
            for call in calls.cassette.restored
            if call.status == NO_ANSWER and call.attempt == calls.attempt and not is_lost(call)
        ]

    def handle(self, request: LlmRequest) -> LlmResponse:
        """Answer one request. Never raises for what a sandbox sent: a refusal is an error body in OpenAI's shape.

        A request that was answered before (same id) gets the same bytes again.
        """
        try:
            check_names(request)
            model = self._calls.model
            if (listing := models_answer(request, model)) is not None:
                return LlmResponse(200, encode(listing))
            call = check(request, model, self._calls.limits)
            line = self._once(("id", request.id), lambda: self._answer(call))
            usage = {name: getattr(line, name) for name in ("prompt_tokens", "completion_tokens", "cost_usd")}
            return respond(call, line.status, line.response, model.id, inert=line.inert, usage=usage)
        except Refusal as refusal:
            return refused(refusal)
        except NotRecorded as error:
            with self._lock:
                self._not_recorded.append(error)
            # 400 is a status that no client retries.
            return refused(Refusal(400, "not_recorded", f"the recording does not hold this request: {error}"))
        except ProviderError as error:
            with self._lock:
                self._failures.append(str(error))
            # The reason is for the host alone: it may name addresses.
            message = "the provider gave no answer; the job's record says why"
            return refused(Refusal(NO_ANSWER, "provider_failure", message))

    def usage(self, phase: str | None = None) -> Usage:
        """What the job, or one phase of it, has used over all its attempts."""
        return self._meter.usage(phase)

    def usage_by_phase(self) -> dict[str, Usage]:
        """The same for each phase that made a call."""
        return self._meter.by_phase()

    @property
    def cut_by_run_budget(self) -> bool:
        """Whether the run's budget refused a call of this attempt."""
        return self._meter.cut_by_run

    def provider_failures(self) -> tuple[str, ...]:
        """Why calls of this attempt got no answer. If there are any, the attempt failed at ``provider``."""
        with self._lock:
            return tuple(self._failures)

    def warnings(self) -> tuple[str, ...]:
        """Warnings of the job: fields that were left out of this attempt's requests, and how often; requests whose
        answers are not known."""
        with self._lock:
            counts = dict(self._left_out)
        found = [
            f"the gateway left '{quoted(name, 60)}' out of {count} request{'s' if count > 1 else ''}"
            for name, count in sorted(counts.items())
        ]
        if lost := self._calls.recovery.lost:
            spent = usage_of(lost)
            sent = "1 request was" if len(lost) == 1 else f"{len(lost)} requests were"
            answers = "answer is" if len(lost) == 1 else "answers are"
            found.append(
                f"{sent} sent whose {answers} not known; it may have been paid: {spent.total_tokens} tokens and "
                f"${spent.cost_usd:.6g} are counted for it"
            )
        return tuple(found)

    def not_recorded(self) -> NotRecorded | None:
        """The first request of this attempt that its recording does not hold: the job has to end."""
        with self._lock:
            return self._not_recorded[0] if self._not_recorded else None

    @property
    def replayed(self) -> frozenset[int]:
        """The lines of the recorded cassette that have been answered from, or carried over."""
        return self._cassette.replayed

    def carry_over(self, calls: Iterable[LlmCall]) -> None:
        """Take over recorded answers that no request was for: they were paid for, and count."""
        self._calls.carry_over(calls)

    def refuse_new_calls(self) -> None:
        """Begin no further call: the session has ended. Calls under way go on."""
        self._meter.stop()

    def give_up(self) -> None:
        """Record that the answers of calls under way are not known, and may have been paid."""
        self._calls.give_up()

    def close(self) -> None:
        """Flush the cassette to the disk and stop serving."""
        self._cassette.close()
        with contextlib.suppress(OSError):
            pending_beside(self._cassette.path).rmdir()  # unless calls are still under way
        self._on_close()

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _answer(self, call: Call) -> LlmCall:
        calls, attempt = self._calls, self._calls.attempt
        calls.recovery.recover(wait=True)
        if (recorded := self._cassette.resent(attempt, call.request.id)) is not None:
            return recorded
        with self._lock:
            for name in call.left_out[:MAX_LEFT_OUT]:
                if name in self._left_out or len(self._left_out) < MAX_LEFT_OUT:
                    self._left_out[name] += 1
        if call.slot is None:
            draw, n = self._cassette.take(attempt, call.request_hash)
            return calls.answer(call, draw) if n is None else calls.reuse(call, n)
        slot, fresh = call.slot, False

        def at_slot() -> int:
            nonlocal fresh
            known = self._cassette.at_slot(slot, call.request_hash)
            if known is not None:
                return known
            fresh = True
            return calls.answer(call, self._cassette.unanswered(attempt, slot, call.request_hash)).n

        n = self._once(("slot", slot, call.request_hash), at_slot)
        return self._cassette.read(n) if fresh else calls.reuse(call, n)

    def _once(self, key: tuple[str, ...], work: Callable[[], T]) -> T:
        """Run `work` once for all threads that need `key` at the same time; all get its result."""
        with self._lock:
            running = self._running.get(key)
            if running is None:
                mine: Future[T] = Future()
                self._running[key] = mine
        if running is not None:
            result: T = running.result()
            return result
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
