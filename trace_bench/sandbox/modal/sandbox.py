"""One Modal sandbox, created or found."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from trace_bench.errors import SandboxError, TraceBenchError
from trace_bench.sandbox.base import Control, ExitStatus, SandboxState
from trace_bench.sandbox.errors import EngineGone, SandboxGone
from trace_bench.sandbox.modal import program
from trace_bench.sandbox.modal.client import EXEC_SECONDS, Client, errors, translated
from trace_bench.sandbox.modal.controls import read_back
from trace_bench.sandbox.modal.conversation import JOIN, PARTING, Conversation
from trace_bench.sandbox.modal.holder import DATA, Unpacker
from trace_bench.sandbox.modal.said import said
from trace_bench.sandbox.modal.stream import ModalStream

if TYPE_CHECKING:
    import modal

ANSWER_SECONDS = 60.0
"""A holder that does not answer within that is not there."""
KILL_SECONDS = 30.0
OVER_SECONDS = 2.0
"""What can no longer be said in a conversation that ends: within that it has ended."""
AHEAD = 64
"""Pieces of /out that are on their way before somebody takes them."""
SETTLING = (0.0, 0.2, 0.6)
"""Seconds before each look whether a sandbox is still there after all."""
ATTEMPTS, BREATH = 3, 0.2
"""How often a conversation is begun, and the seconds in between."""
LITTLE = 0.05
"""Seconds for which it is not worth waiting."""
POLL_SECONDS = 2.0
"""How often a wait asks the service whether the sandbox is still there."""


class ModalSandbox:
    """A handle of the service, and the conversation with what holds the command there."""

    host = ""

    def __init__(self, client: Client, handle: modal.Sandbox, name: str, own_labels: Mapping[str, str]) -> None:
        self._client = client
        self._handle = handle
        self.id: str = handle.object_id
        self.name = name
        self.labels: Mapping[str, str] = dict(own_labels)
        self._conversation: Conversation | None = None
        self._attached = False
        self._end_told = False
        self._running: Future[None] | None = None
        self._facts: dict[str, Any] | None = None
        self._lock = threading.Lock()

    # -- the life of it ------------------------------------------------------------------------------------------

    def attach(self) -> ModalStream:
        """The first one takes the conversation that there is since it was made."""
        with self._lock:
            taken, self._attached = self._attached, True
        conversation = self._live()
        if conversation is None or taken:
            conversation = self._talk()
        return ModalStream(conversation)

    def start(self) -> None:
        conversation = self._tell("start")
        if conversation is None or not conversation.wait_for(lambda: conversation.state != "created", ANSWER_SECONDS):
            self._ask("start")

    def controls(self) -> list[Control]:
        if self._facts is None:
            self._facts = dict(self._position()["facts"])
        return read_back(self._facts, self.labels)

    def status(self) -> SandboxState:
        try:
            self._check_there()
            state = self._position()["state"]
        except SandboxGone:
            return "removed"
        return state if state in ("created", "exited") else "running"

    def wait(self, timeout: float) -> ExitStatus | None:
        end = time.monotonic() + timeout
        conversation = self._conversation
        while True:
            # Who told that it has ended was there. From the second time on it may have been removed since.
            if self._end_told or conversation is None or conversation.ended is None:
                self._check_there()
            left = end - time.monotonic()
            found = self._ended(min(max(left, 0.0), POLL_SECONDS))
            if found is not None:
                self._end_told = True
                return ExitStatus(int(found["code"]), False, str(found["error"]))
            self._check_there()
            if time.monotonic() >= end:
                return None

    def kill(self) -> None:
        try:
            conversation = self._tell("kill")
            if conversation is None or not conversation.wait_for(
                lambda: conversation.ended is not None or conversation.state == "created", KILL_SECONDS
            ):
                self._ask("kill", KILL_SECONDS)
        except SandboxGone:
            return
        except SandboxError:
            if self.status() != "removed":
                raise

    def last_words(self) -> str:
        return str(self._ask("status")["stderr"])

    def collect(self) -> Iterator[bytes]:
        pieces: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
        stopped = threading.Event()
        work = self._client.submit(self._bring(pieces, stopped))
        try:
            while True:
                try:
                    piece = pieces.get(timeout=EXEC_SECONDS)
                except queue.Empty:
                    raise EngineGone(f"nothing of sandbox {self.name} came for {EXEC_SECONDS:g} s.") from None
                if piece is None:
                    return
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            stopped.set()
            work.cancel()

    def remove(self) -> None:
        conversation, self._conversation = self._conversation, None
        self._client.terminate(self._handle, self.name)
        if conversation is not None and not self._attached:
            conversation.sock.close()
        if self._running is not None and not self._running.done():
            self._client.later(PARTING, self._running.cancel)  # it ends by itself, now that there is nobody to hear

    # -- the conversation ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Join the holder: for who has made the sandbox. Who has found it must not take the stream from another."""
        self._talk()

    def _live(self) -> Conversation | None:
        """The conversation, if it is there and goes on."""
        conversation = self._conversation
        return None if conversation is None or conversation.over else conversation

    def _tell(self, op: str) -> Conversation | None:
        """Say `op` in the conversation; None if there is none, or it ended before that was said: then the holder is to
        be asked beside it. (What is said twice is done once.)

        Raises:
            SandboxGone, EngineGone.
        """
        conversation = self._live()
        if conversation is None:
            return None
        try:
            self._client.call(conversation.say(op=op), ANSWER_SECONDS, f"{op} a sandbox", self.name)
        except SandboxError:
            self._settle()
            if not conversation.wait_for(lambda: conversation.over, OVER_SECONDS):
                raise
            return None
        return conversation

    def _talk(self, attempts: int = ATTEMPTS) -> Conversation:
        """A new conversation, which the holder has answered. One that breaks before that costs its job nothing.

        Raises:
            SandboxGone, EngineGone.
        """
        conversation = Conversation(lambda error: self._told(error, "join a sandbox"))

        async def opened() -> Any:
            return await self._client.exec(self._handle, program.join_command(**JOIN))

        self._running = self._client.submit(conversation.run(opened))
        if not conversation.wait_for(lambda: conversation.position is not None, EXEC_SECONDS):
            broke = conversation.over
            conversation.sock.close()
            self._running.cancel()
            self._check_there()
            if broke and attempts > 1:
                time.sleep(BREATH)
                return self._talk(attempts - 1)
            self._settle()
            raise conversation.error or EngineGone(f"sandbox {self.name} did not answer.")
        self._conversation = conversation
        return conversation

    def _position(self) -> dict[str, Any]:
        conversation = self._live()
        if conversation is not None and conversation.position is not None:
            return conversation.position
        return self._ask("status")

    def _ended(self, seconds: float) -> dict[str, Any] | None:
        conversation = self._conversation
        if conversation is not None:
            if conversation.wait_for(lambda: conversation.ended is not None, seconds):
                return conversation.ended
            if not conversation.over:
                return None
        answer = self._asked("wait", seconds) if seconds > LITTLE else self._asked("status", ANSWER_SECONDS)
        ended: dict[str, Any] | None = None if answer is None else answer["ended"]
        return ended

    def _ask(self, op: str, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """What the holder answers to one who only asks."""
        answer = self._asked(op, seconds)
        if answer is None:
            self._settle()
            raise EngineGone(f"sandbox {self.name} did not answer within {seconds:g} s.")
        return answer

    def _asked(self, op: str, seconds: float) -> dict[str, Any] | None:
        """As `_ask`; None if nothing comes in `seconds`."""
        try:
            return self._client.call(self._question(op, seconds), seconds + EXEC_SECONDS, f"{op} a sandbox", self.name)
        except SandboxError:
            self._settle()
            raise

    async def _question(self, op: str, seconds: float) -> dict[str, Any] | None:
        process = await self._client.exec(self._handle, program.join_command(op=op))

        async def answer() -> dict[str, Any]:
            unpacker = Unpacker()
            async for data in process.output():
                for _, payload in unpacker.feed(data):
                    found = said(payload)
                    if "state" in found:
                        return found
            raise EngineGone(f"sandbox {self.name} did not answer.")

        try:
            return await asyncio.wait_for(answer(), seconds)
        except TimeoutError:
            await process.hang_up()
            return None

    async def _bring(self, pieces: queue.Queue[bytes | BaseException | None], stopped: threading.Event) -> None:
        async def put(piece: bytes | BaseException | None) -> None:
            while not stopped.is_set():
                try:
                    pieces.put_nowait(piece)
                except queue.Full:
                    await asyncio.sleep(0.005)
                else:
                    return

        try:
            with errors("bring what a sandbox has written", self.name):
                process = await self._client.exec(self._handle, program.collect_command())
                unpacker, whole = Unpacker(), False
                async for data in process.output():
                    for kind, payload in unpacker.feed(data):
                        if kind == DATA:
                            await put(payload)
                        else:
                            whole = True
            if not whole:
                raise SandboxGone(f"sandbox {self.name} was gone before all of it had come.")
            await put(None)
        except TraceBenchError as error:
            await put(error)

    def _check_there(self) -> None:
        """
        Raises:
            SandboxGone: it has been removed, or the service has ended it.
        """
        code = self._client.poll(self._handle, self.name)
        if code is not None:
            raise SandboxGone(f"sandbox {self.name} is no longer there (the service says {code}).")

    def _settle(self) -> None:
        """After something broke: see whether it is the sandbox that has gone. One that is being ended breaks off what
        is said before the service says so.

        Raises:
            SandboxGone.
        """
        for pause in SETTLING:
            time.sleep(pause)
            self._check_there()

    def _told(self, error: BaseException, action: str) -> SandboxError:
        if isinstance(error, SandboxError):
            return error
        found = translated(error if isinstance(error, Exception) else Exception(str(error)), action, self.name)
        return found if isinstance(found, SandboxError) else SandboxError(str(found))
