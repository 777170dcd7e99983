"""The host's end of a conversation with the holder: bytes between an exec and a socket of this process.

Runs on the client's loop. It takes in whatever comes (no more than was granted), so that what is said about the
command gets through even where nobody reads its output.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from trace_bench.errors import SandboxError
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.modal.holder import CHUNK, DATA, WINDOW, Unpacker, pack, say
from trace_bench.sandbox.modal.said import NotSaid, said

LINGER = 5.0
"""Seconds that a conversation whose stream was closed waits to hear how the command ended."""
GATHER = 0.005
"""Seconds in which what is written to the stream becomes one call of the service, which takes longer than that."""
LAST_WORDS = 2.0
"""Seconds that a channel which takes no more has left to say why: it may be that all is over."""
PARTING = 30.0
"""Seconds after the last byte that the channel has to end by itself: it does once the sandbox is removed."""


class Channel(Protocol):
    """A process beside the holder: `trace_bench.sandbox.modal.client.Exec`."""

    async def write(self, data: bytes) -> None: ...

    async def hang_up(self) -> None: ...

    def output(self) -> AsyncIterator[bytes]: ...


JOIN: dict[str, Any] = {"op": "attach", "credit": WINDOW}
"""What is said first."""


class Conversation:
    """One ``attach``.

    Attributes:
        sock: the stream: what is read from it is stdout, what is written to it goes to stdin.
        position: what the holder last said of the command; None until it has said anything.
        error: why the conversation broke, if it did.
        over: nothing more will come.
    """

    def __init__(self, told: Callable[[BaseException], SandboxError]) -> None:
        self.sock, self._theirs = socket.socketpair()
        for end in (self.sock, self._theirs):
            end.setblocking(False)
        self.position: dict[str, Any] | None = None
        self.error: SandboxError | None = None
        self.over = False
        self._told = told
        self._news = threading.Condition()
        self._channel: Channel | None = None
        self._arrived: deque[bytes] = deque()
        self._eof = False
        self._left = False
        self._credit = 0
        self._room = WINDOW

    # -- any thread ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> str | None:
        return None if self.position is None else str(self.position["state"])

    @property
    def ended(self) -> dict[str, Any] | None:
        found = None if self.position is None else self.position.get("ended")
        return found if isinstance(found, dict) else None

    def wait_for(self, wanted: Callable[[], bool], seconds: float) -> bool:
        """Wait until `wanted`, or the conversation is over; whether `wanted` holds."""
        end = time.monotonic() + seconds
        with self._news:
            while not wanted() and not self.over:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._news.wait(left)
            return wanted()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def run(self, opened: Callable[[], Any]) -> None:
        """See it through; `opened` makes the channel, by which `JOIN` has been said."""
        self._loop = asyncio.get_running_loop()
        self._more, self._granted = asyncio.Event(), asyncio.Event()
        listening: asyncio.Task[None] | None = None
        tasks: list[asyncio.Task[None]] = []
        try:
            self._channel = channel = await opened()
            listening = asyncio.create_task(self._listen(channel))
            delivery, feeding = asyncio.create_task(self._deliver(channel)), asyncio.create_task(self._feed(channel))
            tasks = [delivery, feeding]
            await _first_to_end(listening, delivery, feeding)
            if self._eof and not self._left:
                await delivery
            elif not self._eof:
                await listening
            if not self._eof and not self._left:
                self.error = EngineGone("Modal broke off the stream of a sandbox.")
        except asyncio.CancelledError:
            self.error = self.error or EngineGone("the stream of a sandbox was closed.")
        except BaseException as error:
            self.error = self._told(error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._theirs.close()
            with self._news:
                self.over = True
                self._news.notify_all()
            if listening is not None:
                await _ended_by_itself(listening)

    async def say(self, **fields: Any) -> None:
        """Tell the holder something."""
        if self._channel is None or self.over:
            raise EngineGone("the stream of a sandbox is no longer there.")
        try:
            await self._channel.write(say(**fields))
        except Exception as error:
            raise self._told(error) from error

    async def _listen(self, channel: Channel) -> None:
        unpacker = Unpacker()
        async for data in channel.output():
            for kind, payload in unpacker.feed(data):
                if kind == DATA:
                    self._room -= len(payload)
                    if self._room < 0:
                        raise NotSaid("the sandbox sent more than it was granted")
                    self._arrived.append(payload)
                    self._more.set()
                else:
                    self._on_said(said(payload))

    def _on_said(self, told: dict[str, Any]) -> None:
        if "credit" in told:
            self._credit += told["credit"]
            self._granted.set()
        if told["eof"]:
            self._eof = True
            self._more.set()
        if "state" in told:
            with self._news:
                self.position = told
                self._news.notify_all()

    async def _deliver(self, channel: Channel) -> None:
        """What has come, to whoever reads; each time that a good part of it was taken, more is granted."""
        taken = 0
        while True:
            while not self._arrived:
                if self._eof:
                    return
                self._more.clear()
                await self._more.wait()
            data = self._arrived.popleft()
            if not self._left:
                try:
                    await self._loop.sock_sendall(self._theirs, data)
                except OSError:
                    self._left = True
            taken += len(data)
            if taken >= WINDOW // 4:
                self._room += taken
                await channel.write(say(credit=taken))
                taken = 0

    async def _feed(self, channel: Channel) -> None:
        """What is written to the stream, as far as the holder has granted it."""
        while True:
            while self._credit <= 0:
                self._granted.clear()
                await self._granted.wait()
            try:
                data = await self._loop.sock_recv(self._theirs, min(4 * CHUNK, self._credit))
            except OSError:
                data = b""
            if not data:
                break
            await asyncio.sleep(GATHER)
            with contextlib.suppress(OSError):
                if room := min(4 * CHUNK, self._credit - len(data)):
                    data += self._theirs.recv(room)
            self._credit -= len(data)
            await channel.write(pack(DATA, data))
        self._left = True
        if self.ended is None:
            await asyncio.sleep(LINGER)
        await channel.hang_up()


async def _first_to_end(
    listening: asyncio.Task[None], delivery: asyncio.Task[None], feeding: asyncio.Task[None]
) -> None:
    """Wait until all has come or has been delivered. One who has left feeds no more, and may still hear.

    Raises:
        Exception: what kept anything from being written. Nobody would notice otherwise: what does not arrive there has
            no answer.
    """
    await asyncio.wait({listening, delivery, feeding}, return_when=asyncio.FIRST_COMPLETED)
    if not listening.done() and not delivery.done():
        broken = feeding.exception() is not None
        await asyncio.wait(
            {listening, delivery}, timeout=LAST_WORDS if broken else None, return_when=asyncio.FIRST_COMPLETED
        )
        if broken and not listening.done() and not delivery.done():
            await feeding
    if delivery.done():
        await delivery


async def _ended_by_itself(listening: asyncio.Task[None]) -> None:
    """Wait until the channel has no more to say. To break off what the service's client reads leaves it open for long,
    and has the client complain."""
    try:
        await asyncio.wait({listening}, timeout=PARTING)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
