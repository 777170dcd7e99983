"""The whole way: the `openai` client, relay, scope, litellm in its process, and a provider over real HTTP."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import KEY
from tests.gateway.openai_server import EMPTY_CHOICES, Behaviour, OpenAIServer, failing
from tests.gateway.test_openai_client import USER, openai, served
from tests.worker import support
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.writers import read_journal
from trace_bench.gateway.base import LlmRequest
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.server import Gateway, Scope

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
TEXT = "word by word, " * 40
LOOK = {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
AT = {"at": "x" * 100}


@pytest.fixture
def scope(process: ProviderProcess, provider: OpenAIServer, tmp_path: Path) -> Iterator[Scope]:
    provider.answer = lambda body: TEXT
    with opened(process, tmp_path) as scope:
        yield scope


def opened(process: ProviderProcess, folder: Path, model: str = "once", attempt: int = 1, **budget: int) -> Scope:
    """A scope of one job. Its cassette is in `folder`."""
    gateway = Gateway({model: process.provider(model)})
    found = ModelRef(id=model, provider="openai", model="theirs")
    return gateway.open("0" * 12, 1, found, folder / "llm.jsonl", Budget(**budget), attempt=attempt)


def test_every_endpoint_whole_and_streamed(scope: Scope, provider: OpenAIServer, tmp_path: Path) -> None:
    got: list[Any] = []
    with served(scope) as client:
        got.append(client.chat.completions.create(model="once", messages=USER, user="me"))
        assert got[-1].choices[0].message.content == TEXT
        with client.chat.completions.stream(model="once", messages=USER) as stream:
            got.append(stream.get_final_completion())
        assert got[-1].choices[0].message.content == TEXT
        got.append(client.completions.create(model="once", prompt="hi"))
        assert got[-1].choices[0].text == TEXT
        got += list(client.completions.create(model="once", prompt="hi", stream=True))
        assert "".join(chunk.choices[0].text for chunk in got[3:]) == TEXT
        got.append(client.responses.create(model="once", input="hi"))
        assert got[-1].output_text == TEXT and got[-1].usage.total_tokens > 0
        with client.responses.stream(model="once", input="hi") as stream:
            assert "".join(e.delta for e in stream if e.type == "response.output_text.delta") == TEXT
            got.append(stream.get_final_response())
        got.append(client.embeddings.create(model="once", input=["a", "b"]))
        assert len(got[-1].data) == 2 and got[-1].data[0].embedding
    shown = json.dumps([answer.to_dict() for answer in got])
    assert str(provider.port) not in shown and KEY not in shown
    assert {answer.model for answer in got} == {"once"}
    for asked in provider.requests:
        assert asked.body["model"] == "m" and "user" not in asked.body and not asked.body.get("stream")
        assert asked.path != "/v1/responses" or asked.body["store"] is False
    assert KEY not in (tmp_path / "llm.jsonl").read_text()


def test_tools_are_called_and_told(scope: Scope, provider: OpenAIServer) -> None:
    asked = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": json.dumps(AT),
             "status": "completed"}  # fmt: skip
    calling = Behaviour(tools=AT)
    provider.script(calling, calling, Behaviour(then=lambda body: body.update(output=[asked])))
    tools = [{"type": "function", "function": LOOK}]
    with served(scope) as client:
        message = client.chat.completions.create(model="once", messages=USER, tools=tools).choices[0].message
        with client.chat.completions.stream(model="once", messages=USER, tools=tools) as stream:
            streamed = stream.get_final_completion().choices[0].message
        response = client.responses.create(model="once", input="hi", tools=[{"type": "function", **LOOK}])
        for found in (message.tool_calls, streamed.tool_calls):
            assert [(call.function.name, json.loads(call.function.arguments)) for call in found] == [("look", AT)]
        (call,) = [item for item in response.output if item.type == "function_call"]
        assert (call.name, json.loads(call.arguments)) == ("look", AT)
        told = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "seen"}
        then = client.chat.completions.create(model="once", messages=[*USER, message, told], tools=tools)
        assert then.choices[0].message.content == TEXT
        back = [{"role": "user", "content": "hi"}, *[item.to_dict() for item in response.output],
                {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}]  # fmt: skip
        assert client.responses.create(model="once", input=back).output_text == TEXT


def test_refusals_and_failures_arrive_as_such_and_tell_no_address(
    scope: Scope, provider: OpenAIServer, tmp_path: Path
) -> None:
    too_long = f"too long; see http://127.0.0.1:{provider.port}/v1"
    provider.script(failing(400, too_long, kind="context_length_exceeded"), failing(503))
    with served(scope) as client:
        with pytest.raises(openai.BadRequestError, match="too long") as refused:
            client.chat.completions.create(model="once", messages=USER, stream=True)
        with pytest.raises(openai.InternalServerError, match="gave no answer") as failed:
            client.chat.completions.create(model="once", messages=USER, stream=True)
    assert refused.value.code == "context_length_exceeded" and failed.value.status_code == 502
    assert str(provider.port) not in f"{refused.value} {failed.value}"
    assert [line["status"] for line in read_journal(tmp_path / "llm.jsonl").lines] == [400, 502]
    assert len(scope.provider_failures()) == 1


# ------------------------------------------------------------------------------ texts and usages that no one expects

ODD = {
    "a lone surrogate": ("a\ud800b", "a\ufffdb"),
    "NUL": ("a\0b", "a\0b"),
    "separators of lines": ("a\u2028b\u2029c\x85d\x0be\x1cf\rg", "a\u2028b\u2029c\x85d\x0be\x1cf\rg"),
}
LONG = {"8 MB of one line": ("x" * (8 << 20), "x" * (8 << 20))}
WAYS = [("once", "chat"), ("streamed", "chat"), ("foreign", "chat"), ("once", "completions"), ("once", "responses")]


def said(client: Any, model: str, way: str) -> str:
    """The answer to a request of the kind `way`, whole and as a stream."""
    if way == "completions":
        whole = client.completions.create(model=model, prompt="hi").choices[0].text
        chunks = client.completions.create(model=model, prompt="hi", stream=True)
        pieces = [chunk.choices[0].text for chunk in chunks]
    elif way == "responses":
        whole = client.responses.create(model=model, input="hi").output_text
        chunks = client.responses.create(model=model, input="hi", stream=True)
        pieces = [event.delta for event in chunks if event.type == "response.output_text.delta"]
    else:
        whole = client.chat.completions.create(model=model, messages=USER).choices[0].message.content
        chunks = client.chat.completions.create(model=model, messages=USER, stream=True)
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == whole
    return str(whole)


def test_no_text_of_a_model_is_lost_on_the_way(
    process: ProviderProcess, provider: OpenAIServer, tmp_path: Path
) -> None:
    for number, (model, way) in enumerate(WAYS):
        for name, (sent, expected) in {**ODD, **({} if number else LONG)}.items():
            folder = tmp_path / f"{number}-{name}"
            folder.mkdir()
            provider.requests.clear()
            provider.script(*[Behaviour(text=sent)] * 2)
            with opened(process, folder, model) as scope, served(scope) as client:
                assert said(client, model, way) == expected, (model, way, name)
                usage = scope.usage()
                assert (usage.calls, usage.tries, usage.estimated) == (2, 2, 0), (model, way, name)
                assert usage.total_tokens > 0 and scope.provider_failures() == ()
            with opened(process, folder, model, attempt=2) as again, served(again) as client:
                assert said(client, model, way) == expected, (model, way, name)
                assert (again.usage().calls, again.usage().reused) == (2, 2)
            assert len(provider.requests) == 2, "the second attempt got the answers of the first"


def test_bytes_that_are_not_utf_8_are_taken(scope: Scope, provider: OpenAIServer) -> None:
    def broken(body: dict[str, Any]) -> None:
        body["choices"][0]["message"]["content"] = "a\udcffb"

    provider.script(Behaviour(then=broken, raw=True))
    with served(scope) as client:
        answer = client.chat.completions.create(model="once", messages=USER)
    assert answer.choices[0].message.content == "a\ufffdb" and scope.usage().calls == 1


COUNTS = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens")
USAGES: dict[str, Any] = {
    "negative": dict.fromkeys(COUNTS, -5),
    "huge": dict.fromkeys(COUNTS, 10**12),
    "of thousands of digits": dict.fromkeys(COUNTS, int("9" * 4000)),
    "words": dict.fromkeys(COUNTS, "many"),
    "with fractions": dict.fromkeys(COUNTS, 2.5),
    "null": dict.fromkeys(COUNTS),
    "objects": {name: {"a": 1} for name in COUNTS},
    "empty": {},
    "a text": "a lot",
    "a list": [1, 2],
    "missing": None,
}


def test_a_good_answer_with_an_odd_usage_is_a_good_answer_with_an_unknown_usage(
    process: ProviderProcess, provider: OpenAIServer, tmp_path: Path
) -> None:
    def changed(usage: Any) -> Behaviour:
        def change(body: dict[str, Any]) -> None:
            body.pop("usage", None) if usage is None else body.update(usage=usage)

        return Behaviour(text="pong", then=change)

    for model, way in WAYS:
        folder = tmp_path / f"{model}-{way}"
        folder.mkdir()
        with opened(process, folder, model) as scope, served(scope) as client:
            for number, (name, usage) in enumerate(USAGES.items(), start=1):
                provider.script(*[changed(usage)] * 2)
                assert said(client, model, way) == "pong", (model, way, name)
                found = scope.usage()
                assert (found.calls, found.tries, found.estimated) == (2 * number,) * 3, (model, way, name)
                assert 0 < found.total_tokens < 100 * number, (model, way, name)


def test_odd_details_of_a_usage_cost_nothing_but_themselves(scope: Scope, provider: OpenAIServer) -> None:
    details = {"cached_tokens": "all", "audio_tokens": -1, "more": None}
    usage = {"prompt_tokens": "7", "completion_tokens": 3.0, "prompt_tokens_details": details}
    provider.script(Behaviour(usage={**usage, "completion_tokens_details": "none", "cost": 0.25, "queue_time": 0.01}))
    with served(scope) as client:
        client.chat.completions.create(model="once", messages=USER)
    found = scope.usage()
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens, found.estimated) == (7, 3, 0, 0)


def deep(body: dict[str, Any]) -> None:
    nested: Any = "x"
    for _ in range(100):
        nested = [nested]
    body["choices"][0]["message"]["annotations"] = nested


DISCARDED = {
    "no choices": EMPTY_CHOICES,
    "nested too deep": Behaviour(then=deep),
    "choices of another kind": Behaviour(then=lambda body: body.update(choices="none")),
    "a refusal with a usage": Behaviour(status=500, then=lambda body: body.pop("choices")),
}


def test_what_a_discarded_answer_used_is_counted_and_held_against_the_budget(
    process: ProviderProcess, provider: OpenAIServer, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
    for kind, behaviour in DISCARDED.items():
        folder = tmp_path / kind
        folder.mkdir()
        discarded = replace(behaviour, usage=usage)
        provider.script(discarded, discarded)
        with opened(process, folder, "twice", tokens=2400) as scope, served(scope) as client:
            with pytest.raises(openai.InternalServerError, match="gave no answer"):
                client.chat.completions.create(model="twice", messages=USER)
            found = scope.usage()
            assert (found.calls, found.tries, found.prompt_tokens, found.completion_tokens) == (1, 2, 2000, 400), kind
            assert found.cost_usd == pytest.approx(2 * (1000 * 2.0 + 200 * 10.0) / 1e6, rel=1e-12)
            with pytest.raises(openai.RateLimitError, match="budget of 2400 tokens is used up"):
                client.chat.completions.create(model="twice", messages=USER)
        with opened(process, folder, "twice", attempt=2, tokens=2400) as later, served(later) as client:
            assert later.usage().total_tokens == 2400, "counted from the cassette"
            with pytest.raises(openai.RateLimitError, match="used up"):
                client.chat.completions.create(model="twice", messages=USER)


def test_an_answer_after_a_discarded_one_has_its_own_usage(
    process: ProviderProcess, provider: OpenAIServer, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
    provider.script(replace(EMPTY_CHOICES, usage=usage), Behaviour(usage=usage))
    with opened(process, tmp_path, "twice") as scope, served(scope) as client:
        answer = client.chat.completions.create(model="twice", messages=USER)
        assert answer.usage.total_tokens == 1200
        assert (scope.usage().calls, scope.usage().total_tokens) == (1, 2400)


def test_a_provider_that_sends_blanks_for_ever_is_whose_time_it_was(
    process: ProviderProcess, provider: OpenAIServer, tmp_path: Path
) -> None:
    code = """
    class Trainer(Trainer):
        def train(self, problem, params, context):
            import threading
            call = ([{"role": "user", "content": "hi"}],)
            threading.Thread(target=context.chat, args=call, kwargs={"slot": Slot(0, "a")}, daemon=True).start()
            while True:
                context.check()
                time.sleep(0.01)
    """
    provider.script(Behaviour(trickle=0.1))
    with opened(process, tmp_path, "impatient") as scope:

        def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
            request = LlmRequest(header["id"], header["method"], header["path"], header["headers"], body)
            response = scope.handle(request)
            return response.status, response.body, {"usage": dict(response.usage)}

        model = {"id": "impatient", "provider": "openai", "model": "theirs", "sampling": {}}
        got = support.run(tmp_path, code, over={"model": model}, limits={"job_timeout": 2.0}, answer=answer)
        assert got.result is not None
        failure = got.result["failure"]
        assert (failure["boundary"], failure["kind"]) == ("provider", "provider_timeout"), failure
        (reason,) = scope.provider_failures()
        assert "no answer within 2.5 seconds (llm.timeout)" in reason, "blanks do not prolong the time of a try"


def test_an_error_with_half_of_a_pair_is_recorded_and_passed_on(
    scope: Scope, provider: OpenAIServer, tmp_path: Path
) -> None:
    provider.script(failing(400, "half \ud800 of \0 a \u2028 pair", kind="odd\udfff"))
    with served(scope) as client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="once", messages=USER)
    (line,) = read_journal(tmp_path / "llm.jsonl").lines
    assert "half" in json.dumps(line["response"]) and len(line["tries"]) == 1
