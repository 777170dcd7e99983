"""The real `openai` client on the host, over HTTP through a relay to a scope: what it makes of our bytes.

`tests/integration/test_clients.py` has it, and litellm, inside a container; this one needs no engine.
"""

from __future__ import annotations

import selectors
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.gateway.conftest import OpenScope
from tests.gateway.test_sse import Parrot, completion
from trace_bench.artifacts.contract import Budget
from trace_bench.gateway.base import LlmRequest
from trace_bench.gateway.server import Scope
from trace_bench.worker.relay import Answer, Relay, RelayRequest

openai = pytest.importorskip("openai", reason="the openai client is not installed")
TEXT = "All of it,\n\nin \u2028 more than one piece: äöü 🙂. " * 12
USER = [{"role": "user", "content": "hi"}]


@contextmanager
def served(scope: Scope) -> Iterator[Any]:
    """A client of `scope`, through a relay in a loop of its own."""
    selector = selectors.DefaultSelector()
    numbers = iter(range(1000))

    def forward(request: RelayRequest, answer: Answer) -> None:
        asked = LlmRequest(str(next(numbers)), request.method, request.path, request.headers, request.body)
        response = scope.handle(asked)
        answer(response.status, response.body, response.content_type)

    relay = Relay(selector, None, forward)
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            for key, mask in selector.select(0.02):
                key.data(mask)

    thread = threading.Thread(target=loop)
    thread.start()
    url = f"http://127.0.0.1:{relay.port}/v1"
    try:
        with openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=20) as client:
            yield client
    finally:
        stop.set()
        thread.join()
        relay.close()
        selector.close()


def test_a_chat_stream(open_scope: OpenScope) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "%s"}' % ("x" * 200)}}]
    parrot = Parrot(completion({"content": TEXT}, {"content": None, "tool_calls": calls}))
    with served(open_scope(provider=parrot)) as client:
        whole = client.chat.completions.create(model="stub", messages=USER)
        assert whole.choices[0].message.content == TEXT
        pieces = [
            chunk.choices[0].delta.content or ""
            for chunk in client.chat.completions.create(model="stub", messages=USER, stream=True)
            if chunk.choices[0].index == 0
        ]
        assert "".join(pieces) == TEXT and len(pieces) > 5
        with client.chat.completions.stream(model="stub", messages=USER, n=2) as stream:
            final = stream.get_final_completion()
    assert [c.message.content for c in final.choices] == [TEXT, None]
    (call,) = final.choices[1].message.tool_calls
    assert (call.id, call.function.name, call.function.arguments) == ("c1", "f", calls[0]["function"]["arguments"])


def test_a_responses_stream(open_scope: OpenScope) -> None:
    output = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "id": "m", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": TEXT, "annotations": []}]},
        {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": '{"a": 1}'},
    ]  # fmt: skip
    said = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m",
            "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
    with served(open_scope(provider=Parrot(said))) as client:
        assert client.responses.create(model="stub", input="hi").output_text == TEXT
        with client.responses.stream(model="stub", input="hi") as stream:
            # This one puts the pieces together and raises where they do not fit.
            pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
    assert "".join(pieces) == final.output_text == TEXT and len(pieces) > 5
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]


def test_the_stub_speaks_every_endpoint(open_scope: OpenScope) -> None:
    inert = "The stub model was not told of a variable that it could change."
    with served(open_scope()) as client:
        chat = client.chat.completions.create(model="stub", messages=USER, response_format={"type": "json_object"})
        assert chat.choices[0].message.content.startswith('{"reasoning"')
        two = client.completions.create(model="stub", prompt=["a", "b"], n=2)
        assert [c.text for c in two.choices] == [inert] * 4 and [c.index for c in two.choices] == [0, 1, 2, 3]
        assert client.completions.create(model="stub", prompt=[1, 2, 3]).usage.prompt_tokens == 3
        streamed = client.completions.create(model="stub", prompt="a", stream=True)
        assert "".join(chunk.choices[0].text for chunk in streamed) == inert
        response = client.responses.create(model="stub", input=[{"role": "user", "content": "a"}], instructions="bcd")
        assert (response.output_text, response.usage.input_tokens) == (inert, 1)
        with client.responses.stream(model="stub", input="a", text={"format": {"type": "json_object"}}) as stream:
            assert stream.get_final_response().output_text.startswith('{"reasoning"')
        assert len(client.embeddings.create(model="stub", input="a").data[0].embedding) == 64
        assert client.models.retrieve("stub").id == "stub"
        with pytest.raises(openai.BadRequestError, match="at most 2048 answers"):
            client.completions.create(model="stub", prompt=["a"] * 100, n=100)


def test_stub_answers_that_change_nothing_are_inert(open_scope: OpenScope) -> None:
    scope = open_scope()
    with served(scope) as client:
        client.completions.create(model="stub", prompt="a")
        client.responses.create(model="stub", input="a")
    assert (scope.usage().calls, scope.usage().inert) == (2, 2)


def test_what_would_not_help_is_not_tried_again(open_scope: OpenScope) -> None:
    scope = open_scope(budget=Budget(calls=0))
    with served(scope) as client, pytest.raises(openai.RateLimitError, match="used up"):
        client.with_options(max_retries=5).chat.completions.create(model="stub", messages=USER)
    assert scope.usage().refused == 1
