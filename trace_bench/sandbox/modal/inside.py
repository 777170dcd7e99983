"""The programs inside a Modal sandbox: its entry point, and the execs by which the host reaches the job's command.

A sandbox of Modal is gone with its files as soon as its entry point ends, it runs from the moment it is created, and no
exec can be attached to twice. So the entry point is `enter`: it gives up rights, waits for the start, runs the command
as a local sandbox does (`trace_bench.sandbox.launcher`), and stays until its files have been collected. All that it
knows is in files of `FOLDER`, which the execs read. An exec is ``OP SECONDS``:

=======  ============================================================================================================
start    start the command, then carry its stream
attach   carry its stream
state    wait until the command has ended, at most SECONDS; print the state
kill     end the command and all its descendants; print the state
collect  write /out as a tar; exit code 0 if it is complete
=======  ============================================================================================================

Runs inside: Linux and the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_bench.sandbox.launcher import run, start_time, write_json
from trace_bench.sandbox.modal.confinement import confine

FOLDER = Path("/run/trace-bench")
"""Only uid 0 enters it."""
OUT = Path("/out")
CHUNK = 64 * 1024
STDERR_BYTES = 64 * 1024
"""How much of the end of stderr is reported."""
BEGUN = b"\n"
"""First byte of a carried stream: the exec has the stream, and the command was started if it was to be."""
READY_SECONDS = 60.0
_FACTS, _START, _CONTACT = FOLDER / "facts.json", FOLDER / "start", FOLDER / "contact"
_RUNNING, _EXIT, _EXECS = FOLDER / "running.json", FOLDER / "exit.json", FOLDER / "execs"


def enter(spec: dict[str, Any]) -> int:
    """Confine this process, run the command once it is started, and stay. Return 0 if it was started, else 1.

    Args:
        spec: ``command``; ``closed``, ``nofile`` and ``fsize`` (see `confine`); ``unstarted`` and ``linger``: seconds
            without an exec after which it ends, before the start and after the command's end.
    """
    FOLDER.mkdir(mode=0o700, parents=True)
    _EXECS.mkdir()
    OUT.mkdir(mode=0o755, exist_ok=True)
    for name in ("stdin", "stdout"):
        os.mkfifo(FOLDER / name, 0o600)
    held = [os.open(FOLDER / name, os.O_RDWR) for name in ("stdin", "stdout")]  # nobody sees an end before the start
    own = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
    launched = {"command": spec["command"], "env": own, "cwd": "/", "rlimits": {}, "cores": []}
    write_json(FOLDER / "spec.json", launched)
    _CONTACT.touch()
    write_json(_FACTS, confine(spec["closed"], spec["nofile"], spec["fsize"]))
    while not _START.exists():
        if _is_idle(spec["unstarted"]):
            return 1
        time.sleep(0.02)
    run(FOLDER, spared=_execs)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for descriptor in held:
        os.close(descriptor)
    _CONTACT.touch()
    while not _is_idle(spec["linger"]):
        time.sleep(1.0)
    return 0


def _is_idle(seconds: float) -> bool:
    return time.time() - _CONTACT.stat().st_mtime > seconds


def _execs() -> list[int]:
    """The execs that run. Some runtimes make them children of the entry point."""
    known = {int(path.name): path.read_text() for path in _EXECS.iterdir()}
    return [pid for pid, start in known.items() if str(start_time(pid)) == start]


def report() -> dict[str, Any]:
    """The state of the command, how it ended, the end of its stderr, and the controls in force."""
    ended = json.loads(_EXIT.read_text()) if _EXIT.exists() else None
    state = "exited" if ended else "running" if _RUNNING.exists() else "created"
    log, words = FOLDER / "stderr.log", b""
    if log.exists():
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - STDERR_BYTES))
            words = file.read(STDERR_BYTES)
    facts = json.loads(_FACTS.read_text())
    return {"state": state, "ended": ended, "stderr": words.decode("utf-8", "replace"), "facts": facts}


def kill(seconds: float) -> None:
    """End the command and all its descendants. Nothing happens before the start, and after the end."""
    if _RUNNING.exists() and not _EXIT.exists():
        os.kill(json.loads(_RUNNING.read_text())["pid"], signal.SIGTERM)
        _until(_EXIT.exists, seconds)


def carry(start: bool) -> None:
    """Carry bytes both ways until the command ends or the host hangs up."""
    _take_over()
    stdin = os.open(FOLDER / "stdin", os.O_RDWR)
    stdout = os.open(FOLDER / "stdout", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(stdout, True)
    if start:
        _START.touch()
        _until(_RUNNING.exists, READY_SECONDS)

    def carry_in() -> None:
        while data := os.read(0, CHUNK):
            _write(stdin, data)
        os._exit(0)

    _write(1, BEGUN)
    threading.Thread(target=carry_in, daemon=True).start()
    while data := os.read(stdout, CHUNK):
        _write(1, data)


def _take_over() -> None:
    """Become the only exec that carries the stream. The one before may belong to a controller that died: it would take
    half of the output. It is killed, and its lock shows that it has ended."""
    lock = os.open(FOLDER / "carrier", os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            with contextlib.suppress(ValueError, ProcessLookupError):  # it has not written its pid yet, or has ended
                os.kill(int(os.pread(lock, 20, 0)), signal.SIGKILL)
            time.sleep(0.005)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> int:
    """Arguments: ``enter`` and its spec as JSON, or an operation and its seconds."""
    op, value = sys.argv[1:]
    if op == "enter":
        return enter(json.loads(value))
    _until(_FACTS.exists, READY_SECONDS)
    (_EXECS / str(os.getpid())).write_text(str(start_time(os.getpid())))
    _CONTACT.touch()
    if op in ("start", "attach"):
        carry(start=op == "start")
        return 0
    if op == "collect":
        from trace_bench.sandbox.archive import tar_of

        with open(1, "wb", buffering=CHUNK) as output:
            for piece in tar_of(OUT, "out"):
                output.write(piece)
                _CONTACT.touch()
        return 0
    if op == "kill":
        kill(float(value))
    else:
        _until(_EXIT.exists, float(value))
    _write(1, json.dumps(report()).encode())
    return 0
