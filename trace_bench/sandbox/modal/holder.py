"""Entry point of a Modal sandbox: holds the command, its stream and its files until the host has collected them.

A sandbox of Modal is gone with its files as soon as its entry point ends. It runs from the moment it is created, and
no client can attach to it. So this program is the entry point. It starts the job's command on request, passes the
stream to the peer that attached last, and stays for a while after the command has ended. `protocol` describes the
messages.

Runs inside: Linux and the standard library only. Before it starts anything it gives up all rights but those of the
supervisor, for itself and its children.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from trace_bench.sandbox.modal.confinement import confine
from trace_bench.sandbox.modal.protocol import CHUNK, DATA, STDERR_BYTES, WINDOW, frame_reader, pack, say
from trace_bench.sandbox.processes import PR_SET_CHILD_SUBREAPER, exit_code, prctl, start_command, sweep

PIPE_BYTES = 1 << 20


class Peer:
    """One connection of the host."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.op = ""
        self.reader = frame_reader()
        self.outgoing = bytearray()
        self.credit = 0
        """Bytes of stdout that the peer still takes."""
        self.taken = 0
        """Bytes of the peer's data that the command has read since the last grant."""
        self.leaves = False
        """Whether the connection ends once `outgoing` is sent."""
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid, self.uid, _ = struct.unpack("3i", credentials)


