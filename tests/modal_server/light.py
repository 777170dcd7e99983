"""Sandboxes without processes, for runs of thousands: the programs inside and the supervisor's stream, spoken by the
server itself.

What runs in a sandbox is a `tests.execution.supervisor.Supervisor`, which leaves the real files. An exec answers as
`trace_bench.sandbox.modal.inside` does. There is no isolation, no image and no Python that starts: what a sandbox costs
its machine is left out, and what it costs its controller is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.execution.supervisor import Script, Supervisor
from tests.modal_server.engines import Command
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.modal.confinement import KEPT
from trace_bench.sandbox.modal.inside import BEGUN
from trace_bench.sandbox.modal.tags import decoded


class Life(Command):
    """The entry point of one sandbox, with a supervisor of this process as its command."""

    def __init__(self, spec: Mapping[str, Any], script: Script) -> None:
        super().__init__()
        self._spec = spec
        self._script = script
        self.supervisor: Supervisor | None = None
        self.carrier: Command | None = None
        self._ended = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def obey(self, op: str, seconds: float, command: Command) -> None:
        """Do what the exec `command` asks for."""
        if op == "start" and self.supervisor is None:
            self.supervisor = Supervisor(self._script, on_first_word=lambda: None, on_outage=lambda _: None)
        if op == "kill" and self.supervisor is not None and not self._ended.is_set():
            self.supervisor.end(137)
        if op in ("start", "attach"):
            if self.carrier is not None:
                self.carrier.kill()
            self.carrier = command
            command.put(BEGUN)
            self.move()
            return
        self.move()
        if op == "collect":
            files = self.supervisor.volume() if self.supervisor is not None else {}
            members = {"": None, "extra": None, **files}
            command.put(b"".join(_member(name, data) for name, data in members.items()) + bytes(1024))
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)
            command.put(json.dumps(self._report()).encode())
        command.finish(0)

    def _report(self) -> dict[str, Any]:
        ended = self.supervisor is not None and self.supervisor.exit is not None
        state = "exited" if ended else "created" if self.supervisor is None else "running"
        code = {"code": self.supervisor.exit, "error": ""} if self.supervisor is not None and ended else None
        return {"state": state, "ended": code, "stderr": "", "facts": facts_of(self._spec)}

    def move(self) -> None:
        """Let the supervisor live on, now and at the time that it waits for."""
        supervisor = self.supervisor
        if supervisor is None or self._ended.is_set():
            return
        supervisor.move()
        if self.carrier is not None and supervisor.outgoing:
            self.carrier.put(bytes(supervisor.outgoing))
            supervisor.outgoing.clear()
        if self._timer is not None:
            self._timer.cancel()
        if supervisor.exit is not None:
            self._ended.set()
            if self.carrier is not None:
                self.carrier.finish(0)
        elif isinstance(supervisor.wish, float) and supervisor.wish < float("inf"):
            # The loop's clock is that of the supervisor; a little later, for timers may come a tick too early.
            self._timer = asyncio.get_running_loop().call_at(supervisor.wish + 0.001, self.move)


class Exec(Command):
    """An exec in such a sandbox."""

    def __init__(self, life: Life, op: str, seconds: float) -> None:
        super().__init__()
        self._life = life
        self._work = asyncio.create_task(life.obey(op, seconds, self))

    async def take(self, data: bytes) -> None:
        if self._life.carrier is self and self._life.supervisor is not None:
            self._life.supervisor.write(data)
            self._life.move()

    def close(self) -> None:
        self.finish(0)


class LightEngine:
    """`tests.modal_server.engines.Engine` of such sandboxes.

    Args:
        script: returns the script of the job with that id.
    """

    def __init__(self, script: Callable[[str], Script]) -> None:
        self._script = script

    async def prepare(self, image: str) -> None:
        pass

    async def start(self, sandbox: str, definition: Any, image: str, tags: Mapping[str, str]) -> Command:
        spec = json.loads(definition.entrypoint_args[-1])
        return Life(spec, self._script(decoded(tags).get(JOB, "")))

    async def execute(self, sandbox: str, main: Command, argv: Sequence[str]) -> Command:
        assert isinstance(main, Life)
        return Exec(main, argv[-2], float(argv[-1] or 0))

    async def kill(self, sandbox: str, main: Command) -> None:
        main.kill()

    async def forget(self, sandbox: str) -> None:
        pass


def facts_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`confinement.facts` of a sandbox where all that was asked for is in force."""
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
