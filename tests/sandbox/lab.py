"""The backend under test, the programs that it runs, and helpers to read their output."""

from __future__ import annotations

import io
import os
import secrets
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trace_bench.sandbox.base import Backend, ExitStatus, Resources, Sandbox, SandboxRequest, Stream
from trace_bench.sandbox.labels import JOB, RUN

SLOWNESS = float(os.environ.get("TRACE_BENCH_SLOWNESS") or 1)
"""Factor for all time limits: more than 1 on an engine whose machine is emulated."""
PATIENCE = 30.0 * SLOWNESS
"""Seconds for a sandbox to end, or to say something."""
PRELUDE = """
import json, os, sys, time
def folder(flag, default):
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else default
OUT, TMP = folder("--out", "/out"), folder("--tmp", "/tmp")
def say(text):
    os.write(1, text.encode() + b"\\n")
def put(name, data):
    with open(os.path.join(OUT, name), "wb") as file:
        file.write(data)
"""
ECHO = """
say("ready")
while True:
    data = os.read(0, 65536)
    if not data:
        break
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
"""
SLEEP = "say('ready')\ntime.sleep(600)\n"
GRANDCHILD = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        number = 0
        while True:
            number += 1
            put("beat", str(number).encode())
            time.sleep(0.02)
    os._exit(0)
while not os.path.exists(os.path.join(OUT, "beat")):
    time.sleep(0.01)
say("ready")
"""


@dataclass(frozen=True)
class Lab:
    """A backend to be examined.

    Attributes:
        image: a Linux image with a ``python3`` on its PATH, in the backend's own words.
        run: label of all its sandboxes.
        runtime: what sandboxes ask for, as in a config.
        without: controls that this runtime is known not to apply, or to count otherwise, each with the reason.
        environment: variables that another process needs to find the same sandboxes.
    """

    backend: Backend
    image: str
    run: str = field(default_factory=lambda: "test-" + secrets.token_hex(4))
    runtime: str | None = None
    without: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def request(self, code: str, **changes: Any) -> SandboxRequest:
        job = secrets.token_hex(6)
        settings: dict[str, Any] = {
            "name": f"trace-bench-{self.run}-{job}",
            "image": self.image,
            "command": ("python3", "-I", "-c", PRELUDE + code),
            "labels": {RUN: self.run, JOB: job},
            "uid_base": self.backend.default_uid_base,
            "resources": Resources(memory_bytes=256 << 20, pids=64),
            "runtime": self.runtime,
        }
        return SandboxRequest(**{**settings, **changes})

    @contextmanager
    def created(self, code: str, **changes: Any) -> Iterator[Sandbox]:
        sandbox = self.backend.create(self.request(code, **changes))
        try:
            yield sandbox
        finally:
            sandbox.remove()

    @contextmanager
    def running(self, code: str, **changes: Any) -> Iterator[tuple[Sandbox, Stream]]:
        with self.created(code, **changes) as sandbox:
            stream = sandbox.attach()
            try:
                sandbox.start()
                yield sandbox, stream
            finally:
                stream.close()

    def finished(self, code: str, **changes: Any) -> tuple[bytes, str, ExitStatus]:
        """Run `code` to its end. Return stdout, stderr, and how it ended."""
        with self.running(code, **changes) as (sandbox, stream):
            out = read_all(stream)
            ended = sandbox.wait(PATIENCE)
            assert ended is not None
            return out, sandbox.last_words(), ended

    def sweep(self) -> None:
        """Remove what checks have left."""
        for sandbox in self.backend.find({RUN: self.run}):
            sandbox.remove()


@contextmanager
def raises(*kinds: type[BaseException], says: str = "") -> Iterator[None]:
    """Raise AssertionError unless the block raises one of `kinds` with the text `says`."""
    try:
        yield
    except kinds as error:
        assert says in str(error), f"it says {error}, and nothing of {says!r}"
    else:
        raise AssertionError(f"nothing was raised; expected {' or '.join(kind.__name__ for kind in kinds)}")


def read_until(stream: Stream, end: bytes, seconds: float = 30) -> bytes:
    """Everything up to and with `end`."""
    return _read(stream, lambda data: data.endswith(end), seconds)


def read_bytes(stream: Stream, count: int, seconds: float = 60) -> bytes:
    """At least `count` bytes."""
    return _read(stream, lambda data: len(data) >= count, seconds)


def read_all(stream: Stream, seconds: float = 60) -> bytes:
    """Everything up to the end of the stream."""
    return _read(stream, None, seconds)


def _read(stream: Stream, complete: Callable[[bytearray], bool] | None, seconds: float) -> bytes:
    seconds *= SLOWNESS
    deadline = time.monotonic() + seconds
    data = bytearray()
    while complete is None or not complete(data):
        piece = stream.read(max(0.0, deadline - time.monotonic()))
        assert piece is not None, f"nothing within {seconds} s after {bytes(data[-200:])!r}"
        if not piece:
            assert complete is None, f"the stream ended after {bytes(data[-200:])!r}"
            break
        data += piece
    return bytes(data)


def members(collected: Sandbox | Iterable[bytes]) -> dict[str, tarfile.TarInfo]:
    """The members of the archive of a sandbox, or of one that was collected before."""
    with _opened(collected) as tar:
        return {member.name.rstrip("/"): member for member in tar}


def content(collected: Sandbox | Iterable[bytes], name: str) -> bytes:
    """The content of the file `name` below /out."""
    with _opened(collected) as tar:
        file = tar.extractfile(f"out/{name}")
        assert file is not None
        return file.read()


def _opened(collected: Sandbox | Iterable[bytes]) -> tarfile.TarFile:
    pieces = collected if isinstance(collected, Iterable) else collected.collect()
    return tarfile.open(fileobj=io.BytesIO(b"".join(pieces)))
