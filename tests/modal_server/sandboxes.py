"""The life of sandboxes, the same for both families of RPCs: start, limits of time, end, names, lists."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2

from tests.modal_server.engines import Engine, EngineError
from tests.modal_server.state import Sandbox, State
from tests.modal_server.stdio import Stdio, Watcher
from tests.modal_server.trouble import Starts

Result = api_pb2.GenericResult
PAGE = 100
"""Sandboxes in one answer to a list."""


class Sandboxes:
    def __init__(self, state: State, engine: Engine, watcher: Watcher, starts: Starts) -> None:
        self.state = state
        self._engine = engine
        self._watcher = watcher
        self._starts = starts
        self._stdio: dict[Path, Stdio] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def resume(self) -> None:
        """Take up the sandboxes that an earlier server left."""
        for sandbox in self.state.running():
            if sandbox.started_at is None:  # its creation died with that server
                self._settle(sandbox, Result.GENERIC_STATUS_INIT_FAILURE, 1, "the server was lost while it started")
                continue
            self._watch(sandbox)
            for folder in sandbox.commands():
                if self.stdio(folder).ended() is None:
                    self._watch_command(sandbox, folder, None)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for stdio in self._stdio.values():
            stdio.close()

    async def create(
        self, app_id: str, definition: api_pb2.Sandbox, tags: Mapping[str, str], env: Mapping[str, str], v2: bool
    ) -> Sandbox:
        """Reserve the name, then start. A V1 sandbox starts after the answer; a V2 one before it. The start goes on
        even if the caller does not wait for it.

        Raises:
            GRPCError: the rate is too high, the name is taken, the image or the app is unknown, or the start fails.
        """
        if all(id != app_id for _, id in self.state.apps.items()):
            raise GRPCError(Status.NOT_FOUND, f"no app {app_id}")
        if self.state.images.get(definition.image_id) is None:
            raise GRPCError(Status.NOT_FOUND, f"no image {definition.image_id}")
        if definition.name:
            same = self.state.named(app_id, definition.name)
            if same and same.running:
                raise GRPCError(Status.ALREADY_EXISTS, f"a sandbox called {definition.name!r} is running: {same.id}")
        self._starts.admit()
        sandbox = self.state.new(app_id, definition, tags, env, v2)
        seconds, fails = self._starts.draw()
        start = asyncio.get_running_loop().create_task(self._start(sandbox, seconds, fails))
        self._keep(start)
        self._starting[sandbox.id] = start
        start.add_done_callback(lambda _: self._starting.pop(sandbox.id, None))
        if v2:
            await asyncio.shield(start)
            if sandbox.status == Result.GENERIC_STATUS_INIT_FAILURE:
                raise GRPCError(Status.INTERNAL, sandbox.exception)
        return sandbox

    async def end_all(self) -> None:
        """Terminate and free all."""

        async def end(sandbox: Sandbox) -> None:
            await self.terminate(sandbox)
            await self._engine.forget(sandbox)

        if self._starting:
            await asyncio.wait(self._starting.values(), timeout=60)
        await asyncio.gather(*(end(sandbox) for sandbox in list(self.state.sandboxes.values())))
        await self._engine.close()

    async def terminate(self, sandbox: Sandbox) -> None:
        if sandbox.running:
            sandbox.wanted = sandbox.wanted or Result.GENERIC_STATUS_TERMINATED
            sandbox.save()
            await self._engine.kill(sandbox)
            if sandbox.started_at is not None:
                await self.ended(sandbox).wait()

    async def vanish(self, sandbox: Sandbox) -> None:
        """Lose it without a trace: its processes, its record, its name."""
        with contextlib.suppress(EngineError):
            await self._engine.kill(sandbox)
        await self._engine.forget(sandbox)
        self.state.forget(sandbox)
        sandbox.status = Result.GENERIC_STATUS_INTERNAL_FAILURE
        self.ended(sandbox).set()

    async def kill_commands(self, sandbox: Sandbox) -> None:
        """End its commands, but not its own."""
        for folder in sandbox.commands():
            if self.stdio(folder).ended() is None:
                await self._engine.kill_command(sandbox, folder)

    def get(self, id: str) -> Sandbox:
        """By its id or its task's.

        Raises:
            GRPCError: there is none.
        """
        sandbox = self.state.sandboxes.get(id) or self.state.by_task.get(id)
        if sandbox is None:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {id}")
        return sandbox

    def ended(self, sandbox: Sandbox) -> asyncio.Event:
        event = self._ended.setdefault(sandbox.id, asyncio.Event())
        if not sandbox.running:
            event.set()
        return event

    async def wait(self, id: str, timeout: float) -> Sandbox:
        sandbox = self.get(id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended(sandbox).wait(), timeout)
        return self.get(id)

    async def started(self, sandbox: Sandbox, timeout: float) -> None:
        """Wait until it has started or ended, at most `timeout` seconds."""
        start = self._starting.get(sandbox.id)
        if start is not None:
            await asyncio.wait({start}, timeout=timeout)

    def page(self, request: api_pb2.SandboxListRequest, *, v2: bool) -> list[Sandbox]:
        """The newest sandboxes before the request's time, newest first. V2 lists both families, V1 its own."""
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            sandbox
            for sandbox in self.state.sandboxes.values()
            if (v2 or not sandbox.v2)
            and (not request.app_id or sandbox.app_id == request.app_id)
            and (not request.before_timestamp or sandbox.created_at < request.before_timestamp)
            and (request.include_finished or sandbox.running)
            and tags.items() <= sandbox.tags.items()
        ]
        return sorted(found, key=lambda sandbox: -sandbox.created_at)[:PAGE]

    def stdio(self, folder: Path) -> Stdio:
        if folder not in self._stdio:
            self._stdio[folder] = Stdio(folder, self._watcher)
        return self._stdio[folder]

    async def execute(
        self,
        sandbox: Sandbox,
        exec_id: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        timeout: int | None,
    ) -> None:
        """Start a command; a second call with the same id does nothing.

        Raises:
            GRPCError: the sandbox has ended.
        """
        if not sandbox.running or sandbox.started_at is None:
            raise GRPCError(Status.NOT_FOUND, f"sandbox {sandbox.id} is not running")
        folder = sandbox.folder / "exec" / exec_id
        if folder.exists():
            return
        folder.mkdir(parents=True)
        sandbox.last_used = time.time()
        try:
            await self._engine.execute(sandbox, folder, argv, env, cwd)
        except EngineError as error:
            shutil.rmtree(folder)
            raise GRPCError(Status.NOT_FOUND, str(error)) from error
        self._watch_command(sandbox, folder, timeout)

    async def write(self, sandbox: Sandbox, stdio: Stdio, offset: int, data: bytes, eof: bool) -> None:
        """Put `data`, which starts at `offset` of the whole, into stdin, and end it there if `eof`.

        Raises:
            GRPCError: stdin is closed, or there is a gap.
        """
        if not await stdio.write(offset, data):
            gap = offset > stdio.written
            words = f"data at {offset} after {stdio.written} bytes" if gap else "stdin is closed"
            raise GRPCError(Status.FAILED_PRECONDITION, words)
        sandbox.last_used = time.time()
        if eof and not stdio.closed:
            stdio.close_stdin()
            await self._engine.close_stdin(stdio.folder)

    async def _start(self, sandbox: Sandbox, seconds: float, fails: bool) -> None:
        await asyncio.sleep(seconds)
        if fails:
            self._settle(sandbox, Result.GENERIC_STATUS_INIT_FAILURE, 1, "the sandbox did not start")
            return
        if sandbox.wanted:
            self._settle(sandbox, sandbox.wanted, 137)
            return
        try:
            await self._engine.start(sandbox)
        except EngineError as error:
            self._settle(sandbox, Result.GENERIC_STATUS_INIT_FAILURE, 1, str(error))
            await self._engine.forget(sandbox)
            return
        sandbox.started_at = sandbox.last_used = time.time()
        sandbox.save()
        self._watch(sandbox)
        if sandbox.wanted:  # terminated while the engine was at it
            await self._engine.kill(sandbox)

    def _watch(self, sandbox: Sandbox) -> None:
        self._keep(asyncio.get_running_loop().create_task(self._see_through(sandbox)))

    async def _see_through(self, sandbox: Sandbox) -> None:
        """Wait for the end of its own command, and enforce its limits of time."""
        end = asyncio.ensure_future(self.stdio(sandbox.main).wait())
        try:
            while not end.done():
                left, status = self._left(sandbox)
                await asyncio.wait({end}, timeout=left)
                left, status = self._left(sandbox)
                if not end.done() and left is not None and left <= 0:
                    sandbox.wanted = sandbox.wanted or status
                    sandbox.save()
                    await self._engine.kill(sandbox)
                    await end
            ended = end.result()
        finally:
            end.cancel()
        if sandbox.id not in self.state.sandboxes:
            return
        code = ended.get("code", 128 + ended.get("signal", 0))
        status = Result.GENERIC_STATUS_FAILURE if code else Result.GENERIC_STATUS_SUCCESS
        self._settle(sandbox, sandbox.wanted or status, code)
        await self._engine.forget(sandbox)

    def _left(self, sandbox: Sandbox) -> tuple[float | None, int]:
        """Seconds until a limit strikes, and the status that it brings. Idle is a sandbox with no command and no input;
        whether the entrypoint works is not looked at."""
        now = time.time()
        assert sandbox.started_at is not None
        limits: list[tuple[float, int]] = []
        if sandbox.definition.timeout_secs:
            at = sandbox.started_at + sandbox.definition.timeout_secs
            limits.append((at - now, Result.GENERIC_STATUS_TIMEOUT))
        if sandbox.definition.idle_timeout_secs:
            if any(self.stdio(folder).ended() is None for folder in sandbox.commands()):
                sandbox.last_used = now
            at = sandbox.last_used + sandbox.definition.idle_timeout_secs
            limits.append((at - now, Result.GENERIC_STATUS_IDLE_TIMEOUT))
        return min(limits, default=(None, 0), key=lambda limit: limit[0])

    def _settle(self, sandbox: Sandbox, status: int, code: int, exception: str = "") -> None:
        sandbox.status, sandbox.exit_code, sandbox.exception = status, code, exception
        sandbox.ended_at = time.time()
        sandbox.save()
        self.stdio(sandbox.main).close() if sandbox.main.is_dir() else None
        self.ended(sandbox).set()

    def _watch_command(self, sandbox: Sandbox, folder: Path, timeout: int | None) -> None:
        async def watch() -> None:
            stdio = self.stdio(folder)
            try:
                await asyncio.wait_for(stdio.wait(), timeout or None)
            except TimeoutError:
                await self._engine.kill_command(sandbox, folder)
            stdio.close()
            sandbox.last_used = time.time()

        self._keep(asyncio.get_running_loop().create_task(watch()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
