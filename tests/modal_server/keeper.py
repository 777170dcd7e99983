"""Holds the processes of all sandboxes, apart from the server, so that they outlive it.

One process without threads: it forks, enters namespaces, reaps, and writes how each child ended. A process has a
folder: the pipe ``stdin``, the files ``stdout`` and ``stderr``, ``pid``, and at the end ``exit`` with ``{"code": 3}``
or ``{"signal": 9}``. Requests are lines of JSON over an abstract Unix socket, each with one line of answer::

    {"do": "start", "folder": F, "argv": [...], "env": {...}, "cwd": "/", "root": R, "blocked": false}
    {"do": "start", "folder": F, "argv": [...], "env": {...}, "cwd": "/", "within": FOLDER_OF_THE_SANDBOX}
    {"do": "close_stdin", "folder": F}    {"do": "kill", "folder": F}    {"do": "stop"}    {"do": "ping"}

It ends on ``stop``, on SIGTERM, or when nobody has been connected for `LINGER` seconds, and kills what it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.modal_server import namespaces

LINGER = 900.0


def address(state: Path) -> str:
    """The socket of the keeper of the state folder `state`."""
    return "\0modal-server-" + hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:32]


@dataclass
class Child:
    folder: Path
    pid: int
    stdin: int
    root: Path | None
    """Its own root file system, of a sandbox's main process."""


