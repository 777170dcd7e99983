"""Process 1 of a local sandbox: starts the command, and ends whatever it left running.

Run by path with ``-I``, so it needs the standard library only and nothing of this package. Its one argument is the
sandbox's folder, where it finds ``spec.json`` and the pipes ``stdin`` and ``stdout``, and leaves ``running.json`` and
``exit.json``. Linux only.

It keeps both pipes open at both ends. So neither side sees the other come or go, as with a container's stream.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEP_SECONDS = 10.0


class _Killed(Exception):
    """SIGTERM came: the host wants the sandbox to end now."""


def main(folder: Path) -> int:
    """Run the command of ``spec.json`` to its end, then kill all its descendants. Returns its exit code."""
    signal.signal(signal.SIGTERM, _raise_killed)
    spec = json.loads((folder / "spec.json").read_text())
    # Orphans of the command become children of this process, so none can slip away from the sweep.
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    stdin = os.open(folder / "stdin", os.O_RDWR)
    stdout = os.open(folder / "stdout", os.O_RDWR)
    stderr = os.open(folder / "stderr.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    code = 128 + signal.SIGKILL
    try:
        child = os.fork()
        if child == 0:
            _become(spec, stdin, stdout, stderr)
        write_json(folder / "running.json", {"pid": os.getpid(), "start": start_time(os.getpid())})
        code = _wait_for(child)
    except _Killed:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    left = _sweep()
    error = f"{left} processes could not be ended" if left else ""
    write_json(folder / "exit.json", {"code": code, "error": error})
    return code


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write `value` so that a reader sees all of it or nothing."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(value))
    part.replace(path)


def start_time(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None if it has ended. With the pid it names a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def descendants(root: int) -> list[int]:
    """All processes below `root`."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names are enough, and this runs in a race with forks
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def kill_all(pids: list[int]) -> None:
    """Stop all of `pids`, so that none can fork, then kill them."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _become(spec: dict[str, Any], stdin: int, stdout: int, stderr: int) -> NoReturn:
    """The child: set limits, take the pipes, and turn into the command."""
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, 256)
        for name, value in spec["rlimits"].items():
            _, hard = resource.getrlimit(getattr(resource, name))
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(getattr(resource, name), (value, value))
        if spec["cores"]:
            os.sched_setaffinity(0, spec["cores"])
        os.chdir(spec["cwd"])
        os.execve(spec["command"][0], spec["command"], spec["env"])
    except BaseException as error:  # a forked child must never return into the parent's code
        os.write(2, f"cannot start {spec['command'][0]}: {error}\n".encode())
        os._exit(127)


def _wait_for(child: int) -> int:
    """Exit code of `child`; reaps orphans on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _sweep() -> int:
    """Kill all descendants; the number of those that are still there after `SWEEP_SECONDS`."""
    end = time.monotonic() + SWEEP_SECONDS
    while True:
        pids = descendants(os.getpid())
        if not pids or time.monotonic() > end:
            return len(pids)
        kill_all(pids)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def _raise_killed(number: int, frame: FrameType | None) -> NoReturn:
    raise _Killed


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
