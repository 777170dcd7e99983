"""Real models through unmodified litellm, in a process of its own, over real HTTP to a provider of the tests."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.asking_program import WITHOUT_LITELLM
from tests.gateway.conftest import KEY, QUICKLY, WAITS, chat, error, plain_model
from tests.gateway.openai_server import (
    CUT_SHORT,
    DROPPED,
    EMPTY_CHOICES,
    MALFORMED,
    NO_USAGE,
    OUT_OF_TOKENS,
    PLAIN,
    Asked,
    Behaviour,
    OpenAIServer,
    failing,
    rate_limited,
)
from tests.memory_group import memory_group
from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import ModelRef
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.gateway import provider_process
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.server import Gateway

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")

CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings",
)  # fmt: skip
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
PING = [{"role": "user", "content": "ping"}]


@pytest.fixture
def server(provider: OpenAIServer) -> OpenAIServer:
    return provider


def _light(folder: Path, url: str = "http://127.0.0.1:9/v1") -> ProviderProcess:
    """A process of a test's own that asks by plain HTTP, without litellm, which takes seconds to import."""
    site = folder / "site"
    site.mkdir()
    stand_in = WITHOUT_LITELLM.format(point="", at=0, done=str(folder / "none"))
    (site / "sitecustomize.py").write_text(stand_in)
    os.environ["PYTHONPATH"] = str(site)
    return ProviderProcess([plain_model(url)], folder / "limits", backoff=QUICKLY)


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what `_light` sets."""
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))


Ask = Callable[..., ProviderReply]


@pytest.fixture
def ask(process: ProviderProcess) -> Ask:
    return lambda *args, **body: _ask(process, *args, **body)


def _ask(process: ProviderProcess, model: str = "plain", path: str = CHAT, **body: Any) -> ProviderReply:
    if not body:
        body = {
            CHAT: {"messages": PING},
            COMPLETIONS: {"prompt": "ping"},
            RESPONSES: {"input": "ping"},
            EMBEDDINGS: {"input": ["ping"]},
        }[path]
    request = ProviderRequest(path, {"model": model, **body}, ModelRef(id=model), 7, "0" * 64, sample_seed=42)
    return process.provider(model).complete(request)


def _until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------------- one good try


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS])
def test_every_endpoint_is_asked_and_counted(server: OpenAIServer, ask: Ask, path: str) -> None:
    reply = ask("plain", path)
    (asked,) = server.asked()
    assert asked.path == path
    assert asked.body["model"] == "m"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert reply.status == 200
    assert reply.prompt_tokens > 0
    assert reply.completion_tokens == (0 if path == EMBEDDINGS else 1)
    assert not reply.estimated
    assert [(t.status, t.error) for t in reply.tries] == [(200, "")]
    assert KEY not in repr(reply)
    said = {
        CHAT: lambda body: body["choices"][0]["message"]["content"],
        COMPLETIONS: lambda body: body["choices"][0]["text"],
        RESPONSES: lambda body: body["output"][0]["content"][0]["text"],
        EMBEDDINGS: lambda body: "pong" if body["data"][0]["embedding"] == [4.0, 0.5, -0.5] else "",
    }[path]
    assert said(dict(reply.body)) == "pong"
    assert reply.body.get("id", "resp_1") in ("chatcmpl-1", "cmpl-1", "resp_1"), "the provider's own id"


def test_what_a_request_does_not_say_is_added_and_recorded(server: OpenAIServer, ask: Ask) -> None:
    reply = ask("sampled")
    added = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "seed": 42}
    assert dict(reply.sent) == added
    assert added.items() <= server.requests[0].body.items()


def test_what_a_request_says_is_kept_but_for_a_larger_limit(server: OpenAIServer, ask: Ask) -> None:
    said = {"temperature": 0.0, "top_p": 1.0, "seed": 3}
    reply = ask("sampled", CHAT, messages=PING, max_tokens=5000, **said)
    assert dict(reply.sent) == {"max_tokens": 100}
    assert {**said, "max_tokens": 100}.items() <= server.requests[0].body.items()
    assert dict(ask("sampled", CHAT, messages=PING, max_completion_tokens=7, **said).sent) == {}
    assert server.requests[1].body["max_completion_tokens"] == 7
    assert dict(ask("sampled", RESPONSES, input="ping").sent)["max_output_tokens"] == 100
    assert dict(ask("unseeded").sent) == {} and "seed" not in server.requests[-1].body


def test_fields_that_litellm_knows_for_its_own_use_steer_nothing(server: OpenAIServer, ask: Ask) -> None:
    ask("plain", CHAT, messages=PING, api_base="http://127.0.0.1:9/v1", api_key="sk-theirs", mock_response="mocked")
    (asked,) = server.asked()
    assert asked.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("model", ["plain", "streamed"])
def test_tool_calls_and_json_mode_survive(server: OpenAIServer, ask: Ask, model: str) -> None:
    server.script(Behaviour(tools={"where": "here"}))
    reply = ask(model, CHAT, messages=PING, tools=TOOLS)
    choice = reply.body["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert (call["id"], call["type"], call["function"]["name"]) == ("call_1", "function", "look")
    assert json.loads(call["function"]["arguments"]) == {"where": "here"}
    assert server.requests[0].body["tools"] == TOOLS
    form = {"type": "json_object"}
    said = ask(model, CHAT, messages=PING, response_format=form)
    assert json.loads(said.body["choices"][0]["message"]["content"]) == {"answer": "pong"}
    assert server.requests[1].body["response_format"] == form


# ------------------------------------------------------------------------------------------------- tokens and cost


def test_cached_and_reasoning_tokens_are_counted_and_cached_ones_are_priced_apart(
    server: OpenAIServer, ask: Ask
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    details = {"prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 20}}
    server.script(Behaviour(usage={**usage, **details}))
    reply = ask("priced")
    assert (reply.prompt_tokens, reply.completion_tokens) == (100, 50)
    assert (reply.cached_tokens, reply.reasoning_tokens) == (40, 20)
    assert reply.cost_usd == pytest.approx((60 * 2.0 + 40 * 0.5 + 50 * 10.0) / 1e6, rel=1e-12)
    assert ask("plain").cost_usd == 0.0, "nobody knows its price"


def test_the_responses_api_counts_details_too(server: OpenAIServer, ask: Ask) -> None:
    usage = {"input_tokens": 30, "output_tokens": 9, "total_tokens": 39}
    details = {"input_tokens_details": {"cached_tokens": 10}, "output_tokens_details": {"reasoning_tokens": 4}}
    server.script(Behaviour(usage={**usage, **details}))
    reply = ask("plain", RESPONSES)
    assert (reply.prompt_tokens, reply.completion_tokens) == (30, 9)
    assert (reply.cached_tokens, reply.reasoning_tokens) == (10, 4)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS])
def test_without_a_usage_the_gateway_counts_itself_and_says_so(server: OpenAIServer, ask: Ask, path: str) -> None:
    server.script(NO_USAGE)
    reply = ask("priced", path)
    assert reply.estimated
    assert reply.prompt_tokens > 0
    assert reply.cost_usd > 0
    usage = reply.body["usage"]
    assert usage["total_tokens"] == reply.prompt_tokens + reply.completion_tokens
    assert len(reply.tries) == 1, "it is paid for once"


# ------------------------------------------------------------------------------------------------------- failures


def test_what_may_pass_is_asked_again(server: OpenAIServer, ask: Ask) -> None:
    broken = (DROPPED, Behaviour(drop="reset"), CUT_SHORT, MALFORMED)
    passing: list[tuple[Behaviour, int | None]] = [(failing(status), status) for status in (408, 409, 500, 529)]
    for behaviour, status in [(rate_limited(), 429), *passing, (EMPTY_CHOICES, 200), *((one, None) for one in broken)]:
        server.reset()
        server.script(behaviour)
        reply = ask()
        assert reply.status == 200 and [t.status for t in reply.tries] == [status, 200], behaviour
        assert reply.tries[0].error and not reply.tries[1].error
        assert reply.tries[0].waited < reply.tries[1].waited
        first, second = server.asked()
        assert first.body == second.body


WAYS = (("plain", CHAT), ("plain", COMPLETIONS), ("plain", RESPONSES), ("plain", EMBEDDINGS), ("streamed", CHAT),
        ("foreign", CHAT))  # fmt: skip


@pytest.mark.parametrize(("model", "path"), WAYS)
def test_the_wait_that_a_provider_asks_for_reaches_the_next_try(
    server: OpenAIServer, ask: Ask, model: str, path: str
) -> None:
    """Its own waits are of two hundredths of a second at most."""
    server.script(rate_limited("0.2"))
    reply = ask(model, path)
    assert [t.status for t in reply.tries] == [429, 200]
    assert 0.2 <= reply.tries[1].waited <= 1.2


@pytest.mark.parametrize(
    ("name", "path"),
    [("openai", COMPLETIONS), ("openai", EMBEDDINGS), ("openai", RESPONSES), ("nvidia_nim", CHAT),
     ("nvidia_nim", EMBEDDINGS), ("deepinfra", CHAT), ("deepinfra", RESPONSES), ("fireworks_ai", COMPLETIONS)],
)  # fmt: skip
def test_every_request_is_a_try_that_is_seen(
    server: OpenAIServer, process: ProviderProcess, name: str, path: str
) -> None:
    """Libraries below would try again by themselves, for some endpoints of some providers."""
    for behaviour in (rate_limited("0"), failing(500), DROPPED):
        server.reset()
        server.script(behaviour)
        reply = _ask(process, name, path)
        assert reply.status == 200
        assert len(reply.tries) == len(server.requests) == 2, behaviour


def test_a_try_ends_at_its_time_limit_and_is_made_again(server: OpenAIServer, ask: Ask) -> None:
    held = threading.Event()
    server.script(Behaviour(hold=held))
    reply = ask("hasty")
    held.set()
    assert [t.status for t in reply.tries] == [None, 200]
    assert reply.tries[0].error == "no answer within 2 seconds (llm.timeout)"


def test_what_stays_down_is_a_failure_of_the_provider_with_every_try(server: OpenAIServer, ask: Ask) -> None:
    server.script(failing(500, f"key {KEY} is fine"), rate_limited(), failing(503))
    with pytest.raises(ProviderError, match="plain \\(openai\\) gave no answer in 3 tries") as caught:
        ask()
    assert [t.status for t in caught.value.tries] == [500, 429, 503]
    assert [t.error for t in caught.value.tries] == [
        "openai answered 500: key *** is fine",
        "openai answered 429: Rate limit reached",
        "openai answered 503: it does not work",
    ]
    assert KEY not in str(caught.value) + repr(caught.value.tries)
    assert len(server.asked()) == 3


def test_what_only_the_host_can_mend_is_said_at_once(server: OpenAIServer, ask: Ask) -> None:
    quota = failing(429, "You exceeded your current quota", kind="insufficient_quota")
    for behaviour, remedy, model in (
        (failing(401, f"Incorrect API key provided: {KEY}"), "set OUR_KEY", "plain"),
        (failing(401, f"bad {KEY}"), "set OUR_KEY", "foreign"),
        (failing(403, "not for you"), "set OUR_KEY", "plain"),
        (failing(404, "The model m does not exist"), "correct llm.model", "plain"),
        (quota, "no credit left", "plain"),
    ):
        server.reset()
        server.script(behaviour)
        with pytest.raises(ProviderError) as caught:
            ask(model)
        assert remedy in str(caught.value)
        assert KEY not in str(caught.value) + repr(caught.value.tries)
        assert len(server.asked()) == len(caught.value.tries) == 1


def test_what_is_wrong_with_a_request_is_passed_on_as_it_is(server: OpenAIServer, ask: Ask) -> None:
    for status, message, kind, model, path in (
        (400, "This model's maximum context length is 10 tokens", "context_length_exceeded", "plain", CHAT),
        (400, "flagged by the policy", "content_policy_violation", "plain", CHAT),
        (422, "messages.0.role: no such role", "invalid_request_error", "plain", CHAT),
        (413, "too much", "invalid_request_error", "plain", RESPONSES),
        (400, "messages: too few", "invalid_request_error", "foreign", CHAT),
    ):
        server.reset()
        server.script(failing(status, message, kind=kind))
        reply = ask(model, path)
        assert reply.status == status
        assert set(reply.body) == {"error"} and set(reply.body["error"]) == {"message", "type", "param", "code"}
        assert message in reply.body["error"]["message"]
        assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd) == (0, 0, 0.0)
        assert len(server.asked()) == 1


def test_a_refusal_that_cannot_be_written_down_is_made_so(server: OpenAIServer, ask: Ask) -> None:
    odd = '{"error": {"message": "no \\ud83d", "type": ["?"], "param": NaN, "code": {"a": 1}}}'
    server.script(Behaviour(status=400, body=odd))
    body = dict(ask().body)
    assert body == {"error": {"message": "no ?", "type": "invalid_request_error", "param": None, "code": None}}
    jsonio.loads(jsonio.dumps(body))


def test_a_request_that_cannot_be_sent_is_the_jobs_own_mistake(server: OpenAIServer, ask: Ask) -> None:
    for odd in ({"messages": [5]}, {"messages": [{"role": "user", "content": [{"type": "zzz"}]}]},
                {"messages": PING, "tool_choice": 3}):  # fmt: skip
        reply = ask("plain", CHAT, **odd)
        assert reply.status == 400 and reply.body["error"]["message"]
    assert server.asked() == []


def test_what_the_config_lacks_is_said_before_anything_is_sent(server: OpenAIServer, process: ProviderProcess) -> None:
    for model, remedy in (
        ("keyless", "openai asks for a key (401); set OPENAI_API_KEY"),
        ("keyless-anthropic", "set ANTHROPIC_API_KEY"),
        ("no-azure", "azure needs llm.base_url or llm.options"),
        ("unknown", "litellm knows no provider 'nonesuch'; correct llm.provider"),
    ):
        with pytest.raises(ProviderError) as caught:
            _ask(process, model)
        assert remedy in str(caught.value)
        assert len(caught.value.tries) == 1
    assert server.asked() == []
    assert _ask(process, "open").status == 200, "a server of one's own may take no key"
    assert KEY not in str(server.requests)


def test_a_server_that_is_not_there_is_the_providers_failure(process: ProviderProcess) -> None:
    with pytest.raises(ProviderError, match="in 2 tries") as caught:
        _ask(process, "absent")
    assert [t.status for t in caught.value.tries] == [None, None]
    assert not any(strange in str(caught.value) for strange in "<>{}"), "no object of a library's in a sentence"


def test_what_a_model_does_not_take_is_left_out_and_said(server: OpenAIServer, ask: Ask) -> None:
    reply = ask("picky")
    assert reply.sent["dropped"] == ["temperature"]
    assert "temperature" not in reply.sent
    assert "temperature" not in server.requests[0].body
    asked = ask("picky", CHAT, messages=PING, logit_bias={"1": 2})
    assert asked.sent["dropped"] == ["logit_bias", "temperature"], "the client's own, too"


def test_a_server_that_takes_no_seed_is_asked_once_more_and_then_without(server: OpenAIServer, ask: Ask) -> None:
    def refuse(asked: Asked) -> Behaviour:
        refusal = failing(400, "Unknown parameter: 'seed'.", kind="invalid_request_error")
        return refusal if "seed" in asked.body else PLAIN

    server.choose = refuse
    first, second = ask("seedless"), ask("seedless")
    assert [t.status for t in first.tries] == [400, 200]
    assert [t.status for t in second.tries] == [200]
    assert first.sent == second.sent == {"dropped": ["seed"]}


# --------------------------------------------------------------------------------------------------------- streams


def test_a_stream_is_put_together(server: OpenAIServer, ask: Ask) -> None:
    server.script(Behaviour(text="one two three four five six"))
    reply = ask("streamed")
    assert server.requests[0].body["stream"] is True
    assert reply.body["object"] == "chat.completion"
    assert reply.body["choices"][0]["message"]["content"] == "one two three four five six"
    assert reply.completion_tokens == 7, "as the provider counts"
    assert not reply.estimated


def test_a_stream_that_breaks_in_the_middle_is_a_failed_try(server: OpenAIServer, ask: Ask) -> None:
    server.script(CUT_SHORT)
    reply = ask("streamed")
    assert len(reply.tries) == 2
    assert reply.body["choices"][0]["message"]["content"] == "pong"


# ------------------------------------------------------------------------------------- a provider with another API


def test_another_providers_api_is_asked_in_its_own_words_and_answers_in_openais(server: OpenAIServer, ask: Ask) -> None:
    usage = {"input_tokens": 60, "output_tokens": 5, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0}
    server.script(rate_limited("0"), failing(529, "Overloaded"), Behaviour(usage=usage))
    system = {"role": "system", "content": "be brief"}
    reply = ask("foreign", CHAT, messages=[system, {"role": "user", "content": "ping"}])
    asked = server.asked("/v1/messages")[-1]
    assert asked.headers["x-api-key"] == KEY
    assert (asked.body["model"], asked.body["max_tokens"]) == ("claude-sonnet-4-5", 100)
    assert reply.body["object"] == "chat.completion"
    assert reply.body["choices"][0]["message"]["content"] == "pong"
    assert dict(reply.sent) == {"max_tokens": 100, "dropped": ["seed"]}
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (100, 40, 5)
    assert reply.cost_usd == pytest.approx((60 * 3.0 + 40 * 0.3 + 5 * 15.0) / 1e6, rel=1e-12)
    assert [t.status for t in reply.tries] == [429, 529, 200]


# ----------------------------------------------------------------------------------------------------- the process


def test_many_calls_are_under_way_at_once(server: OpenAIServer, ask: Ask) -> None:
    together = threading.Barrier(24)

    def meet(asked: Asked) -> Behaviour:
        together.wait(60)  # nobody gets an answer before all have asked
        return PLAIN

    server.choose = meet
    with ThreadPoolExecutor(24) as pool:
        replies = list(pool.map(lambda _: ask(), range(24)))
    assert [r.status for r in replies] == [200] * 24


def test_the_limits_of_the_host_are_kept(server: OpenAIServer, ask: Ask) -> None:
    active, most, lock = 0, 0, threading.Lock()

    def count(asked: Asked) -> Behaviour:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.2)  # long enough for another one to get in if nothing holds it back
        with lock:
            active -= 1
        return PLAIN

    server.choose = count
    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(lambda _: ask("one-at-a-time"), range(3)))
    assert [r.status for r in replies] == [200] * 3
    assert most == 1
    assert max(r.tries[0].waited for r in replies) > 0


def test_a_wait_is_told_with_the_job_that_waits_and_why(server: OpenAIServer, process: ProviderProcess) -> None:
    WAITS.clear()
    server.script(rate_limited("0.01"))
    request = ProviderRequest(CHAT, {"model": "plain", "messages": PING}, ModelRef(id="plain"), 7, "0" * 64, job_id="j")
    assert process.provider("plain").complete(request).status == 200
    [(job_id, seconds, why)] = WAITS
    assert (job_id, why) == ("j", "openai answered 429: Rate limit reached")
    assert seconds >= 0.01


def test_the_process_holds_no_key_that_others_can_see_and_hears_no_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, server: OpenAIServer, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-shell-0123456789")
    with _light(tmp_path, server.url) as fresh:
        fresh.start()
        assert fresh.pid is not None
        folder = Path(f"/proc/{fresh.pid}")
        shown = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        assert b"sk-" not in shown and b"API_KEY" not in shown
        assert os.getsid(fresh.pid) != os.getsid(0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMIN + 5])
def test_a_call_under_way_is_asked_again_when_the_process_is_killed(
    server: OpenAIServer, tmp_path: Path, number: int
) -> None:
    """One of the signals has a number and no name."""
    held = threading.Event()
    with _light(tmp_path, server.url) as process, ThreadPoolExecutor(1) as pool:
        _ask(process)
        dead = process.pid
        server.script(Behaviour(hold=held))
        future = pool.submit(_ask, process)
        _until(lambda: len(server.asked()) == 2)
        assert dead is not None
        os.kill(dead, number)
        reply = future.result(60)
        held.set()
        assert process.pid not in (None, dead)
    name = "SIGKILL" if number == signal.SIGKILL else f"signal {number}"
    assert reply.status == 200
    assert [(t.status, t.error) for t in reply.tries] == [
        (None, f"the process that asks the providers ended ({name})"),
        (200, ""),
    ]


def test_a_process_that_is_killed_for_want_of_memory_is_replaced(server: OpenAIServer, tmp_path: Path) -> None:
    held = threading.Event()
    with memory_group(96 << 20) as group, _light(tmp_path, server.url) as process, ThreadPoolExecutor(1) as pool:
        with group.joined():
            process.start()
        _ask(process)
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "500", "it goes before the controller"
        server.script(Behaviour(hold=held))
        future = pool.submit(_ask, process)
        try:
            _until(lambda: len(server.asked()) == 2)
            group.use_up()
            reply = future.result(60)
        finally:
            held.set()
    assert [t.status for t in reply.tries] == [None, 200]


def test_a_process_that_hangs_is_replaced(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provider_process, "WATCH_SECONDS", 0.1)
    with _light(tmp_path, server.url) as process:
        _ask(process)
        hung = process.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        monkeypatch.setattr(provider_process, "SILENCE_SECONDS", 2.0)
        more_than_a_pipe_holds = [{"role": "user", "content": "ping" * 100_000}]
        reply = _ask(process, "plain", CHAT, messages=more_than_a_pipe_holds)
        assert process.pid not in (None, hung)
    assert [t.error for t in reply.tries] == [
        "the process that asks the providers ended (it said nothing for 2 seconds)",
        "",
    ]


def test_a_process_that_does_not_read_holds_up_no_end(server: OpenAIServer, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        process = _light(tmp_path, server.url)
        _ask(process)
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        more_than_a_pipe_holds = [{"role": "user", "content": "ping" * 100_000}]
        future = pool.submit(lambda: _ask(process, messages=more_than_a_pipe_holds))
        _until(lambda: process._child is not None and process._child._writing.locked())
        closing = threading.Thread(target=process.close, daemon=True)
        closing.start()
        closing.join(30)  # half of what a silent process is given
        assert not closing.is_alive()
        with pytest.raises(ProviderError, match="the run ended before an answer came"):
            future.result(30)
    assert not Path(f"/proc/{pid}").exists()


def test_a_folder_of_limits_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    process = _light(tmp_path)
    (tmp_path / "limits").write_text("no folder")
    process._hello["models"][0]["limits"] = {"concurrent": 1}
    with process, pytest.raises(ProviderError, match=f"Not a directory: '{tmp_path}/limits/"):
        _ask(process)


STOPS_IN_A_MESSAGE = """
import os, signal, struct, sys, types

