"""Entry point of a Modal sandbox: holds the command, its stream and its files until the host has taken them in.

A sandbox there is gone with its files as soon as its entry point ends, runs from the moment it is created, and nobody
can attach to it. So this program is what it runs: it starts the job's command when it is told to, passes its stream to
whoever has joined last (by an exec of `bridge`), and lingers once the command has ended.

It is handed over as source (`trace_bench.sandbox.modal.program`) and run by ``python3 -I -c``, so it needs the standard
library only and nothing of the image. Linux only. Before it starts anything it gives up all rights but those of the
supervisor, for itself and all that comes of it.

A conversation with it is frames over a Unix socket, either way: ``kind (1 byte) | length u32, big-endian | payload``.
Kind `DATA` is bytes of stdin or stdout, kind `SAY` a JSON object. Who joins says first ``{"op": …}``, one of

=========  ===========================================================================================================
attach     take the stream over; answered by `Holder._position`, then data both ways, and the ops start and kill
status     answered by `Holder._position`
wait       answered so once the command has ended
kill       end the command and all that came of it; answered so once it has
hold       nothing; while it is joined, the sandbox lingers on
=========  ===========================================================================================================

To whoever attached it says ``{"state": …}`` when that changes (with ``ended`` at the end) and ``{"eof": true}`` after
the last byte of stdout. Each side sends no more data than the other has granted by ``{"credit": bytes}`` (the first
grant stands in the op and in its answer), so neither holds more of the other's than that, and no stream keeps what is
said from coming through.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

DATA, SAY = b"D", b"S"
WINDOW = 4 << 20
"""Bytes of data that one side lets the other send ahead."""
CHUNK = 64 * 1024
LONGEST_FRAME = 1 << 20
"""Bytes; nobody sends longer ones, and nobody keeps what claims to be."""
PIPE_BYTES = 1 << 20
STDERR_BYTES = 64 * 1024
SWEEP_SECONDS = 10.0
KEPT = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""Capabilities of the command, by their numbers."""

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_CAPABILITY_VERSION = 0x20080522
_HEAD = struct.Struct(">cI")


def pack(kind: bytes, payload: bytes) -> bytes:
    """One frame."""
    return _HEAD.pack(kind, len(payload)) + payload


def say(**fields: Any) -> bytes:
    """One frame of kind `SAY`."""
    return pack(SAY, json.dumps(fields).encode())


class Unpacker:
    """Frames out of bytes that come in pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are complete now: kind and payload.

        Raises:
            ValueError: one says that it is longer than any is.
        """
        self._data += data
        found, at = [], 0
        while len(self._data) - at >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._data, at)
            if length > LONGEST_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            end = at + _HEAD.size + length
            if len(self._data) < end:
                break
            found.append((kind, bytes(self._data[at + _HEAD.size : end])))
            at = end
        del self._data[:at]
        return found


