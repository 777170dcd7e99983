"""The spawner by itself."""

from __future__ import annotations

import os
import selectors
import socket
import time
from pathlib import Path

from trace_bench.worker.datagrams import receive_datagram, send_datagram
from trace_bench.worker.options import Options
from trace_bench.worker.spawner import Spawner


def test_a_phase_that_hangs_up_and_exits_at_once_does_not_end_the_spawner(tmp_path: Path) -> None:
    """Its end of file and its SIGCHLD then come in one round of the loop, in either order."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    spawner = Spawner(theirs, Options(uid_base=None, tmp=tmp_path, file_bytes=1 << 20))
    ctl, phase_ctl = socket.socketpair()
    out_read, out_write = os.pipe()
    send_datagram(ours, {"op": "phase", "name": "build"}, (phase_ctl.fileno(), out_write))
    spawner._on_supervisor()
    (phase,) = spawner._phases.values()
    phase_ctl.close()
    os.close(out_write)
    ctl.close()
    # It loses its supervisor at once and exits; wait until both can be seen.
    with selectors.DefaultSelector() as ready:
        ready.register(phase.sock, selectors.EVENT_READ)
        assert ready.select(10)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{phase.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    wake_read, wake_write = os.pipe()
    os.write(wake_write, b"x")
    spawner._reap(wake_read)
    spawner._on_phase(phase)
    received = receive_datagram(ours)
    assert received is not None and received[0]["op"] == "exit"
    for fd in (out_read, wake_read, wake_write):
        os.close(fd)
    ours.close()
    theirs.close()
