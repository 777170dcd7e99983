"""The provider of the tests does what it is told."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.openai_server import (
    CUT_SHORT,
    DROPPED,
    NO_USAGE,
    OpenAIServer,
    optimize,
    rate_limited,
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


def test_a_script_is_followed_once_and_in_order(server: OpenAIServer) -> None:
    server.script(rate_limited("7"), NO_USAGE)
    limited = _post(server)
    assert (limited.status, limited.headers["Retry-After"]) == (429, "7")
    assert "usage" not in json.loads(_post(server).read())
    assert "usage" in json.loads(_post(server).read())


def test_connections_are_dropped_before_and_in_the_middle_of_an_answer(server: OpenAIServer) -> None:
    server.script(DROPPED, CUT_SHORT, CUT_SHORT)
    with pytest.raises(ConnectionError):
        _post(server)
    with pytest.raises(http.client.IncompleteRead):
        _post(server).read()
    with pytest.raises(http.client.IncompleteRead):
        _post(server, stream=True).read()


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


def test_the_default_brain_has_a_better_packing() -> None:
    prompt = "#Variables\n(code) __code0:import math\n\n\ndef pack_circles(n):\n    pass\n\n#Constraints\n"
    answer = json.loads(optimize({"messages": [{"role": "user", "content": prompt}]}))
    assert "def climb" in answer["suggestion"]["__code0"]