class Holder:
    """One command, from ``created`` over ``running`` to ``exited``.

    Args:
        spec: ``command``, ``out``, ``socket``, ``nofile``, ``fsize`` and ``closed`` (see `confine`), ``unstarted`` and
            ``linger``: the seconds without any peer after which it ends, before the start and after the command's end.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._state = "created"
        self._ended: dict[str, Any] | None = None
        self._child = 0
        self._stdin = self._stdout = self._stderr = -1
        self._input = bytearray()
        self._stderr_tail = bytearray()
        self._peers: list[Peer] = []
        self._attached: Peer | None = None
        self._eof_said = False
        self._last_contact = time.monotonic()

    def run(self) -> int:
        """Serve until no host has needed the command for a while. Return 0 if the command was started, else 1."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._wake, waker = os.pipe()
        for end in (self._wake, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        Path(self._spec["out"]).mkdir(mode=0o755, parents=True, exist_ok=True)
        self._facts = confine(self._spec["closed"], self._spec["nofile"], self._spec["fsize"])
        self._listening = self._listen()
        while self._is_needed():
            self._serve_once()
        if self._state == "running":
            self._sweep()
        return 0 if self._child else 1

    def _listen(self) -> socket.socket:
        path = Path(self._spec["socket"])
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        part = path.with_suffix(".part")
        listening.bind(str(part))
        part.chmod(0o600)
        listening.listen(64)
        listening.setblocking(False)
        part.rename(path)  # a peer that finds the path can connect
        return listening

    def _is_needed(self) -> bool:
        if self._state == "running" or any(peer.op in ("hold", "wait", "kill") for peer in self._peers):
            self._last_contact = time.monotonic()
        patience: float = self._spec["unstarted" if self._state == "created" else "linger"]
        return time.monotonic() - self._last_contact <= patience

    def _serve_once(self) -> None:
        """Wait up to a second for something to read or write, and do it."""
        reads: dict[int, Callable[[], None]] = {self._wake: self._reap, self._listening.fileno(): self._accept}
        writes: dict[int, Callable[[], None]] = {}
        for peer in self._peers:
            reads[peer.sock.fileno()] = partial(self._receive, peer)
            if peer.outgoing:
                writes[peer.sock.fileno()] = partial(self._flush, peer)
        if self._stderr >= 0:
            reads[self._stderr] = self._read_stderr
        if self._stdout >= 0 and self._attached is not None and self._attached.credit > 0:
            reads[self._stdout] = self._read_stdout
        if self._stdin >= 0 and self._input:
            writes[self._stdin] = self._write_stdin
        readable, writable, _ = select.select(reads, writes, [], 1.0)
        for descriptor in writable:
            writes[descriptor]()
        for descriptor in readable:
            reads[descriptor]()
        if self._ended and self._stdout < 0 and self._attached is not None and not self._eof_said:
            self._eof_said = True
            self._send(self._attached, say(eof=True))

    # -- peers ---------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        sock, _ = self._listening.accept()
        sock.setblocking(False)
        peer = Peer(sock)
        if peer.uid == os.getuid():
            self._peers.append(peer)
        else:
            sock.close()

    def _receive(self, peer: Peer) -> None:
        if peer not in self._peers:
            return
        self._last_contact = time.monotonic()
        try:
            data = peer.sock.recv(CHUNK)
            if not data:
                raise ConnectionResetError
            for kind, payload in peer.reader.feed(data):
                if kind != DATA:
                    self._obey(peer, json.loads(payload))
                elif peer is self._attached and self._stdin >= 0:  # data of an earlier peer is dropped
                    self._input += payload
                    self._write_stdin()
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self._drop(peer)

    def _obey(self, peer: Peer, message: dict[str, Any]) -> None:
        op = message.get("op")
        peer.op = peer.op or str(op)
        peer.credit += message.get("credit", 0)
        if op == "attach":
            before, self._attached = self._attached, peer
            if before is not None and before is not peer:
                self._drop(before)
            self._eof_said = False
            self._send(peer, say(**self._report(), credit=WINDOW - len(self._input)))
        elif op == "kill" and self._state == "running":
            self._sweep()
            self._reap()  # which answers
        elif op == "start":
            if self._state == "created":
                self._start()
            self._answer(peer)
        elif op in ("status", "kill") or (op == "wait" and self._state == "exited"):
            self._answer(peer)

    def _report(self) -> dict[str, Any]:
        """The state of the command, and what is in force."""
        stderr = self._stderr_tail.decode("utf-8", "replace")
        return {"state": self._state, "ended": self._ended, "stderr": stderr, "facts": self._facts}

    def _answer(self, peer: Peer) -> None:
        """Send a report to `peer`. Then the connection ends, unless `peer` is attached."""
        peer.leaves = peer is not self._attached
        self._send(peer, say(**self._report()))

    def _send(self, peer: Peer, data: bytes) -> None:
        peer.outgoing += data
        self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            while peer.outgoing:
                del peer.outgoing[: peer.sock.send(peer.outgoing[: 4 * CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            peer.leaves = True
        if peer.leaves:
            self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        if peer in self._peers:
            self._peers.remove(peer)
            peer.sock.close()
        if peer is self._attached:
            self._attached = None

    # -- the command ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        pipes = [os.pipe() for _ in range(3)]
        for reader, _ in pipes:
            with contextlib.suppress(OSError):  # the default of 64 KiB will do
                fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        own = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
        self._child = start_command(self._spec["command"], theirs, env=own, cwd="/")
        for descriptor in theirs:
            os.close(descriptor)
        self._stdin, self._stdout, self._stderr = pipes[0][1], pipes[1][0], pipes[2][0]
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._state = "running"

    def _write_stdin(self) -> None:
        before = len(self._input)
        try:
            while self._input:
                del self._input[: os.write(self._stdin, self._input[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:  # the command has closed its stdin
            self._close_stdin()
        peer = self._attached
        if peer is not None:
            peer.taken += before - len(self._input)
            if peer.taken >= WINDOW // 4:
                granted, peer.taken = peer.taken, 0
                self._send(peer, say(credit=granted))

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
        self._input.clear()

    def _read_stdout(self) -> None:
        peer = self._attached
        if peer is None or peer.credit <= 0:
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._stdout, min(CHUNK, peer.credit))
            if data:
                peer.credit -= len(data)
                self._send(peer, pack(DATA, data))
            else:
                os.close(self._stdout)
                self._stdout = -1

    def _read_stderr(self) -> None:
        if self._stderr < 0:  # closed since the last wait
            return
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._stderr, CHUNK):
                self._stderr_tail += data
                del self._stderr_tail[:-STDERR_BYTES]
            os.close(self._stderr)
            self._stderr = -1

    def _reap(self) -> None:
        """Reap all children that have ended. If the command is one of them, end the rest and report."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        status = None
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                status = found[1] if found[0] == self._child else status
        if status is None:
            return
        error = self._sweep()
        self._reap()
        self._close_stdin()
        self._read_stderr()
        self._state, self._ended = "exited", {"code": exit_code(status), "error": error}
        for peer in list(self._peers):
            if peer.op in ("attach", "wait", "kill"):
                self._answer(peer)
        self._last_contact = time.monotonic()

    def _sweep(self) -> str:
        """End all that came of the command. Some runtimes make an exec a child of the entry point: those stay."""
        return sweep({peer.pid for peer in self._peers})


def main() -> int:
    """The one argument is the spec, as JSON."""
    return Holder(json.loads(sys.argv[1])).run()
