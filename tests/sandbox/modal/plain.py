"""The holder as a plain process of this machine, and conversations with it over plain pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from tests.sandbox.lab import PRELUDE
from trace_bench.sandbox.modal import program
from trace_bench.sandbox.modal.conversation import JOIN, Conversation, ModalStream
from trace_bench.sandbox.modal.protocol import frame_reader


class Piped:
    """A bridge as a child of this process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def output(self) -> AsyncIterator[bytes]:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(1 << 16):
            yield data


class Held:
    """One holder and its command, in `folder`."""

    def __init__(self, folder: Path, code: str, **spec: Any) -> None:
        self.out = folder / "out"
        self._run = tempfile.TemporaryDirectory(prefix="tb-", dir="/tmp")  # the path of a socket must be short
        self.socket = str(Path(self._run.name) / "run" / "holder")
        command = [sys.executable, "-I", "-c", PRELUDE + code, "--out", str(self.out), "--tmp", str(folder)]
        full = {
            "command": command,
            "out": str(self.out),
            "socket": self.socket,
            "unstarted": 60,
            "linger": 60,
            "nofile": 256,
            "fsize": 64 << 20,
            "closed": [],
            **spec,
        }
        words = _here(program.holder_command(full))
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.bridges: list[Piped] = []
        self._conversations: list[asyncio.Task[None]] = []

    def attach(self) -> tuple[Conversation, ModalStream]:
        conversation = Conversation("held")

        async def opened() -> Piped:
            process = await asyncio.create_subprocess_exec(
                *_here(program.join_command(self.socket, **JOIN)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self.bridges.append(Piped(process))
            return self.bridges[-1]

        async def run() -> None:
            self._conversations.append(asyncio.create_task(conversation.run(opened)))

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(20)
        assert conversation.wait_for(lambda: conversation.report is not None, 20)
        return conversation, ModalStream(conversation)

    def started(self) -> tuple[Conversation, ModalStream]:
        conversation, stream = self.attach()
        self.say(conversation, op="start")
        return conversation, stream

    def say(self, conversation: Conversation, **fields: Any) -> None:
        asyncio.run_coroutine_threadsafe(conversation.say(**fields), self._loop).result(20)

    def ask(self, op: str) -> dict[str, Any]:
        words = _here(program.join_command(self.socket, op=op))
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bridge:
            assert bridge.stdout is not None
            data = bridge.stdout.read()  # who has answered hangs up
        (answer,) = frame_reader().feed(data)
        return dict(json.loads(answer[1]))

    def collected(self) -> bytes:
        words = _here(program.collect_command(self.socket, str(self.out)))
        data = subprocess.run(words, capture_output=True, check=True, timeout=30).stdout
        frames = list(frame_reader().feed(data))
        assert [kind for kind, _ in frames[-1:]] == [b"S"], "it is whole"
        return b"".join(payload for kind, payload in frames if kind == b"D")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        asyncio.run_coroutine_threadsafe(self._ended(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._run.cleanup()

    async def _ended(self) -> None:
        for bridge in self.bridges:
            with contextlib.suppress(ProcessLookupError):
                bridge.process.kill()
            await bridge.process.wait()
        await asyncio.gather(*self._conversations, return_exceptions=True)


def _here(words: list[str]) -> list[str]:
    return [sys.executable, *words[1:]]


@contextlib.contextmanager
def held(folder: Path, code: str, **spec: Any) -> Iterator[Held]:
    """A holder that is there until the block ends."""
    found = Held(folder, code, **spec)
    try:
        yield found
    finally:
        found.end()
