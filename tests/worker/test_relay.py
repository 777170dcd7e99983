"""The relay, over real loopback connections."""

from __future__ import annotations

import contextlib
import http.client
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.relay import (
    EVENTS,
    JSON,
    MAX_CONNECTIONS,
    Answer,
    BadRequest,
    Reading,
    Relay,
    RelayRequest,
    parse_request,
    peer_uid,
)


@contextmanager
def serving(
    uid: int | None = None, status: int = 200, content_type: str = JSON
) -> Iterator[tuple[Relay, list[RelayRequest]]]:
    """A relay in a loop of its own that echoes bodies."""
    selector = selectors.DefaultSelector()
    seen: list[RelayRequest] = []

    def forward(request: RelayRequest, answer: Answer) -> None:
        seen.append(request)
        answer(status, request.body or b"{}", content_type)

    relay = Relay(selector, uid, forward)
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            for key, mask in selector.select(0.02):
                key.data(mask)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield relay, seen
    finally:
        stop.set()
        thread.join()
        relay.close()
        selector.close()


def test_a_request_passes_with_its_body_and_only_the_headers_that_matter() -> None:
    with serving(os.getuid()) as (relay, seen):
        connection = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=5)
        headers = {"Authorization": "Bearer x", "X-Trace-Bench-Slot": "step=1", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", b'{"a": 1}', headers)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b'{"a": 1}')
        connection.close()
    assert (seen[0].method, seen[0].path, seen[0].body) == ("POST", "/v1/chat/completions", b'{"a": 1}')
    assert seen[0].headers == {"x-trace-bench-slot": "step=1", "content-type": "application/json"}


def test_one_connection_serves_many_requests_and_bodies_in_chunks() -> None:
    with serving() as (relay, seen):
        connection = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=5)
        for number in range(3):
            connection.request("POST", "/v1/x", iter([b"part", b"%d" % number]), encode_chunked=True,
                               headers={"Transfer-Encoding": "chunked"})  # fmt: skip
            assert connection.getresponse().read() == b"part%d" % number
        connection.close()
    assert len(seen) == 3


@pytest.mark.parametrize("content_type", [JSON, EVENTS])
def test_the_client_is_told_whether_it_gets_json_or_events(content_type: str) -> None:
    with serving(content_type=content_type) as (relay, _):
        connection = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=5)
        connection.request("POST", "/v1/x", b"data: [DONE]\n\n")
        response = connection.getresponse()
        assert (response.read(), response.headers["Content-Type"]) == (b"data: [DONE]\n\n", content_type)
        connection.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [({}, JSON), ({"content_type": JSON}, JSON), ({"content_type": EVENTS}, EVENTS), ({"content_type": None}, JSON),
     ({"content_type": "text/html"}, JSON), ({"content_type": f"{JSON}\r\nX-Y: z"}, JSON),
     ({"content_type": [1]}, JSON)],
)  # fmt: skip
def test_an_answer_of_the_host_is_json_or_events_and_nothing_else(said: dict[str, object], told: str) -> None:
    answers: list[tuple[int, bytes, str]] = []
    sent: list[dict[str, object]] = []
    calls = LlmCalls(lambda kind, fields, body: sent.append(fields))
    calls.ask("train", RelayRequest("POST", "/v1/x", {}, b"{}"), lambda *answer: answers.append(answer))
    calls.answered({"id": sent[0]["id"], "status": 200, **said}, b"x")
    assert answers == [(200, b"x", told)]


def test_a_large_body_goes_both_ways() -> None:
    body = os.urandom(8 << 20)
    with serving() as (relay, _):
        connection = http.client.HTTPConnection("127.0.0.1", relay.port, timeout=30)
        connection.request("POST", "/v1/x", body)
        assert connection.getresponse().read() == body
        connection.close()


def test_a_peer_with_another_uid_is_dropped_without_a_word() -> None:
    with serving(os.getuid() + 1) as (relay, seen), socket.create_connection(("127.0.0.1", relay.port), 5) as sock:
        sock.settimeout(5)
        try:
            sock.sendall(b"GET /v1/models HTTP/1.1\r\n\r\n")
            assert sock.recv(100) == b""
        except ConnectionError:
            pass
    assert seen == [] and relay.refused == 1


