"""One sandbox of a Docker engine: a container and its volume."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import requests

from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import Control, ExitStatus, SandboxState
from trace_bench.sandbox.container import OUT
from trace_bench.sandbox.controls import missing, read_back
from trace_bench.sandbox.docker_stream import DockerStream, attach
from trace_bench.sandbox.engine import Engine
from trace_bench.sandbox.errors import ControlMissing, EngineGone, SandboxRemoved
from trace_bench.sandbox.labels import VOLUME
from trace_bench.sandbox.streams import CHUNK, STDERR_BYTES

HOST_DEPENDENT = frozenset({"apparmor"})
"""Controls that are required only on hosts that have them."""
_STATES: Mapping[str, SandboxState] = {
    "created": "created",
    "exited": "exited",
    "dead": "exited",
    "removing": "removed",
}


class DockerSandbox:
    """A container with its volume, created or found."""

    _no_process = "is not running"
    """Part of the engine's message that a container cannot be killed, as it has ended."""
    _last_lines: Any = 200

    def __init__(
        self, engine: Engine, container: str, name: str, own_labels: Mapping[str, str], host: str = ""
    ) -> None:
        self._engine = engine
        self.host = host
        self.id = container
        self.name = name
        self.labels: Mapping[str, str] = dict(own_labels)
        self._controls: list[Control] | None = None
        self._unproven: frozenset[str] = frozenset()
        self._streams: weakref.WeakSet[DockerStream] = weakref.WeakSet()

    def attach(self) -> DockerStream:
        with self._errors("attach to a sandbox"):
            connection = attach(self._engine.client, self._there(), self._engine.timeout)
        stream = DockerStream(connection, self.host)
        self._streams.add(stream)
        return stream

    def start(self) -> None:
        with self._errors("start a sandbox"):
            self._engine.client.start(self._there())
        if self._unproven:
            self.check(self._unproven, started=True)

    def check(self, required: frozenset[str], *, started: bool = False) -> None:
        """Check that the controls `required` are in force. Those that are not known yet are checked after the start.

        Args:
            started: what is not known now never will be, and is not in force.

        Raises:
            ControlMissing: one is not.
        """
        found = self.controls()
        known = [replace(control, known=True) for control in found] if started else found
        if lacking := missing(known, required):
            raise ControlMissing(
                f"{self._engine} cannot put in force: "
                + "; ".join(f"{control.name} ({control.detail})" for control in lacking)
                + ". Repair the host, or name the controls in allow_weaker."
            )
        # A caller that requires a control which depends on the host checks it after the start itself.
        self._unproven = (required & {control.name for control in found if not control.known}) - HOST_DEPENDENT

    def facts(self) -> dict[str, Any]:
        """What the engine says of the container, in the words of Docker's ``inspect``. Controls are read back from it.

        Raises:
            SandboxRemoved: it is gone. SandboxError: the engine does not answer.
        """
        return self._inspect()

    def controls(self) -> list[Control]:
        if self._controls is not None:
            return self._controls
        found = read_back(self.facts(), self._engine.info)
        if all(control.known for control in found):
            self._controls = found
        return found

    def status(self) -> SandboxState:
        if not self.id:
            return "removed"
        try:
            state = str(self._inspect()["State"]["Status"])
        except SandboxRemoved:
            return "removed"
        return _STATES.get(state, "running")

    def wait(self, timeout: float) -> ExitStatus | None:
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            if left > 0:
                self._wait_once(left)
            state = self._inspect()["State"]
            if state["Status"] in ("exited", "dead"):
                return self._ended(state)
            if left <= 0:
                return None
            if state["Status"] == "created":  # the engine's wait returns at once for what has not started
                time.sleep(min(left, 0.05))

    def kill(self) -> None:
        try:
            with self._errors("kill a sandbox"), self._drained():
                self._engine.client.kill(self._there())
        except SandboxRemoved:
            return
        except SandboxError as error:
            if self._no_process not in str(error):
                raise

    @contextlib.contextmanager
    def _drained(self) -> Iterator[None]:
        """Read our streams during the block. The engine reports the end of a container only after its last output was
        read, so `kill` of one whose output is not read would never return."""
        streams = [stream for stream in self._streams if not stream.closed]
        if not streams:
            yield
            return
        done = threading.Event()

        def drain() -> None:
            while not done.wait(0.002):
                for stream in streams:
                    stream.drain()

        thread = threading.Thread(target=drain, name="drain", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def last_words(self) -> str:
        with self._errors("show the log of a sandbox"):
            log = self._engine.client.logs(self._there(), stdout=False, stderr=True, tail=self._last_lines)
        return bytes(log)[-STDERR_BYTES:].decode("utf-8", errors="replace")

    def collect(self) -> Iterator[bytes]:
        with self._errors("archive /out"):
            yield from self._archive()

    def _archive(self) -> Iterator[bytes]:
        chunks, _ = self._engine.client.get_archive(self._there(), OUT, chunk_size=CHUNK)
        return iter(chunks)

    def remove(self) -> None:
        if self.id:
            for stream in list(self._streams):
                stream.close()
            with contextlib.suppress(SandboxRemoved), self._errors("remove a sandbox"):
                self._engine.client.remove_container(self.id, v=True, force=True)
        volume = self.labels.get(VOLUME)
        if volume:
            self._remove_volume(volume)

    def _remove_volume(self, volume: str) -> None:
        try:
            with self._errors("remove a volume"):
                self._engine.client.remove_volume(volume)
        except SandboxError as error:
            if "no such volume" not in str(error).lower():
                raise

    def _wait_once(self, seconds: float) -> None:
        """Block until the container has ended, at most `seconds`."""
        try:
            with self._engine.errors("wait for a sandbox", name=self.name, impatient=True):
                self._engine.client.wait(self._there(), timeout=cast(int, seconds))
        except EngineGone as error:
            if not isinstance(error.__cause__, requests.Timeout) and "timed out" not in str(error).lower():
                raise

    def _ended(self, state: Mapping[str, Any]) -> ExitStatus:
        return ExitStatus(int(state["ExitCode"]), bool(state["OOMKilled"]), str(state.get("Error") or ""))

    def _inspect(self) -> dict[str, Any]:
        with self._errors("inspect a sandbox"):
            return dict(self._engine.client.inspect_container(self._there()))

    def _there(self) -> str:
        if not self.id:
            raise SandboxRemoved(f"sandbox {self.name} has no container any more, only its volume; remove it.")
        return self.id

    def _errors(self, action: str) -> contextlib.AbstractContextManager[None]:
        return self._engine.errors(action, name=self.name)
