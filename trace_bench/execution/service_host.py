"""Answers the requests that jobs send to services of the host (`trace_bench.suites.service`), and records the answers.

A repeated request is recognised as an LLM call is. If it was sent again over a new connection, by attempt and id; in a
later attempt, by its content and by how many equal requests came before. So no trial runs twice for one evaluation,
and an answer that was recorded before a failure is used again.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import LlmCall, ServiceRecord
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.writers import Journal, read_journal
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, EnvironmentUnavailable, HarnessError, TraceBenchError
from trace_bench.execution.model_server import ModelAccess, ModelServer
from trace_bench.gateway.base import GatewayLimits, LlmRequest, LlmResponse, NotRecorded, Refusal
from trace_bench.gateway.replies import encode, refused
from trace_bench.gateway.requests import check_names
from trace_bench.gateway.server import Scope
from trace_bench.matrix import Job
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.preconditions import Check
from trace_bench.planning.prepare import PreparedJob, model_ref
from trace_bench.records.calls import read_calls
from trace_bench.sandbox.labels import PREFIX, owner
from trace_bench.sandbox.locks import default_directory, try_lock
from trace_bench.suites.service import ModelAddress, Service, ServiceAnswer, ServiceCall, ServiceError
from trace_bench.suites.spec import Task
from trace_bench.worker.llm_calls import SERVICES as PATH

LABELS = {name: f"{PREFIX}service.{name}" for name in ("run", "job", "owner")}
"""Labels of what services make on an engine. They differ from those of sandboxes, which are adopted by their labels."""
POLL = 0.2
"""Seconds between two attempts to get one of a service's places."""
STUB = "stub"
"""The model for which services return the answers of their own stubs."""
MOST_ANSWER = 4 << 20
"""Most bytes of an answer."""
_Key = tuple[str, str]
"""Phase and hash of a request: the scorer gets no answer that training asked for."""
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


def service_check(tasks: Mapping[str, Task], *, recorded: bool) -> Check:
    """The check that what the services of a job need exists.

    Args:
        recorded: the answers of services are recorded ones.
    """
    known: dict[str, TraceBenchError | None] = {}

    def error_of(name: str) -> TraceBenchError | None:
        try:
            load_services([name])[name].check()
        except (ConfigError, EnvironmentUnavailable) as error:
            return error
        return None

    def check(job: Job) -> TraceBenchError | None:
        if recorded or model_ref(job.model).model == STUB:
            return None
        for name in tasks[job.task_id].suite.services:
            if name not in known:
                known[name] = error_of(name)
            if (error := known[name]) is not None:
                return error
        return None

    return check


def services_of(plan: RunPlan) -> ServiceHost:
    """The services of the suites of a run's jobs.

    Raises:
        ConfigError: as `load_services`.
    """
    jobs = [job for job in plan.jobs if job.decision in ("run", "adopt")]
    names = {name for job in jobs for name in plan.material[job.task_id].task.suite.services}
    recorded = None
    if plan.recording is not None and plan.config.replay_services:
        recorded = {job_id: plan.recording.layout.job(job_id) for job_id in plan.recording.rows}
    needed = recorded is None and any(
        model_ref(job.job.model).model != STUB and plan.material[job.task_id].task.suite.services for job in jobs
    )
    return ServiceHost(plan.run_id, load_services(sorted(names)), needed=needed, recorded=recorded)


