"""Ends every process of a uid, and checks that none is left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def processes_of(uid: int) -> list[int]:
    """Pids of the live (not zombie) processes of `uid` in this pid namespace."""
    return list(cpu_of(uid))


def cpu_of(uid: int) -> dict[int, float]:
    """Live processes of `uid`, each with its CPU seconds and those of the children that it has waited for."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only, and it is on a hot path
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116 - hot path
                fields = _fields(name)
                if _is_alive(fields):
                    found[int(name)] = _cpu(fields)
        except OSError:
            continue
    return found


def cpu_of_session(leader: int) -> dict[int, float]:
    """As `cpu_of`, for the session that `leader` led (where there are no uids to tell by)."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            fields = _fields(name)
        except OSError:
            continue
        if int(fields[3]) == leader and _is_alive(fields):
            found[int(name)] = _cpu(fields)
    return found


def _fields(pid: str) -> list[str]:
    """Fields of ``/proc/PID/stat`` from the third on: before it is a name that its owner chose."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return text[text.rindex(")") + 2 :].split()


def _is_alive(fields: list[str]) -> bool:
    # A process whose first thread has ended is shown as a zombie while its other threads (field 20) run on.
    return fields[0] not in "ZX" or int(fields[17]) > 1


def _cpu(fields: list[str]) -> float:
    return sum(map(int, fields[11:15])) / _TICKS


def act_as(uid: int, sender: int) -> None:
    """Take the rights of `uid`, in a helper process, without becoming its prey.

    A process may be signalled by whoever has its real or saved uid. With the real uid `sender`, which nothing else runs
    under, and the saved uid 0, processes of `uid` can neither kill nor stop the helper; and since its effective uid is
    not 0 it has no capability, so that its own signals reach `uid` and nobody else.
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(sender, uid, 0)


def sweep_uid(uid: int, sender: int, attempts: int = 50) -> bool:
    """Kill all processes of `uid`; True once none is left.

    ``kill(-1)`` as that uid is atomic towards forks (the kernel holds the task list), so a fork bomb cannot outrun it.

    Args:
        sender: a uid of the block that nothing runs under (see `act_as`).
    """
    for attempt in range(attempts):
        left = processes_of(uid)
        if not left:
            return True
        try:
            pid = os.fork()
        except OSError:
            # No process is left to be had, most likely because of these. One by one makes room for the next attempt.
            for target in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(target, signal.SIGKILL)
        else:
            if pid == 0:
                with contextlib.suppress(OSError):
                    act_as(uid, sender)
                    os.kill(-1, signal.SIGKILL)
                os._exit(0)
            os.waitpid(pid, 0)
        if attempt:
            time.sleep(0.002 * attempt)
    return not processes_of(uid)


def become_subreaper() -> None:
    """Orphans below this process become its children: it learns what CPU time they used."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_session(leader: int, attempts: int = 50) -> bool:
    """Kill every process of the session that `leader` led; True once none is left.

    A process that started a session of its own escapes this: that is one reason why the local backend is unprotected.
    """
    for _ in range(attempts):
        left = list(cpu_of_session(leader))
        if not left:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return not cpu_of_session(leader)


def empty(folder: Path) -> None:
    """Remove everything in `folder`, whatever modes it has been given; needs to own it.

    Folders are moved up to `folder` before they are emptied: depth costs neither stack nor descriptors, and no path
    is ever too long.
    """
    number = 0
    progress = True
    while progress:
        progress = False
        for entry in _entries(folder):
            if not entry.is_dir(follow_symlinks=False):
                progress |= _done(os.unlink, entry.path)
                continue
            _done(os.chmod, entry.path, 0o700)
            for inner in _entries(entry.path):
                if inner.is_dir(follow_symlinks=False):
                    # A folder can be moved only by who may write to it: its `..` changes.
                    _done(os.chmod, inner.path, 0o700)
                    number += 1
                    progress |= _done(os.rename, inner.path, folder / f".{os.getpid()}-{number}")
                else:
                    progress |= _done(os.unlink, inner.path)
            progress |= _done(os.rmdir, entry.path)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _done(action: Callable[..., None], *arguments: Any) -> bool:
    try:
        action(*arguments)
    except OSError:
        return False
    return True
