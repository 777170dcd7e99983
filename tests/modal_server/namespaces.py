"""A root file system, a process tree and a network of its own for a local process, by the kernel's namespaces.

Linux, as root or where users may make namespaces of users (then no other user can be switched to inside). What is
private: ``/tmp``, ``/run``, ``/root``, ``/in``, ``/out``, ``/dev/shm``, every folder that the host's root
does not have, and ``/proc``. The rest of the host's tree is there read-only, except what is mounted below its folders.
This keeps sandboxes apart; it does not keep a hostile one in.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import shutil
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

NEW_MOUNTS, NEW_USERS, NEW_PIDS, NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SUID, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x1, 0x2, 0x20, 0x1000, 0x4000, 0x40000
PRIVATE = frozenset({"tmp", "run", "root", "in", "out", "proc", "lost+found", "old_root"})
_HELD = 0x2 | 0x4 | 0x8 | 0x400 | 0x1000  # nosuid, nodev, noexec, noatime, relatime
_WRITABLE = frozenset({"dev", "sys"})
_libc = ctypes.CDLL(None, use_errno=True)


def allowed() -> bool:
    """True if this process may make such namespaces."""
    if os.geteuid() != 0:
        return False
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _libc.unshare(NEW_MOUNTS | NEW_PIDS) == 0 else 1)
    return os.waitpid(pid, 0)[1] == 0


def become_root() -> bool:
    """Go on as root of a namespace of users, in a child with a process tree of its own; the caller itself then waits
    for it and exits. False where the host does not allow all of that."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(NEW_USERS | NEW_PIDS | NEW_MOUNTS) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError:
        return False
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    try:
        _mount("none", "/", None, _RECURSIVE | _PRIVATE)
        _mount("proc", "/proc", "proc", 0)
    except OSError:  # for instance in a container whose own /proc is masked
        return False
    return True


def unshare(kinds: int) -> None:
    _check(_libc.unshare(kinds), "unshare")


def enter(descriptor: int, kind: int) -> None:
    """Join the namespace of `kind` that `descriptor` is open on."""
    _check(_libc.setns(descriptor, kind), "setns")


def make_skeleton(root: Path) -> None:
    """Lay the empty folders and the links of a root in the folder `root`."""
    root.mkdir(exist_ok=True)
    for entry in os.scandir("/"):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            target.mkdir()
    for name in ("tmp", "run", "root", "in", "out"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def furnish(root: Path, shared: Iterable[str]) -> None:
    """Mount the host's tree on the skeleton `root`, and change to it. `shared` are paths that stay visible even where
    they lie in a private folder. The caller is alone in new mount and pid namespaces."""
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    for entry in os.scandir("/"):
        if entry.name in PRIVATE or entry.is_symlink() or not entry.is_dir():
            continue
        _bind(entry.path, str(root / entry.name), read_only=entry.name not in _WRITABLE)
    for path in shared:
        if Path(path).parts[1] in PRIVATE and Path(path).exists():
            target = root / path.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            _bind(path, str(target), read_only=True)
    _mount("tmpfs", str(root / "dev/shm"), "tmpfs", _NO_SUID)
    _mount("proc", str(root / "proc"), "proc", 0)
    os.chroot(root)


def raise_loopback() -> None:
    """Bring up ``lo``, in a new network namespace."""
    up = 0x1 | 0x40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = array.array("B", struct.pack("16sH14s", b"lo", up, b""))
        fcntl.ioctl(probe, 0x8914, request)  # SIOCSIFFLAGS


def remove(root: Path) -> None:
    """Delete a root whose namespaces are gone; what is mounted there from elsewhere is never descended into."""
    if not root.is_dir():
        return
    for entry in list(root.iterdir()):
        if entry.is_symlink() or not entry.is_dir():
            entry.unlink()
        elif Path("/", entry.name).is_dir() and entry.name not in PRIVATE:
            entry.rmdir()
        else:
            shutil.rmtree(entry, ignore_errors=True)
    root.rmdir()


def _bind(source: str, target: str, *, read_only: bool) -> None:
    _mount(source, target, None, _BIND | _RECURSIVE)
    if read_only:
        held = os.statvfs(target).f_flag & _HELD  # a namespace of users must not drop them
        _mount("none", target, None, _BIND | _REMOUNT | _READ_ONLY | held)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    _check(_libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, None), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