class ServiceHost:
    """The services of one run, shared by all its jobs.

    Args:
        services: by the names under which suites declare them.
        needed: a job needs answers other than those of a stub or of a recording.
        recorded: the jobs of a recorded run whose answers are used, by job id; None answers requests anew.
    """

    def __init__(
        self,
        run_id: str,
        services: Mapping[str, Service],
        *,
        needed: bool = True,
        recorded: Mapping[str, JobLayout] | None = None,
    ) -> None:
        self.run_id = run_id
        self._services = services
        self._needed = list(services.values()) if needed else []
        self._recorded = recorded
        self._models: ModelServer | None = None
        self._lock = threading.Lock()

    def sweep(self) -> None:
        """Remove what a dead controller of this run left."""
        for service in self._needed:
            service.sweep(f"{LABELS['run']}={self.run_id}")

    def close(self) -> None:
        for service in self._services.values():
            service.close()
        with self._lock:
            if self._models is not None:
                self._models.close()
                self._models = None

    @contextmanager
    def serving(
        self, prepared: PreparedJob, job: JobLayout, scope: Scope, attempt: int
    ) -> Iterator[AttemptServices | Scope]:
        """The handler of requests of one attempt at `job`: its `scope`, with services in front of it if it has any.

        Raises:
            HarnessError: the record of services is damaged.
        """
        services = {service.name: service for service in map(self._services.__getitem__, prepared.services)}
        if not services:
            yield scope
            return
        handler = AttemptServices(self, services, prepared, job, scope, attempt)
        try:
            yield handler
        finally:
            handler.close()

    def recorded(self, job_id: str) -> list[ServiceRecord] | None:
        """The recorded answers of a job; None if its requests are answered anew."""
        if self._recorded is None:
            return None
        layout = self._recorded.get(job_id)
        return _read(layout.services) if layout is not None else []

    def recorded_calls(self, job_id: str, line: ServiceRecord) -> list[LlmCall]:
        """The calls of the model that the recorded service made for `line`."""
        layout = (self._recorded or {}).get(job_id)
        if layout is None or not line.usage:
            return []
        prefix = f"{line.request_id}-{line.service}-"
        return [
            call
            for call in read_calls(layout.cassette)
            if call.attempt == line.attempt and call.request_id.startswith(prefix) and call.reused_from is None
        ]

    def answer(
        self, service: Service, call_of: Callable[[ModelAddress], ServiceCall], scope: Scope, phase: str, prefix: str
    ) -> tuple[ServiceAnswer, ModelAccess]:
        """Have `service` answer, once one of its places is free. `call_of` makes the call, given the model's address.

        Raises:
            ServiceError: there is no answer. BudgetEnded: a budget of the job's model calls is used up.
        """
        with self._lock:
            self._models = self._models or ModelServer()
            models = self._models
        with models.access(scope, phase, prefix, scope.model_id) as (address, access):
            call = call_of(address)
            try:
                with _place(service, call.stopped):
                    return service.answer(call), access
            except ServiceError as error:
                if access.budget_ended:
                    raise BudgetEnded from error
                raise
            except (OSError, TraceBenchError):
                raise  # errors of this host end the run
            except Exception as error:
                # A fault of a suite ends the jobs of its tasks, and not the run.
                why = f"the service raised {type(error).__name__}: {error}; this is a fault of its suite"
                raise ServiceError("task", why) from error


@contextmanager
def _place(service: Service, stopped: threading.Event) -> Iterator[None]:
    """One of the places that `service` has on this host for all runs: a file that is locked in the block.

    Raises:
        ServiceError: the job has ended.
    """
    folder = default_directory()
    while True:
        for number in range(service.at_once):
            lock = try_lock(folder / f"service-{service.name}-{os.getuid()}-{number}.lock")
            if lock is not None:
                try:
                    yield
                    return
                finally:
                    os.close(lock)
        if stopped.wait(POLL):
            raise ServiceError("provider", "the job ended before its turn came")


class BudgetEnded(Exception):
    """A service has no answer because a budget of the job's model calls is used up."""


