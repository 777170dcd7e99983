"""Answers what jobs ask services of the host (`trace_bench.suites.service`), and writes it down.

A request is found again as an LLM call is: by attempt and id, if it was sent over a new connection; by its content and
how often the attempt has asked it, in a later attempt. So no trial runs twice for one evaluation, and an answer that
was recorded before a failure is not asked for again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import LlmCall, ServiceRecord
from trace_bench.artifacts.writers import Journal, read_journal
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, HarnessError, TraceBenchError
from trace_bench.execution.model_door import Guest, ModelDoor
from trace_bench.gateway.base import GatewayLimits, LlmRequest, LlmResponse, NotRecorded, Refusal
from trace_bench.gateway.replies import encode, refused
from trace_bench.gateway.requests import check_names
from trace_bench.gateway.server import Scope
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.prepare import JobPlan, model_ref
from trace_bench.records.calls import read_calls
from trace_bench.sandbox.labels import PREFIX, owner
from trace_bench.sandbox.locks import default_directory, open_shared
from trace_bench.suites.service import Service, ServiceAnswer, ServiceCall, ServiceError
from trace_bench.worker.llm_calls import SERVICES as PATH

LABELS = {name: f"{PREFIX}service.{name}" for name in ("run", "job", "owner")}
"""Of what services make on an engine. They are others than those of sandboxes, which adoption finds by theirs."""
POLL = 0.2
"""Seconds between two looks for a free place."""
STUB = "stub"
"""The model with which services give the answers of their own stubs."""
MOST_ANSWER = 4 << 20
"""Bytes of an answer."""
_Key = tuple[str, str]
"""Phase and content: what training asked is no answer for the scorer."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_STATUS = {"provider": 502, "task": 422}


def load_services(names: Iterable[str]) -> dict[str, Service]:
    """The services that suites declare as ``module:class``, by these names.

    Raises:
        ConfigError: one cannot be loaded.
    """
    found: dict[str, Service] = {}
    for name in dict.fromkeys(names):
        module, _, kind = name.partition(":")
        try:
            service: Service = getattr(importlib.import_module(module), kind)()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the service {name} cannot be loaded: {error}; reinstall the package of its suite"
            ) from None
        found[name] = service
    return found


def services_of(plan: RunPlan) -> ServiceHost:
    """The services of the suites of a run's jobs.

    Raises:
        ConfigError: as `load_services`.
    """
    left = [job for job in plan.jobs if job.decision in ("run", "adopt")]
    names = {name for job in left for name in plan.material[job.task_id].task.suite.services}
    recorded = None
    if plan.recording is not None and plan.config.replay_services:
        recorded = {job_id: plan.recording.layout.job(job_id) for job_id in plan.recording.rows}
    asked = recorded is None and any(
        model_ref(job.job.model).model != STUB and plan.material[job.task_id].task.suite.services for job in left
    )
    return ServiceHost(plan.run_id, load_services(sorted(names)), asked=asked, recorded=recorded)


