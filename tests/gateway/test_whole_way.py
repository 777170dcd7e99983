"""The whole way: the `openai` client, relay, scope, litellm in its process, and a provider over real HTTP."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import Behaviour, OpenAIServer, failing
from tests.gateway.test_openai_client import USER, openai, served
from trace_bench.artifacts.contract import ModelRef
from trace_bench.artifacts.writers import read_journal
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.real import RealModel
from trace_bench.gateway.server import Gateway, Scope

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
KEY = "sk-tests-0123456789abcdef"
TEXT = "word by word, " * 40
LOOK = {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
AT = {"at": "x" * 100}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: TEXT) as server:
        yield server


@pytest.fixture(scope="module")
def process(provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    model = RealModel("mine", "openai", "theirs", base_url=provider.url, api_key=KEY, retries=0, timeout=60)
    with ProviderProcess([model], tmp_path_factory.mktemp("limits")) as started:
        yield started


@pytest.fixture
def scope(process: ProviderProcess, provider: OpenAIServer, tmp_path: Path) -> Iterator[Scope]:
    provider.requests.clear()
    model = ModelRef(id="mine", provider="openai", model="theirs")
    with Gateway({"mine": process.provider("mine")}).open("0" * 12, 1, model, tmp_path / "llm.jsonl") as opened:
        yield opened


@pytest.mark.slow
def test_every_endpoint_whole_and_streamed(scope: Scope, provider: OpenAIServer, tmp_path: Path) -> None:
    got: list[Any] = []
    with served(scope) as client:
        got.append(client.chat.completions.create(model="mine", messages=USER, user="me"))
        assert got[-1].choices[0].message.content == TEXT
        with client.chat.completions.stream(model="mine", messages=USER) as stream:
            got.append(stream.get_final_completion())
        assert got[-1].choices[0].message.content == TEXT
        got.append(client.completions.create(model="mine", prompt="hi"))
        assert got[-1].choices[0].text == TEXT
        got += list(client.completions.create(model="mine", prompt="hi", stream=True))
        assert "".join(chunk.choices[0].text for chunk in got[3:]) == TEXT
        got.append(client.responses.create(model="mine", input="hi"))
        assert got[-1].output_text == TEXT and got[-1].usage.total_tokens > 0
        with client.responses.stream(model="mine", input="hi") as stream:
            assert "".join(e.delta for e in stream if e.type == "response.output_text.delta") == TEXT
            got.append(stream.get_final_response())
        got.append(client.embeddings.create(model="mine", input=["a", "b"]))
        assert len(got[-1].data) == 2 and got[-1].data[0].embedding
    shown = json.dumps([answer.to_dict() for answer in got])
    assert "theirs" not in shown and str(provider.port) not in shown and KEY not in shown
    assert {answer.model for answer in got} == {"mine"}
    for asked in provider.requests:
        assert asked.body["model"] == "theirs" and "user" not in asked.body and not asked.body.get("stream")
        assert asked.path != "/v1/responses" or asked.body["store"] is False
    assert KEY not in (tmp_path / "llm.jsonl").read_text()


def test_tools_are_called_and_told(scope: Scope, provider: OpenAIServer) -> None:
    asked = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": json.dumps(AT),
             "status": "completed"}  # fmt: skip
    calling = Behaviour(tools=AT)
    provider.script(calling, calling, Behaviour(then=lambda body: body.update(output=[asked])))
    tools = [{"type": "function", "function": LOOK}]
    with served(scope) as client:
        message = client.chat.completions.create(model="mine", messages=USER, tools=tools).choices[0].message
        with client.chat.completions.stream(model="mine", messages=USER, tools=tools) as stream:
            streamed = stream.get_final_completion().choices[0].message
        response = client.responses.create(model="mine", input="hi", tools=[{"type": "function", **LOOK}])
        for found in (message.tool_calls, streamed.tool_calls):
            assert [(call.function.name, json.loads(call.function.arguments)) for call in found] == [("look", AT)]
        (call,) = [item for item in response.output if item.type == "function_call"]
        assert (call.name, json.loads(call.arguments)) == ("look", AT)
        told = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "seen"}
        then = client.chat.completions.create(model="mine", messages=[*USER, message, told], tools=tools)
        assert then.choices[0].message.content == TEXT
        back = [{"role": "user", "content": "hi"}, *[item.to_dict() for item in response.output],
                {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}]  # fmt: skip
        assert client.responses.create(model="mine", input=back).output_text == TEXT


def test_refusals_and_failures_arrive_as_such_and_tell_no_address(
    scope: Scope, provider: OpenAIServer, tmp_path: Path
) -> None:
    too_long = f"too long; see http://127.0.0.1:{provider.port}/v1"
    provider.script(failing(400, too_long, kind="context_length_exceeded"), failing(503))
    with served(scope) as client:
        with pytest.raises(openai.BadRequestError, match="too long") as refused:
            client.chat.completions.create(model="mine", messages=USER, stream=True)
        with pytest.raises(openai.InternalServerError, match="gave no answer") as failed:
            client.chat.completions.create(model="mine", messages=USER, stream=True)
    assert refused.value.code == "context_length_exceeded" and failed.value.status_code == 502
    assert str(provider.port) not in f"{refused.value} {failed.value}"
    assert [line["status"] for line in read_journal(tmp_path / "llm.jsonl").lines] == [400, 502]
    assert len(scope.provider_failures()) == 1