class AttemptServices:
    """Answers what one attempt at one job requests of models, as a `Scope` does, and of services. For many threads."""

    quick = False

    def __init__(
        self,
        host: ServiceHost,
        services: Mapping[str, Service],
        prepared: PreparedJob,
        job: JobLayout,
        scope: Scope,
        attempt: int,
    ) -> None:
        self.job_id = scope.job_id
        self._host = host
        self._services = services
        self._prepared = prepared
        self._job = job
        self._scope = scope
        self._attempt = attempt
        self._left = threading.Event()
        self._lock = threading.Lock()
        self._journal = Journal(job.services, durable=True)
        self._lines = _read(job.services)
        self._journal.forget()
        self._requests = Counter(_key(line) for line in self._lines if line.attempt == attempt)
        self._answers = _by_key(line for line in self._lines if line.status == 200)
        recorded = host.recorded(self.job_id)
        self._recorded = None if recorded is None else _by_key(recorded)
        self._failures: list[str] = []

    def handle(self, request: LlmRequest) -> LlmResponse:
        """Answer a request to a service; any other request goes to the job's scope."""
        if not request.path.startswith(PATH):
            return self._scope.handle(request)
        try:
            check_names(request)
            service, body = self._checked(request)
            line = self._sent_before(request.id) or self._answered(service, request, body)
        except Refusal as refusal:
            return refused(refusal)
        if line.status == 200:
            usage = {name: value for name, value in line.usage.items() if isinstance(value, int | float)}
            return LlmResponse(200, encode(line.answer), usage=usage)
        code = {429: "budget_exhausted", 502: "service_failure"}.get(line.status, "bad_request")
        return refused(Refusal(line.status, code, str(line.answer.get("message", ""))))

    def refuse_new_calls(self) -> None:
        """Stop what is under way: the session is over."""
        self._left.set()
        self._scope.refuse_new_calls()

    def provider_failures(self) -> tuple[str, ...]:
        """Why requests of this attempt got no answer. If there are any, the attempt failed at ``provider``."""
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
        if (problem := _mismatch(body, service.request_schema)) is not None:
            raise Refusal(400, "bad_request", problem)
        return service, body

    def _sent_before(self, request_id: str) -> ServiceRecord | None:
        """The answer to a request that the sandbox sends again."""
        with self._lock:
            mine = (line for line in self._lines if (line.attempt, line.request_id) == (self._attempt, request_id))
            return next(mine, None)

    def _answered(self, service: Service, request: LlmRequest, body: dict[str, Any]) -> ServiceRecord:
        """Answer a new request: from an earlier attempt, from the recorded run, from a stub, or from the service."""
        digest = hashlib.sha256(jsonio.canonical([service.name, body])).hexdigest()
        with self._lock:
            key = (request.phase, digest)
            draw = self._requests[key]
            self._requests[key] += 1
            known = self._answers[key][draw] if draw < len(self._answers[key]) else None
        common: dict[str, Any] = {
            "service": service.name,
            "request_id": request.id,
            "phase": request.phase,
            "request_hash": digest,
        }
        if known is not None:
            same = known.model_dump(include={"status", "answer", "usage", "cost_usd", "folder"})
            return self._write(common | same | {"reused_from": known.n})
        if self._recorded is not None:
            line = next(iter(self._recorded[key][draw : draw + 1]), None)
            if line is None:
                return self._failed(common, 422, "the recorded run holds no answer to this request")
            self._scope.carry_over(self._host.recorded_calls(self.job_id, line))
            same = line.model_dump(include={"status", "answer", "seconds", "usage", "cost_usd"})
            return self._write(common | same | {"request": body})
        common["request"] = body
        if self._prepared.spec.model.model == STUB:
            return self._write(common | {"status": 200, "answer": dict(service.stub(body).body)})
        return self._call(service, request, body, common)

    def _call(
        self, service: Service, request: LlmRequest, body: dict[str, Any], common: dict[str, Any]
    ) -> ServiceRecord:
        """Call the service, and record its answer."""
        folder = self._job.service_files / f"{self._attempt}-{_UNSAFE.sub('_', request.id)[:60]}"
        folder.mkdir(parents=True, exist_ok=True)
        task = self._prepared.spec.task

        def call_of(address: ModelAddress) -> ServiceCall:
            return ServiceCall(
                request=body,
                task_id=task.id,
                task_folder=self._prepared.task_folder,
                spec=task.spec,
                eval_kwargs=task.eval_kwargs,
                phase=request.phase,
                labels={LABELS["run"]: self._host.run_id, LABELS["job"]: self.job_id, LABELS["owner"]: owner()},
                folder=folder,
                model=address,
                stopped=self._left,
            )

        started = time.monotonic()
        common |= {"folder": folder.relative_to(self._job.root).as_posix()}
        try:
            answer, access = self._host.answer(
                service, call_of, self._scope, request.phase, f"{request.id}-{service.name}"
            )
        except (BudgetEnded, ServiceError) as error:
            common["seconds"] = time.monotonic() - started
            if isinstance(error, ServiceError):
                return self._failed(common, _STATUS[error.boundary], error.message)
            return self._failed(common, 429, "a budget of the job's model calls is used up")
        common |= {"seconds": round(time.monotonic() - started, 3), "usage": access.usage}
        found = dict(answer.body)
        problem = _mismatch(found, service.answer_schema)
        if problem is not None or len(encode(found)) > MOST_ANSWER:
            why = problem or f"more than {MOST_ANSWER} bytes"
            return self._failed(common, 502, f"its answer does not fit what it declares: {why[:300]}")
        return self._write(common | {"status": 200, "answer": found, "cost_usd": answer.cost_usd})

    def _failed(self, common: dict[str, Any], status: int, message: str) -> ServiceRecord:
        said = quoted(message, 1000)
        if status == 502 and not self._left.is_set():
            with self._lock:
                self._failures.append(f"the service {common['service']}: {said}")
        return self._write({"seconds": 0.0, "usage": {}, **common, "status": status, "answer": {"message": said}})

    def _write(self, fields: dict[str, Any]) -> ServiceRecord:
        with self._lock:
            line = ServiceRecord(n=len(self._lines) + 1, t=now(), attempt=self._attempt, **fields)
            self._journal.append(line)
            self._lines.append(line)
            return line


def _read(path: Path) -> list[ServiceRecord]:
    """Read a record of services. Raises HarnessError if a line is damaged."""
    found = []
    for number, line in enumerate(read_journal(path).lines, start=1):
        try:
            found.append(ServiceRecord.model_validate(line))
        except ValueError as error:
            raise HarnessError(f"{path}, line {number}: {jsonio.explain(error)}") from None  # type: ignore[arg-type]
    return found


def _key(line: ServiceRecord) -> _Key:
    return line.phase, line.request_hash


def _by_key(lines: Iterable[ServiceRecord]) -> dict[_Key, list[ServiceRecord]]:
    """Answers that are not copies of earlier ones, in order."""
    found: dict[_Key, list[ServiceRecord]] = defaultdict(list)
    for line in lines:
        if line.reused_from is None:
            found[_key(line)].append(line)
    return found


def _mismatch(value: dict[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Where `value` does not fit `schema`, and why; None if it fits."""
    import jsonschema  # only jobs with a service need it

    validator = jsonschema.Draft202012Validator(dict(schema))
    problem = jsonschema.exceptions.best_match(validator.iter_errors(value))
    return None if problem is None else f"{problem.json_path}: {problem.message}"
