"""What a request's body may hold: what is passed on, what is left out, and what is refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import OpenScope, chat, error
from tests.gateway.test_server import CountingProvider
from trace_bench.artifacts.writers import read_journal
from trace_bench.gateway.base import LlmRequest, LlmResponse
from trace_bench.gateway.fields import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES

USER = [{"role": "user", "content": "hi"}]
LEAST: dict[str, dict[str, Any]] = {
    CHAT: {"messages": USER},
    COMPLETIONS: {"prompt": "hi"},
    RESPONSES: {"input": "hi"},
    EMBEDDINGS: {"input": "hi"},
}
FULL: dict[str, dict[str, Any]] = {
    CHAT: {
        "messages": USER, "frequency_penalty": 0.1, "logit_bias": {"1": 2}, "logprobs": True,
        "max_completion_tokens": 9, "max_tokens": 9, "modalities": ["text"], "n": 2, "parallel_tool_calls": True,
        "presence_penalty": 0.1,
        "prediction": {"type": "content", "content": "x"}, "reasoning_effort": "low", "seed": 1,
        "stop": ["a"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$id": "https://x/y"}}},
        "temperature": 0.0, "tool_choice": {"type": "function", "function": {"name": "f"}}, "top_logprobs": 2,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"url": {}}}}}],
        "top_p": 0.5, "verbosity": "low", "functions": [{"name": "f"}], "function_call": "auto",
    },
    COMPLETIONS: {
        "prompt": ["a", "b"], "best_of": 2, "echo": False, "frequency_penalty": 0, "logit_bias": {}, "logprobs": 1,
        "max_tokens": 5, "n": 1, "presence_penalty": 0, "seed": 3, "stop": "x", "suffix": "y", "temperature": 1,
        "top_p": 1,
    },
    RESPONSES: {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}],
        "include": ["reasoning.encrypted_content"], "instructions": "x", "max_output_tokens": 9,
        "parallel_tool_calls": False, "reasoning": {"effort": "low"}, "temperature": 1, "text": {"verbosity": "low"},
        "tool_choice": "auto", "tools": [{"type": "function", "name": "f", "parameters": {}}], "top_logprobs": 1,
        "top_p": 1, "truncation": "auto",
    },
    EMBEDDINGS: {"input": [[1, 2], [3]], "dimensions": 3, "encoding_format": "base64"},
}  # fmt: skip


def post(path: str, body: dict[str, Any], request_id: str = "1") -> LlmRequest:
    return LlmRequest(request_id, "POST", path, {}, json.dumps(body).encode())


def refusal(open_scope: OpenScope, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The error of a request that nobody was asked for."""
    provider = CountingProvider()
    scope = open_scope(provider=provider)
    response: LlmResponse = scope.handle(post(path, body))
    assert response.status == 400 and provider.asked == [] and scope.usage().calls == 0
    return error(response)


@pytest.mark.parametrize("path", FULL)
def test_every_field_of_the_endpoint_is_passed_on_as_it_is(open_scope: OpenScope, path: str) -> None:
    provider = CountingProvider()
    assert open_scope(provider=provider).handle(post(path, FULL[path])).status == 200
    more = {"store": False} if path == RESPONSES else {}
    assert provider.asked[0].body == {**FULL[path], **more}


ELSEWHERE = (
    "api_key api_base base_url extra_headers extra_body custom_llm_provider mock_response provider fallbacks "
    "organization headers url"
)


@pytest.mark.parametrize("path", LEAST)
def test_what_could_move_a_call_elsewhere_is_refused_by_name(open_scope: OpenScope, path: str) -> None:
    for name in ELSEWHERE.split():
        said = refusal(open_scope, path, {**LEAST[path], name: "x"})
        assert (said["code"], said["param"]) == ("refused_field", name)


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
        (CHAT, {"web_search_options": {"x": 1}}, "refused_field", "reach beyond the sandbox"),
        (CHAT, {"audio": {"voice": "x"}}, "refused_field", "only text comes back"),
        (CHAT, {"modalities": ["text", "audio"]}, "refused_field", "only text comes back"),
        (CHAT, {"service_tier": "priority"}, "refused_field", "the host chooses"),
        (CHAT, {"tools": [{"type": "mcp", "server_url": "http://x"}]}, "refused_tool", "'mcp'"),
        (CHAT, {"tools": [{}]}, "refused_tool", "'None'"),
        (CHAT, {"tools": "x"}, "bad_tools", "a list of objects"),
        (CHAT, {"tool_choice": {"type": "file_search"}}, "refused_tool", "'file_search'"),
        *((path, {"tools": [{"type": "function", name: {}}]}, "refused_tool", f"'{name}'")
          for path in (CHAT, RESPONSES)
          for name in ("urlContext", "url_context", "googleSearch", "codeExecution", "server_url")),
        (CHAT, {"n": 0}, "bad_n", "from 1 to 128"),
        (CHAT, {"n": 129}, "bad_n", "from 1 to 128"),
        (CHAT, {"max_tokens": -1}, "bad_max_tokens", "from 0 to"),
        (CHAT, {"max_completion_tokens": 10**300}, "bad_max_completion_tokens", "from 0 to"),
        (COMPLETIONS, {"max_tokens": True}, "bad_max_tokens", "a whole number"),
        (RESPONSES, {"max_output_tokens": 0.5}, "bad_max_output_tokens", "a whole number"),
        (CHAT, {"messages": ["hi"]}, "bad_messages", "objects with a 'role'"),
        (CHAT, {"messages": [{"content": "hi"}]}, "bad_messages", "objects with a 'role'"),
        (CHAT, {"stream": 1}, "bad_stream", "true or false"),
        (CHAT, {"stream_options": {"include_usage": "yes"}}, "bad_stream", "include_usage"),
        (CHAT, {"temperatur": 1}, "unknown_field", "no field 'temperatur'"),
        (CHAT, {"previous_response_id": "x"}, "unknown_field", "no field 'previous_response_id'"),
        (EMBEDDINGS, {"stream": True}, "unknown_field", "no field 'stream'"),
        (EMBEDDINGS, {"input": {}}, "bad_input", "a text, or a list"),
        (COMPLETIONS, {"prompt": None}, "bad_prompt", "a text, or a list"),
        (RESPONSES, {"input": ["hi"]}, "bad_input", "must hold objects"),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}, "refused_field", "nothing is stored"),
        (RESPONSES, {"previous_response_id": "x"}, "refused_field", "nothing is stored"),
        (RESPONSES, {"conversation": "x"}, "refused_field", "nothing is stored"),
        (RESPONSES, {"background": True}, "refused_field", "nothing is stored"),
        (RESPONSES, {"prompt": {"id": "x"}}, "refused_field", "nothing is stored"),
        (RESPONSES, {"include": ["file_search_call.results"]}, "refused_field", "'include' takes"),
        *((RESPONSES, {"tools": [{"type": kind}]}, "refused_tool", kind)
          for kind in ("web_search", "file_search", "code_interpreter", "mcp", "computer_use_preview",
                       "image_generation", "local_shell")),
]  # fmt: skip


