"""The host's end of a conversation: how many calls of the service it makes, and how it comes to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from trace_bench.errors import SandboxError
from trace_bench.sandbox.modal.conversation import Conversation
from trace_bench.sandbox.modal.protocol import DATA, SAY, WINDOW, frame_reader, pack, say
from trace_bench.sandbox.modal.reports import Ended, Report

FACTS = {
    "capabilities": ["KILL"], "usable": ["KILL"], "interfaces": ["lo"], "no_new_privs": True, "uid": 0, "nofile": 256,
    "fsize": -1, "core": 0, "kernel": "4.4.0", "python": "3.11.7",
}  # fmt: skip
START: dict[str, Any] = {"state": "running", "ended": None, "stderr": "", "facts": FACTS, "credit": WINDOW}
REPORT = Report(**{key: START[key] for key in ("state", "ended", "stderr", "facts")})


class Scripted:
    """A channel whose other end is a test. Its output must not be broken off: the service's client complains."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.hung_up = self.ended_by_itself = False
        self.takes = WINDOW
        self._output: asyncio.Queue[bytes] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        self.takes -= len(data)
        if self.takes < 0:
            raise OSError("nothing more is taken")
        self.written.append(data)

    async def hang_up(self) -> None:
        self.hung_up = True

    def says(self, data: bytes) -> None:
        self._output.put_nowait(data)

    async def output(self) -> AsyncIterator[bytes]:
        while data := await self._output.get():
            yield data
        self.ended_by_itself = True


async def begun() -> tuple[Conversation, Scripted, asyncio.Task[None]]:
    conversation, channel = Conversation("held"), Scripted()

    async def opened() -> Any:
        return channel

    running = asyncio.create_task(conversation.run(opened))
    channel.says(say(**START))
    while conversation.report is None:
        await asyncio.sleep(0.001)
    return conversation, channel, running


def payload(written: list[bytes]) -> bytes:
    return b"".join(data for kind, data in frame_reader().feed(b"".join(written)) if kind == DATA)


def test_what_is_written_at_once_is_one_call_of_the_service() -> None:
    async def body() -> None:
        conversation, channel, running = await begun()
        await asyncio.sleep(0.02)
        before = len(channel.written)
        for number in range(20):
            conversation.sock.send(b"%02d" % number)
            for _ in range(3):
                await asyncio.sleep(0)
        while len(payload(channel.written)) < 40:
            await asyncio.sleep(0.001)
        assert len(channel.written) - before <= 5, "one; some if the machine was slow"
        assert payload(channel.written) == b"".join(b"%02d" % number for number in range(20))
        running.cancel()

    asyncio.run(body())


def test_a_stream_that_has_ended_is_over_and_its_channel_is_left_to_end_by_itself() -> None:
    async def body() -> None:
        conversation, channel, running = await begun()
        ended = {**START, "state": "exited", "ended": {"code": 0, "error": ""}}
        channel.says(pack(DATA, b"last words") + say(**ended) + say(eof=True))
        over = threading.Event()
        waiter = threading.Thread(target=lambda: (conversation.wait_for(lambda: False, 10), over.set()))
        waiter.start()
        while not over.is_set():
            await asyncio.sleep(0.005)
        assert conversation.over and conversation.error is None and conversation.sock.recv(100) == b"last words"
        assert not running.done() and not channel.ended_by_itself
        channel.says(b"")  # the sandbox was removed
        await asyncio.wait_for(running, 5)
        assert channel.ended_by_itself

    asyncio.run(body())


def test_a_channel_that_breaks_off_before_the_end_is_an_error() -> None:
    async def body() -> None:
        conversation, channel, running = await begun()
        channel.says(pack(DATA, json.dumps("half").encode()))
        channel.says(b"")
        await asyncio.wait_for(running, 5)
        assert conversation.over and "broke off" in str(conversation.error)

    asyncio.run(body())


@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_channel_that_takes_no_more_is_an_error_at_once(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads would wait for answers to what never arrived, until the lease has ended there."""
    monkeypatch.setattr("trace_bench.sandbox.modal.conversation.LAST_WORDS", 0.05)

    async def body() -> None:
        conversation, channel, running = await begun()
        channel.takes = 0
        if direction == "in":
            conversation.sock.send(b"a question")
        else:  # it cannot be granted any more
            channel.says(pack(DATA, bytes(WINDOW // 4)))
            conversation.sock.setblocking(False)
            for _ in range(WINDOW // 4 // 4096):
                with contextlib.suppress(BlockingIOError):
                    conversation.sock.recv(1 << 20)
                await asyncio.sleep(0)
        while not conversation.over:
            await asyncio.sleep(0.005)
        assert "nothing more is taken" in str(conversation.error)
        channel.says(b"")
        await asyncio.wait_for(running, 5)

    asyncio.run(asyncio.wait_for(body(), 5))


def test_what_ends_while_it_is_written_to_has_ended_and_has_not_broken() -> None:
    async def body() -> None:
        conversation, channel, running = await begun()
        channel.takes = 0
        conversation.sock.send(b"too late")
        await asyncio.sleep(0.05)
        channel.says(say(**{**START, "state": "exited", "ended": {"code": 0, "error": ""}}) + say(eof=True))
        channel.says(b"")
        await asyncio.wait_for(running, 5)
        assert conversation.error is None and conversation.ended == Ended(code=0, error="")

    asyncio.run(body())


HOSTILE = {
    "no JSON": pack(SAY, b"{"),
    "nested": pack(SAY, b"[" * 100_000),
    "no object": pack(SAY, b"[]"),
    "digits": pack(SAY, b'{"credit": ' + b"9" * 5000 + b"}"),
    "credit": say(credit="much"),
    "state": say(**{**START, "state": ["running"]}),
    "stderr": say(**{**START, "stderr": None}),
    "ended": say(**{**START, "state": "exited", "ended": {"code": "0", "error": ""}}),
    "code": say(**{**START, "state": "exited", "ended": {"code": 10**30, "error": ""}}),
    "facts": say(**{**START, "facts": {}}),
    "fact": say(**{**START, "facts": {**FACTS, "capabilities": [{}]}}),
    "text": say(**{**START, "facts": {**FACTS, "kernel": "k" * 100_000}}),
    "length": b"D" + (1 << 31).to_bytes(4, "big") + b"...",
    "more than granted": pack(DATA, bytes(1 << 20)) * 5,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_no_holder_says_breaks_the_conversation_off_and_nothing_else(data: bytes) -> None:
    """Who has come to root inside speaks in its name."""

    async def body() -> None:
        conversation, channel, running = await begun()
        channel.says(data)
        while not conversation.over:
            await asyncio.sleep(0.002)
        assert isinstance(conversation.error, SandboxError) and conversation.report == REPORT
        channel.says(b"")
        await asyncio.wait_for(running, 5)

    asyncio.run(asyncio.wait_for(body(), 5))
