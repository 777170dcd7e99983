"""What is run in a sandbox by an exec: joins the holder's socket to its own stdin and stdout, or brings /out as a tar.

Handed over as source, as the holder is (`trace_bench.sandbox.modal.program`): standard library only.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CHUNK = 64 * 1024
PATIENCE = 60.0
"""Seconds that the holder has to be there."""


def connect(path: str) -> socket.socket:
    """Join the holder, which may be starting still.

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
            return sock


def join(path: str, first: bytes) -> int:
    """Say `first`, then carry bytes both ways until either side ends."""
    sock = connect(path)
    sock.sendall(first)

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


def collect(
    path: str, out: str, tar_of: Callable[[Path, str], Iterator[bytes]], pack: Callable[[bytes, bytes], bytes]
) -> int:
    """The tar of `out` as frames of kind ``D``, and after the last of them one of kind ``S``: without it, it is not
    whole."""
    hold = connect(path)
    hold.sendall(pack(b"S", b'{"op": "hold"}'))
    held = bytearray()
    for piece in tar_of(Path(out), "out"):
        held += piece
        if len(held) >= CHUNK:
            _write(pack(b"D", bytes(held)))
            held.clear()
    _write(pack(b"D", bytes(held)) + pack(b"S", b'{"eof": true}'))
    return 0


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def main() -> int:
    """Arguments: the holder's socket, and what to say first, or for `collect` ``collect`` and the folder."""
    pack: Callable[[bytes, bytes], bytes] = globals()["pack"]  # before this source stands what it is handed over with
    if sys.argv[2] == "collect":
        return collect(sys.argv[1], sys.argv[3], globals()["tar_of"], pack)
    return join(sys.argv[1], pack(b"S", sys.argv[2].encode()))
