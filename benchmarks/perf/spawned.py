"""Runs a script in a phase of the real spawner: in a container like a sandbox's, or here without uids.

`run` sends files and the name of a module to a container and returns what that module's phases report. The module's
`main` calls `play`, which takes the supervisor's part.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

UID_BASE = 0x6FFF0000
"""Below the blocks of real jobs."""
SANDBOX = [
    *("--network", "none", "--cap-drop", "ALL", "--read-only", "--security-opt", "no-new-privileges", "--ipc", "none"),
    *("--cap-add", "CHOWN", "--cap-add", "KILL", "--cap-add", "SETGID", "--cap-add", "SETUID", "--init"),
    *("--tmpfs", "/tmp:rw,nosuid,nodev,noexec,mode=0755", "--cpus", "1", "--pids-limit", "256"),
    *("--memory", "2g", "--memory-swap", "2g"),
]
_START = (
    "import importlib, sys, tarfile, tempfile\n"
    "folder = tempfile.mkdtemp()\n"
    "tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(folder)\n"
    "import os; os.chmod(folder, 0o755)\n"
    "sys.path.insert(0, folder)\n"
    "importlib.import_module(sys.argv[1]).main(folder, *sys.argv[2:])\n"
)

Phase = Callable[[socket.socket], Any]
"""Gets the socket of the spawner; what it returns is reported."""


def run(
    image: str | None, files: Mapping[str, Path], module: str, *words: str, options: Sequence[str] = ()
) -> list[Any]:
    """What the phases of `module` report, one item each.

    Args:
        image: of the container; None for this interpreter.
        files: by the name that they have inside; folders with what is in them. This file is always among them.
        options: further ones of ``docker run``.

    Raises:
        RuntimeError: the script failed; with what it said.
    """
    command = [sys.executable]
    if image is not None:
        inside = [*SANDBOX, *options, "--env", "TRACE_BENCH_PRELOAD=numpy", "--entrypoint", "python3", image]
        command = ["docker", "run", "--rm", "--interactive", *inside, "-sP"]
    done = subprocess.run(
        [*command, "-c", _START, module, *words],
        input=_packed({"spawned.py": Path(__file__), **files}),
        env={**os.environ, "TRACE_BENCH_PRELOAD": "numpy", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"{module} failed: {done.stderr.decode(errors='replace').strip()}")
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def _packed(files: Mapping[str, Path]) -> bytes:
    def tidy(member: tarfile.TarInfo) -> tarfile.TarInfo:  # in there, root has no rights beyond its own files
        member.uid = member.gid = 0
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, path in files.items():
            tar.add(path, arcname=name, filter=tidy)
    return buffer.getvalue()


# --------------------------------------------------- from here on inside: only what the worker's image holds


def play(started: Mapping[str, Phase], uid_base: int | None = UID_BASE) -> None:
    """Fork the spawner, have it start each of the phases after the one before it, and print what they report.

    Args:
        started: by name (`build`, `train`, `score`), in order.
    """
    from trace_bench.worker import phases, spawner
    from trace_bench.worker.datagrams import receive_datagram, send_datagram
    from trace_bench.worker.frames import JsonReader, pack_json
    from trace_bench.worker.options import Options

    def enter(name: str, ctl: socket.socket, spawn: socket.socket) -> None:
        ctl.sendall(pack_json({"said": started[name](spawn)}))

    # The spawner is forked from here, so that its phases come here in place of their own entry.
    phases.enter = enter
    # A survivor of an attack may hold what is in there; the container ends with it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        tmp = Path(name)
        tmp.chmod(0o755)
        spawn = spawner.fork(Options(uid_base, tmp, 256 << 20))
        for phase in started:
            ours, theirs = socket.socketpair()
            send_datagram(spawn, {"op": "phase", "name": phase}, (theirs.fileno(), 2))
            theirs.close()
            reader = JsonReader()
            while data := ours.recv(1 << 16):
                for report in reader.feed(data):
                    print(json.dumps(report["said"]), flush=True)
            received = receive_datagram(spawn)
            while received is not None and received[0]["op"] != "exit":  # by then its home has been emptied
                received = receive_datagram(spawn)
