"""What runs the commands of sandboxes: processes in namespaces of this host, or containers of the local Docker engine.

Both run each command by a program of the host (``unshare``, ``nsenter``, ``docker``), whose pipes are its streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
PATH = f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""This process's Python first, as an image has its own."""
CHUNK = 64 * 1024
AHEAD = 8 << 20
"""Bytes of output that are taken from a process before anybody reads them."""
START_SECONDS = 60.0


class EngineError(Exception):
    """The engine cannot do it; the text says why."""


class Command:
    """A command in a sandbox. Its output is kept, so that it can be read from any offset, more than once.

    Attributes:
        code: its exit code, 128 + signal if a signal killed it; None while it runs.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self._output = bytearray()
        self._read = 0
        self._written = 0
        self._closed = False
        self._killed = False
        self._changed = asyncio.Event()

    async def read(self, offset: int) -> AsyncIterator[bytes]:
        """The output from `offset` on, as it comes, until the command has ended."""
        while True:
            changed = self._changed
            if offset < len(self._output):
                data = bytes(self._output[offset : offset + 16 * CHUNK])
                offset += len(data)
                yield data
                self._read = max(self._read, offset)
                self._notify()
            elif self.code is not None:
                return
            else:
                await changed.wait()

    async def wait(self) -> int:
        """Wait for the end; returns the exit code."""
        while self.code is None:
            await self._changed.wait()
        return self.code

    async def write(self, offset: int, data: bytes, eof: bool) -> None:
        """Put `data`, which starts at `offset` of the whole input, into stdin. A part that came before is skipped.

        Raises:
            EngineError: stdin is closed, or `offset` leaves a gap.
        """
        rest = data[max(0, self._written - offset) :]
        if offset > self._written or (rest and (self._closed or self.code is not None)):
            raise EngineError(f"data at {offset} after {self._written} bytes, or stdin is closed")
        self._written += len(rest)
        if rest:
            await self.take(rest)
        if eof and not self._closed:
            self._closed = True
            self.close()

    async def take(self, data: bytes) -> None:
        """Write to the command's stdin."""

    def close(self) -> None:
        """End the command's stdin."""

    def kill(self) -> None:
        """End the command. Nothing happens if it has ended."""
        self.finish(137)

    def put(self, data: bytes) -> None:
        """Add output."""
        self._output += data
        self._notify()

    def finish(self, code: int) -> None:
        """Note the end."""
        if self.code is None:
            self.code = code
            self._notify()

    async def room(self) -> None:
        """Wait until the output was read as far as `AHEAD`."""
        while len(self._output) - self._read > AHEAD and not self._killed:
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Spawned(Command):
    """A command that a process of this host runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__()
        self.process = process
        self._pumping = asyncio.create_task(self._pump())

    @classmethod
    async def start(cls, *argv: str, env: Mapping[str, str] | None = None) -> Spawned:
        # A group of its own, so that `kill` also ends the child of nsenter.
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *argv, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=env, start_new_session=True
            )
        )

    async def _pump(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(CHUNK):
            self.put(data)
            await self.room()
        code = await self.process.wait()
        self.finish(code if code >= 0 else 128 - code)

    async def take(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        with contextlib.suppress(ConnectionError):
            await self.process.stdin.drain()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        if self.code is None:
            self._killed = True
            self._notify()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Engine(Protocol):
    """Runs the commands of sandboxes. Each call may raise EngineError."""

    async def prepare(self, image: str) -> None:
        """Have the image `image`."""

    async def start(self, sandbox: str, definition: Any, image: str, tags: Mapping[str, str]) -> Command:
        """Start the entry point of `sandbox`; execs are possible on return."""

    async def execute(self, sandbox: str, main: Command, argv: Sequence[str]) -> Command:
        """Start a command in a sandbox whose entry point is `main`."""

    async def kill(self, sandbox: str, main: Command) -> None:
        """End everything in the sandbox."""

    async def forget(self, sandbox: str) -> None:
        """Free what an ended sandbox holds."""


class ProcessEngine:
    """Each sandbox is a process tree on this host in namespaces of its own, and runs the host's programs.

    Args:
        variables: what images set in the environment, such as PATH.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        marks = {"MODAL_IS_REMOTE": "1"}
        self._environment = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **marks, **variables}

    async def prepare(self, image: str) -> None:
        pass

    async def start(self, sandbox: str, definition: Any, image: str, tags: Mapping[str, str]) -> Command:
        namespaces = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--"]
        shared = ":".join(sorted({str(ROOT), sys.prefix, sys.base_prefix}))
        furnish = [sys.executable, "-I", str(Path(__file__).with_name("rootfs.py")), shared]
        main = await Spawned.start(*namespaces, *furnish, *definition.entrypoint_args, env=self._environment)
        while self._first(main) is None:
            if main.code is not None:
                raise EngineError("no namespaces, which take root")
            await asyncio.sleep(0.005)
        return main

    async def execute(self, sandbox: str, main: Command, argv: Sequence[str]) -> Command:
        first = self._first(main)
        if first is None:
            raise EngineError("the sandbox has ended")
        entered = ["nsenter", "-t", str(first), "--mount", "--pid", "--net", "--ipc", "--root", "--wd", "--"]
        return await Spawned.start(*entered, *argv, env=self._environment)

    def _first(self, main: Command) -> int | None:
        """The first process of a sandbox, once it has its own root."""
        assert isinstance(main, Spawned)
        pid = main.process.pid
        with contextlib.suppress(OSError, IndexError):  # it has not forked yet, or has ended
            first = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
            if str(Path(f"/proc/{first}/root").readlink()) != "/":
                return first
        return None

    async def kill(self, sandbox: str, main: Command) -> None:
        main.kill()

    async def forget(self, sandbox: str) -> None:
        pass  # its root was in memory


