"""The gateway: the host's LLM service, and the only way out of a sandbox.

A *scope* serves one job. It checks what the sandbox sent, answers from the cassette what has been answered
before, holds the rest against the budget, asks the provider, and writes the answer down before it gives it
away. Keys never leave the provider; nothing that a sandbox sends but the checked body reaches it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Budget, Json, ModelRef
from trace_bench.artifacts.records import LlmCall, LlmRequestRecord, Usage
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.gateway.base import (
    PRIVATE_PREFIX,
    SLOT_HEADER,
    VARIABLES_HEADER,
    GatewayLimits,
    Hints,
    LlmRequest,
    LlmResponse,
    Provider,
    ProviderError,
    ProviderReply,
    ProviderRequest,
    Refusal,
)
from trace_bench.gateway.cassettes import PROVIDER_FAILURE, Cassette
from trace_bench.gateway.estimates import estimate
from trace_bench.gateway.meter import Meter, RunMeter
from trace_bench.gateway.response_cache import CachedAnswer, ResponseCache, Sample, identity_of

T = TypeVar("T")

POST_PATHS = ("/v1/chat/completions", "/v1/embeddings")
MODELS_PATH = "/v1/models"
MAX_SLOT = 200
MAX_NAME = 200
"""Characters of a request's id, and of its phase."""


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