def test_what_cannot_be_served_is_refused_with_a_sentence(open_scope: OpenScope) -> None:
    for path, more, code, words in REFUSED:
        said = refusal(open_scope, path, {**LEAST[path], **more})
        assert said["code"] == code and words in said["message"], (path, more)


PARTS: list[Any] = [
    {"type": "image_url", "image_url": {"url": "https://example.org/x?data=secret"}},
    {"type": "input_image", "image_url": "HTTP://example.org/x"},
    {"type": "input_file", "file_url": "https://example.org/x"},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "image", "source": {"type": "url", "url": "gs://bucket/x"}},
    {"type": "tool_result", "content": [{"type": "image", "source": {"url": "https://example.org"}}]},
    {"type": "image_url", "image_url": {"url": 3}},
    {"type": "image_url", "image_url": ["https://example.org/x"]},
    {"type": "file", "file": {"file_data": "https://example.org/x"}},
    {"type": "image", "image": "https://example.org/x"},
    {"type": "image", "images": [" s3://bucket/x"]},
    {"type": "document", "source": {"fileUri": "gs://bucket/x"}},
]


@pytest.mark.parametrize("part", PARTS)
def test_nothing_that_a_provider_would_fetch_or_has_stored_gets_out(open_scope: OpenScope, part: Any) -> None:
    for path, name in ((CHAT, "messages"), (RESPONSES, "input")):
        said = refusal(open_scope, path, {name: [{"role": "user", "content": [part]}]})
        assert (said["code"], said["param"]) == ("refused_address", name)
    for path, body in (
        (RESPONSES, {"input": [{"type": "function_call_output", "output": [part]}]}),
        (RESPONSES, {"input": [{"type": "computer_call_output", "output": part}]}),
        (EMBEDDINGS, {"input": [part]}),
        (COMPLETIONS, {"prompt": [part]}),
    ):
        assert refusal(open_scope, path, body)["code"] == "refused_address"


def test_content_itself_may_be_a_picture_or_a_file(open_scope: OpenScope) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,AA=="}},
        {"type": "text", "text": "https://example.org"},
    ]
    provider = CountingProvider()
    body = {"messages": [{"role": "user", "content": parts}]}
    assert open_scope(provider=provider).handle(post(CHAT, body)).status == 200
    assert provider.asked[0].body == body


def test_what_clients_send_of_themselves_is_left_out_and_said(open_scope: OpenScope, cassette: Path) -> None:
    provider = CountingProvider()
    with open_scope(provider=provider) as scope:
        sent = {"user": "me", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "prompt_cache_key": "k"}
        assert scope.handle(chat(None, request_id="a", **sent)).status == 200
        assert scope.handle(chat(None, request_id="b", user="you")).status == 200
        assert scope.handle(chat(None, request_id="b", user="you")).status == 200
        one = "the gateway left '{}' out of 1 request"
        assert scope.warnings() == (
            *(one.format(name) for name in ("metadata", "prompt_cache_key", "service_tier", "store")),
            "the gateway left 'user' out of 2 requests",
        )
    assert provider.asked[0].body == provider.asked[1].body
    hashes = {line["request_hash"] for line in read_journal(cassette).lines}
    assert len(hashes) == 1, "who asks is no part of what is asked"


def test_the_names_that_are_told_are_bounded(open_scope: OpenScope) -> None:
    scope = open_scope()
    for number in range(50):
        body = {"messages": USER, **{f"x{number}-{i}\n\x1b[31m": None for i in range(50)}}
        assert scope.handle(post(CHAT, body, str(number))).status == 200
    assert len(scope.warnings()) == 20
    assert all(warning.isprintable() for warning in scope.warnings())


def test_nothing_is_stored_at_a_provider(open_scope: OpenScope) -> None:
    provider = CountingProvider()
    assert open_scope(provider=provider).handle(post(RESPONSES, {"input": "x", "store": True})).status == 200
    assert provider.asked[0].body == {"input": "x", "store": False}
