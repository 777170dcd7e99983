"""What an exec in a Modal sandbox runs: connects its stdin and stdout to the holder, or writes /out as a tar.

Runs inside: the standard library only.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

from trace_bench.sandbox.archive import tar_of
from trace_bench.sandbox.modal.protocol import CHUNK, DATA, SAY, pack, say

PATIENCE = 60.0
"""Seconds that the holder has to open its socket."""


def connect(path: str, first: bytes) -> socket.socket:
    """Connect to the holder, which may still be starting, and send the message `first`.

    Raises:
        OSError: it is not there.
    """
    end = time.monotonic() + PATIENCE
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            sock.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            sock.sendall(first)
            return sock


def join(path: str, first: bytes) -> int:
    """Send `first`, then carry bytes both ways until either side ends."""
    sock = connect(path, first)

    def carry_in() -> None:
        try:
            while data := os.read(0, CHUNK):
                sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            os._exit(1)

    threading.Thread(target=carry_in, daemon=True).start()
    try:
        while data := sock.recv(CHUNK):
            _write(data)
    except OSError:
        return 1
    return 0


def collect(path: str, out: str) -> int:
    """Write the tar of `out` as frames of kind `DATA`, then a last one of kind `SAY`: without it the tar is not
    complete."""
    hold = connect(path, say(op="hold"))
    pending = bytearray()
    for piece in tar_of(Path(out), "out"):
        pending += piece
        if len(pending) >= CHUNK:
            _write(pack(DATA, bytes(pending)))
            pending.clear()
    _write(pack(DATA, bytes(pending)) + say(eof=True))
    hold.close()
    return 0


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def main() -> int:
    """Arguments: the holder's socket, then a JSON message to join with, or ``collect`` and the folder."""
    if sys.argv[2] == "collect":
        return collect(sys.argv[1], sys.argv[3])
    return join(sys.argv[1], pack(SAY, sys.argv[2].encode()))