@dataclass(frozen=True)
class _Call:
    """A request that has passed all checks."""

    request: LlmRequest
    path: str
    body: dict[str, Any]
    slot: str | None
    request_hash: str
    variables: str | None


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

    def handle(self, request: LlmRequest) -> LlmResponse:
        """Answer one request. Never raises for what a sandbox sent: a refusal is an error body in OpenAI's
        shape.

        A request that was answered before (same id) gets the same bytes again.
        """
        try:
            _check_names(request)
            if (listing := self._models(request)) is not None:
                return LlmResponse(200, _encode(listing))
            call = self._once(("id", request.id), lambda: self._answer(request))
            usage = {
                "prompt_tokens": call.prompt_tokens,
                "completion_tokens": call.completion_tokens,
                "cost_usd": call.cost_usd,
            }
            return LlmResponse(call.status, _encode(call.response), call.inert, usage)
        except Refusal as refusal:
            return LlmResponse(refusal.status, _encode(refusal.body()))
        except ProviderError as error:
            with self._lock:
                self._failures.append(str(error))
            failure = _failure(error)
            return LlmResponse(failure.status, _encode(failure.body()))

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

    def close(self) -> None:
        """Flush the cassette to the disk and stop serving."""
        self._cassette.close()
        self._on_close()

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _answer(self, request: LlmRequest) -> LlmCall:
        recorded = self._cassette.resent(self._attempt, request.id)
        if recorded is not None:
            return recorded
        call = self._check(request)
        if call.slot is None:
            draw, n = self._cassette.take(self._attempt, call.request_hash)
            return self._ask(call, sample=f"#{draw}") if n is None else self._reuse(call, n)
        slot, fresh = call.slot, False

        def at_slot() -> int:
            nonlocal fresh
            known = self._cassette.at_slot(slot, call.request_hash)
            if known is not None:
                return known
            fresh = True
            return self._ask(call, sample=slot).n

        n = self._once(("slot", slot, call.request_hash), at_slot)
        return self._cassette.read(n) if fresh else self._reuse(call, n)

    def _ask(self, call: _Call, *, sample: str) -> LlmCall:
        """Have an answer and write it down, as far as the budgets go; write down as well that there was none.

        Args:
            sample: which asking of this request it is: its slot, or the how-manieth it is.
        """
        hints = Hints(call.slot, call.variables) if self._provider.wants_hints else None
        request = ProviderRequest(call.path, call.body, self._model, self._seed, call.request_hash, hints)
        expected = estimate(self._provider, request) if self._meter.wants_estimates else (0, 0.0)
        hold = self._meter.hold(call.request.phase, *expected)
        try:
            line = self._have(call, request, sample)
        except BaseException:
            self._meter.release(hold)
            raise
        self._meter.settle(hold, line)
        return line

    def _have(self, call: _Call, request: ProviderRequest, sample: str) -> LlmCall:
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

    def _give(self, call: _Call, found: CachedAnswer) -> LlmCall:
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

    def _pay(self, call: _Call, request: ProviderRequest) -> tuple[LlmCall, ProviderReply]:
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
        latency = time.monotonic() - started
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
            )
        )
        return line, reply

    def _reuse(self, call: _Call, n: int) -> LlmCall:
        """Give the answer of line `n` again; the line that says so holds no copy of it."""
        source = self._cassette.read(n)
        line = self._cassette.add(
            lambda new: self._line(new, call, status=source.status, request=None, reused_from=n, inert=source.inert)
        )
        self._meter.note(line)
        return source

    def _line(self, n: int, call: _Call, **fields: Any) -> LlmCall:
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

    def _models(self, request: LlmRequest) -> dict[str, Any] | None:
        """The answer to a request for the list of models, or for the only one; None for any other request."""
        path = _path(request)
        entry = {"id": self._model.id, "object": "model", "created": 0, "owned_by": "trace-bench"}
        if request.method.upper() != "GET":
            return None
        if path == MODELS_PATH:
            return {"object": "list", "data": [entry]}
        return entry if path == f"{MODELS_PATH}/{self._model.id}" else None

    def _check(self, request: LlmRequest) -> _Call:
        headers = {name.lower(): value for name, value in request.headers.items()}
        path = _path(request)
        if path not in POST_PATHS:
            known = ", ".join((*POST_PATHS, MODELS_PATH))
            raise Refusal(404, "unknown_path", f"there is no {jsonio.printable(path)} here; there is {known}")
        if request.method.upper() != "POST":
            raise Refusal(405, "method_not_allowed", f"{path} takes POST, not {jsonio.printable(request.method)}")
        if len(request.body) > self._limits.body_bytes:
            raise Refusal(
                413,
                "body_too_large",
                f"the body has {len(request.body)} bytes; {self._limits.body_bytes} is the limit",
            )
        if sum(len(name) + len(value) for name, value in headers.items()) > self._limits.header_bytes:
            raise Refusal(431, "headers_too_large", f"the headers exceed {self._limits.header_bytes} bytes")
        for name in headers:
            if name.startswith(PRIVATE_PREFIX) and name not in (SLOT_HEADER, VARIABLES_HEADER):
                raise Refusal(400, "unknown_header", f"there is no private header {jsonio.printable(name)}")
        try:
            body = jsonio.loads(request.body)
        except jsonio.JsonError as error:
            raise Refusal(400, "malformed_json", f"the body is unusable: {error}") from None
        if not isinstance(body, dict):
            raise Refusal(400, "malformed_json", "the body must be a JSON object")
        if body.get("stream"):
            raise Refusal(400, "no_streaming", 'answers come whole here; send "stream": false', param="stream")
        self._check_model(body.get("model"))
        return _Call(
            request=request,
            path=path,
            body=body,
            slot=_slot(headers.get(SLOT_HEADER)),
            request_hash=request_hash("POST", path, body),
            variables=headers.get(VARIABLES_HEADER),
        )

    def _check_model(self, asked: object) -> None:
        """One job, one model: another one would be spent without being part of the job's identity."""
        if asked not in (None, self._model.id, self._model.model):
            raise Refusal(
                404,
                "model_not_found",
                f"this job's model is {self._model.id!r}; {jsonio.printable(str(asked))!r} is not to be had",
                param="model",
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


def request_hash(method: Literal["POST"], path: str, body: Json | dict[str, Any]) -> str:
    """SHA-256 (hex) of the canonical request: method, path and body with sorted keys; no header is part of
    it."""
    return hashlib.sha256(jsonio.canonical([method, path, body])).hexdigest()


def _failure(error: ProviderError) -> Refusal:
    return Refusal(PROVIDER_FAILURE, "provider_failure", f"the provider gave no answer: {error}")


def _path(request: LlmRequest) -> str:
    return request.path.partition("?")[0]


def _check_names(request: LlmRequest) -> None:
    """What the cassette keeps of a request before anything else of it is looked at."""
    for what, name in (("id", request.id), ("phase", request.phase)):
        if len(name) > MAX_NAME or any("\ud800" <= c <= "\udfff" for c in name):
            raise Refusal(400, f"bad_{what}", f"the {what} of a request has up to {MAX_NAME} characters of Unicode")


def _slot(text: str | None) -> str | None:
    if text is not None and (len(text) > MAX_SLOT or not text.isprintable() or not text):
        raise Refusal(400, "bad_slot", f"a slot has 1 to {MAX_SLOT} printable characters")
    return text


def _encode(value: Any) -> bytes:
    return jsonio.dumps(value).encode("utf-8")
