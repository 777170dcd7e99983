"""Sandboxes without processes, for runs of thousands: the holder's conversation and the supervisor's stream, both real,
spoken by the server itself.

What runs in a sandbox is a `tests.execution.supervisor.Supervisor`, which leaves the real files. Peers talk to it as in
`trace_bench.sandbox.modal.protocol`. There is no isolation, no image and no Python that starts: what a sandbox costs
its machine is left out, and what it costs its controller is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.execution.supervisor import Script, Supervisor
from tests.modal_server.engines import EngineError
from tests.modal_server.state import Sandbox
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.modal import program
from trace_bench.sandbox.modal.confinement import KEPT
from trace_bench.sandbox.modal.protocol import CHUNK, DATA, SAY, WINDOW, frame_reader, pack, say
from trace_bench.sandbox.modal.tags import decoded


class Peer:
    """An exec that has joined a sandbox: its folder, as `stdio.Stdio` reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.op = ""
        self.taken = 0
        self._reader = frame_reader()
        folder.mkdir(exist_ok=True)
        os.mkfifo(folder / "stdin", 0o600)
        self._stdin = os.open(folder / "stdin", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._stdout = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.over = False

    def listen(self, hears: Callable[[bytes, bytes], None]) -> None:
        """Call `hears` with each frame that comes."""

        def read() -> None:
            with contextlib.suppress(BlockingIOError):
                for kind, payload in self._reader.feed(os.read(self._stdin, CHUNK)):
                    hears(kind, payload)

        asyncio.get_running_loop().add_reader(self._stdin, read)

    def send(self, data: bytes) -> None:
        if data and not self.over:
            os.write(self._stdout, data)

    def end(self, **how: int) -> None:
        """It is gone: `code` or `signal` says how."""
        if self.over:
            return
        self.over = True
        asyncio.get_running_loop().remove_reader(self._stdin)
        os.close(self._stdin)
        os.close(self._stdout)
        part = self.folder / "exit.part"
        part.write_text(json.dumps(how))
        part.replace(self.folder / "exit")


class Life:
    """One sandbox: what `holder.Holder` is, with a supervisor of this process as its command."""

    def __init__(self, main: Peer, spec: Mapping[str, Any], script: Script) -> None:
        self.main = main
        self.peers: list[Peer] = []
        self._spec = spec
        self._script = script
        self._supervisor: Supervisor | None = None
        self._attached: Peer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended: dict[str, Any] | None = None

    def join(self, peer: Peer, first: bytes) -> None:
        self.peers.append(peer)
        peer.listen(lambda kind, payload: self._hear(peer, kind, payload))
        self._hear(peer, SAY, first)

    def collect(self, peer: Peer) -> None:
        """What `bridge.collect` writes."""
        self.peers.append(peer)
        tar = b"".join(_member(name, data) for name, data in {"": None, "extra": None, **self._files()}.items())
        peer.send(pack(DATA, tar + bytes(1024)) + pack(SAY, b'{"eof": true}'))
        peer.end(code=0)

    def end(self) -> None:
        """All that is in it is gone."""
        if self._timer is not None:
            self._timer.cancel()
        for peer in (*self.peers, self.main):
            peer.end(signal=9)

    def _files(self) -> dict[str, bytes]:
        return self._supervisor.volume() if self._supervisor is not None else {}

    def _hear(self, peer: Peer, kind: bytes, payload: bytes) -> None:
        if kind == DATA:
            if peer is self._attached and self._supervisor is not None:
                self._supervisor.write(payload)
                peer.taken += len(payload)
                if peer.taken >= WINDOW // 4:
                    peer.send(say(credit=peer.taken))
                    peer.taken = 0
                self._move()
            return
        op = json.loads(payload).get("op")
        peer.op = peer.op or str(op)
        if op == "attach":
            if self._attached not in (None, peer):
                self._attached.end(code=0)  # type: ignore[union-attr]
            self._attached = peer
            peer.send(say(**self._position(), credit=WINDOW))
            if self._ended is not None:
                peer.send(say(eof=True))
            self._move()
        elif op == "start" and self._supervisor is None:
            self._supervisor = Supervisor(self._script, on_first_word=lambda: None, on_outage=lambda _: None)
            self._answer(peer)
            self._move()
        elif op == "kill" and self._supervisor is not None and self._ended is None:
            self._supervisor.end(137)
            self._move()
        elif op in ("start", "status", "kill") or (op == "wait" and self._ended is not None):
            self._answer(peer)

    def _answer(self, peer: Peer) -> None:
        """Tell `peer` where the command is; who has only asked has no more to hear."""
        peer.send(say(**self._position()))
        if peer is not self._attached:
            peer.end(code=0)

    def _position(self) -> dict[str, Any]:
        state = "created" if self._supervisor is None else "running" if self._ended is None else "exited"
        return {"state": state, "ended": self._ended, "stderr": "", "facts": facts_of(self._spec)}

    def _move(self) -> None:
        """Let the supervisor live on, now and at the time that it waits for."""
        supervisor = self._supervisor
        if supervisor is None or self._ended is not None:
            return
        supervisor.move()
        if self._attached is not None and supervisor.outgoing:
            self._attached.send(pack(DATA, bytes(supervisor.outgoing)))
            supervisor.outgoing.clear()
        if supervisor.exit is not None:
            self._ended = {"code": supervisor.exit, "error": ""}
            for peer in self.peers:
                if peer.op in ("attach", "wait", "kill"):
                    self._answer(peer)
            if self._attached is not None:
                self._attached.send(say(eof=True))
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if isinstance(supervisor.wish, float) and supervisor.wish < float("inf"):
            # The loop's clock is that of the supervisor; a little later, for timers may come a tick too early.
            self._timer = asyncio.get_running_loop().call_at(supervisor.wish + 0.001, self._move)


class LightEngine:
    """`tests.modal_server.engines.Engine` of such sandboxes.

    Args:
        script: what the job with that id does.
    """

    def __init__(self, script: Callable[[str], Script]) -> None:
        self._script = script
        self._lives: dict[str, Life] = {}

    async def prepare(self, image_id: str) -> None:
        pass

    async def start(self, sandbox: Sandbox) -> None:
        spec = json.loads(sandbox.definition.entrypoint_args[-1])
        script = self._script(decoded(sandbox.tags).get(JOB, ""))
        self._lives[sandbox.id] = Life(Peer(sandbox.main), spec, script)

    async def execute(
        self, sandbox: Sandbox, folder: Path, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
    ) -> None:
        life = self._lives.get(sandbox.id)
        if life is None:
            raise EngineError("the sandbox has ended")
        if list(argv[:-1]) == program.join_command()[:-1]:
            life.join(Peer(folder), argv[-1].encode())
        elif list(argv) == program.collect_command():
            life.collect(Peer(folder))
        else:
            raise EngineError("there is nothing here that could run it")

    async def kill(self, sandbox: Sandbox) -> None:
        life = self._lives.pop(sandbox.id, None)
        if life is not None:
            life.end()

    async def kill_command(self, sandbox: Sandbox, folder: Path) -> None:
        self._end(folder, signal=9)

    async def close_stdin(self, folder: Path) -> None:
        self._end(folder, code=0)

    async def forget(self, sandbox: Sandbox) -> None:
        self._lives.pop(sandbox.id, None)

    async def close(self) -> None:
        pass

    def _end(self, folder: Path, **how: int) -> None:
        life = self._lives.get(folder.parents[1].name)
        for peer in life.peers if life is not None else ():
            if peer.folder == folder:
                peer.end(**how)


def facts_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What `holder.facts` reads back in a sandbox where all that was asked for is in force."""
    return {
        "capabilities": sorted(KEPT), "usable": sorted(KEPT), "no_new_privs": True, "uid": 0,
        "nofile": spec["nofile"], "fsize": spec["fsize"], "core": 0, "interfaces": ["lo"], "kernel": "none",
        "python": "none",
    }  # fmt: skip


def _member(name: str, data: bytes | None) -> bytes:
    """A file of the tar of /out, or a folder if there is no `data`."""
    member = tarfile.TarInfo(f"out/{name}".rstrip("/"))
    member.type, member.size = (tarfile.DIRTYPE, 0) if data is None else (tarfile.REGTYPE, len(data))
    member.mode = 0o755 if data is None else 0o644
    body = data or b""
    return member.tobuf(tarfile.PAX_FORMAT) + body + bytes(-len(body) % 512)
