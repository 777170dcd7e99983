"""Process 1 of a local sandbox: starts the command, and ends whatever it left running. It does the same in sandboxes
of Modal (`trace_bench.sandbox.modal.inside`).

Passed to a bare Python as source (`trace_bench.sandbox.packed`). Its one argument is the sandbox's folder, where it
finds ``spec.json`` and the pipes ``stdin`` and ``stdout``, and leaves ``running.json`` and ``exit.json``. Linux only.

It keeps both pipes open at both ends. So neither side sees the other come or go, as with a container's stream.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trace_bench.sandbox.processes import (
    PR_SET_CHILD_SUBREAPER,
    exit_code,
    prctl,
    set_limit,
    start_command,
    stat_fields,
    sweep,
)


class _Killed(Exception):
    """The host sent SIGTERM: the sandbox must end now."""


def run(folder: Path, spared: Callable[[], Collection[int]] = tuple) -> int:
    """Run the command of ``spec.json`` to its end, then kill all its descendants but `spared`. Return its exit code."""
    signal.signal(signal.SIGTERM, _raise_killed)
    spec = json.loads((folder / "spec.json").read_text())
    # Orphans of the command become children of this process, so the sweep finds all of them.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    stdin = os.open(folder / "stdin", os.O_RDWR)
    stdout = os.open(folder / "stdout", os.O_RDWR)
    stderr = os.open(folder / "stderr.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def prepare() -> None:
        for name, value in spec["rlimits"].items():
            set_limit(name, value)
        if spec["cores"]:
            os.sched_setaffinity(0, spec["cores"])

    code = 128 + signal.SIGKILL
    try:
        child = start_command(
            spec["command"], (stdin, stdout, stderr), env=spec["env"], cwd=spec["cwd"], prepare=prepare
        )
        write_json(folder / "running.json", {"pid": os.getpid(), "start": start_time(os.getpid())})
        code = _wait_for(child)
    except _Killed:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_json(folder / "exit.json", {"code": code, "error": sweep(spared())})
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    return code


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write `value` so that a reader sees all of it or nothing."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(value))
    part.replace(path)


def start_time(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None if it has ended. With the pid it names a process."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[19])


def _wait_for(child: int) -> int:
    """Exit code of `child`. Orphans that end earlier are reaped."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return exit_code(status)


def _raise_killed(number: int, frame: FrameType | None) -> NoReturn:
    raise _Killed


def main() -> int:
    return run(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
