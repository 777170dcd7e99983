"""The gateway: checks, refusals, budgets, and answers that are never paid twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.conftest import STUB, OpenScope, chat, error, suggestion
from trace_bench.artifacts import jsonio, schema
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import Boundary, ConfigError, HarnessError
from trace_bench.gateway.base import (
    GatewayLimits,
    LlmRequest,
    ProviderError,
    ProviderReply,
    ProviderRequest,
)
from trace_bench.gateway.fields import POST_PATHS
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.gateway.stub import StubProvider


class CountingProvider:
    """A paid provider that never gives the same answer twice, and notes what it was asked."""

    name = "counting"
    paid = True
    uses_hints = False
    quick = True

    def __init__(self, *, seconds: float = 0.0, fail: int = 0, status: int = 200) -> None:
        self.asked: list[ProviderRequest] = []
        self._seconds = seconds
        self._fail = fail
        self._status = status
        self._lock = threading.Lock()

    def complete(self, request: ProviderRequest) -> ProviderReply:
        with self._lock:
            self.asked.append(request)
            number = len(self.asked)
        time.sleep(self._seconds)
        if number <= self._fail:
            raise ProviderError("the service answered 503 three times")
        return ProviderReply(self._status, {"answer": number}, 10, 5, 0.25)


def _answer(scope: Scope, request: LlmRequest) -> int:
    response = scope.handle(request)
    assert response.status == 200, response.body
    number: int = json.loads(response.body)["answer"]
    return number


def test_a_resent_request_gets_the_same_bytes_and_is_not_paid_again(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    scope = open_scope(provider=provider)
    request = chat(None, request_id="train-1")
    assert scope.handle(request).body == scope.handle(request).body
    assert len(provider.asked) == 1
    assert scope.usage().calls == 1


def test_a_new_controller_gives_a_resent_request_the_recorded_answer(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    request = chat(None, request_id="train-1")
    with open_scope(provider=provider) as dead:
        first = dead.handle(request)
    heir = open_scope(provider=provider)
    assert heir.handle(request).body == first.body
    assert len(provider.asked) == 1
    assert heir.usage() == dead.usage()


def test_a_call_that_was_paid_survives_kill_9(cassette: Path, open_scope: OpenScope) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.gateway.conftest import STUB, chat
from tests.gateway.test_server import CountingProvider
from trace_bench.gateway.server import Gateway
scope = Gateway({{"stub": CountingProvider()}}).open("0123456789ab", 7, STUB, Path({str(cassette)!r}))
for i in range(3):
    scope.handle(chat(None, request_id=f"train-{{i}}", text=str(i)))
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == -9, done.stderr
    provider = CountingProvider()
    scope = open_scope(provider=provider)
    assert scope.usage().calls == 3
    assert scope.usage().cost_usd == 0.75
    assert [_answer(scope, chat(None, request_id=f"train-{i}", text=str(i))) for i in range(3)] == [1, 2, 3]
    assert provider.asked == []


def test_a_torn_line_is_cut_off_and_the_rest_is_kept(cassette: Path, open_scope: OpenScope) -> None:
    with open_scope(provider=CountingProvider()) as scope:
        scope.handle(chat(None, request_id="a"))
        scope.handle(chat(None, request_id="b", text="other"))
    os.truncate(cassette, cassette.stat().st_size - 7)
    provider = CountingProvider()
    heir = open_scope(provider=provider)
    assert heir.usage().calls == 1
    assert _answer(heir, chat(None, request_id="b", text="other")) == 1
    heir.close()
    assert [line["request_id"] for line in read_journal(cassette).lines] == ["a", "b"]


def test_a_later_attempt_reuses_slots_and_pays_only_for_new_ones(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    with open_scope(provider=provider) as first:
        _answer(first, chat("step=0", request_id="train-1"))
        _answer(first, chat("step=1", request_id="train-2"))
    second = open_scope(provider=provider, attempt=2)
    # Other request ids, other order.
    assert _answer(second, chat("step=1", request_id="train-1")) == 2
    assert _answer(second, chat("step=0", request_id="train-2")) == 1
    assert _answer(second, chat("step=2", request_id="train-3")) == 3
    assert second.usage().calls == 3
    assert second.usage().reused == 2


def test_a_slot_with_another_request_is_another_call(open_scope: OpenScope) -> None:
    scope = open_scope(provider=CountingProvider())
    assert _answer(scope, chat("step=0", text="a")) == 1
    assert _answer(scope, chat("step=0", text="b")) == 2
    assert _answer(scope, chat("step=0", text="a")) == 1


def test_without_slots_equal_requests_of_one_attempt_are_separate_draws(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    with open_scope(provider=provider) as first:
        assert [_answer(first, chat(None)) for _ in range(3)] == [1, 2, 3]
    second = open_scope(provider=provider, attempt=2)
    assert [_answer(second, chat(None)) for _ in range(4)] == [1, 2, 3, 4]
    assert second.usage().calls == 4


def test_an_adopted_attempt_goes_on_where_it_was(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    with open_scope(provider=provider) as first:
        assert [_answer(first, chat(None)) for _ in range(2)] == [1, 2]
    with open_scope(provider=provider, attempt=2) as second:
        assert _answer(second, chat(None)) == 1
    adopted = open_scope(provider=provider, attempt=2)
    assert _answer(adopted, chat(None)) == 2
    assert _answer(adopted, chat(None)) == 3


def test_the_same_request_from_many_threads_is_paid_once(open_scope: OpenScope) -> None:
    provider = CountingProvider(seconds=0.05)
    scope = open_scope(provider=provider)
    with ThreadPoolExecutor(16) as pool:
        same_id = list(pool.map(lambda _: scope.handle(chat(None, request_id="x")).body, range(16)))
        same_slot = list(pool.map(lambda _: scope.handle(chat("step=9")).body, range(16)))
    assert len(set(same_id)) == len(set(same_slot)) == 1
    assert len(provider.asked) == 2
    assert scope.usage().calls == 2


def test_parallel_calls_do_not_overrun_the_budget(open_scope: OpenScope) -> None:
    provider = CountingProvider(seconds=0.01)
    scope = open_scope(provider=provider, budget=Budget(calls=10))
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: scope.handle(chat(None)).status, range(40)))
    assert sorted(statuses) == [200] * 10 + [429] * 30
    assert len(provider.asked) == 10
    assert scope.usage().refused == 30


@pytest.mark.parametrize(
    ("budget", "calls"), [(Budget(calls=0), 0), (Budget(calls=2), 2), (Budget(tokens=31), 3), (Budget(usd=0.5), 2)]
)
def test_an_exhausted_budget_is_refused_in_openai_shape(open_scope: OpenScope, budget: Budget, calls: int) -> None:
    scope = open_scope(provider=CountingProvider(), budget=budget)
    statuses = [scope.handle(chat(None)).status for _ in range(5)]
    assert statuses == [200] * calls + [429] * (5 - calls)
    assert error(scope.handle(chat(None)))["code"] == "budget_exhausted"


def test_the_budget_spans_attempts(open_scope: OpenScope) -> None:
    with open_scope(budget=Budget(calls=2)) as first:
        assert first.handle(chat("step=0")).status == 200
        assert first.handle(chat("step=1")).status == 200
    second = open_scope(budget=Budget(calls=2), attempt=2)
    assert second.handle(chat("step=1")).status == 200, "a recorded answer costs nothing"
    assert second.handle(chat("step=2")).status == 429


def test_a_provider_failure_is_told_apart_and_not_counted(open_scope: OpenScope) -> None:
    scope = open_scope(provider=CountingProvider(fail=1), budget=Budget(calls=1))
    said = error(scope.handle(chat("step=0", request_id="1")))
    assert said["code"] == "provider_failure" and "503" not in said["message"], "why is the host's to know"
    assert scope.provider_failures() == ("the service answered 503 three times",)
    assert ProviderError.boundary is Boundary.PROVIDER
    assert scope.usage().calls == 0
    assert _answer(scope, chat("step=0", request_id="1")) == 2, "asked again, as nothing was recorded"


def test_a_providers_own_refusal_is_passed_on_but_not_reused(open_scope: OpenScope) -> None:
    with open_scope(provider=CountingProvider(status=400)) as scope:
        assert scope.handle(chat("step=0")).status == 400
    healed = open_scope(provider=CountingProvider(), attempt=2)
    assert _answer(healed, chat("step=0")) == 1


def test_a_provider_sees_neither_headers_nor_hints(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    open_scope(provider=provider).handle(chat("step=3"))
    [asked] = provider.asked
    assert asked.hints is None
    assert "step=3" not in repr(asked)
    assert asked.body == {"model": "stub", "messages": [{"role": "user", "content": "improve x"}]}


def test_the_cassette_fits_its_schema_and_holds_no_private_header(open_scope: OpenScope, cassette: Path) -> None:
    with open_scope() as scope:
        scope.handle(chat("step=0", request_id="a"))
        scope.handle(chat("step=0", request_id="b"))
        scope.handle(chat(None, request_id="c"))
    lines = read_journal(cassette).lines
    for line in lines:
        schema.validate("llm_call", line)
    assert [line["n"] for line in lines] == [1, 2, 3]
    assert [line["reused_from"] for line in lines] == [None, 1, None]
    assert [line["slot"] for line in lines] == ["step=0", "step=0", None]
    assert [line["inert"] for line in lines] == [False, False, True]
    assert b"variables" not in cassette.read_bytes().lower()


def test_a_damaged_cassette_is_named_with_its_line(open_scope: OpenScope, cassette: Path) -> None:
    cassette.write_text('{"n": 1}\n{"n": 2}\n')
    with pytest.raises(HarnessError, match=r"llm\.jsonl, line 1: "):
        open_scope()
    cassette.write_text("garbage\n{}\n")
    with pytest.raises(HarnessError, match=r"llm\.jsonl, line 1: it is not JSON"):
        open_scope()


def test_usage_of_an_answer_goes_with_it_also_when_it_is_reused(open_scope: OpenScope) -> None:
    scope = open_scope(provider=CountingProvider())
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "cost_usd": 0.25}
    assert scope.handle(chat("step=0")).usage == usage
    assert scope.handle(chat("step=0")).usage == usage
    assert scope.usage().prompt_tokens == 10


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (LlmRequest("1", "POST", "/v1/files", {}, b"{}"), 404, "unknown_path"),
        (LlmRequest("1", "GET", "/", {}, b""), 404, "unknown_path"),
        (LlmRequest("1", "POST", "/v1/models", {}, b""), 404, "unknown_path"),
        (LlmRequest("1", "GET", "/v1/models/gpt-9", {}, b""), 404, "unknown_path"),
        (LlmRequest("1", "GET", "/v1/chat/completions", {}, b""), 405, "method_not_allowed"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b""), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b"{"), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b"[]"), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b'{"a":NaN}'), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b'{"a":1,"a":2}'), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b'{"a":"\\ud800"}'), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b"[" * 100_000), 400, "malformed_json"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b" " * (9 << 20)), 413, "body_too_large"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {"a": "b" * (7 << 20)}, b"{}"), 431, "headers_too_large"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {"x-trace-bench-z": ""}, b"{}"), 400, "unknown_header"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {"X-Trace-Bench-Slot": ""}, b"{}"), 400, "bad_slot"),
        (LlmRequest("1", "POST", "/v1/chat/completions", {}, b"{}"), 400, "bad_messages"),
        (chat(stream="yes"), 400, "bad_stream"),
        (chat(model="gpt-9"), 404, "model_not_found"),
        (chat(model=["stub"]), 404, "model_not_found"),
    ],
)
def test_what_cannot_be_served_is_refused_in_openai_shape(
    open_scope: OpenScope, request_: LlmRequest, status: int, code: str
) -> None:
    scope = open_scope()
    response = scope.handle(request_)
    assert (response.status, error(response)["code"]) == (status, code)
    assert scope.usage().calls == 0


@pytest.mark.parametrize("field", ["id", "phase"])
@pytest.mark.parametrize("name", ["a\ud800", "\udfff", "x" * 201, "x" * 10**6])
def test_names_that_no_cassette_can_hold_are_refused(
    open_scope: OpenScope, cassette: Path, field: str, name: str
) -> None:
    scope = open_scope()
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models")):
        request_ = LlmRequest(**{"id": "1", "method": method, "path": path, "headers": {}, "body": b"{}", field: name})
        response = scope.handle(request_)
        assert (response.status, error(response)["code"]) == (400, f"bad_{field}")
    assert scope.usage().calls == 0
    longest = {"id": "é" * 200, "phase": "\U0001f600" * 200}[field]
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    good = LlmRequest(
        **{"id": "2", "method": "POST", "path": "/v1/chat/completions", "headers": {}, "body": body, field: longest}
    )
    assert scope.handle(good).status == 200
    (line,) = read_journal(cassette).lines
    assert longest in (line["request_id"], line["phase"])


def test_equal_requests_of_two_jobs_are_two_calls(tmp_path: Path) -> None:
    provider = CountingProvider()
    gateway = Gateway({"stub": provider})
    with gateway.open("0" * 12, 1, STUB, tmp_path / "0") as one, gateway.open("1" * 12, 1, STUB, tmp_path / "1") as two:
        assert [_answer(scope, chat("step=0", request_id="train-1")) for scope in (one, two, one)] == [1, 2, 1]


def test_models_are_listed_without_costing_a_call(open_scope: OpenScope) -> None:
    scope = open_scope(budget=Budget(calls=0))
    listed = json.loads(scope.handle(LlmRequest("1", "GET", "/v1/models", {}, b"")).body)
    assert [m["id"] for m in listed["data"]] == ["stub"]
    one = json.loads(scope.handle(LlmRequest("2", "GET", "/v1/models/stub?x=1", {}, b"")).body)
    assert one["id"] == "stub"


def test_a_request_without_a_model_gets_the_jobs_model(open_scope: OpenScope) -> None:
    assert suggestion(open_scope().handle(chat(model=None)))


def test_a_job_is_served_once_at_a_time(cassette: Path) -> None:
    gateway = Gateway({"stub": StubProvider()})
    scope = gateway.open("0123456789ab", 1, STUB, cassette)
    with pytest.raises(HarnessError, match="serves job 0123456789ab already"):
        gateway.open("0123456789ab", 1, STUB, cassette)
    scope.close()
    gateway.open("0123456789ab", 1, STUB, cassette).close()


def test_a_cassette_that_cannot_be_opened_does_not_block_the_job(cassette: Path) -> None:
    gateway = Gateway({"stub": StubProvider()})
    cassette.write_text("garbage\n")
    with pytest.raises(HarnessError):
        gateway.open("0123456789ab", 1, STUB, cassette)
    cassette.unlink()
    gateway.open("0123456789ab", 1, STUB, cassette).close()


def test_an_unknown_provider_is_a_config_error(cassette: Path) -> None:
    with pytest.raises(ConfigError, match="has no model 'm'; it has stub"):
        Gateway({"stub": StubProvider()}).open("0123456789ab", 1, ModelRef(id="m", provider="acme"), cassette)


def test_limits_can_be_set(cassette: Path) -> None:
    gateway = Gateway({"stub": StubProvider()}, limits=GatewayLimits(body_bytes=10))
    with gateway.open("0123456789ab", 1, STUB, cassette) as scope:
        assert scope.handle(chat()).status == 413


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("slot", [None, "s"])
def test_whatever_depth_is_let_in_can_be_read_back(open_scope: OpenScope, slot: str | None) -> None:
    """A line that cannot be read again would end the run, and each that continues it."""
    scope = open_scope()
    # The body itself, and the object in it, are two of the levels.
    deepest = jsonio.MAX_DEPTH_INSIDE - 2
    told = [scope.handle(chat(slot, logit_bias={"x": nested(levels)})) for levels in (deepest, deepest + 1)]
    assert [answer.status for answer in told] == [200, 400]
    assert "nested deeper than 56 levels" in error(told[1])["message"]
    scope.close()
    again = open_scope(attempt=2)
    assert again.handle(chat(slot, logit_bias={"x": nested(deepest)})).body == told[0].body
    assert again.usage().reused == 1


def test_a_job_fills_no_more_of_the_hosts_disk_than_it_may(cassette: Path) -> None:
    limits = GatewayLimits(cassette_bytes=200_000)
    with Gateway({"stub": StubProvider()}, limits=limits).open("0123456789ab", 1, STUB, cassette) as scope:
        told = [scope.handle(chat(f"step={n}", text="x" * 30_000)).status for n in range(50)]
    assert told[0] == 200 and told[-1] == 400
    assert cassette.stat().st_size < 300_000
    with Gateway({"stub": StubProvider()}, limits=limits).open("0123456789ab", 1, STUB, cassette) as scope:
        assert error(scope.handle(chat("step=99")))["code"] == "recording_full"
        assert scope.handle(chat("step=0", text="x" * 30_000)).status == 200, "what was answered before still is"


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=9)
"""Halves of surrogate pairs too: JSON can carry them."""
bodies = st.dictionaries(
    st.sampled_from(
        ["model", "messages", "n", "stream", "stream_options", "input", "prompt", "tools", "tool_choice", "text",
         "include", "instructions", "dimensions", "encoding_format", "user", "metadata", "api_key", "x"]
    ),
    json_values | st.lists(st.dictionaries(st.sampled_from(["role", "content", "type", "url", "output"]), json_values)),
)  # fmt: skip


@given(
    body=st.binary(max_size=60) | bodies.map(lambda b: json.dumps(b).encode()),
    path=st.sampled_from([*POST_PATHS, "/v1/models", "/v1/models/%ff", "/x?"]) | ANY_TEXT,
    method=st.sampled_from(["POST", "GET", "post"]) | ANY_TEXT,
    headers=st.dictionaries(
        st.sampled_from(["x-trace-bench-slot", "X-Trace-Bench-Variables", "a"]) | ANY_TEXT, ANY_TEXT
    ),
    id_=st.just("1") | ANY_TEXT,
    phase=st.just("train") | ANY_TEXT,
)
def test_whatever_a_sandbox_sends_is_answered(
    tmp_path_factory: pytest.TempPathFactory,
    body: bytes,
    path: str,
    method: str,
    headers: dict[str, str],
    id_: str,
    phase: str,
) -> None:
    cassette = tmp_path_factory.mktemp("fuzz") / "llm.jsonl"
    with Gateway({"stub": StubProvider()}).open("0123456789ab", 1, STUB, cassette) as scope:
        response = scope.handle(LlmRequest(id_, method, path, headers, body, phase))
        again = scope.handle(LlmRequest(id_, method, path, headers, body, phase))
    if response.content_type == "application/json":
        json.loads(response.body)
    else:
        assert response.status == 200 and response.body.endswith(b"\n\n")
    assert 200 <= response.status < 500
    assert again.body == response.body
