"""The first process of a sandbox: it speaks with the host, and supervises one job.

It runs as uid 0 for the whole job. It never imports code of a task, a trainer or a plug-in, and never parses what a
candidate sends. Only the spawner forks (see there why).

It exits once the host has acknowledged the result, or when the lease ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from trace_bench.worker import spawner
from trace_bench.worker.control_stream import Message
from trace_bench.worker.datagrams import receive_datagram
from trace_bench.worker.exit_codes import HUNG_UP, LEASE_ENDED, SPAWNER_ENDED, SPAWNER_KILLED, VOLUME_FULL
from trace_bench.worker.host_link import HostLink
from trace_bench.worker.job_run import JobRun
from trace_bench.worker.options import Options


class Supervisor:
    """The event loop of a sandbox.

    Args:
        out: the job's volume.
        lease: seconds without a message of a controller after which the sandbox ends.
    """

    def __init__(self, options: Options, out: Path, lease: float) -> None:
        # Before anything else: the spawner must be forked from memory that has read nothing.
        self._spawner = spawner.fork(options)
        self._spawner.setblocking(False)
        self._options = options
        self._out = out
        self._lease = lease
        self._selector = selectors.DefaultSelector()
        self._job: JobRun | None = None
        self._signalled = False
        self._exit: int | None = None

    def run(self) -> int:
        """Serve until the job is over; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._host = HostLink(
            self._selector,
            self._lease,
            on_message=self._on_message,
            on_successor=self._on_successor,
            on_hang_up=self._on_hang_up,
        )
        self._selector.register(self._spawner, selectors.EVENT_READ, lambda _: self._on_spawner())
        while self._exit is None:
            for key, mask in self._selector.select(timeout=0.2):
                handler: Callable[[int], None] = key.data
                handler(mask)
                if self._exit is not None:
                    break
            self._tick(time.monotonic())
        self._spawner.close()
        self._host.flush()
        return self._exit

    def _on_signal(self, *_: object) -> None:
        # Only a note: the loop may be in the middle of anything.
        self._signalled = True

    def _tick(self, now: float) -> None:
        if self._signalled:
            self._signalled = False
            self._stop("interrupted")
        if self._job is not None and self._job.done and self._host.all_acknowledged:
            self._exit = 0
        elif self._host.lease_ended(now):
            sys.stderr.write("trace-bench: no controller renewed the lease; ending\n")
            self._exit = LEASE_ENDED
        elif self._job is not None:
            self._job.tick(now)

    def _stop(self, reason: str) -> None:
        if self._job is not None:
            self._job.stop(reason)
        else:
            self._exit = HUNG_UP

    def _on_hang_up(self) -> None:
        if self._job is None:
            self._exit = HUNG_UP

    def _on_successor(self) -> None:
        if self._job is not None:
            self._job.repeat_requests()

    def _on_message(self, message: Message) -> None:
        if message.type == "stop":
            self._stop(message.header.get("reason", "interrupted"))
        elif self._job is not None:
            self._job.take(message)
        elif message.type == "job":
            self._job = JobRun(
                message,
                self._host,
                self._selector,
                self._spawner,
                self._options,
                self._out,
                on_volume_full=self._on_volume_full,
            )
            self._job.start()

    def _on_volume_full(self) -> None:
        self._exit = VOLUME_FULL

    def _on_spawner(self) -> None:
        try:
            received = receive_datagram(self._spawner)
        except ConnectionError:
            received = None
        if received is None:
            sys.stderr.write("trace-bench: the spawner ended\n")
            _, status = os.waitpid(-1, 0)  # it is the only child of this process
            self._exit = SPAWNER_KILLED if os.WIFSIGNALED(status) else SPAWNER_ENDED
        elif self._job is not None:
            self._job.phase_exited(received[0])