class Keeper:
    def __init__(self, private: bool, shared: list[str]) -> None:
        self.private = private
        self._shared = shared
        self._children: dict[int, Child] = {}
        self._by_folder: dict[str, Child] = {}
        self._pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, "do_" + request.pop("do"))(**request) or {}
        except OSError as error:
            return {"error": str(error)}

    def do_ping(self) -> dict[str, Any]:
        return {"private": self.private, "pid": os.getpid()}

    def do_start(
        self,
        folder: str,
        argv: list[str] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        root: str | None = None,
        within: str | None = None,
        blocked: bool = False,
    ) -> dict[str, Any]:
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        os.mkfifo(home / "stdin", 0o600)
        stdin = os.open(home / "stdin", os.O_RDWR | os.O_CLOEXEC)
        target = self._by_folder.get(within) if within else None
        if within and target is None:
            os.close(stdin)
            return {"error": "the sandbox has ended"}
        if root and self.private:
            namespaces.make_skeleton(Path(root))
        elif root:
            Path(root).mkdir(exist_ok=True)
        pid = self._fork(target, fresh=bool(root))
        if pid == 0:
            _become(home, argv or [], env or {}, cwd, root, target, blocked, self.private, self._shared)
        child = Child(home, pid, stdin, Path(root) if root else None)
        self._children[pid] = self._by_folder[folder] = child
        (home / "pid").write_text(str(pid))
        return {"pid": pid}

    def do_close_stdin(self, folder: str) -> None:
        child = self._by_folder.get(folder)
        if child and child.stdin >= 0:
            os.close(child.stdin)
            child.stdin = -1

    def do_kill(self, folder: str) -> None:
        child = self._by_folder.get(folder)
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)  # before it has become a group's leader

    def kill_all(self) -> None:
        for child in list(self._children.values()):
            self.do_kill(str(child.folder))
        end = time.monotonic() + 10
        while self._children and time.monotonic() < end:
            self.reap()
            time.sleep(0.005)

    def reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue
            self._by_folder.pop(str(child.folder), None)
            if child.stdin >= 0:
                os.close(child.stdin)
            if child.root is not None and self.private:
                with contextlib.suppress(OSError):
                    namespaces.remove(child.root)
            number = os.waitstatus_to_exitcode(status)
            part = child.folder / "exit.part"
            # The folder may be gone: the sandbox was forgotten on purpose.
            with contextlib.suppress(FileNotFoundError):
                part.write_text(json.dumps({"code": number} if number >= 0 else {"signal": -number}))
                part.replace(child.folder / "exit")

    def _fork(self, target: Child | None, *, fresh: bool) -> int:
        if not self.private or not (fresh or (target and target.root)):
            return os.fork()
        if target:
            theirs = os.open(f"/proc/{target.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            try:
                namespaces.enter(theirs, namespaces.NEW_PIDS)
            finally:
                os.close(theirs)
        else:
            namespaces.unshare(namespaces.NEW_PIDS)
        pid = -1
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0:  # the child stays where it is
                namespaces.enter(self._pids, namespaces.NEW_PIDS)


def _become(
    home: Path,
    argv: list[str],
    env: dict[str, str],
    cwd: str | None,
    root: str | None,
    target: Child | None,
    blocked: bool,
    private: bool,
    shared: list[str],
) -> None:
    """In the forked child: take its descriptors and namespaces, and run the command. Does not return."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(home / "stdin", os.O_RDONLY | os.O_NONBLOCK), 0)
        os.set_blocking(0, True)
        os.dup2(os.open(home / "stdout", flags, 0o600), 1)
        os.dup2(os.open(home / "stderr", flags, 0o600), 2)
        prefix = ""
        if private and target and target.root:
            _join(target)
        elif private and root:
            namespaces.unshare(namespaces.NEW_MOUNTS | (namespaces.NEW_NETWORK if blocked else 0))
            if blocked:
                namespaces.raise_loopback()
            namespaces.furnish(Path(root), shared)
        elif target and target.root:
            prefix = str(target.root)
        elif root:
            prefix = root
        os.closerange(3, 4096)
        _go_to(cwd, prefix)
        os.execvpe(argv[0], argv, env)
    except BaseException as error:
        status = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(2, f"{argv[0] if argv else 'command'}: {error}\n".encode())
    finally:
        os._exit(status)


def _join(target: Child) -> None:
    kinds = {"net": namespaces.NEW_NETWORK, "mnt": namespaces.NEW_MOUNTS}
    theirs = {name: os.open(f"/proc/{target.pid}/ns/{name}", os.O_RDONLY) for name in kinds}
    for name, kind in kinds.items():
        namespaces.enter(theirs[name], kind)
    os.chroot(target.root)  # type: ignore[arg-type]


def _go_to(cwd: str | None, prefix: str) -> None:
    folder = prefix + (cwd or "/")
    Path(folder).mkdir(parents=True, exist_ok=True)
    os.chdir(folder)


def serve(state: Path, isolated: bool, shared: list[str]) -> None:
    """Answer requests until told to stop, or until nobody has been there for `LINGER` seconds.

    `isolated` asks for namespaces where the host allows them; `shared` are paths that stay visible in every root.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    (state / "keeper.pid").write_text(str(os.getpid()))
    private = isolated and (namespaces.allowed() if os.geteuid() == 0 else namespaces.become_root())
    keeper = Keeper(private, shared)
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address(state))
    listener.listen()
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    peers: dict[socket.socket, bytearray] = {}
    alone_since = time.monotonic()
    stopping = False
    while not stopping and not told and (peers or time.monotonic() - alone_since < LINGER):
        for key, _ in selector.select(timeout=10):
            ready: Any = key.fileobj
            if ready is woken:
                with contextlib.suppress(BlockingIOError):
                    woken.recv(4096)
                keeper.reap()
            elif ready is listener:
                peer, _ = listener.accept()
                peers[peer] = bytearray()
                selector.register(peer, selectors.EVENT_READ)
            else:
                data = _received(ready)
                if not data:
                    selector.unregister(ready)
                    ready.close()
                    del peers[ready]
                    alone_since = time.monotonic()
                    continue
                peers[ready] += data
                *lines, rest = peers[ready].split(b"\n")
                peers[ready] = bytearray(rest)
                for line in lines:
                    request = json.loads(line)
                    if request["do"] == "stop":
                        keeper.kill_all()
                        stopping = True
                        answer: dict[str, Any] = {}
                    else:
                        answer = keeper.answer(request)
                    with contextlib.suppress(OSError):
                        ready.sendall(json.dumps(answer).encode() + b"\n")
    keeper.kill_all()


def _received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(1 << 20)
    except ConnectionError:
        return b""


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2] == "isolated", sys.argv[3:])
