"""The sandbox's end of a control stream in the hands of a test, over a real socket; and a provider that waits."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest

from trace_bench.gateway.base import Provider, ProviderReply, ProviderRequest
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.streams import PolledStream
from trace_bench.worker.control_stream import PADDING, Decoder, Mailbox, Message

PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""


class SocketStream(PolledStream):
    """The host's end."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        sock.setblocking(False)
        self._sock = sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def _write_fileno(self) -> int:
        return self._sock.fileno()

    def _receive(self) -> Iterable[bytes] | None:
        try:
            data = self._sock.recv(1 << 16)
        except ConnectionError as error:
            raise EngineGone("the peer is gone") from error
        return [data] if data else None

    def _send(self, data: memoryview) -> int:
        try:
            return self._sock.send(data)
        except ConnectionError as error:
            raise EngineGone("the peer is gone") from error


class Peer:
    """Sends and receives messages as a supervisor does."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self._inbox: list[Message] = []
        self._asked = 0
        self._connections = 0
        self.stream = self.attached()

    def attached(self) -> SocketStream:
        """A connection in place of the one before."""
        self._connections += 1
        host, self._sock = socket.socketpair()
        self._sock.settimeout(PATIENCE)
        self._decoder = Decoder()
        return SocketStream(host)

    def answer_hello(self) -> None:
        """As a supervisor does: all that the other side says it has not seen."""
        hello = self.receive("hello")
        self._sock.sendall(
            PADDING
            + self.mailbox.pack_ephemeral(
                "hello", {"received": self.mailbox.received, "forgotten": self.mailbox.forgotten}
            )
        )
        self._sock.sendall(self.mailbox.resend(int(hello.header["received"])))

    def send(self, kind: str, fields: dict[str, Any] | None = None, blob: bytes = b"") -> None:
        self._sock.sendall(self.mailbox.pack(kind, fields, blob))

    def ask(self, text: str = "a question", slot: str | None = None, phase: str = "train") -> str:
        """Ask the model; returns the call's id."""
        self._asked += 1
        name = f"train-{self._asked}"
        fields = {
            "id": name, "phase": phase, "method": "POST", "path": "/v1/chat/completions",
            "headers": {"x-trace-bench-slot": slot or f"step={self._asked}"},
        }  # fmt: skip
        self.send("llm.request", fields, json.dumps({"messages": [{"role": "user", "content": text}]}).encode())
        return name

    def done(self) -> None:
        self.send("done", {"result": {}})

    def receive(self, kind: str) -> Message:
        """The next message of a type; others on the way to it are acknowledged and dropped, answers are kept."""
        deadline = time.monotonic() + PATIENCE
        kept: list[Message] = []
        while time.monotonic() < deadline:
            while self._inbox:
                message = self._inbox.pop(0)
                if message.type == kind:
                    self._inbox[:0] = kept
                    return message
                if message.type == "llm.response":
                    kept.append(message)
            for message in self._decoder.feed(self._sock.recv(1 << 16)):
                if not self.mailbox.accept(message):
                    # A connection that was made again may begin with a gap. What is refused arrives again.
                    assert self._connections > 1, "the numbers come in order"
                    continue
                self._inbox.append(message)
                if "n" in message.header:
                    self._sock.sendall(self.mailbox.ack())
        raise AssertionError(f"no {kind} came")

    def hang_up(self, last: bytes = b"") -> None:
        """Break the stream, after some bytes that are no whole frame."""
        self._sock.sendall(last)
        self._sock.close()


class Waiting:
    """A provider that answers when it is told to, in any order.

    Attributes:
        asked: how many calls have reached it.
    """

    name, paid, uses_hints, quick = "waiting", True, False, False

    def __init__(self, answer: Callable[[ProviderRequest], ProviderReply] | None = None) -> None:
        self._answer = answer or (lambda request: reply(text_of(request)))
        self._changed = threading.Condition()
        self._free: set[str] = set()
        self._all = False
        self.asked: list[str] = []

    def complete(self, request: ProviderRequest) -> ProviderReply:
        text = text_of(request)
        with self._changed:
            self.asked.append(text)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._all or text in self._free, PATIENCE)
        return self._answer(request)

    def release(self, *texts: str) -> None:
        """Answer these questions, or all that come."""
        with self._changed:
            self._free |= set(texts)
            self._all = self._all or not texts
            self._changed.notify_all()

    def wait_for(self, calls: int) -> None:
        """Until so many calls have reached it."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= calls, PATIENCE), f"only {self.asked} came"


def text_of(request: ProviderRequest) -> str:
    return str(request.body["messages"][-1]["content"])


def reply(text: str) -> ProviderReply:
    message = {"role": "assistant", "content": f"to {text}"}
    body = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return ProviderReply(200, body, prompt_tokens=3, completion_tokens=2, cost_usd=0.01)


def answered_by(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """Have `provider` answer for the stub in runs to come."""
    monkeypatch.setattr("trace_bench.execution.run.providers_of", lambda *_, **__: nullcontext({"stub": provider}))
