"""Ends every process of a uid, and proves that none is left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from trace_bench.worker.options import CANDIDATE_OFFSETS, PHASE_OFFSETS, SWEEPER_OFFSET, Options

_PR_SET_CHILD_SUBREAPER = 36


class Sweeper:
    """Ends what phases and candidates leave behind, processes and files.

    Args:
        reap: waits for orphans (see `sweep_uids`).
    """

    def __init__(self, options: Options, reap: Callable[[], object]) -> None:
        self._options = options
        self._reap = reap

    def end_candidate(self, pid: int, uid: int | None) -> bool:
        """End every process of a candidate; False if some are left."""
        return kill_session(pid) if uid is None else self.end_uids([uid])

    def end_phase(self, name: str, pid: int, spared: Collection[int | None]) -> bool:
        """End what a phase and its candidates may have left, whether or not any of it is visible.

        Args:
            spared: uids of candidates of other phases.
        """
        base = self._options.uid_base
        if base is None:
            return kill_session(pid)
        uids = [base + offset for offset in (PHASE_OFFSETS[name], *CANDIDATE_OFFSETS)]
        return self.end_uids([uid for uid in uids if uid not in spared])

    def end_uids(self, uids: Collection[int]) -> bool:
        """End every process of `uids`; False if some are left."""
        return sweep_uids(uids, self._sender(), self._reap)

    def remove(self, folder: Path, owner: int | None) -> None:
        """Remove `folder` of the uid `owner`, with all that is in it."""
        self.empty(folder, owner)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def empty(self, folder: Path, owner: int | None) -> None:
        """Empty `folder` as the uid that owns it: root without DAC_OVERRIDE may not.

        The helper process is in the group of the job's phases: the folder above is closed to all others.
        """
        try:
            pid = os.fork()
        except OSError:
            # The phase has taken all processes. The supervisor asks again while it lives.
            return
        if pid == 0:
            try:
                if owner is not None:
                    act_as(owner, self._sender(), self._options.uid_base)
                empty(folder)
                if left := os.listdir(folder):  # noqa: PTH208 - names only
                    raise OSError(f"{len(left)} entries are left")
            except BaseException as error:
                sys.stderr.write(f"trace-bench: {folder} was not emptied: {error}\n")
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    def _sender(self) -> int:
        assert self._options.uid_base is not None
        return self._options.uid_base + SWEEPER_OFFSET


def living(uids: Collection[int]) -> set[int]:
    """Pids of the live (not zombie) processes of `uids` in this pid namespace, as a look through ``/proc`` finds them.

    A look is no proof: a process that forks and exits all the time is in no entry that is read.
    """
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only, and it is on a hot path
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid in uids and _is_alive(_fields(name)):  # noqa: PTH116 - hot path
                found.add(int(name))
    return found


def session_of(leader: int) -> set[int]:
    """Pids of the live processes of the session that `leader` led (where there are no uids to go by)."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError):
            fields = _fields(name)
            if int(fields[3]) == leader and _is_alive(fields):
                found.add(int(name))
    return found


def _fields(pid: str) -> list[str]:
    """Fields of ``/proc/PID/stat`` from the third on: before it is a name that its owner chose."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return text[text.rindex(")") + 2 :].split()


def _is_alive(fields: list[str]) -> bool:
    # A process whose first thread has ended is shown as a zombie while its other threads (field 20) run on.
    return fields[0] not in "ZX" or int(fields[17]) > 1


def act_as(uid: int, sender: int, group: int | None = None) -> None:
    """Take the rights of `uid`, in a helper process that processes of `uid` cannot signal.

    A process can be signalled under its real or saved uid. With the real uid `sender`, which nothing else runs
    under, and the saved uid 0, processes of `uid` can neither kill nor stop the helper; and since its effective uid is
    not 0 it has no capability, so that its own signals reach `uid` and no other.
    """
    os.setgroups([] if group is None else [group])
    os.setresgid(uid, uid, uid)
    os.setresuid(sender, uid, 0)


def sweep_uids(uids: Collection[int], sender: int, reap: Callable[[], object], attempts: int = 50) -> bool:
    """Kill all processes of `uids`; True once none is left.

    ``kill(-1)`` as a uid is atomic towards forks: the kernel holds the task list, so no process can outrun it. It comes
    before the first look, which a process that changes its pid all the time would dodge.

    Args:
        sender: a uid of the block that nothing runs under (see `act_as`).
        reap: waits for orphans, which count as left until then.
    """
    for attempt in range(attempts):
        if attempt:
            time.sleep(0.002 * attempt)
        if _kill(uids, sender):
            reap()
            if are_empty(uids, sender):
                return True
    return False


def are_empty(uids: Collection[int], sender: int) -> bool:
    """Whether `uids` have no process in this pid namespace.

    ``getpriority`` of a uid goes once through the kernel's list of tasks. A new task is put at the end of that list
    before its parent can leave it, so no chain of processes slips past, however fast it is.

    Args:
        sender: a uid that has none. A kernel that says otherwise (gVisor) does not know, and a look has to do.
    """
    if _has_process(sender):
        return not living(uids)
    return not any(map(_has_process, uids))


def _has_process(uid: int) -> bool:
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    return True


def _kill(uids: Collection[int], sender: int) -> bool:
    """Kill all processes of each uid, in a helper process; False if there was none to be had."""
    try:
        pid = os.fork()
    except OSError:
        # No process is left to be had, most likely because of these. One by one makes room for the next attempt.
        for target in living(uids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)
        return False
    if pid == 0:
        code = 1
        try:
            for uid in uids:
                os.seteuid(0)
                act_as(uid, sender)
                with contextlib.suppress(ProcessLookupError, PermissionError):  # gVisor's words for: there was none
                    os.kill(-1, signal.SIGKILL)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def become_subreaper() -> None:
    """Orphans below this process become its children, so that it can wait for them."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_session(leader: int, attempts: int = 50) -> bool:
    """Kill every process of the session that `leader` led; True once none is left.

    A process that started a session of its own escapes this: that is one reason why the local backend is unprotected.
    """
    for _ in range(attempts):
        left = session_of(leader)
        if not left:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return not session_of(leader)


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