class ServiceHost:
    """The services of one run, shared by all its jobs.

    Args:
        services: by the names that suites declare them by.
        asked: whether a job needs more of them than the answers of a stub or of a recording.
        recorded: the jobs of a recorded run whose answers are given again, by job id; None has requests answered anew.
    """

    def __init__(
        self,
        run_id: str,
        services: Mapping[str, Service],
        *,
        asked: bool = True,
        recorded: Mapping[str, JobLayout] | None = None,
    ) -> None:
        self.run_id = run_id
        self._services = services
        self._asked = list(services.values()) if asked else []
        self._recorded = recorded
        self._door: ModelDoor | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Look for what the services need, before anything of the run is written.

        Raises:
            EnvironmentUnavailable: it is not there.
        """
        for service in self._asked:
            service.check()

    def sweep(self) -> None:
        """Remove what a killed controller of this run has left."""
        for service in self._asked:
            service.sweep(f"{LABELS['run']}={self.run_id}")

    def close(self) -> None:
        """The run is over."""
        for service in self._services.values():
            service.close()
        with self._lock:
            if self._door is not None:
                self._door.close()
                self._door = None

    @contextmanager
    def serving(self, plan: JobPlan, job: JobLayout, scope: Scope, attempt: int) -> Iterator[ServiceDesk | Scope]:
        """What answers the requests of one attempt of `job`: its `scope`, with services in front of it if it has any.

        Raises:
            HarnessError: the record of services is damaged.
        """
        mine = {service.name: service for service in map(self._services.__getitem__, plan.services)}
        if not mine:
            yield scope
            return
        desk = ServiceDesk(self, mine, plan, job, scope, attempt)
        try:
            yield desk
        finally:
            desk.close()

    def recorded(self, job_id: str) -> list[ServiceRecord] | None:
        """The answers that are given again to a job; None if it is answered anew."""
        if self._recorded is None:
            return None
        layout = self._recorded.get(job_id)
        return _read(layout.services) if layout is not None else []

    def recorded_calls(self, job_id: str, line: ServiceRecord) -> list[LlmCall]:
        """The calls of the model that the recorded service made for `line`."""
        layout = (self._recorded or {}).get(job_id)
        if layout is None or not line.usage:
            return []
        begins = f"{line.request_id}-{line.service}-"
        return [
            call
            for call in read_calls(layout.cassette)
            if call.attempt == line.attempt and call.request_id.startswith(begins) and call.reused_from is None
        ]

    def answer(
        self, service: Service, call_of: Any, scope: Scope, phase: str, prefix: str
    ) -> tuple[ServiceAnswer, Guest]:
        """Have `service` answer, once it is its turn. `call_of` makes the call for an address of the model."""
        with self._lock:
            if self._door is None:
                self._door = ModelDoor()
            door = self._door
        with door.guest(scope, phase, prefix, scope.model_id) as (address, guest):
            call: ServiceCall = call_of(address)
            try:
                with _turn(service, call.stopped):
                    return service.answer(call), guest
            except ServiceError as error:
                if guest.budget_ended:
                    raise _BudgetEnded from error
                raise
            except (OSError, TraceBenchError):
                raise  # of this host: the run says what to do about it
            except Exception as error:
                # A suite's fault ends the jobs of its tasks, and not the run.
                why = f"the service raised {type(error).__name__}: {error}; this is a fault of its suite"
                raise ServiceError("task", why) from error


@contextmanager
def _turn(service: Service, stopped: threading.Event) -> Iterator[None]:
    """One of the places that `service` has on this host, whichever run asks: a file that is locked meanwhile.

    Raises:
        ServiceError: the job has ended.
    """
    folder = default_directory()
    while True:
        for place in range(service.at_once):
            descriptor = open_shared(folder / f"service-{service.name}-{os.getuid()}-{place}.lock")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            try:
                yield
                return
            finally:
                os.close(descriptor)
        if stopped.wait(POLL):
            raise ServiceError("provider", "the job ended before its turn came")


class _BudgetEnded(Exception):
    """A call of a service came to nothing since a budget of the job's model calls was used up."""


