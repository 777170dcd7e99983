"""Answers as events: joined again they are the whole answer, and nothing that a provider says upsets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.conftest import STUB, OpenScope, chat
from tests.gateway.test_server import json_values
from trace_bench.artifacts.contract import ModelRef
from trace_bench.artifacts.writers import read_journal
from trace_bench.gateway import sse
from trace_bench.gateway.base import LlmRequest, LlmResponse, ProviderReply, ProviderRequest
from trace_bench.gateway.fields import CHAT, COMPLETIONS, RESPONSES
from trace_bench.gateway.server import Gateway

texts = st.text(max_size=400)


class Parrot:
    """Says what it was made with."""

    name = "parrot"
    paid = True
    uses_hints = False
    quick = True

    def __init__(self, body: Any, status: int = 200) -> None:
        self.asked = 0
        self._reply = ProviderReply(status, body, 3, 4, 0.5)

    def complete(self, request: ProviderRequest) -> ProviderReply:
        self.asked += 1
        return self._reply


def frames(body: bytes) -> list[tuple[str, Any]]:
    """``(event, data)`` of each frame, read as the standard says; the data of the end is ``[DONE]``."""
    found = []
    assert body.endswith(b"\n\n") and body.isascii(), "many a client takes U+2028 for the end of a line"
    for frame in body[:-2].split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
        assert set(fields) <= {b"event", b"data"}
        data = fields[b"data"].decode()
        found.append((fields.get(b"event", b"").decode(), data if data == "[DONE]" else json.loads(data)))
    return found


def chunks(body: bytes) -> list[Any]:
    *found, (_, last) = frames(body)
    assert last == "[DONE]"
    return [data for _, data in found]


def completion(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    choices = [{"index": i, "message": {"role": "assistant", **m}, "finish_reason": "stop", **more}
               for i, m in enumerate(messages)]  # fmt: skip
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": {"a": 1}}


def joined(body: bytes, index: int = 0) -> dict[str, Any]:
    """The message of one choice, put together as a client does."""
    message: dict[str, Any] = {}
    for chunk in chunks(body):
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    for call in value:
                        known = message.setdefault("tool_calls", {}).setdefault(call["index"], {})
                        _add(known, {k: v for k, v in call.items() if k != "index"})
                else:
                    _add(message, {name: value})
            if choice["finish_reason"]:
                message["finish_reason"] = choice["finish_reason"]
    return message


def _add(known: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            _add(known.setdefault(name, {}), value)
        elif isinstance(known.get(name), str) and name not in ("role", "name", "id", "type"):
            known[name] += value
        else:
            known[name] = value


@given(content=texts, refusal=st.none() | texts, thought=st.none() | texts, arguments=st.lists(texts, max_size=3))
def test_the_pieces_of_a_message_are_the_message(
    content: str, refusal: str | None, thought: str | None, arguments: list[str]
) -> None:
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": a}} for i, a in enumerate(arguments)
    ]
    message = {"content": content, "refusal": refusal, "reasoning_content": thought, "tool_calls": calls}
    got = joined(sse.events(CHAT, completion({"content": "other"}, message)), 1)
    assert got["content"] == content and got["role"] == "assistant" and got["finish_reason"] == "stop"
    assert got.get("refusal", "") == (refusal or "") and got.get("reasoning_content", "") == (thought or "")
    assert [got.get("tool_calls", {})[i] for i in range(len(calls))] == calls


def test_a_message_without_content_says_so_in_its_first_piece() -> None:
    first, *rest = chunks(sse.events(CHAT, completion({"content": None, "function_call": {"name": "f"}})))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert rest[0]["choices"][0]["delta"] == {"function_call": {"name": "f"}}


def test_probabilities_of_tokens_come_with_the_whole_text() -> None:
    probabilities = {"content": [{"token": "_a", "logprob": -0.5, "bytes": [1]}]}
    found = chunks(sse.events(CHAT, completion({"content": "x" * 500}, logprobs=probabilities)))
    (one,) = [c["choices"][0] for c in found if c["choices"][0]["logprobs"]]
    assert one["delta"] == {"content": "x" * 500} and one["logprobs"] == probabilities


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_the_usage_is_told_last_and_only_if_it_is_asked_for(path: str) -> None:
    answer = completion({"content": "hi"})
    assert all("usage" not in chunk for chunk in chunks(sse.events(path, answer)))
    *others, last = chunks(sse.events(path, answer, include_usage=True))
    assert (last["choices"], last["usage"]) == ([], {"a": 1})
    assert others and all(chunk["usage"] is None for chunk in others)


@given(text=texts)
def test_the_pieces_of_a_completion_are_its_text(text: str) -> None:
    answer = {"id": "x", "created": 1, "model": "m", "choices": [{"text": text, "finish_reason": "length"}]}
    found = [chunk["choices"][0] for chunk in chunks(sse.events(COMPLETIONS, answer))]
    assert "".join(choice["text"] for choice in found) == text
    assert [choice["finish_reason"] for choice in found] == [None] * (len(found) - 1) + ["length"]


@given(text=texts, refusal=texts, arguments=texts, given_input=texts, thought=texts)
def test_a_response_is_a_numbered_sequence_with_its_items_in_pieces(
    text: str, refusal: str, arguments: str, given_input: str, thought: str
) -> None:
    output = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": thought}]},
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": text, "annotations": []}, {"type": "refusal", "refusal": refusal}]},
        {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": arguments},
        {"type": "custom_tool_call", "id": "k", "call_id": "d", "name": "n", "input": given_input},
        {"type": "something_new", "id": "s"},
    ]  # fmt: skip
    answer = {"id": "x", "object": "response", "status": "completed", "output": output, "usage": {"total_tokens": 1}}
    found = frames(sse.events(RESPONSES, answer))
    assert [data["sequence_number"] for _, data in found] == list(range(len(found)))
    assert all(kind == data["type"] for kind, data in found)
    assert [kind for kind, _ in found[:2]] == ["response.created", "response.in_progress"]
    assert found[0][1]["response"]["output"] == [] and found[0][1]["response"]["usage"] is None
    assert found[-1] == (
        "response.completed",
        {"type": "response.completed", "sequence_number": len(found) - 1, "response": answer},
    )
    for kind, whole in {
        "response.output_text": text, "response.refusal": refusal, "response.function_call_arguments": arguments,
        "response.custom_tool_call_input": given_input, "response.reasoning_summary_text": thought,
    }.items():  # fmt: skip
        assert "".join(data["delta"] for name, data in found if name == f"{kind}.delta") == whole
        (done,) = [data for name, data in found if name == f"{kind}.done"]
        assert whole in [done.get(name) for name in ("text", "refusal", "arguments", "input")]
    added = [d for name, d in found if name == "response.output_item.added"]
    assert [d["output_index"] for d in added] == [0, 1, 2, 3, 4]
    assert added[1]["item"]["content"] == [] and added[1]["item"]["status"] == "in_progress"
    assert [d["item"] for name, d in found if name == "response.output_item.done"] == output


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_response_ends_as_it_ended(status: str) -> None:
    kind, data = frames(sse.events(RESPONSES, {"status": status, "output": []}))[-1]
    assert (kind, data["response"]["status"]) == (f"response.{status}", status)


# ------------------------------------------------------------------------------------- through the gateway


def test_a_streamed_and_an_unstreamed_asking_are_one_request(open_scope: OpenScope, cassette: Path) -> None:
    parrot = Parrot(completion({"content": "hi"}))
    scope = open_scope(provider=parrot)
    whole = scope.handle(chat("step=1", request_id="a"))
    assert (whole.status, whole.content_type) == (200, "application/json")
    streamed = scope.handle(chat("step=1", request_id="b", stream=True, stream_options={"include_usage": True}))
    assert (streamed.status, streamed.content_type) == (200, "text/event-stream")
    assert joined(streamed.body)["content"] == "hi" and streamed.usage == whole.usage
    assert scope.handle(chat("step=1", request_id="b", stream=True, stream_options={"include_usage": True})) == streamed
    assert parrot.asked == 1
    first, second = read_journal(cassette).lines
    assert first["request_hash"] == second["request_hash"] and second["reused_from"] == 1
    assert "stream" not in json.dumps(first["request"])


def test_a_new_controller_streams_the_recorded_answer_again(open_scope: OpenScope) -> None:
    parrot = Parrot(completion({"content": "x" * 300}))
    request = chat(None, request_id="a", stream=True)
    with open_scope(provider=parrot) as scope:
        first = scope.handle(request)
    assert open_scope(provider=parrot).handle(request).body == first.body
    assert parrot.asked == 1


def test_a_refusal_comes_as_json_also_where_events_were_asked_for(open_scope: OpenScope) -> None:
    said = {"error": {"message": "at https://secret.example/v1?k=1: too long", "code": "context_length_exceeded",
                      "type": "invalid_request_error", "param": None, "headers": {"x": 1}, "stack": "x"},
            "api_base": "x"}  # fmt: skip
    response = open_scope(provider=Parrot(said, 400)).handle(chat(None, stream=True))
    assert (response.status, response.content_type) == (400, "application/json")
    assert json.loads(response.body) == {"error": {"message": "at … too long", "type": "invalid_request_error",
                                                   "param": None, "code": "context_length_exceeded"}}  # fmt: skip


def test_an_answer_is_cleaned_for_the_sandbox_and_kept_for_the_record(open_scope: OpenScope, cassette: Path) -> None:
    said = {
        **completion({"content": "hi", "provider_specific_fields": {"x": 1}, "citations": ["http://x"], "extra": 1}),
        "model": "deployment-7", "_hidden_params": {"api_base": "https://secret.example"}, "service_tier": "x",
        "_response_headers": {"x-request-id": "1"}, "system_fingerprint": "fp",
        "usage": {"prompt_tokens": 1, "cost": 5, "prompt_tokens_details": {"cached_tokens": 0, "_x": 1}},
    }  # fmt: skip
    said["choices"][0]["logprobs"] = {"top_logprobs": [{"_the": -0.5}]}
    response = open_scope(provider=Parrot(said)).handle(chat(None))
    got = json.loads(response.body)
    assert got == {
        "id": "x", "object": "chat.completion", "created": 1, "model": "stub", "system_fingerprint": "fp",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop",
                     "logprobs": {"top_logprobs": [{"_the": -0.5}]}}],
        "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
    }  # fmt: skip
    (line,) = read_journal(cassette).lines
    assert line["response"] == said


def test_the_name_of_a_model_may_hold_a_slash(tmp_path: Path) -> None:
    model = ModelRef(id="acme/m-1", provider="acme", model="m-1-2026")
    with Gateway({"acme/m-1": Parrot(completion({"content": "hi"}))}).open("0" * 12, 1, model, tmp_path / "c") as scope:
        for path in ("/v1/models/acme/m-1", "/v1/models/acme%2Fm-1"):
            assert json.loads(scope.handle(LlmRequest("1", "GET", path, {}, b"")).body)["id"] == "acme/m-1"
        for name in ("acme/m-1", "m-1-2026"):
            assert json.loads(scope.handle(chat(None, model=name)).body)["model"] == "acme/m-1"


answers = st.dictionaries(
    st.sampled_from(["object", "choices", "output", "usage", "model", "error", "status", "id", "data"]),
    json_values
    | st.sampled_from(["chat.completion", "response", "list", "text_completion"])
    | st.lists(
        st.dictionaries(
            st.sampled_from(["index", "message", "text", "type", "content", "tool_calls", "summary", "arguments"]),
            json_values | st.sampled_from(["message", "function_call", "reasoning"]),
        ),
        max_size=3,
    ),
)


@given(body=answers, status=st.sampled_from([200, 400, 422]), stream=st.booleans(),
       path=st.sampled_from([CHAT, COMPLETIONS, RESPONSES]))  # fmt: skip
def test_whatever_a_provider_says_is_passed_on_in_some_form(
    tmp_path_factory: pytest.TempPathFactory, body: Any, status: int, stream: bool, path: str
) -> None:
    least = {CHAT: {"messages": [{"role": "user"}]}, COMPLETIONS: {"prompt": "x"}, RESPONSES: {"input": "x"}}[path]
    request = LlmRequest("1", "POST", path, {}, json.dumps({**least, "stream": stream}).encode())
    cassette = tmp_path_factory.mktemp("said") / "llm.jsonl"
    with Gateway({"stub": Parrot(body, status)}).open("0123456789ab", 1, STUB, cassette) as scope:
        response: LlmResponse = scope.handle(request)
    assert response.status == status
    if response.content_type == sse.CONTENT_TYPE:
        assert frames(response.body)
    else:
        json.loads(response.body)
