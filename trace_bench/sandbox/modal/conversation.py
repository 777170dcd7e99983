"""The host's end of a connection to the holder: bytes between an exec and a socket of this process.

Runs on the client's event loop. It takes in whatever comes (no more than it has granted), so that reports get through
even while no thread reads the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol

from trace_bench.errors import SandboxError
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.modal.client import translated
from trace_bench.sandbox.modal.protocol import CHUNK, DATA, WINDOW, frame_reader, pack, say
from trace_bench.sandbox.modal.reports import Ended, InvalidMessage, Message, Report, parse_message
from trace_bench.sandbox.streams import CHUNK as STREAM_CHUNK
from trace_bench.sandbox.streams import PolledStream
from trace_bench.worker.frames import FrameError

LINGER = 5.0
"""Seconds that a conversation whose stream was closed waits for the report that the command has ended."""
GATHER = 0.005
"""Seconds during which writes to the stream are gathered into one call of the service, which takes longer than that."""
LAST_WORDS = 2.0
"""Seconds that a channel that takes no more input has to deliver the reason: the command may have ended."""
PARTING = 30.0
"""Seconds after the last byte that the channel has to end by itself, as it does once the sandbox is removed."""
JOIN: dict[str, Any] = {"op": "attach", "credit": WINDOW}
"""The first message."""


class Channel(Protocol):
    """An exec that has joined the holder: `trace_bench.sandbox.modal.client.Exec`."""

    async def write(self, data: bytes) -> None: ...

    async def hang_up(self) -> None: ...

    def output(self) -> AsyncIterator[bytes]: ...


class Conversation:
    """One ``attach``.

    Args:
        name: of the sandbox, for errors.

    Attributes:
        sock: the stream. Reading from it gives stdout; what is written to it goes to stdin.
        report: the last report; None until there is one.
        error: why the conversation broke, if it did.
        over: nothing more will come.
    """

    def __init__(self, name: str) -> None:
        self.sock, self._theirs = socket.socketpair()
        for end in (self.sock, self._theirs):
            end.setblocking(False)
        self.report: Report | None = None
        self.error: SandboxError | None = None
        self.over = False
        self._name = name
        self._changed = threading.Condition()
        self._channel: Channel | None = None
        self._arrived: deque[bytes] = deque()
        self._eof = False
        self._stream_closed = False
        self._credit = 0
        self._room = WINDOW

    # -- any thread ----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> Ended | None:
        return None if self.report is None else self.report.ended

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition` holds or the conversation is over. Return whether `condition` holds."""
        end = time.monotonic() + seconds
        with self._changed:
            while not condition() and not self.over:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return condition()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def run(self, opened: Callable[[], Awaitable[Channel]]) -> None:
        """Carry bytes and messages until the end; `opened` makes the channel, over which `JOIN` has been sent."""
        self._loop = asyncio.get_running_loop()
        self._more, self._granted = asyncio.Event(), asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        try:
            self._channel = channel = await opened()
            tasks = [asyncio.create_task(work(channel)) for work in (self._listen, self._deliver, self._feed)]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
            if self._eof and not self._stream_closed:
                await tasks[1]
            elif not self._eof and not self._stream_closed:
                raise EngineGone("Modal broke off the stream of a sandbox.")
        except asyncio.CancelledError:
            self.error = EngineGone("the stream of a sandbox was closed.")
        except BaseException as error:
            self.error = self._translate(error)
        finally:
            await _cancel(*tasks[1:])
            self._theirs.close()
            with self._changed:
                self.over = True
                self._changed.notify_all()
            # To break off what the service's client reads leaves the read open for long, and makes the client complain.
            if tasks:
                try:
                    await asyncio.wait(tasks[:1], timeout=PARTING)
                finally:
                    await _cancel(tasks[0])

    async def say(self, **fields: Any) -> None:
        """Send a message to the holder."""
        if self._channel is None or self.over:
            raise EngineGone("the stream of a sandbox is no longer there.")
        try:
            await self._channel.write(say(**fields))
        except Exception as error:
            raise self._translate(error) from error

    def _translate(self, error: BaseException) -> SandboxError:
        if isinstance(error, (InvalidMessage, FrameError)):
            return SandboxError(f"sandbox {self._name} broke the protocol: {error}.")
        found = translated(error, "join a sandbox", self._name)
        return found if isinstance(found, SandboxError) else SandboxError(str(found))

    async def _listen(self, channel: Channel) -> None:
        reader = frame_reader()
        async for data in channel.output():
            for kind, payload in reader.feed(data):
                if kind != DATA:
                    self._on_message(parse_message(payload))
                    continue
                self._room -= len(payload)
                if self._room < 0:
                    raise InvalidMessage("the sandbox sent more than it was granted")
                self._arrived.append(payload)
                self._more.set()

    def _on_message(self, message: Message) -> None:
        if message.credit:
            self._credit += message.credit
            self._granted.set()
        if message.eof:
            self._eof = True
            self._more.set()
        if message.report is not None:
            with self._changed:
                self.report = message.report
                self._changed.notify_all()

    async def _deliver(self, channel: Channel) -> None:
        """Pass on what has come to the reader of the stream. Grant more each time that a quarter of it was taken."""
        taken = 0
        while True:
            while not self._arrived:
                if self._eof:
                    return
                self._more.clear()
                await self._more.wait()
            data = self._arrived.popleft()
            if not self._stream_closed:
                try:
                    await self._loop.sock_sendall(self._theirs, data)
                except OSError:
                    self._stream_closed = True
            taken += len(data)
            if taken >= WINDOW // 4:
                self._room += taken
                await channel.write(say(credit=taken))
                taken = 0

    async def _feed(self, channel: Channel) -> None:
        """Pass on what is written to the stream, as far as the holder has granted it. Ends only with an error."""
        while data := await self._next_input():
            try:
                await channel.write(pack(DATA, data))
            except Exception:
                # Data that does not arrive gets no answer, so this ends the conversation. But the command may have
                # ended, which is no error: the report of that may still come.
                await asyncio.sleep(LAST_WORDS)
                raise
        self._stream_closed = True
        if self.ended is None:
            await asyncio.sleep(LINGER)
        await channel.hang_up()
        await asyncio.Event().wait()

    async def _next_input(self) -> bytes:
        """What was written to the stream within `GATHER` seconds; nothing once the stream is closed."""
        while self._credit <= 0:
            self._granted.clear()
            await self._granted.wait()
        most = min(4 * CHUNK, self._credit)
        try:
            data = await self._loop.sock_recv(self._theirs, most)
        except OSError:
            return b""
        if data:
            await asyncio.sleep(GATHER)
            with contextlib.suppress(OSError):
                if len(data) < most:
                    data += self._theirs.recv(most - len(data))
            self._credit -= len(data)
        return data


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ModalStream(PolledStream):
    """The stream of a `Conversation`."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._sock = conversation.sock

    def fileno(self) -> int:
        return self._sock.fileno()

    _write_fileno = fileno

    def close(self) -> None:
        self._sock.close()

    def _receive(self) -> list[bytes] | None:
        with self._translated():
            data = self._sock.recv(STREAM_CHUNK)
            if not data and self._conversation.ended is None:
                raise ConnectionResetError("it ended")
        return [data] if data else None

    def _send(self, data: memoryview) -> int:
        if self._conversation.ended is not None:
            raise SandboxError("the sandbox takes no more input: it has ended.")
        with self._translated():
            return self._sock.send(data[:STREAM_CHUNK])

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._conversation.error or EngineGone(f"the stream of a sandbox broke: {error}.") from error
