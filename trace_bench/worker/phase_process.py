"""One running phase in the supervisor: its socket, its captured output, its relay, its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from trace_bench.worker import memory
from trace_bench.worker.datagrams import send_datagram
from trace_bench.worker.frames import JsonReader, pack_json
from trace_bench.worker.relay import Relay
from trace_bench.worker.sentences import signal_name

REPORT_BYTES = 4 << 20
SCORE_BYTES = 32 << 20
"""Largest message of a phase: what the host accepts as a line of a file, and as ``result.json``."""
Failure = dict[str, str]
"""``{boundary, kind, message}``."""


class PhaseProcess:
    """The supervisor's side of a phase.

    Args:
        on_report: called with each message of the phase.
        on_output: called with captured stdout and stderr.
        on_end: called whenever the phase may be over (see `is_over`).
        on_nonsense: called with a sentence when the phase sends what is no message.
    """

    def __init__(
        self,
        name: str,
        selector: selectors.BaseSelector,
        *,
        relay: Relay | None,
        on_report: Callable[[PhaseProcess, dict[str, Any]], None],
        on_output: Callable[[PhaseProcess, bytes], None],
        on_end: Callable[[PhaseProcess], None],
        on_nonsense: Callable[[PhaseProcess, str], None],
    ) -> None:
        self.name = name
        self.relay = relay
        self.started = time.monotonic()
        self.kill_at: float | None = None
        self.result: dict[str, Any] | None = None
        self.failure: Failure | None = None
        self.exited: dict[str, Any] | None = None
        self._oom_kills = memory.oom_kills()
        self._selector = selector
        self._on_report = on_report
        self._on_output = on_output
        self._on_end = on_end
        self._on_nonsense = on_nonsense
        # Parsed JSON takes up to twenty times its size. Only the scorer has more to say than a line of a file holds.
        self._reader = JsonReader(SCORE_BYTES if name == "score" else REPORT_BYTES)
        self._unsent = bytearray()
        self._drained = False
        self._nonsense = False
        self._ctl, self._theirs = socket.socketpair()
        self._ctl.setblocking(False)
        self._out, self._out_write = os.pipe()
        os.set_blocking(self._out, False)
        selector.register(self._ctl, selectors.EVENT_READ, self._on_ready)
        selector.register(self._out, selectors.EVENT_READ, lambda _: self._read_output())

    @property
    def boundary(self) -> str:
        """The boundary of a failure that this phase does not report itself."""
        return "trainer" if self.name == "train" else "task"

    def hand_over(self, spawn: socket.socket) -> None:
        """Ask the spawner to start the process, with its ends of socket and pipe."""
        send_datagram(spawn, {"op": "phase", "name": self.name}, (self._theirs.fileno(), self._out_write))
        self._theirs.close()
        os.close(self._out_write)

    def send(self, op: str, **fields: Any) -> None:
        """Send a message to the phase."""
        self._unsent += pack_json({"op": op, **fields})
        self._flush()

    @property
    def is_over(self) -> bool:
        """Whether it has exited, and all its messages are read: an exit may overtake what was written before it."""
        return self.exited is not None and self._drained

    def close(self) -> None:
        """Read the rest of its output, and close everything."""
        if self._out >= 0:
            self._read_output()
        if self._out >= 0:
            self._selector.unregister(self._out)
            os.close(self._out)
            self._out = -1
        self._ctl.close()
        if self.relay is not None:
            self.relay.close()

    @property
    def end(self) -> dict[str, int | None]:
        """`PhaseEnd` of the contract."""
        assert self.exited is not None
        return {
            "code": self.exited.get("code"),
            "signal": self.exited.get("signal"),
            "oom_kills": memory.kills_since(self._oom_kills),
        }

    def how_it_died(self) -> Failure:
        """The failure of a phase that ended without a result."""
        end = self.end
        number, code, kills = end["signal"], end["code"], end["oom_kills"]
        if number == signal.SIGKILL and kills:
            text = (
                f"the {self.name} process was killed for want of memory: {memory.said()}, and the kernel has killed "
                f"{kills} of its processes for it"
            )
            return {"boundary": self.boundary, "kind": "out_of_memory", "message": text}
        if number == signal.SIGKILL:
            why = "whether for want of memory is not known here" if kills is None else "and not for want of memory"
            text = f"the {self.name} process was killed (SIGKILL), {why}"
        elif number is not None:
            text = f"the {self.name} process was killed by {signal_name(number)}"
        else:
            text = f"the {self.name} process exited with code {code} before it reported"
        return {"boundary": self.boundary, "kind": f"{self.name}_died", "message": text}

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._ctl.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        with contextlib.suppress(KeyError, ValueError):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            self._selector.modify(self._ctl, events, self._on_ready)

    def _on_ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if not mask & selectors.EVENT_READ:
            return
        try:
            data = self._ctl.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(self._ctl)
            self._drained = True
            self._on_end(self)
            return
        if self._nonsense:
            # It is being killed; where its messages begin is no longer known.
            return
        try:
            for message in self._reader.feed(data):
                self._on_report(self, message)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            self._nonsense = True
            self._on_nonsense(self, f"{self.name} sent an invalid report: {error}")

    def _read_output(self) -> None:
        if self._out < 0:
            # Closed earlier in the same round of the loop.
            return
        try:
            data = os.read(self._out, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._on_output(self, data)
            return
        self._selector.unregister(self._out)
        os.close(self._out)
        self._out = -1