def test_the_uid_of_a_peer_is_the_kernels_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert peer_uid(client.getsockname()[1], port) == os.getuid()
        assert peer_uid(1, port) is None


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\r\n\r\n",
        b"POST /x HTTP/1.1\r\nno colon here\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
        b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n",
    ],
)
def test_what_is_no_request_gets_a_400_and_the_connection_ends(text: bytes) -> None:
    with serving() as (relay, seen), socket.create_connection(("127.0.0.1", relay.port), 5) as sock:
        sock.settimeout(5)
        sock.sendall(text)
        answer = b""
        while chunk := sock.recv(4096):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 400 ") and seen == []


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_incomplete_or_bad(data: bytes) -> None:
    with contextlib.suppress(BadRequest):
        parse_request(bytearray(data), Reading())


REQUEST = b"POST /v1/x HTTP/1.1\r\nX-Trace-Bench-Slot: s\r\nTransfer-Encoding: chunked\r\n\r\n"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(1, 60), min_size=1), st.booleans()
)
def test_a_request_is_the_same_in_whatever_pieces_it_comes(parts: list[bytes], sizes: list[int], chunked: bool) -> None:
    body = b"".join(parts)
    if chunked:
        whole = REQUEST + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        whole = b"POST /v1/x HTTP/1.1\r\nX-Trace-Bench-Slot: s\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    rest, buffer, reading, step = whole, bytearray(), Reading(), 0
    while rest:
        assert parse_request(buffer, reading) is None
        size = sizes[step % len(sizes)]
        buffer, rest, step = buffer + rest[:size], rest[size:], step + 1
    buffer += b"POST"  # of the next one
    assert parse_request(buffer, reading) == (RelayRequest("POST", "/v1/x", {"x-trace-bench-slot": "s"}, body), True)
    assert buffer == b"POST"


def test_what_has_been_read_of_a_request_is_not_read_again() -> None:
    chunks = bytearray(REQUEST + b"1\r\nx\r\n" * 1000 + b"5\r\nx")
    reading = Reading()
    assert parse_request(chunks, reading) is None
    assert (chunks, reading.body) == (b"5\r\nx", b"x" * 1000)
    head = bytearray(b"POST /v1/x HTTP/1.1\r\n" + b"a: b\r\n" * 100)
    reading = Reading()
    assert parse_request(head, reading) is None
    assert reading.searched == len(head)


@pytest.mark.parametrize(
    "start",
    [
        b"POST /v1/x HTTP/1.1\r\n" + b"a: b\r\n" * 2000 + b"\r\n",
        REQUEST + b"1" * (1 << 17),
    ],
)
def test_a_request_of_too_many_or_too_long_lines_is_none(start: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request(bytearray(start), Reading())


def test_any_number_of_requests_may_come_at_once_and_be_answered_at_once() -> None:
    count = 3000
    with serving() as (relay, seen), socket.create_connection(("127.0.0.1", relay.port), 5) as sock:
        sock.settimeout(20)
        sock.sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi" * count)
        answers = b""
        while answers.count(b"\r\n\r\nhi") < count:
            piece = sock.recv(1 << 16)
            assert piece
            answers += piece
    assert len(seen) == count


def test_headers_and_paths_of_calls_that_wait_are_counted_too() -> None:
    sent: list[str] = []
    calls = LlmCalls(lambda kind, fields, blob: sent.append(kind))
    told: list[int] = []

    def answer(status: int, body: bytes, content_type: str = JSON) -> None:
        told.append(status)

    large = "x" * (7 << 20)
    for _ in range(3):
        calls.ask("train", RelayRequest("POST", "/" + large, {"x-trace-bench-variables": large}, b"{}"), answer)
    assert told == []
    calls.ask("train", RelayRequest("POST", "/" + large, {}, b"{}"), answer)
    assert told == [503] and len(sent) == 3


def test_connections_beyond_the_limit_are_turned_away_and_the_others_are_served() -> None:
    with serving() as (relay, _), contextlib.ExitStack() as stack:
        address = ("127.0.0.1", relay.port)
        first = stack.enter_context(socket.create_connection(address, 5))
        for _ in range(MAX_CONNECTIONS - 1):
            stack.enter_context(socket.create_connection(address, 5))
        late = stack.enter_context(socket.create_connection(address, 5))
        assert late.recv(1) == b""
        first.sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
        assert first.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("start", [b"", b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"])
def test_a_connection_that_never_finishes_a_request_is_dropped(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.worker.relay.MAX_BUFFER", 1 << 20)
    with serving() as (relay, seen), socket.create_connection(("127.0.0.1", relay.port), 5) as sock:
        sock.settimeout(5)
        with pytest.raises(ConnectionError):
            sock.sendall(start)
            for _ in range(64):
                sock.sendall(b"1" * (1 << 20))
    assert seen == []