class Peer:
    """Somebody who has joined."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.op = ""
        self.unpacker = Unpacker()
        self.outgoing = bytearray()
        self.credit = 0
        self.taken = 0
        self.answered = False
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid, self.uid, _ = struct.unpack("3i", credentials)


class Holder:
    """One command, from ``created`` over ``running`` to ``exited``.

    Args:
        spec: ``command``, ``out``, ``socket``, ``unstarted`` and ``linger`` (seconds that it stays for nobody before
            the start and after the end), ``nofile`` and ``fsize``, and ``closed``, folders that none but uid 0 is to
            write to.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._selector = selectors.DefaultSelector()
        self._state = "created"
        self._ended: dict[str, Any] | None = None
        self._child = 0
        self._stdin = self._stdout = self._stderr = -1
        self._to_stdin = bytearray()
        self._words = bytearray()
        self._peers: list[Peer] = []
        self._attached: Peer | None = None
        self._contact = time.monotonic()

    def run(self) -> int:
        """Serve until nobody needs it any more. Returns 0 if the command was started, else 1."""
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        wake, waker = os.pipe()
        for end in (wake, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, lambda _: self._reap(wake))
        path = Path(self._spec["out"])
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._facts = confined(self._spec)
        self._selector.register(self._listen(), selectors.EVENT_READ, self._accept)
        while not self._forsaken():
            for key, mask in self._selector.select(1.0):
                key.data(mask)
        if self._state == "running":
            self._sweep()
        return 0 if self._child else 1

    def _listen(self) -> socket.socket:
        path = Path(self._spec["socket"])
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        part = path.with_suffix(".part")
        self._socket.bind(str(part))
        part.chmod(0o600)
        self._socket.listen(64)
        self._socket.setblocking(False)
        part.rename(path)  # who finds it can join
        return self._socket

    def _forsaken(self) -> bool:
        if self._state == "running" or any(peer.op in ("hold", "wait", "kill") for peer in self._peers):
            self._contact = time.monotonic()
        patience: float = self._spec["unstarted" if self._state == "created" else "linger"]
        return time.monotonic() - self._contact > patience

    # -- who joins -----------------------------------------------------------------------------------------------

    def _accept(self, _: int) -> None:
        sock, _address = self._socket.accept()
        sock.setblocking(False)
        peer = Peer(sock)
        if peer.uid != os.getuid():
            sock.close()
            return
        self._peers.append(peer)
        self._selector.register(sock, selectors.EVENT_READ, lambda mask: self._on_peer(peer, mask))

    def _on_peer(self, peer: Peer, mask: int) -> None:
        self._contact = time.monotonic()
        if mask & selectors.EVENT_WRITE:
            self._flush(peer)
        if mask & selectors.EVENT_READ and peer in self._peers:
            try:
                data = peer.sock.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._leave(peer)
                return
            try:
                for kind, payload in peer.unpacker.feed(data):
                    if kind == DATA:
                        self._take(peer, payload)
                    else:
                        self._on_said(peer, json.loads(payload))
            except ValueError:
                self._leave(peer)

    def _on_said(self, peer: Peer, said: dict[str, Any]) -> None:
        op = said.get("op")
        peer.op = peer.op or str(op)
        peer.credit += said.get("credit", 0)
        if op == "attach":
            before, self._attached = self._attached, peer
            if before is not None and before is not peer:
                self._leave(before)
            self._send(peer, say(**self._position(), credit=WINDOW - len(self._to_stdin)))
            if self._ended is not None and self._stdout < 0:
                self._send(peer, say(eof=True))
        elif op == "start":
            self._start()
            self._answer(peer)
        elif op == "status":
            self._answer(peer)
        elif op == "kill" and self._state == "running":
            self._sweep()
            self._reap(None)  # which answers
        elif op == "kill" or (op == "wait" and self._state == "exited"):
            self._answer(peer)
        if peer is self._attached:
            self._watch_stdout()

    def _position(self) -> dict[str, Any]:
        """Where the command is, and what is in force."""
        words = self._words.decode("utf-8", "replace")
        return {"state": self._state, "ended": self._ended, "stderr": words, "facts": self._facts}

    def _answer(self, peer: Peer) -> None:
        """Tell `peer` where the command is; who has only asked has no more to hear."""
        peer.answered = peer is not self._attached
        self._send(peer, say(**self._position()))

    def _send(self, peer: Peer, data: bytes) -> None:
        peer.outgoing += data
        self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            while peer.outgoing:
                del peer.outgoing[: peer.sock.send(peer.outgoing[: 4 * CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self._leave(peer)
            return
        if peer.answered and not peer.outgoing:
            self._leave(peer)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outgoing else 0)
        if peer in self._peers:
            self._selector.modify(peer.sock, events, self._selector.get_key(peer.sock).data)

    def _leave(self, peer: Peer) -> None:
        if peer in self._peers:
            self._peers.remove(peer)
            self._selector.unregister(peer.sock)
            peer.sock.close()
        if peer is self._attached:
            self._attached = None
            self._watch_stdout()

    # -- the stream ----------------------------------------------------------------------------------------------

    def _take(self, peer: Peer, data: bytes) -> None:
        """Bytes for stdin; what a predecessor sends is nobody's."""
        if peer is self._attached and self._stdin >= 0:
            self._to_stdin += data
            self._feed()

    def _feed(self, _: int = 0) -> None:
        before = len(self._to_stdin)
        try:
            while self._to_stdin:
                del self._to_stdin[: os.write(self._stdin, self._to_stdin[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:  # the command has closed its stdin
            self._close("_stdin")
            self._to_stdin.clear()
        if self._stdin >= 0:
            self._watch(self._stdin, selectors.EVENT_WRITE if self._to_stdin else 0, self._feed)
        if self._attached is not None:
            self._attached.taken += before - len(self._to_stdin)
            if self._attached.taken >= WINDOW // 4:
                self._send(self._attached, say(credit=self._attached.taken))
                if self._attached is not None:
                    self._attached.taken = 0

    def _watch_stdout(self) -> None:
        """Read stdout while there is somebody to have it, and grants; the pipe keeps what comes meanwhile."""
        peer = self._attached
        if self._stdout >= 0:
            wanted = peer is not None and peer.credit > 0
            self._watch(self._stdout, selectors.EVENT_READ if wanted else 0, self._on_stdout)

    def _on_stdout(self, _: int) -> None:
        peer = self._attached
        if peer is None or peer.credit <= 0 or self._stdout < 0:
            self._watch_stdout()
            return
        try:
            data = os.read(self._stdout, min(CHUNK, peer.credit))
        except BlockingIOError:
            return
        if data:
            peer.credit -= len(data)
            self._send(peer, pack(DATA, data))
        else:
            self._close("_stdout")
            if self._ended is not None:
                self._send(peer, say(eof=True))
        self._watch_stdout()

    def _on_stderr(self, _: int = 0) -> None:
        try:
            while data := os.read(self._stderr, CHUNK):
                self._words += data
                del self._words[:-STDERR_BYTES]
        except BlockingIOError:
            return
        self._close("_stderr")

    def _watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        known = descriptor in self._selector.get_map()
        if events and known:
            self._selector.modify(descriptor, events, handler)
        elif events:
            self._selector.register(descriptor, events, handler)
        elif known:
            self._selector.unregister(descriptor)

    def _close(self, name: str) -> None:
        descriptor = getattr(self, name)
        if descriptor >= 0:
            self._watch(descriptor, 0, lambda _: None)
            os.close(descriptor)
            setattr(self, name, -1)

    # -- the command ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._state != "created":
            return
        pipes = [os.pipe() for _ in range(3)]
        for ends in pipes:
            with contextlib.suppress(OSError):  # 64 KiB will do
                _widen(ends[0])
        self._child = os.fork()
        if self._child == 0:
            _become(self._spec["command"], pipes[0][0], pipes[1][1], pipes[2][1])
        for theirs in (pipes[0][0], pipes[1][1], pipes[2][1]):
            os.close(theirs)
        self._stdin, self._stdout, self._stderr = pipes[0][1], pipes[1][0], pipes[2][0]
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._state = "running"
        self._watch(self._stderr, selectors.EVENT_READ, self._on_stderr)
        self._watch_stdout()

    def _reap(self, wake: int | None) -> None:
        if wake is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
        status = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, found = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._child:
                    status = found
        if status is not None:
            self._over(os.waitstatus_to_exitcode(status))

    def _over(self, code: int) -> None:
        left = self._sweep()
        self._reap(None)
        self._close("_stdin")
        self._to_stdin.clear()
        if self._stderr >= 0:
            self._on_stderr()
            self._close("_stderr")
        error = f"{left} processes could not be ended" if left else ""
        self._state = "exited"
        self._ended = {"code": code if code >= 0 else 128 - code, "error": error}
        for peer in list(self._peers):
            if peer.op in ("attach", "wait", "kill"):
                self._answer(peer)
        self._contact = time.monotonic()
        if self._stdout < 0 and self._attached is not None:
            self._send(self._attached, say(eof=True))
        self._watch_stdout()

    def _sweep(self) -> int:
        """Kill all that came of the command; the number of processes that are still there after `SWEEP_SECONDS`."""
        end = time.monotonic() + SWEEP_SECONDS
        spared = {peer.pid for peer in self._peers}  # some runtimes make an exec a child of the entry point
        while True:
            pids = [pid for pid in descendants(os.getpid()) if pid not in spared]
            if not pids or time.monotonic() > end:
                return len(pids)
            for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none forks meanwhile
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            time.sleep(0.002)


def descendants(root: int) -> list[int]:
    """All processes below `root` that have not ended."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names are enough, and this runs in a race with forks
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def confined(spec: dict[str, Any]) -> dict[str, Any]:
    """Give up what can be given up, for this process and all that come of it; what is in force then, read back."""
    for name in spec["closed"]:
        with contextlib.suppress(OSError):
            if not Path(name).is_symlink():
                Path(name).chmod(0o755)
    for name, value in (("RLIMIT_NOFILE", spec["nofile"]), ("RLIMIT_FSIZE", spec["fsize"]), ("RLIMIT_CORE", 0)):
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    with contextlib.suppress(OSError):  # who is not root has none to give up
        for number in range(64):
            if number not in KEPT.values():
                with contextlib.suppress(OSError):  # the kernel knows of fewer
                    _prctl(PR_CAPBSET_DROP, number)
        _keep_capabilities()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    return facts()


def facts() -> dict[str, Any]:
    """What is in force for this process, from the kernel."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    bounding, effective = (int(status.get(key, "f" * 16), 16) for key in ("CapBnd", "CapEff"))
    names = {number: name for name, number in KEPT.items()}
    return {
        "capabilities": [names.get(n, str(n)) for n in range(64) if (bounding | effective) >> n & 1],
        "usable": [names.get(n, str(n)) for n in range(64) if effective >> n & 1],
        "no_new_privs": status.get("NoNewPrivs", "").strip() == "1",
        "uid": os.getuid(),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "fsize": resource.getrlimit(resource.RLIMIT_FSIZE)[1],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
    }


def _keep_capabilities() -> None:
    """Hold no capability but those of `KEPT`."""
    kept = sum(1 << number for number in KEPT.values())
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    current = ctypes.create_string_buffer(24)
    if libc.capget(header, current) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    permitted = struct.unpack("6I", current.raw)[1] & kept
    if libc.capset(header, struct.pack("6I", permitted, permitted, 0, 0, 0, 0)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _become(command: list[str], stdin: int, stdout: int, stderr: int) -> NoReturn:
    """The child: take the pipes, and turn into the command, with the image's environment and none of the service's."""
    try:
        signal.set_wakeup_fd(-1)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, 1024)
        os.chdir("/")
        own = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
        os.execvpe(command[0], command, own)
    except BaseException as error:  # a forked child must never return into the parent's code
        os.write(2, f"cannot start {command[0]}: {error}\n".encode())
        os._exit(127)


def _widen(descriptor: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def main() -> int:
    """The one argument is the spec, as JSON."""
    return Holder(json.loads(sys.argv[1])).run()
