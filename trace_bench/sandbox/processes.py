"""Start a command and end everything below it. Linux and the standard library only: this also runs in sandboxes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
SWEEP_SECONDS = 10.0


def prctl(option: int, value: int) -> None:
    """Set an option of this process.

    Raises:
        OSError: the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def set_limit(name: str, value: int) -> None:
    """Set the resource limit `name` (``RLIMIT_…``) to `value`, or to the present hard limit if that is lower."""
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def start_command(
    command: Sequence[str],
    descriptors: Sequence[int],
    *,
    env: Mapping[str, str],
    cwd: str,
    prepare: Callable[[], None] = lambda: None,
) -> int:
    """Start `command` in a session of its own and return its pid. It is killed if this process dies.

    Args:
        descriptors: its stdin, stdout and stderr. It gets no other open file.
        prepare: called in the new process just before the command replaces it.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for fd, descriptor in enumerate(descriptors):
            os.dup2(descriptor, fd)
        os.closerange(3, 1024)
        prepare()
        os.chdir(cwd)
        os.execvpe(command[0], list(command), env)
    except BaseException as error:  # a forked child must never return into the parent's code
        os.write(2, f"cannot start {command[0]}: {error}\n".encode())
        os._exit(127)


def exit_code(status: int) -> int:
    """The exit code for a status of `os.waitpid`: 128 + signal for a process that a signal ended."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def stat_fields(pid: int) -> list[str] | None:
    """``/proc/PID/stat`` from the state on; None if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields


def descendants(root: int) -> list[int]:
    """All processes below `root` that have not ended."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names are enough, and this runs in a race with forks
        if entry.isdigit() and (fields := stat_fields(int(entry))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def kill_all(pids: Collection[int]) -> None:
    """Kill `pids`, after stopping all of them so that none forks meanwhile."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def sweep(spared: Collection[int] = ()) -> str:
    """Kill all descendants of this process but `spared`. Return what went wrong, or an empty string."""
    end = time.monotonic() + SWEEP_SECONDS
    while pids := [pid for pid in descendants(os.getpid()) if pid not in spared]:
        if time.monotonic() > end:
            return f"{len(pids)} processes could not be ended"
        kill_all(pids)
        time.sleep(0.002)
    return ""
