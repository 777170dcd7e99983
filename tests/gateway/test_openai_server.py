"""The provider of the tests does what it is told."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.openai_server import (
    OpenAIServer,
    optimize,
)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def _post(server: OpenAIServer, path: str = "/v1/chat/completions", **body: Any) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    payload = {"model": "m", "messages": [{"role": "user", "content": "ping"}], **body}
    connection.request("POST", path, json.dumps(payload), {"Content-Type": "application/json", "X-Seen": "yes"})
    return connection.getresponse()


def test_an_answer_has_openais_shape_and_the_request_is_kept(server: OpenAIServer) -> None:
    answer = json.loads(_post(server, temperature=0.5).read())
    assert answer["choices"][0]["message"]["content"] == "pong"
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 1
    (asked,) = server.asked("/v1/chat/completions")
    assert (asked.body["temperature"], asked.headers["x-seen"]) == (0.5, "yes")


def test_a_stream_ends_with_usage_if_it_is_asked_for(server: OpenAIServer) -> None:
    text = _post(server, stream=True, stream_options={"include_usage": True}).read().decode()
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 1
    pieces = [json.loads(e)["choices"] for e in events[:-2]]
    assert "".join(p[0]["delta"].get("content") or "" for p in pieces) == "pong"


def test_the_default_brain_goes_where_the_feedback_points() -> None:
    prompt = "#Variables\n(float) guess=1.0\n\n#Constraints\n\n#Feedback\nThe guess 1.0 is too small by 2."
    answer = json.loads(optimize({"messages": [{"role": "user", "content": prompt}]}))
    assert answer["suggestion"] == {"guess": 2.5}