class DockerEngine:
    """Each sandbox is a container, as the service has them: root, a writable root file system, default capabilities.

    Args:
        names: references such as ``registry/repo@sha256:…``, and the engine's names for them. Others are pulled.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    async def prepare(self, image: str) -> None:
        name = self._names.get(image, image)
        if await _docker("image", "inspect", name) and await _docker("pull", name):
            raise EngineError(f"the engine has no image {name}, and cannot pull it")

    async def start(self, sandbox: str, definition: Any, image: str, tags: Mapping[str, str]) -> Command:
        wants = definition.resources
        memory = f"{wants.memory_mb_max}m"
        options = ["--name", container(sandbox), "--network", "none", "--memory", memory, "--memory-swap", memory]
        options += ["--cpus", f"{wants.milli_cpu_max / 1000:g}", "--log-driver", "none", "--workdir", "/", "-i"]
        options += ["-e", "MODAL_IS_REMOTE=1", "--label", "modal-server"]
        name = self._names.get(image, image)
        main = await Spawned.start("docker", "run", *options, name, *definition.entrypoint_args)
        end = asyncio.get_running_loop().time() + START_SECONDS
        while await _docker("exec", container(sandbox), "python3", "-V"):
            if main.code is not None or asyncio.get_running_loop().time() > end:
                raise EngineError("the container does not start")
            await asyncio.sleep(0.02)
        return main

    async def execute(self, sandbox: str, main: Command, argv: Sequence[str]) -> Command:
        return await Spawned.start("docker", "exec", "-i", container(sandbox), *argv)

    async def kill(self, sandbox: str, main: Command) -> None:
        await _docker("kill", container(sandbox))

    async def forget(self, sandbox: str) -> None:
        await _docker("rm", "--force", "--volumes", container(sandbox))


def container(sandbox: str) -> str:
    """The container of a sandbox."""
    return f"modal-{sandbox}"


async def _docker(*words: str) -> int:
    """The exit code of the engine's client."""
    return await (await Spawned.start("docker", *words)).wait()