class ServiceDesk:
    """Serves one attempt of one job, as a `Scope` does, and has services besides. Safe to use from many threads."""

    quick = False

    def __init__(
        self,
        host: ServiceHost,
        services: Mapping[str, Service],
        plan: JobPlan,
        job: JobLayout,
        scope: Scope,
        attempt: int,
    ) -> None:
        self.job_id = scope.job_id
        self._host = host
        self._services = services
        self._plan = plan
        self._job = job
        self._scope = scope
        self._attempt = attempt
        self._left = threading.Event()
        self._lock = threading.Lock()
        self._journal = Journal(job.services, durable=True)
        self._lines = _read(job.services)
        self._journal.forget()
        self._asked = Counter(_key(line) for line in self._lines if line.attempt == attempt)
        self._answers: dict[_Key, list[ServiceRecord]] = defaultdict(list)
        for line in self._lines:
            if line.status == 200 and line.reused_from is None:
                self._answers[_key(line)].append(line)
        self._recorded: dict[_Key, list[ServiceRecord]] | None = None
        if (recorded := host.recorded(self.job_id)) is not None:
            self._recorded = defaultdict(list)
            for line in recorded:
                if line.reused_from is None:
                    self._recorded[_key(line)].append(line)
        self._failures: list[str] = []

    def handle(self, request: LlmRequest) -> LlmResponse:
        """Answer a request: of a service here, any other by the job's scope."""
        if not request.path.startswith(PATH):
            return self._scope.handle(request)
        try:
            check_names(request)
            service, body = self._checked(request)
            line = self._resent(request.id) or self._answered(service, request, body)
        except Refusal as refusal:
            return refused(refusal)
        if line.status == 200:
            return LlmResponse(200, encode(line.answer), usage=_numbers(line.usage))
        code = {429: "budget_exhausted", 502: "service_failure"}.get(line.status, "bad_request")
        return refused(Refusal(line.status, code, str(line.answer.get("message", ""))))

    def refuse_new_calls(self) -> None:
        """The session is over: what is under way is stopped."""
        self._left.set()
        self._scope.refuse_new_calls()

    def provider_failures(self) -> tuple[str, ...]:
        """Why requests of this attempt got no answer. Not empty means: the attempt failed at ``provider``."""
        with self._lock:
            return (*self._failures, *self._scope.provider_failures())

    def not_recorded(self) -> NotRecorded | None:
        """See `Scope.not_recorded`."""
        return self._scope.not_recorded()

    def close(self) -> None:
        self._journal.close()

    def _checked(self, request: LlmRequest) -> tuple[Service, dict[str, Any]]:
        name = request.path.removeprefix(PATH)
        service = self._services.get(name)
        if service is None:
            known = ", ".join(sorted(self._services)) or "none"
            raise Refusal(404, "unknown_service", f"the suite declares no service {name}; it has {known}")
        if request.method.upper() != "POST" or len(request.body) > GatewayLimits().body_bytes:
            raise Refusal(400, "bad_request", "a service takes a POST of a few megabytes at most")
        try:
            body = jsonio.loads(request.body, max_depth=jsonio.MAX_DEPTH_INSIDE)
        except jsonio.JsonError as error:
            raise Refusal(400, "malformed_json", f"the body is unusable: {error}") from None
        if (
            problem := jsonschema.exceptions.best_match(_validator(service.request_schema).iter_errors(body))
        ) is not None:
            raise Refusal(400, "bad_request", f"{problem.json_path}: {problem.message}")
        return service, body

    def _resent(self, request_id: str) -> ServiceRecord | None:
        with self._lock:
            mine = (line for line in self._lines if (line.attempt, line.request_id) == (self._attempt, request_id))
            return next(mine, None)

    def _answered(self, service: Service, request: LlmRequest, body: dict[str, Any]) -> ServiceRecord:
        digest = hashlib.sha256(jsonio.canonical([service.name, body])).hexdigest()
        with self._lock:
            key = (request.phase, digest)
            draw = self._asked[key]
            self._asked[key] += 1
            known = self._answers[key][draw] if draw < len(self._answers[key]) else None
        common = {"service": service.name, "request_id": request.id, "phase": request.phase, "request_hash": digest}
        if known is not None:
            same = known.model_dump(include={"status", "answer", "usage", "cost_usd", "folder"})
            return self._written(common | same | {"reused_from": known.n})
        if self._recorded is not None:
            line = next(iter(self._recorded[key][draw : draw + 1]), None)
            if line is None:
                return self._failed(common, 422, "the recorded run holds no answer to this request", 0.0, None)
            self._scope.carry_over(self._host.recorded_calls(self.job_id, line))
            same = line.model_dump(include={"status", "answer", "seconds", "usage", "cost_usd"})
            return self._written(common | same | {"request": body})
        if self._plan.spec.model.model == STUB:
            return self._written(common | {"request": body, "status": 200, "answer": dict(service.stub(body).body)})
        return self._asked_now(service, request, body, common)

    def _asked_now(
        self, service: Service, request: LlmRequest, body: dict[str, Any], common: dict[str, Any]
    ) -> ServiceRecord:
        folder = self._job.service_files / f"{self._attempt}-{_UNSAFE.sub('_', request.id)[:60]}"
        folder.mkdir(parents=True, exist_ok=True)
        labels = {LABELS["run"]: self._host.run_id, LABELS["job"]: self.job_id, LABELS["owner"]: owner()}

        def call_of(address: Any) -> ServiceCall:
            task = self._plan.spec.task
            return ServiceCall(
                request=body,
                task_id=task.id,
                task_folder=self._plan.task_folder,
                spec=task.spec,
                eval_kwargs=task.eval_kwargs,
                phase=request.phase,
                labels=labels,
                folder=folder,
                model=address,
                stopped=self._left,
            )

        started = time.monotonic()
        common |= {"request": body, "folder": folder.relative_to(self._job.root).as_posix()}
        prefix = f"{request.id}-{service.name}"
        try:
            answer, guest = self._host.answer(service, call_of, self._scope, request.phase, prefix)
        except _BudgetEnded:
            return self._failed(
                common, 429, "a budget of the job's model calls is used up", time.monotonic() - started, None
            )
        except ServiceError as error:
            return self._failed(common, _STATUS[error.boundary], error.message, time.monotonic() - started, None)
        seconds = round(time.monotonic() - started, 3)
        problem = jsonschema.exceptions.best_match(_validator(service.answer_schema).iter_errors(dict(answer.body)))
        if problem is not None or len(encode(dict(answer.body))) > MOST_ANSWER:
            what = (
                f"{problem.json_path}: {problem.message}" if problem is not None else f"more than {MOST_ANSWER} bytes"
            )
            return self._failed(common, 502, f"its answer does not fit what it declares: {what[:300]}", seconds, guest)
        return self._written(
            common
            | {"status": 200, "answer": dict(answer.body), "seconds": seconds}
            | {"usage": guest.usage, "cost_usd": answer.cost_usd}
        )

    def _failed(
        self, common: dict[str, Any], status: int, message: str, seconds: float, guest: Guest | None
    ) -> ServiceRecord:
        said = quoted(message, 1000)
        if status == 502 and not self._left.is_set():
            with self._lock:
                self._failures.append(f"the service {common['service']}: {said}")
        usage = guest.usage if guest is not None else {}
        return self._written(
            common | {"status": status, "answer": {"message": said}, "seconds": seconds, "usage": usage}
        )

    def _written(self, fields: dict[str, Any]) -> ServiceRecord:
        with self._lock:
            line = ServiceRecord(n=len(self._lines) + 1, t=now(), attempt=self._attempt, **fields)
            self._journal.append(line)
            self._lines.append(line)
            return line


def _read(path: Path) -> list[ServiceRecord]:
    """
    Raises:
        HarnessError: a line is damaged.
    """
    found = []
    for number, line in enumerate(read_journal(path).lines, start=1):
        try:
            found.append(ServiceRecord.model_validate(line))
        except ValueError as error:
            raise HarnessError(f"{path}, line {number}: {jsonio.explain(error)}") from None  # type: ignore[arg-type]
    return found


def _key(line: ServiceRecord) -> _Key:
    return line.phase, line.request_hash


def _numbers(usage: Mapping[str, Any]) -> dict[str, int | float]:
    return {name: value for name, value in usage.items() if isinstance(value, int | float)}


def _validator(schema: Mapping[str, Any]) -> jsonschema.protocols.Validator:
    return jsonschema.Draft202012Validator(dict(schema))
