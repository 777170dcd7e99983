"""The stream of a Modal sandbox: this end of a `Conversation`."""

from __future__ import annotations

from trace_bench.errors import SandboxError
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.modal.conversation import Conversation
from trace_bench.sandbox.streams import CHUNK, STDERR_BYTES, PolledStream


class ModalStream(PolledStream):
    """stdout comes as it is; stderr is the holder's, which tells its end once the command has ended."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._sock = conversation.sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def stderr_tail(self) -> str:
        position = self._conversation.position or {}
        return str(position.get("stderr", ""))[-STDERR_BYTES:]

    def _write_fileno(self) -> int:
        return self._sock.fileno()

    def _receive(self) -> list[bytes] | None:
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._broken(error) from error
        if data:
            return [data]
        if self._conversation.ended is None:
            raise self._broken(None)
        return None

    def _send(self, data: memoryview) -> int:
        if self._conversation.ended is not None:
            raise SandboxError("the sandbox takes no more input: it has ended.")
        try:
            return self._sock.send(data[:CHUNK])
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError | None) -> SandboxError:
        return self._conversation.error or EngineGone(f"the stream of a sandbox broke: {error or 'it ended'}.")
