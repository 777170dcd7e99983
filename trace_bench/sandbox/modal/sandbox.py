"""One Modal sandbox, created or found."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import Control, ExitStatus, SandboxState
from trace_bench.sandbox.errors import EngineGone, SandboxRemoved
from trace_bench.sandbox.modal import program
from trace_bench.sandbox.modal.client import EXEC_SECONDS, Client, Exec
from trace_bench.sandbox.modal.controls import read_back
from trace_bench.sandbox.modal.conversation import JOIN, PARTING, Conversation, ModalStream
from trace_bench.sandbox.modal.protocol import DATA, frame_reader
from trace_bench.sandbox.modal.reports import Ended, Facts, Report, parse_message

if TYPE_CHECKING:
    import modal

ANSWER_SECONDS = 60.0
"""A holder that does not answer within that is not there."""
KILL_SECONDS = 30.0
OVER_SECONDS = 2.0
"""A conversation that takes no message because it ends has ended within that."""
SETTLING = (0.0, 0.2, 0.6)
"""Seconds before each look whether a sandbox is still there, after something broke."""
ATTEMPTS, PAUSE = 3, 0.2
"""How often a conversation is begun, and the seconds in between."""
SHORT_WAIT = 0.05
"""A wait of fewer seconds only asks for the state."""
POLL_SECONDS = 2.0
"""How often a wait asks the service whether the sandbox is still there."""


class ModalSandbox:
    """A handle of the service, and the conversation with the holder of the command."""

    host = ""

    def __init__(self, client: Client, handle: modal.Sandbox, name: str, own_labels: Mapping[str, str]) -> None:
        self._client = client
        self._handle = handle
        self.id: str = handle.object_id
        self.name = name
        self.labels: Mapping[str, str] = dict(own_labels)
        self._conversation: Conversation | None = None
        self._running: Future[None] | None = None
        self._attached = False
        self._end_reported = False
        self._facts: Facts | None = None
        self._lock = threading.Lock()

    def attach(self) -> ModalStream:
        """The first call takes the conversation that was opened when the sandbox was created."""
        with self._lock:
            taken, self._attached = self._attached, True
        conversation = self._live()
        return ModalStream(self.open() if conversation is None or taken else conversation)

    def start(self) -> None:
        self._do("start", lambda report: report.state != "created", ANSWER_SECONDS)

    def controls(self) -> list[Control]:
        if self._facts is None:
            self._facts = self._report().facts
        return read_back(self._facts, self.labels)

    def status(self) -> SandboxState:
        try:
            self._check_there()
            return self._report().state
        except SandboxRemoved:
            return "removed"

    def wait(self, timeout: float) -> ExitStatus | None:
        end = time.monotonic() + timeout
        while True:
            # A sandbox that has just reported its end was there. After the first such report it may have been removed.
            if self._end_reported or self._conversation is None or self._conversation.ended is None:
                self._check_there()
            ended = self._ended(min(max(end - time.monotonic(), 0.0), POLL_SECONDS))
            if ended is not None:
                self._end_reported = True
                return ExitStatus(ended.code, False, ended.error)
            if time.monotonic() >= end:
                return None

    def kill(self) -> None:
        try:
            self._do("kill", lambda report: report.state != "running", KILL_SECONDS)
        except SandboxRemoved:
            return
        except SandboxError:
            if self.status() != "removed":
                raise

    def last_words(self) -> str:
        return self._answer("status").stderr

    def collect(self) -> Iterator[bytes]:
        pieces = self._read_out()

        async def next_piece() -> bytes | None:
            return await anext(pieces, None)

        action = "bring what a sandbox has written"
        try:
            while (piece := self._client.call(next_piece(), EXEC_SECONDS, action, self.name)) is not None:
                yield piece
        finally:
            self._client.submit(pieces.aclose())

    def remove(self) -> None:
        conversation, self._conversation = self._conversation, None
        self._client.terminate(self._handle, self.name)
        if conversation is not None and not self._attached:
            conversation.sock.close()
        if self._running is not None and not self._running.done():
            self._client.later(PARTING, self._running.cancel)  # the exec ends by itself, now that the sandbox has ended

    # -- the holder ----------------------------------------------------------------------------------------------

    def open(self, attempts: int = ATTEMPTS) -> Conversation:
        """Begin a conversation, which takes the stream over. One that breaks before the first report is begun again.

        Raises:
            SandboxRemoved, EngineGone.
        """
        conversation = Conversation(self.name)

        async def opened() -> Exec:
            return await self._client.exec(self._handle, program.join_command(**JOIN))

        self._running = self._client.submit(conversation.run(opened))
        if conversation.wait_for(lambda: conversation.report is not None, EXEC_SECONDS):
            self._conversation = conversation
            return conversation
        broke = conversation.over
        conversation.sock.close()
        self._running.cancel()
        self._check_there()
        if broke and attempts > 1:
            time.sleep(PAUSE)
            return self.open(attempts - 1)
        self._settle()
        raise conversation.error or EngineGone(f"sandbox {self.name} did not answer.")

    def _live(self) -> Conversation | None:
        """The conversation, if there is one that goes on."""
        conversation = self._conversation
        return None if conversation is None or conversation.over else conversation

    def _do(self, op: str, done: Callable[[Report], bool], seconds: float) -> None:
        """Have the holder do `op`: by a message of the conversation, else by an exec of its own. (The holder does an
        operation that is sent twice once.)

        Args:
            done: whether a report shows that it was done.

        Raises:
            SandboxRemoved, EngineGone.
        """
        conversation = self._live()
        if conversation is not None:
            try:
                self._client.call(conversation.say(op=op), ANSWER_SECONDS, f"{op} a sandbox", self.name)
            except SandboxError:
                self._settle()
                if not conversation.wait_for(lambda: conversation.over, OVER_SECONDS):
                    raise
            else:
                if conversation.wait_for(
                    lambda: conversation.report is not None and done(conversation.report), seconds
                ):
                    return
        self._answer(op, seconds)

    def _report(self) -> Report:
        """The last report of the conversation, else one that is asked for now."""
        conversation = self._live()
        return (conversation and conversation.report) or self._answer("status")

    def _ended(self, seconds: float) -> Ended | None:
        """The end of the command; None if it does not end within `seconds`."""
        conversation = self._conversation
        if conversation is not None:
            if conversation.wait_for(lambda: conversation.ended is not None, seconds):
                return conversation.ended
            if not conversation.over:
                return None
        report = self._ask("wait", seconds) if seconds > SHORT_WAIT else self._answer("status")
        return None if report is None else report.ended

    def _answer(self, op: str, seconds: float = ANSWER_SECONDS) -> Report:
        """The holder's answer to `op`, by an exec of its own."""
        report = self._ask(op, seconds)
        if report is None:
            self._settle()
            raise EngineGone(f"sandbox {self.name} did not answer within {seconds:g} s.")
        return report

    def _ask(self, op: str, seconds: float) -> Report | None:
        """As `_answer`; None if nothing comes in `seconds`."""

        async def ask() -> Report | None:
            process = await self._client.exec(self._handle, program.join_command(op=op))

            async def answer() -> Report:
                reader = frame_reader()
                async for data in process.output():
                    for _, payload in reader.feed(data):
                        if (report := parse_message(payload).report) is not None:
                            return report
                raise EngineGone(f"sandbox {self.name} did not answer.")

            try:
                return await asyncio.wait_for(answer(), seconds)
            except TimeoutError:
                await process.hang_up()
                return None

        try:
            return self._client.call(ask(), seconds + EXEC_SECONDS, f"{op} a sandbox", self.name)
        except SandboxError:
            self._settle()
            raise

    async def _read_out(self) -> AsyncGenerator[bytes, None]:
        """The tar of /out, in pieces."""
        process = await self._client.exec(self._handle, program.collect_command())
        reader, complete = frame_reader(), False
        async for data in process.output():
            for kind, payload in reader.feed(data):
                if kind == DATA:
                    yield payload
                else:
                    complete = True
        if not complete:
            raise SandboxRemoved(f"sandbox {self.name} was gone before all of its /out had come.")

    # -- errors --------------------------------------------------------------------------------------------------

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
