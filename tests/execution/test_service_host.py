"""Services of the host: what is asked of them, written down, found again and refused."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.layout import JobLayout
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.execution.model_server import ModelServer
from trace_bench.execution.service_host import LABELS, AttemptServices, ServiceHost, load_services
from trace_bench.gateway.base import LlmRequest, LlmResponse
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.suites.service import ServiceAnswer, ServiceCall, ServiceError
from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.problem import ProblemError
from trace_bench.worker.relay import RelayRequest
from trace_bench.worker.services import ServiceFailed, Services
from trace_bench.worker.training import StopTraining

JOB = "0" * 12
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


class Doubling:
    """Doubles a number; what else it does, a test says."""

    name = "doubling"
    at_once = 1
    request_schema = SCHEMA
    answer_schema = SCHEMA

    def __init__(self, does: Callable[[ServiceCall], Any] = lambda call: None) -> None:
        self.does = does
        self.calls: list[ServiceCall] = []
        self.swept: list[str] = []

    def check(self) -> str:
        return "an oven"

    def answer(self, call: ServiceCall) -> ServiceAnswer:
        self.calls.append(call)
        found = self.does(call)
        return found if isinstance(found, ServiceAnswer) else ServiceAnswer({"x": 2 * call.request["x"]}, cost_usd=0.5)

    def stub(self, request: Mapping[str, Any]) -> ServiceAnswer:
        return ServiceAnswer({"x": 0})

    def left(self, label: str, name: str) -> set[str]:
        return set()

    def close(self) -> None: ...

    def sweep(self, label: str) -> list[str]:
        self.swept.append(label)
        return []


Open = Callable[..., AttemptServices]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_one(
            service: Doubling,
            *,
            attempt: int = 1,
            stub: bool = False,
            recorded: Mapping[str, JobLayout] | None = None,
            budget: Budget | None = None,
            folder: Path = tmp_path,
        ) -> AttemptServices:
            mine = stack.enter_context(ExitStack())
            host = ServiceHost("run-1", {"m:C": service}, recorded=recorded)
            mine.callback(host.close)
            gateway = Gateway({"stub": StubProvider()})
            layout = JobLayout(folder / JOB).make()
            scope = mine.enter_context(
                gateway.open(JOB, 1, ModelRef(id="stub"), layout.cassette, budget, attempt=attempt)
            )
            plan: Any = SimpleNamespace(
                services=("m:C",),
                task_folder=folder,
                spec=SimpleNamespace(
                    model=ModelRef(id="m", model="stub" if stub else "m"),
                    task=SimpleNamespace(id="s:t", spec={"title": "T"}, eval_kwargs={"n": 1}),
                ),
            )
            desk = mine.enter_context(host.serving(plan, layout, scope, attempt))
            assert isinstance(desk, AttemptServices)
            desk.close_all = mine.close  # type: ignore[attr-defined]
            return desk

        yield open_one


def asked(desk: AttemptServices, x: Any, id_: str = "train-1", phase: str = "train") -> LlmResponse:
    body = x if isinstance(x, bytes) else json.dumps({"x": x}).encode()
    return desk.handle(LlmRequest(id_, "POST", "/services/doubling", {}, body, phase=phase))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / JOB / "services.jsonl").read_text().splitlines()]


def test_an_answer_comes_back_and_is_written_down(opened: Open, tmp_path: Path) -> None:
    service = Doubling(lambda call: (call.folder / "left.txt").write_text("kept"))
    found = asked(opened(service), 21)
    assert (found.status, json.loads(found.body)) == (200, {"x": 42})
    (line,) = lines(tmp_path)
    assert (line["service"], line["request"], line["answer"]) == ("doubling", {"x": 21}, {"x": 42})
    assert line["cost_usd"] == 0.5 and (tmp_path / JOB / line["folder"] / "left.txt").read_text() == "kept"


def test_the_task_comes_from_the_plan_and_nothing_but_the_request_from_the_sandbox(
    opened: Open, tmp_path: Path
) -> None:
    service = Doubling()
    asked(opened(service), 1)
    (call,) = service.calls
    assert (call.task_id, call.spec, call.eval_kwargs, call.task_folder) == ("s:t", {"title": "T"}, {"n": 1}, tmp_path)
    assert call.labels[LABELS["run"]] == "run-1" and call.labels[LABELS["job"]] == JOB


def test_other_requests_go_to_the_gateway(opened: Open) -> None:
    found = opened(Doubling()).handle(LlmRequest("train-1", "GET", "/v1/models", {}, b""))
    assert found.status == 200 and b"stub" in found.body


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"{", "malformed_json"), (b'{"x": "1"}', "$.x: '1' is not of type 'integer'"), (b'{"x": 1, "y": 2}', "'y'")],
)
def test_a_request_that_does_not_fit_is_refused(body: bytes, said: str, opened: Open, tmp_path: Path) -> None:
    service = Doubling()
    found = asked(opened(service), body)
    assert found.status == 400 and said in found.body.decode() and not service.calls and lines(tmp_path) == []


def test_a_service_that_nobody_declares_is_refused(opened: Open) -> None:
    found = opened(Doubling()).handle(LlmRequest("train-1", "POST", "/services/other", {}, b"{}"))
    assert found.status == 404 and "it has doubling" in found.body.decode()


def test_a_request_that_is_sent_again_is_answered_once(opened: Open) -> None:
    service = Doubling()
    desk = opened(service)
    assert asked(desk, 1).body == asked(desk, 1).body and len(service.calls) == 1
    asked(desk, 1, "train-2")
    assert len(service.calls) == 2  # another evaluation of the same is another draw


def test_a_later_attempt_gets_what_was_recorded_of_the_same_phase(opened: Open, tmp_path: Path) -> None:
    values = iter([10, 20, 30, 40])
    service = Doubling(lambda call: ServiceAnswer({"x": next(values)}))
    first = opened(service)
    assert [json.loads(asked(first, 1, f"train-{i}").body)["x"] for i in range(2)] == [10, 20]
    first.close_all()  # type: ignore[attr-defined]
    second = opened(service, attempt=2)
    assert [json.loads(asked(second, 1, f"train-{i}").body)["x"] for i in range(3)] == [10, 20, 30]
    assert json.loads(asked(second, 1, "score-1", "score").body)["x"] == 40
    assert [line["reused_from"] for line in lines(tmp_path)] == [None, None, 1, 2, None, None]


@pytest.mark.parametrize(("boundary", "status"), [("provider", 502), ("task", 422)])
def test_failures_are_no_answers(boundary: Any, status: int, opened: Open, tmp_path: Path) -> None:
    def fails(call: ServiceCall) -> None:
        raise ServiceError(boundary, "the oven is cold; light it")

    desk = opened(Doubling(fails))
    found = asked(desk, 1)
    assert found.status == status and "the oven is cold; light it" in found.body.decode()
    assert lines(tmp_path)[0]["answer"] == {"message": "the oven is cold; light it"}
    assert desk.provider_failures() == (
        ("the service doubling: the oven is cold; light it",) if boundary == "provider" else ()
    )


def test_what_a_service_raises_is_its_suites_fault_and_no_end_of_the_run(opened: Open) -> None:
    def breaks(call: ServiceCall) -> None:
        raise KeyError("shelf")

    found = asked(opened(Doubling(breaks)), 1)
    assert found.status == 422 and "the service raised KeyError: 'shelf'" in json.loads(found.body)["error"]["message"]


def test_an_answer_that_breaks_its_schema_is_the_services_failure(opened: Open) -> None:
    desk = opened(Doubling(lambda call: ServiceAnswer({"x": "much"})))
    assert asked(desk, 1).status == 502 and "does not fit what it declares" in desk.provider_failures()[0]


def test_stub_answers_ask_nobody(opened: Open) -> None:
    service = Doubling()
    assert json.loads(asked(opened(service, stub=True), 5).body) == {"x": 0} and not service.calls


def test_recorded_answers_are_given_again_and_others_are_refused(opened: Open, tmp_path: Path) -> None:
    first = opened(Doubling(), folder=tmp_path / "first")
    asked(first, 4)
    first.close_all()  # type: ignore[attr-defined]
    service = Doubling()
    recorded = {JOB: JobLayout(tmp_path / "first" / JOB)}
    desk = opened(service, recorded=recorded, folder=tmp_path / "second")
    assert json.loads(asked(desk, 4).body) == {"x": 8} and not service.calls
    found = asked(desk, 5, "train-2")
    assert found.status == 422 and "holds no answer" in found.body.decode()


def test_a_recorded_answer_brings_the_model_calls_that_were_paid_for_it(opened: Open, tmp_path: Path) -> None:
    first = opened(
        Doubling(lambda call: chat(call.model.base_url, call.model.token) and None), folder=tmp_path / "first"
    )
    asked(first, 4)
    first.close_all()  # type: ignore[attr-defined]
    recorded = {JOB: JobLayout(tmp_path / "first" / JOB)}
    asked(opened(Doubling(), recorded=recorded, folder=tmp_path / "second"), 4)
    before, after = (
        json.loads((tmp_path / name / JOB / "llm.jsonl").read_text().splitlines()[0]) for name in ("first", "second")
    )
    assert after["unasked"] and after["replayed_from"] == 1 and after["request_id"] == "train-1-doubling-1"
    assert after["prompt_tokens"] == before["prompt_tokens"] > 0
    assert lines(tmp_path / "second")[0]["usage"] == lines(tmp_path / "first")[0]["usage"]


def test_a_damaged_record_is_said_with_its_line(opened: Open, tmp_path: Path) -> None:
    (tmp_path / JOB).mkdir()
    (tmp_path / JOB / "services.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(HarnessError, match=r"services\.jsonl, line 1: "):
        opened(Doubling())


def test_who_leaves_stops_what_is_under_way(opened: Open) -> None:
    begun = threading.Event()

    def waits(call: ServiceCall) -> None:
        begun.set()
        assert call.stopped.wait(30)
        raise ServiceError("provider", "it was stopped")

    desk = opened(Doubling(waits))
    thread = threading.Thread(target=asked, args=(desk, 1))
    thread.start()
    assert begun.wait(30)
    desk.refuse_new_calls()
    thread.join(30)
    assert not thread.is_alive() and desk.provider_failures() == ()


def test_what_a_killed_controller_left_is_looked_for_before_the_first_job() -> None:
    service = Doubling()
    ServiceHost("run-1", {"m:C": service}).sweep()
    assert service.swept == ["trace-bench.service.run=run-1"]
    ServiceHost("run-1", {"m:C": service}, needed=False).sweep()
    assert len(service.swept) == 1


def test_a_service_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(ConfigError, match="no_such_module:Service cannot be loaded"):
        load_services(["no_such_module:Service"])


# -- the model's door ----------------------------------------------------------------------------------------------


def chat(address: str, token: str, content: str = "hello") -> tuple[int, dict[str, Any]]:
    host = address.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(host, timeout=30)
    body = json.dumps({"model": "stub", "messages": [{"role": "user", "content": content}]})
    connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def test_the_model_is_asked_through_the_jobs_scope_and_counted(opened: Open, tmp_path: Path) -> None:
    def asks(call: ServiceCall) -> None:
        for _ in range(2):
            assert chat(call.model.base_url, call.model.token)[0] == 200

    asked(opened(Doubling(asks)), 1)
    cassette = [json.loads(line) for line in (tmp_path / JOB / "llm.jsonl").read_text().splitlines()]
    assert [line["request_id"] for line in cassette] == ["train-1-doubling-1", "train-1-doubling-2"]
    usage = lines(tmp_path)[0]["usage"]
    assert usage["llm_calls"] == 2 and usage["prompt_tokens"] == sum(line["prompt_tokens"] for line in cassette) > 0


def test_a_token_is_worth_nothing_once_its_call_is_over_nor_is_a_guess(opened: Open) -> None:
    seen: list[Any] = []
    desk = opened(Doubling(lambda call: seen.append(call.model)))
    asked(desk, 1)

    def asks(call: ServiceCall) -> None:
        for token in (seen[0].token, "", "tb-" + "0" * 48):
            assert chat(call.model.base_url, token)[0] == 401

    desk._services["doubling"].does = asks  # type: ignore[attr-defined]
    assert asked(desk, 2, "train-2").status == 200


def test_a_budget_that_ends_during_a_call_ends_training(opened: Open) -> None:
    def asks(call: ServiceCall) -> None:
        assert chat(call.model.base_url, call.model.token)[0] == 200
        assert chat(call.model.base_url, call.model.token)[0] == 429
        raise ServiceError("provider", "the agent gave up")

    desk = opened(Doubling(asks), budget=Budget(calls=1))
    found = asked(desk, 1)
    assert found.status == 429 and b"budget_exhausted" in found.body and desk.provider_failures() == ()


def test_bodies_without_a_length_are_refused() -> None:
    door = ModelServer()
    try:
        with door.access(None, "train", "x", "stub") as (address, _):  # type: ignore[arg-type]
            host = address.base_url.removeprefix("http://").removesuffix("/v1")
            connection = http.client.HTTPConnection(host, timeout=30)
            connection.putrequest("POST", "/v1/chat/completions")
            connection.putheader("Authorization", f"Bearer {address.token}")
            connection.putheader("Content-Length", "9" * 10)
            connection.endheaders()
            assert connection.getresponse().status == 413
    finally:
        door.close()


def test_calls_of_the_model_are_counted_and_requests_to_services_are_not() -> None:
    calls = LlmCalls(lambda kind, fields, body: None)
    for path in ("/v1/chat/completions", "/services/oven"):
        calls.ask("train", RelayRequest("POST", path, {}, b"{}"), lambda status, body, content_type="": None)
    assert (calls.number, calls.calls) == (2, 1)
    usage = {"llm_calls": 3, "prompt_tokens": 30, "completion_tokens": 4, "cost_usd": 0.5}
    calls.answered({"id": "train-2", "status": 200, "usage": usage}, b"{}")
    calls.answered({"id": "train-1", "status": 200, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}, b"{}")
    assert calls.calls == 4
    assert calls.spent == {"llm_calls": 4, "prompt_tokens": 31, "completion_tokens": 5, "cost_usd": 0.5}


# -- the sandbox's side --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "raised"),
    [
        (502, "service_failure", ServiceFailed),
        (422, "bad_request", ProblemError),
        (404, "unknown_service", ProblemError),
        (429, "budget_exhausted", StopTraining),
    ],
)
def test_what_the_host_says_becomes_the_right_failure(
    status: int, code: str, raised: type[Exception], serve_once: Callable[[int, bytes], int]
) -> None:
    port = serve_once(status, json.dumps({"error": {"code": code, "message": "why"}}).encode())
    with pytest.raises(raised) as caught:
        Services(port).ask("doubling", {"x": 1})
    assert raised is StopTraining or "the service doubling: why" in str(caught.value)


def test_an_answer_reaches_the_guide(serve_once: Callable[[int, bytes], int]) -> None:
    assert Services(serve_once(200, b'{"x": 2}')).ask("doubling", {"x": 1}) == {"x": 2}


def test_while_a_problem_is_built_nobody_answers() -> None:
    with pytest.raises(ProblemError, match="ask it in the guide"):
        Services(None).ask("doubling", {})


@pytest.fixture
def serve_once() -> Iterator[Callable[[int, bytes], int]]:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    servers: list[HTTPServer] = []

    def serve(status: int, body: bytes) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_places_are_those_of_the_host_and_not_of_a_run(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_BENCH_LOCK_DIR", str(tmp_path))
    go, order = threading.Event(), []

    def first(call: ServiceCall) -> None:
        order.append("first begins")
        assert go.wait(30)
        order.append("first ends")

    one = opened(Doubling(first), folder=tmp_path / "one")
    two = opened(Doubling(lambda call: order.append("second")), folder=tmp_path / "two")
    threads = [threading.Thread(target=asked, args=(one, 1))]
    threads[0].start()
    while not order:
        threads[0].join(0.01)
    threads.append(threading.Thread(target=asked, args=(two, 1)))
    threads[1].start()
    threads[1].join(0.5)
    go.set()
    for thread in threads:
        thread.join(30)
    assert order == ["first begins", "first ends", "second"]
