"""The stream of a sandbox: a socket of this process, whose bytes an exec carries."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from trace_bench.errors import SandboxError
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.modal.inside import BEGUN
from trace_bench.sandbox.streams import CHUNK, PolledStream

GATHER = 0.005
"""Seconds during which writes to the stream are gathered into one call of the service, which takes longer than that."""
LAST_WORDS = 2.0
"""Seconds for the last output of an exec that takes no more input: the command may have ended."""


class ModalStream(PolledStream):
    """The stream. It carries nothing before `carry`, and ends with it."""

    def __init__(self) -> None:
        super().__init__()
        self._sock, self._theirs = socket.socketpair()
        for end in (self._sock, self._theirs):
            end.setblocking(False)
        self._error: SandboxError | None = None

    def fileno(self) -> int:
        return self._sock.fileno()

    _write_fileno = fileno

    def close(self) -> None:
        self._sock.close()

    def end(self, error: SandboxError | None = None) -> None:
        """End the stream for who reads and writes it: with `error`, or as after the end of the command."""
        self._error = self._error or error
        self._theirs.close()

    async def carry(self, process: Any, begun: asyncio.Future[None]) -> None:
        """Carry bytes until the exec `process` (`modal.container_process.ContainerProcess`) ends. Closing the stream
        ends its input. `begun` is done once it has the stream."""
        tasks = [asyncio.create_task(work) for work in (self._deliver(process, begun), self._feed(process))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[1].done() and tasks[1].exception() is not None:
                await asyncio.wait(tasks[:1], timeout=LAST_WORDS)
                if not tasks[0].done():
                    await tasks[1]
            await tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, process: Any, begun: asyncio.Future[None]) -> None:
        """Pass on the output. A reader that does not read holds it up."""
        loop, prefix = asyncio.get_running_loop(), BEGUN
        async for data in process.stdout:
            if prefix and not begun.done():
                begun.set_result(None)
            with contextlib.suppress(OSError):  # the stream was closed
                await loop.sock_sendall(self._theirs, data.removeprefix(prefix))
            prefix = b""

    async def _feed(self, process: Any) -> None:
        """Pass on what is written to the stream."""
        while data := await self._next_input():
            process.stdin.write(data)
            await process.stdin.drain.aio()
        process.stdin.write_eof()
        await process.stdin.drain.aio()

    async def _next_input(self) -> bytes:
        """What was written within `GATHER` seconds; nothing once the stream is closed."""
        data = b""
        with contextlib.suppress(OSError):
            if data := await asyncio.get_running_loop().sock_recv(self._theirs, 4 * CHUNK):
                await asyncio.sleep(GATHER)
                data += self._theirs.recv(4 * CHUNK)
        return data

    def _receive(self) -> list[bytes] | None:
        with self._errors():
            data = self._sock.recv(CHUNK)
        if not data and self._error is not None:
            raise self._error
        return [data] if data else None

    def _send(self, data: memoryview) -> int:
        with self._errors():
            return self._sock.send(data[:CHUNK])

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._error or EngineGone(f"the stream of a sandbox has ended: {error}.") from error
