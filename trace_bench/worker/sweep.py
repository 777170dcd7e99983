"""Ends every process of a uid, and checks that none is left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def processes_of(uid: int) -> list[int]:
    """Pids of the live (not zombie) processes of `uid` in this pid namespace."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only, and it is on a hot path
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == uid and _state(int(name)) not in "ZX":  # noqa: PTH116 - hot path
                found.append(int(name))
        except OSError:
            continue
    return found


def _state(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return text[text.rindex(")") + 2]


def sweep_uid(uid: int, attempts: int = 50) -> bool:
    """Kill all processes of `uid`; True once none is left.

    ``kill(-1)`` as that uid is atomic towards forks (the kernel holds the task list), so a fork bomb cannot outrun it.
    """
    for attempt in range(attempts):
        if not processes_of(uid):
            return True
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(OSError):
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(pid, 0)
        if attempt:
            time.sleep(0.002 * attempt)
    return not processes_of(uid)


def become_subreaper() -> None:
    """Orphans below this process become its children (used where there is no uid to sweep)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_session(leader: int, attempts: int = 50) -> bool:
    """Kill every process of the session that `leader` led; True once none is left.

    A process that started a session of its own escapes this: that is one reason why the local backend is unprotected.
    """
    for _ in range(attempts):
        left = _session_members(leader)
        if not left:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap_orphans(left)
        time.sleep(0.002)
    return not _session_members(leader)


def _session_members(leader: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            text = Path(f"/proc/{name}/stat").read_text(errors="replace")
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        if int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(name))
    return found


def _reap_orphans(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def empty(folder: Path) -> None:
    """Remove everything in `folder`, whatever modes it has been given; needs to own it."""
    for root, folders, _ in os.walk(folder):
        for name in folders:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(root, name), 0o700, follow_symlinks=False)  # noqa: PTH101, PTH118
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)  # noqa: PTH108
