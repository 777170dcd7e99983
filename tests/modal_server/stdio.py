"""The stdin, stdout, stderr and end of one process, as the keeper leaves them in the process's folder."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

CHUNK = 1 << 20
_CHANGES = 0x2 | 0x8 | 0x80 | 0x100  # IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE
_libc = ctypes.CDLL(None, use_errno=True)


class Watcher:
    """Says when something in a folder changes, by inotify, on the running loop."""

    def __init__(self) -> None:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._events: dict[int, set[asyncio.Event]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    @contextlib.contextmanager
    def on(self, folder: Path) -> Iterator[asyncio.Event]:
        """An event that is set at each change in `folder`; the user clears it."""
        watch = _libc.inotify_add_watch(self._descriptor, str(folder).encode(), _CHANGES)
        if watch < 0:
            raise FileNotFoundError(folder)
        event = asyncio.Event()
        self._events.setdefault(watch, set()).add(event)
        try:
            yield event
        finally:
            users = self._events[watch]
            users.discard(event)
            if not users:
                del self._events[watch]
                _libc.inotify_rm_watch(self._descriptor, watch)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, _, _, length = struct.unpack_from("iIII", data, at)
            at += 16 + length
            for event in self._events.get(watch, ()):
                event.set()


class Stdio:
    """One process's folder. Output is kept whole, so that it can be read from any offset, more than once."""

    def __init__(self, folder: Path, watcher: Watcher) -> None:
        self.folder = folder
        self._watcher = watcher
        self._writing = asyncio.Lock()
        self._stdin: int | None = None
        self._count = folder / "stdin.count"
        self.written = int(self._count.read_text() or 0) if self._count.exists() else 0
        """Bytes that have gone into stdin."""
        self.closed = (folder / "stdin.closed").exists()

    def ended(self) -> dict[str, int] | None:
        """``{"code": n}`` or ``{"signal": n}`` once the process has ended."""
        try:
            found: dict[str, int] = json.loads((self.folder / "exit").read_text())
        except FileNotFoundError:
            return None
        return found

    async def wait(self) -> dict[str, int]:
        with self._watcher.on(self.folder) as changed:
            while (ended := self.ended()) is None:
                changed.clear()
                await changed.wait()
        return ended

    async def read(self, name: str, offset: int) -> AsyncIterator[bytes]:
        """``stdout`` or ``stderr`` from `offset` on, as it comes, until the process has ended."""
        source = os.open(self.folder / name, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with self._watcher.on(self.folder) as changed:
                while True:
                    changed.clear()
                    ended = self.ended()
                    while data := os.pread(source, CHUNK, offset):
                        offset += len(data)
                        yield data
                    if ended is not None:
                        return
                    await changed.wait()
        finally:
            os.close(source)

    async def write(self, offset: int, data: bytes) -> bool:
        """Put `data`, which starts at `offset` of the whole stream, into stdin; what went in before is skipped.

        Returns False if stdin is closed, the process has ended, or `offset` leaves a gap.
        """
        async with self._writing:
            if offset > self.written:
                return False
            rest = memoryview(data)[self.written - offset :]
            if rest and (self.closed or self.ended() is not None):
                return False
            while rest:
                try:
                    count = os.write(self._pipe(), rest)
                except BlockingIOError:
                    if not await self._writable():
                        return False
                    continue
                except BrokenPipeError:
                    return False
                rest = rest[count:]
                self.written += count
                self._count.write_text(str(self.written))
            return True

    def close_stdin(self) -> None:
        """Let go of the pipe; the end is seen once the keeper has let go of it too."""
        self.closed = True
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "stdin.closed").touch()
        self.close()

    def close(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def _pipe(self) -> int:
        if self._stdin is None:
            self._stdin = os.open(self.folder / "stdin", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return self._stdin

    async def _writable(self) -> bool:
        """Wait until the pipe takes more; False if the process ends first."""
        loop = asyncio.get_running_loop()
        room = asyncio.Event()
        loop.add_writer(self._pipe(), room.set)
        try:
            with self._watcher.on(self.folder):
                while not room.is_set():
                    if self.ended() is not None:
                        return False
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(room.wait(), 0.5)
        finally:
            loop.remove_writer(self._pipe())
        return True
