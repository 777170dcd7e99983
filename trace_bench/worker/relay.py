"""The gateway, as seen from inside: an HTTP server on loopback, one port a phase.

It parses just enough of HTTP/1.1 to pass a request on (Content-Length or chunked bodies, keep-alive), drops peers whose
uid is not the phase's (loopback is open to every uid of the sandbox), and holds the phase's scope itself: there is no
token that could be read from a file or an environment.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

MAX_HEAD = 8 << 20
MAX_BODY = 32 << 20
MAX_LINES = 1000
"""Of a request's head."""
MAX_LINE = 1 << 16
"""Bytes of the line that says how long a chunk is."""
MAX_BUFFER = MAX_HEAD + MAX_BODY
"""Of one connection, chunk heads and pipelined requests included."""
MAX_BUFFERS = 64 << 20
"""Of all connections of a phase together."""
MAX_CONNECTIONS = 64
"""More are turned away at once: each is a descriptor of the supervisor, which needs some for the job's files."""
JSON = "application/json"
EVENTS = "text/event-stream"
_PASSED = ("content-type", "accept")
_REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    413: "Content Too Large", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
}  # fmt: skip


class BadRequest(Exception):
    """The bytes are not a request that can be passed on."""


@dataclass(frozen=True)
class RelayRequest:
    """One call on its way to the gateway."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def size(self) -> int:
        """Characters and bytes of all that is passed on."""
        named = sum(len(name) + len(value) for name, value in self.headers.items())
        return len(self.method) + len(self.path) + named + len(self.body)


@dataclass
class Reading:
    """How far an incomplete request has been read: nothing is read twice, in however small pieces it comes.

    Attributes:
        searched: bytes at the beginning in which the head does not end.
        head: the words of the first line and the headers; from then on the buffer begins with the body …
        body: … or with the chunk after these.
    """

    searched: int = 0
    head: tuple[list[str], dict[str, str]] | None = None
    body: bytearray = field(default_factory=bytearray)


@dataclass(eq=False)
class _Connection:
    sock: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    reading: Reading = field(default_factory=Reading)
    out: bytearray = field(default_factory=bytearray)
    waiting: bool = False
    closing: bool = False
    advancing: bool = False

    @property
    def size(self) -> int:
        """Bytes of requests that are not passed on yet."""
        return len(self.buffer) + len(self.reading.body)


class Answer(Protocol):
    """Takes the answer to one request, once. `content_type` is `JSON` or `EVENTS`."""

    def __call__(self, status: int, body: bytes, content_type: str = JSON) -> None: ...


Forward = Callable[[RelayRequest, Answer], None]


class Relay:
    """One phase's port.

    Args:
        selector: of the supervisor; this class registers with it.
        uid: the only peer uid that is served; None serves all (the local backend).
        forward: called with each request and a function that takes the answer, at once or later.
    """

    def __init__(self, selector: selectors.BaseSelector, uid: int | None, forward: Forward) -> None:
        self._selector = selector
        self._uid = uid
        self._forward = forward
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._connections: set[_Connection] = set()
        self.port: int = self._listener.getsockname()[1]
        self.refused = 0
        selector.register(self._listener, selectors.EVENT_READ, lambda _: self._accept())

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for connection in list(self._connections):
            self._drop(connection)

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            sock.close()
            return
        if self._uid is not None and peer_uid(peer[1], self.port) != self._uid:
            self.refused += 1
            sock.close()
            return
        sock.setblocking(False)
        connection = _Connection(sock)
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, lambda mask: self._on_ready(connection, mask))

    def _drop(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._selector.unregister(connection.sock)
            connection.sock.close()

    def _on_ready(self, connection: _Connection, mask: int) -> None:
        if connection not in self._connections:
            # Dropped earlier in the same round of the loop.
            return
        try:
            if mask & selectors.EVENT_WRITE:
                self._flush(connection)
            if mask & selectors.EVENT_READ:
                data = connection.sock.recv(1 << 18)
                if not data:
                    self._drop(connection)
                    return
                connection.buffer += data
                if connection.size > MAX_BUFFER or sum(c.size for c in self._connections) > MAX_BUFFERS:
                    self._drop(connection)
                    return
                self._advance(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)

    def _advance(self, connection: _Connection) -> None:
        """Pass on what has arrived, request by request: the next once the one before is answered."""
        if connection.advancing:
            return  # answered at once: the loop below goes on
        connection.advancing = True
        try:
            while not connection.waiting and connection in self._connections and self._pass_on(connection):
                pass
        finally:
            connection.advancing = False

    def _pass_on(self, connection: _Connection) -> bool:
        """Pass on the next request; False where it is incomplete, or none."""
        try:
            parsed = parse_request(connection.buffer, connection.reading)
        except BadRequest as error:
            connection.closing = True
            body = json.dumps({"error": {"message": str(error), "type": "invalid_request_error"}}).encode()
            self._respond(connection, 400, body)
            return False
        if parsed is None:
            return False
        request, keep_alive = parsed
        connection.reading = Reading()
        connection.waiting = True
        connection.closing = not keep_alive

        def answer(status: int, body: bytes, content_type: str = JSON) -> None:
            self._respond(connection, status, body, content_type)

        self._forward(request, answer)
        return True

    def _respond(self, connection: _Connection, status: int, body: bytes, content_type: str = JSON) -> None:
        if connection not in self._connections:
            return
        connection.waiting = False
        close = "close" if connection.closing else "keep-alive"
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: {close}\r\n"
        )
        if status >= 400 and status != 503:
            # OpenAI's clients heed it. The gateway has tried again itself what is worth it; a budget stays used up.
            head += "X-Should-Retry: false\r\n"
        head += "\r\n"
        connection.out += head.encode() + body
        try:
            self._flush(connection)
        except BlockingIOError:
            self._selector.modify(
                connection.sock,
                selectors.EVENT_READ | selectors.EVENT_WRITE,
                lambda mask: self._on_ready(connection, mask),
            )
        except OSError:
            self._drop(connection)
            return
        self._advance(connection)

    def _flush(self, connection: _Connection) -> None:
        while connection.out:
            sent = connection.sock.send(connection.out)
            del connection.out[:sent]
        if connection.closing and not connection.waiting:
            self._drop(connection)
            return
        self._selector.modify(connection.sock, selectors.EVENT_READ, lambda mask: self._on_ready(connection, mask))


def parse_request(buffer: bytearray, reading: Reading) -> tuple[RelayRequest, bool] | None:
    """``(request, keep_alive)``, taken out of `buffer`; None while the request is incomplete.

    Args:
        reading: of this request, kept by the caller from one piece to the next.

    Raises:
        BadRequest
    """
    if reading.head is None:
        end = buffer.find(b"\r\n\r\n", max(0, reading.searched - 3))
        if max(end, len(buffer) if end < 0 else 0) > MAX_HEAD:
            raise BadRequest("the request's headers are too large")
        if end < 0:
            reading.searched = len(buffer)
            return None
        reading.head = _head(bytes(buffer[:end]))
        del buffer[: end + 4]
    words, headers = reading.head
    if headers.get("transfer-encoding", "").lower() == "chunked":
        if not _chunks(buffer, reading.body):
            return None
        body = bytes(reading.body)
    else:
        text = headers.get("content-length", "0")
        # Not `isdigit`, which is true of superscripts, and no longer than Python converts.
        if re.fullmatch("[0-9]{1,10}", text) is None or int(text) > MAX_BODY:
            raise BadRequest(f"the request's body must have at most {MAX_BODY} bytes")
        if len(buffer) < int(text):
            return None
        body = bytes(buffer[: int(text)])
        del buffer[: int(text)]
    passed = {k: v for k, v in headers.items() if k in _PASSED or k.startswith("x-trace-bench-")}
    keep_alive = headers.get("connection", "").lower() != "close" and words[2] != "HTTP/1.0"
    return RelayRequest(words[0], words[1], passed, body), keep_alive


def _head(data: bytes) -> tuple[list[str], dict[str, str]]:
    if data.count(b"\r\n") > MAX_LINES:
        raise BadRequest(f"the request has more than {MAX_LINES} headers")
    lines = data.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest("not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest("a header line has no colon")
        headers[name.strip().lower()] = value.strip()
    return words, headers


def _chunks(buffer: bytearray, body: bytearray) -> bool:
    """Take the chunks that are complete out of `buffer` and append them to `body`; True once the last was there."""
    at = 0
    try:
        while (end := buffer.find(b"\r\n", at)) >= 0:
            try:
                length = int(bytes(buffer[at:end]).split(b";")[0], 16)
            except ValueError:
                raise BadRequest("a chunk has no length") from None
            if length < 0 or len(body) + length > MAX_BODY:
                raise BadRequest(f"the request's body must have at most {MAX_BODY} bytes")
            if len(buffer) < end + 2 + length + 2:
                return False
            body += buffer[end + 2 : end + 2 + length]
            at = end + 2 + length + 2
            if length == 0:
                return True
        if len(buffer) - at > MAX_LINE:
            raise BadRequest("a chunk has no length")
        return False
    finally:
        del buffer[:at]


def peer_uid(peer_port: int, port: int) -> int | None:
    """The uid that owns the client side of a loopback connection, from ``/proc/net/tcp``; None if it is not there."""
    client, server = f"0100007F:{peer_port:04X}", f"0100007F:{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields: list[Any] = line.split()
        if fields[1] == client and fields[2] == server:
            return int(fields[7])
    return None
