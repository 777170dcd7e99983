"""The phases of one job that are running, and how those that are over ended."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_bench.worker.datagrams import send_datagram
from trace_bench.worker.options import Options
from trace_bench.worker.phase_process import PhaseProcess
from trace_bench.worker.relay import Forward, Relay

STOP_GRACE = 5.0
"""Seconds that a phase has to end after it was asked to stop. Then it is killed."""


class PhaseSet:
    """Starts phases through the spawner and kills them.

    Args:
        spawner: the supervisor's end of the spawner's socket.
        on_report, on_output, on_nonsense: see `PhaseProcess`.
        on_end: called with each phase that is over. It is no longer in `running`.

    Attributes:
        running: by name.
        seconds: wall time of each phase that is over.
        ends: how it ended, as `PhaseEnd` of the contract.
        tallies: its candidates, as `CandidateTally` of the contract.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        spawner: socket.socket,
        options: Options,
        *,
        on_report: Callable[[PhaseProcess, dict[str, Any]], None],
        on_output: Callable[[PhaseProcess, bytes], None],
        on_nonsense: Callable[[PhaseProcess, str], None],
        on_end: Callable[[PhaseProcess], None],
    ) -> None:
        self._selector = selector
        self._spawner = spawner
        self._options = options
        self._on_report = on_report
        self._on_output = on_output
        self._on_nonsense = on_nonsense
        self._on_end = on_end
        self.running: dict[str, PhaseProcess] = {}
        self.seconds: dict[str, float] = {}
        self.ends: dict[str, dict[str, int | None]] = {}
        self.tallies: dict[str, dict[str, Any]] = {}

    def start(self, name: str, forward: Forward | None, **start: Any) -> PhaseProcess:
        """Start the phase `name`.

        Args:
            forward: takes its LLM calls; None for a phase that makes none.
            start: fields of the phase's first message.
        """
        relay = Relay(self._selector, self._options.uid_of(name), forward) if forward is not None else None
        phase = PhaseProcess(
            name,
            self._selector,
            relay=relay,
            on_report=self._on_report,
            on_output=self._on_output,
            on_end=self._end_if_over,
            on_nonsense=self._on_nonsense,
        )
        self.running[name] = phase
        with contextlib.suppress(ConnectionError):  # the spawner has ended; the supervisor sees that next
            phase.hand_over(self._spawner)
        phase.send("start", gateway_port=relay.port if relay else None, **start)
        return phase

    def kill(self, name: str) -> None:
        """Ask the spawner to kill a phase. Ask at every tick until it is over.

        A spawner that does not read must not block the supervisor's loop, which watches clocks and the lease. And a
        process that has only just been forked leads no process group yet that could be killed.
        """
        with contextlib.suppress(BlockingIOError, ConnectionError):
            send_datagram(self._spawner, {"op": "kill", "name": name})

    def kill_later(self, phase: PhaseProcess, seconds: float = 0.0) -> None:
        """Have a phase killed unless it is over in `seconds`."""
        phase.kill_at = time.monotonic() + seconds

    def empty_folder(self, name: str, folder: Path) -> None:
        """Ask the spawner to remove all that a phase has written into `folder`."""
        with contextlib.suppress(ConnectionError):
            send_datagram(self._spawner, {"op": "purge", "name": name, "path": str(folder)})

    def exited(self, message: dict[str, Any]) -> None:
        """Take the spawner's message that the process of a phase has exited."""
        phase = self.running[message["name"]]
        phase.exited = message
        self.tallies[phase.name] = message["candidates"]
        self._end_if_over(phase)

    def _end_if_over(self, phase: PhaseProcess) -> None:
        if not phase.is_over or phase.name not in self.running:
            return
        phase.close()
        del self.running[phase.name]
        self.seconds[phase.name] = round(time.monotonic() - phase.started, 6)
        self.ends[phase.name] = phase.end
        self._on_end(phase)