if "trace_bench.gateway.litellm_worker" in sys.orig_argv:
    class Call:
        def __init__(self, model, path, body, added): self.body = body

    class Caller:
        def __init__(self, models): pass

        async def ask(self, call):
            os.write(0, struct.pack("!i", 1000) + b"{")
            os.kill(os.getpid(), signal.SIGSTOP)

    module = types.ModuleType("trace_bench.gateway.litellm_calls")
    module.Answer, module.Call, module.Caller = None, Call, Caller
    sys.modules[module.__name__] = module
"""


def test_a_process_that_hangs_in_the_middle_of_a_message_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(STOPS_IN_A_MESSAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(provider_process, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(provider_process, "SILENCE_SECONDS", 1.0)
    model = replace(plain_model("http://127.0.0.1:9/v1"), retries=0)
    with (
        ProviderProcess([model], tmp_path / "limits", backoff=QUICKLY) as process,
        pytest.raises(ProviderError, match="it said nothing for 1 seconds"),
    ):
        _ask(process)


def test_close_ends_the_process_and_the_calls_under_way(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_process, "CLOSE_SECONDS", 0.5)
    held = threading.Event()
    server.script(Behaviour(hold=held))
    process = _light(tmp_path, server.url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_ask, process)
        _until(lambda: len(server.asked()) == 1)
        pid = process.pid
        process.close()
        with pytest.raises(ProviderError, match="the run ended before an answer came"):
            future.result(60)
        held.set()
    assert process.pid is None
    assert not Path(f"/proc/{pid}").exists(), "ended, and waited for"
    process.close()
    with pytest.raises(ProviderError, match="the run has ended"):
        _ask(process)


def test_the_process_ends_when_its_controller_is_killed(server: OpenAIServer, tmp_path: Path) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.gateway.test_provider_process import _ask, _light
process = _light(Path({str(tmp_path)!r}), {server.url!r})
_ask(process)
print(process.pid, "litellm" in sys.modules, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    pid, imported = done.stdout.decode().split()
    assert imported == "False", "litellm is for the other process alone"
    orphan = Path(f"/proc/{pid}/stat")

    def gone() -> bool:
        try:
            return orphan.read_text().rpartition(")")[2].split()[0] in "ZX"  # somebody else's to wait for
        except OSError:
            return True

    _until(gone)


def test_a_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "litellm"
    broken.mkdir()
    (broken / "__init__.py").write_text("import a_module_that_nobody_has")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        ProviderProcess([plain_model("http://127.0.0.1:9/v1")], tmp_path) as process,
        pytest.raises(ProviderError, match="litellm cannot be imported: No module named 'a_module_that_nobody_has'"),
    ):
        _ask(process)


def test_without_litellm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentUnavailable, match=r"pip install 'trace-bench\[llm\]'"):
        ProviderProcess([plain_model("http://127.0.0.1:9/v1")], tmp_path)


# ------------------------------------------------------------------------------------------------- in the gateway


def test_a_repeated_sample_gets_another_seed_and_a_later_attempt_the_same(
    server: OpenAIServer, process: ProviderProcess, tmp_path: Path
) -> None:
    model = ModelRef(id="plain")
    gateway = Gateway({"plain": process.provider("plain")})

    def seeds(cassette: str, slots: list[str | None]) -> list[int]:
        server.requests.clear()
        with gateway.open("0123456789ab", 7, model, tmp_path / cassette) as scope:
            for slot in slots:
                assert scope.handle(chat(slot, model="plain")).status == 200
        return [asked.body["seed"] for asked in server.asked()]

    first = seeds("a.jsonl", [None, None, "step=0", "step=1"])
    assert len(set(first)) == 4
    assert seeds("b.jsonl", [None, None, "step=0", "step=1"]) == first
    lines = read_journal(tmp_path / "a.jsonl").lines
    assert [line["sent"]["seed"] for line in lines] == first


def test_a_call_without_an_answer_is_a_line_of_the_cassette_and_is_asked_again_later(
    server: OpenAIServer, process: ProviderProcess, tmp_path: Path
) -> None:
    gateway, cassette = Gateway({"plain": process.provider("plain")}), tmp_path / "llm.jsonl"
    request = chat("step=0", model="plain", request_id="train-1")
    server.script(failing(500), failing(500), failing(500))
    with gateway.open("0123456789ab", 7, ModelRef(id="plain"), cassette) as scope:
        said = error(scope.handle(request))
        assert said["code"] == "provider_failure"
        assert len(scope.provider_failures()) == 1
        assert (scope.usage().calls, scope.usage().tries) == (0, 3)
    (line,) = read_journal(cassette).lines
    assert line["status"] == 502
    assert [t["status"] for t in line["tries"]] == [500, 500, 500]
    assert line["response"]["error"]["code"] == said["code"]
    assert "it does not work" in line["response"]["error"]["message"] and "work" not in said["message"]
    assert line["prompt_tokens"] == line["completion_tokens"] == line["cost_usd"] == 0
    assert KEY not in cassette.read_text()
    with gateway.open("0123456789ab", 7, ModelRef(id="plain"), cassette) as heir:
        (failure,) = heir.provider_failures()
        assert "it does not work" in failure, "the attempt has failed, whoever goes on with it"
    with gateway.open("0123456789ab", 7, ModelRef(id="plain"), cassette, attempt=2) as later:
        assert later.provider_failures() == ()
        assert (later.usage().calls, later.usage().tries) == (0, 3), "counted from the cassette"
        assert later.handle(request).status == 200
        assert (later.usage().calls, later.usage().tries) == (1, 4)


def test_an_answer_that_ran_out_of_tokens_is_an_answer(server: OpenAIServer, ask: Ask) -> None:
    server.script(OUT_OF_TOKENS)
    reply = ask()
    assert reply.body["choices"][0]["finish_reason"] == "length"
    assert len(reply.tries) == 1


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -3, "completion_tokens": 2, "total_tokens": -1},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5},
        {"prompt_tokens": 5, "completion_tokens": -1, "total_tokens": 4},
    ],
)
def test_a_usage_that_cannot_be_is_replaced_by_an_estimate(
    server: OpenAIServer, ask: Ask, usage: dict[str, int]
) -> None:
    server.script(Behaviour(usage=usage))
    reply = ask("priced")
    assert reply.estimated
    assert reply.prompt_tokens > 0 and reply.completion_tokens > 0


def test_a_stream_without_usage_is_estimated(server: OpenAIServer, ask: Ask) -> None:
    server.script(NO_USAGE)
    reply = ask("streamed")
    assert reply.estimated and reply.prompt_tokens > 0


LITELLM_AT_WORK = """
import asyncio, os, sys
from trace_bench.gateway.litellm_calls import Call, Caller
from trace_bench.gateway.real import RealModel
import litellm.cost_calculator
from litellm.litellm_core_utils import redact_messages

IDLE = {
    litellm.cost_calculator.completion_cost.__code__: "a cost",
    litellm.litellm_core_utils.litellm_logging.get_standard_logging_object_payload.__code__: "a log",
    redact_messages._redact_standard_logging_object.__code__: "a log's mask",
}
seen = set()
sys.setprofile(lambda frame, event, argument: event == "call" and seen.add(IDLE.get(frame.f_code)))

async def main():
    model = RealModel("plain", "openai", "m", base_url=sys.argv[1], api_key="none", stream=sys.argv[2] == "stream")
    caller = Caller([model])
    body = {"messages": [{"role": "user", "content": "hi"}]}
    answer = await caller.ask(Call(model, "/v1/chat/completions", body))
    assert answer.status == 200 and answer.body["choices"], answer
    for _ in range(100):  # what was started beside the call comes to its end
        await asyncio.sleep(0)
    print("works out", sorted(seen - {None}), flush=True)
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "stream"])
def test_litellm_reckons_no_cost_and_keeps_no_log_of_its_own(server: OpenAIServer, how: str) -> None:
    command = [sys.executable, "-c", LITELLM_AT_WORK, server.url, how]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "works out []" in done.stdout, done.stdout + done.stderr
