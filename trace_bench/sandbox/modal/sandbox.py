"""One Modal sandbox, created or found. Each operation is an exec of `trace_bench.sandbox.modal.inside`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trace_bench.errors import SandboxError
from trace_bench.sandbox import archive, launcher, processes
from trace_bench.sandbox.base import Control, ExitStatus, SandboxState
from trace_bench.sandbox.errors import EngineGone, SandboxRemoved
from trace_bench.sandbox.modal import confinement, inside
from trace_bench.sandbox.modal.client import EXEC_SECONDS, Client, translated
from trace_bench.sandbox.modal.controls import read_back
from trace_bench.sandbox.modal.reports import LONGEST, Facts, Report, parse_report
from trace_bench.sandbox.modal.stream import ModalStream
from trace_bench.sandbox.packed import python_arguments

if TYPE_CHECKING:
    import modal

ANSWER_SECONDS = 60.0
"""Seconds that a program inside has to answer."""
KILL_SECONDS = 30.0
SETTLING = (0.0, 0.2, 0.6)
"""Seconds before each look whether a sandbox is still there, after something broke."""


def program(op: str, value: str = "") -> list[str]:
    """The command line of `inside`: an operation and its seconds, or ``enter`` and its spec."""
    first = (archive,) if op == "collect" else ()  # the others start faster without it
    return ["python3", *python_arguments(*first, processes, launcher, confinement, inside), op, value]


class ModalSandbox:
    """A sandbox, by a handle of the service.

    Args:
        is_new: its command was not started; `attach` then carries the stream from `start` on.
    """

    host = ""

    def __init__(
        self,
        client: Client,
        handle: modal.Sandbox,
        name: str,
        own_labels: Mapping[str, str],
        *,
        is_new: bool = False,
    ) -> None:
        self._client = client
        self._handle = handle
        self.id: str = handle.object_id
        self.name = name
        self.labels: Mapping[str, str] = dict(own_labels)
        self._is_new = is_new
        self._waiting: ModalStream | None = None
        self._facts: Facts | None = None
        self._last: Report | None = None

    def attach(self) -> ModalStream:
        stream = ModalStream()
        if self._is_new:
            if self._waiting is not None:
                self._check_there()
                self._waiting.end()
            self._waiting = stream
        else:
            self._carry(stream, "attach")
        return stream

    def start(self) -> None:
        stream, self._is_new = self._waiting or ModalStream(), False
        self._carry(stream, "start")
        if self._waiting is None:
            stream.close()
        self._waiting = None

    def controls(self) -> list[Control]:
        return read_back(self._facts or self._ask("state").facts, self.labels)

    def status(self) -> SandboxState:
        try:
            return self._ask("state").state
        except SandboxRemoved:
            return "removed"

    def wait(self, timeout: float) -> ExitStatus | None:
        ended = self._ask("state", max(timeout, 0.0)).ended
        return None if ended is None else ExitStatus(ended.code, False, ended.error)

    def kill(self) -> None:
        with contextlib.suppress(SandboxRemoved):
            if self._ask("kill", KILL_SECONDS).state == "running":
                raise EngineGone(f"sandbox {self.name} did not end within {KILL_SECONDS:g} s of a kill.")

    def last_words(self) -> str:
        return self._ask("state").stderr

    def collect(self) -> Iterator[bytes]:
        pieces = self._read_out()

        async def next_piece() -> bytes | None:
            return await anext(pieces, None)

        try:
            while (piece := self._call(next_piece(), EXEC_SECONDS, "bring what a sandbox has written")) is not None:
                yield piece
        finally:
            self._client.submit(pieces.aclose())

    def remove(self) -> None:
        self._client.terminate(self._handle, self.name)
        if self._waiting is not None:
            self._waiting.end()

    # -- execs ---------------------------------------------------------------------------------------------------

    def _ask(self, op: str, seconds: float = 0.0) -> Report:
        """The state after `op`, which takes up to `seconds`. The state after the end of the command is final.

        Raises:
            SandboxRemoved, EngineGone. SandboxError: the answer is invalid.
        """
        if self._last is not None:
            self._check_there()
            return self._last

        async def answer() -> bytes:
            process = await self._client.exec(self._handle, program(op, str(seconds)))
            data = b""
            async with asyncio.timeout(seconds + ANSWER_SECONDS):
                async for piece in process.stdout:
                    data += piece
                    if len(data) > LONGEST:
                        raise SandboxError(f"sandbox {self.name} sent an invalid report (it is too long).")
            return data

        data = self._call(answer(), seconds + ANSWER_SECONDS + EXEC_SECONDS, f"{op} a sandbox")
        if not data:
            self._settle()
            raise EngineGone(f"sandbox {self.name} did not answer.")
        report = parse_report(data, self.name)
        self._facts = report.facts
        if report.ended is not None:
            self._last = report
        return report

    def _carry(self, stream: ModalStream, op: str) -> None:
        """Have an exec carry `stream`, and wait until it does.

        Raises:
            SandboxRemoved, EngineGone.
        """

        async def carry(process: Any, begun: asyncio.Future[None]) -> None:
            failure: SandboxError | None = None
            try:
                await stream.carry(process, begun)
            except Exception as error:
                found = translated(error, "join a sandbox", self.name)
                failure = found if isinstance(found, SandboxError) else SandboxError(str(found))
            if not begun.done():
                begun.set_exception(failure or EngineGone(f"sandbox {self.name} did not answer."))
            stream.end(failure)

        async def begin() -> None:
            process = await self._client.exec(self._handle, program(op))
            begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._client.keep(carry(process, begun))
            await begun

        try:
            self._call(begin(), EXEC_SECONDS, "join a sandbox")
        except BaseException:
            stream.end()
            raise

    async def _read_out(self) -> AsyncGenerator[bytes, None]:
        """The tar of /out, in pieces."""
        process = await self._client.exec(self._handle, program("collect"))
        async for data in process.stdout:
            yield data
        if await process.wait.aio() != 0:
            raise SandboxError(f"sandbox {self.name} did not write all of its /out.")

    # -- errors --------------------------------------------------------------------------------------------------

    def _call(self, work: Any, seconds: float, action: str) -> Any:
        try:
            return self._client.call(work, seconds, action, self.name)
        except SandboxError:
            self._settle()
            raise

    def _check_there(self) -> None:
        """Raise SandboxRemoved if the sandbox was removed, or the service has ended it."""
        code = self._client.poll(self._handle, self.name)
        if code is not None:
            raise SandboxRemoved(f"sandbox {self.name} is no longer there (the service says {code}).")

    def _settle(self) -> None:
        """After something broke, look several times whether the sandbox has gone. One that is being ended breaks off
        its streams before the service says so.

        Raises:
            SandboxRemoved.
        """
        for pause in SETTLING:
            time.sleep(pause)
            self._check_there()
