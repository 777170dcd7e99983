"""What runs the commands of sandboxes: here processes of this host, in `docker` containers of the local engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.modal_server import keeper
from tests.modal_server.state import Sandbox

ROOT = Path(__file__).resolve().parents[2]
PATH = f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""This process's Python first, as an image has its own."""


class EngineError(Exception):
    """The engine cannot do it; the text says why."""


class Engine(Protocol):
    """Runs commands so that each has a folder that `stdio.Stdio` reads."""

    async def prepare(self, image_id: str) -> None:
        """Make ready the image that sandboxes of `image_id` start from.

        Raises:
            EngineError: it cannot be had.
        """

    async def start(self, sandbox: Sandbox) -> None:
        """Start the sandbox's own command; it runs, or has run, on return.

        Raises:
            EngineError: it cannot be started.
        """

    async def execute(
        self, sandbox: Sandbox, folder: Path, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
    ) -> None:
        """Start a command in a running sandbox.

        Raises:
            EngineError: it has ended, or the engine refuses.
        """

    async def kill(self, sandbox: Sandbox) -> None:
        """End everything in the sandbox, now."""

    async def kill_command(self, sandbox: Sandbox, folder: Path) -> None:
        """End one command."""

    async def close_stdin(self, folder: Path) -> None:
        """Let the process in `folder` see the end of its stdin."""

    async def forget(self, sandbox: Sandbox) -> None:
        """Free what an ended sandbox holds."""

    async def close(self) -> None:
        """Free what is left once no sandbox is."""


def kill_marked(mark: str) -> None:
    """End every process of this host that has the variable `mark` (``NAME=value``) in its environment."""
    wanted = mark.encode() + b"\0"
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


class Keeping:
    """The line to the keeper of a state folder; starts one if there is none."""

    def __init__(self, state: Path, isolated: bool) -> None:
        self._state = state
        self._isolated = isolated
        self._lock = asyncio.Lock()
        self.private = False
        """Whether processes get a root, a process tree and a network of their own."""

    async def open(self) -> None:
        try:
            await self._connect()
        except OSError:
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
            shared = sorted({str(ROOT), sys.prefix, sys.base_prefix})
            how = "isolated" if self._isolated else "shared"
            with (self._state / "keeper.log").open("ab") as log:
                subprocess.Popen(
                    [sys.executable, "-m", "tests.modal_server.keeper", str(self._state), how, *shared],
                    env=environment,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            await self._connect(patience=20.0)
        self.private = (await self.ask(do="ping"))["private"]

    async def ask(self, **request: Any) -> dict[str, Any]:
        """The keeper's answer.

        Raises:
            EngineError: the keeper refuses.
        """
        # A caller that goes away must not leave its answer to the next one.
        answer = await asyncio.shield(asyncio.ensure_future(self._ask(request)))
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        async with self._lock:
            self._writer.write(json.dumps(request).encode() + b"\n")
            line = await self._reader.readline()
        answer: dict[str, Any] = json.loads(line or b'{"error": "the keeper has ended"}')
        return answer

    def close(self) -> None:
        self._writer.close()

    async def _connect(self, patience: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while True:
            try:
                address = keeper.address(self._state)
                self._reader, self._writer = await asyncio.open_unix_connection(address, limit=1 << 24)
                return
            except OSError:
                if loop.time() >= end:
                    raise
                await asyncio.sleep(0.01)


class ProcessEngine:
    """Each sandbox is a process tree on this host, with private namespaces where the host allows it.

    Image, resources and GPUs are recorded only; `variables` are what an image would set.
    """

    def __init__(self, keeping: Keeping, variables: Mapping[str, str]) -> None:
        self._keeping = keeping
        self._variables = variables

    async def prepare(self, image_id: str) -> None:
        pass

    async def start(self, sandbox: Sandbox) -> None:
        await self._keeping.ask(
            do="start",
            folder=str(sandbox.main),
            argv=list(sandbox.definition.entrypoint_args) or ["sleep", "infinity"],
            env=self._environment(sandbox, {}),
            cwd=sandbox.definition.workdir or "/",
            root=str(sandbox.folder / "root"),
            blocked=sandbox.blocked,
        )

    async def execute(
        self, sandbox: Sandbox, folder: Path, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
    ) -> None:
        request: dict[str, Any] = {"do": "start", "folder": str(folder), "within": str(sandbox.main)}
        cwd = cwd or sandbox.definition.workdir or "/"
        await self._keeping.ask(**request, argv=list(argv), env=self._environment(sandbox, env), cwd=cwd)

    async def kill(self, sandbox: Sandbox) -> None:
        for folder in (*sandbox.commands(), sandbox.main):
            await self._keeping.ask(do="kill", folder=str(folder))
        if not self._keeping.private:
            await asyncio.to_thread(kill_marked, f"MODAL_SANDBOX_ID={sandbox.id}")

    async def kill_command(self, sandbox: Sandbox, folder: Path) -> None:
        await self._keeping.ask(do="kill", folder=str(folder))

    async def close_stdin(self, folder: Path) -> None:
        await self._keeping.ask(do="close_stdin", folder=str(folder))

    async def forget(self, sandbox: Sandbox) -> None:
        pass  # the keeper removes its root

    async def close(self) -> None:
        pass

    def _environment(self, sandbox: Sandbox, env: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": PATH,
            "HOME": "/root",
            "LANG": "C.UTF-8",
            **self._variables,
            **sandbox.marks(),
            **sandbox.env,
            **env,
        }
