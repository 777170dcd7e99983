"""Run a command in a root file system of its own: ``unshare --mount --pid --net … rootfs.py SHARED COMMAND…``.

Private are ``/tmp``, ``/run``, ``/root``, ``/in``, ``/out``, ``/dev/shm``, ``/proc``, and every folder that the host's
root does not have. The rest of the host's tree is there read-only, except what is mounted below its folders; so are the
paths `SHARED`, with colons between. This keeps sandboxes apart; it does not keep a hostile one in.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

PRIVATE = frozenset({"tmp", "run", "root", "in", "out", "proc", "lost+found", "old_root"})
WRITABLE = frozenset({"dev", "sys"})
_READ_ONLY, _NO_SUID, _REMOUNT, _BIND, _RECURSIVE = 0x1, 0x2, 0x20, 0x1000, 0x4000
_libc = ctypes.CDLL(None, use_errno=True)


def furnish(root: Path, shared: list[str]) -> None:
    """Mount the host's tree below the empty folder `root`, which becomes a file system in memory."""
    mount("tmpfs", root, "tmpfs", 0)
    for entry in os.scandir("/"):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            target.mkdir()
            if entry.name not in PRIVATE and target != root:
                bind(entry.path, target, read_only=entry.name not in WRITABLE)
    for name in ("tmp", "run", "root", "in", "out", "proc"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for path in shared:
        if Path(path).parts[1] in PRIVATE and Path(path).exists():
            target = root / path.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            bind(path, target, read_only=True)
    mount("tmpfs", root / "dev/shm", "tmpfs", _NO_SUID)
    mount("proc", root / "proc", "proc", 0)


def bind(source: str, target: Path, *, read_only: bool) -> None:
    mount(source, target, None, _BIND | _RECURSIVE)
    if read_only:
        mount("none", target, None, _BIND | _REMOUNT | _READ_ONLY)


def mount(source: str, target: Path, kind: str | None, flags: int) -> None:
    if _libc.mount(source.encode(), str(target).encode(), kind and kind.encode(), flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def raise_loopback() -> None:
    """Bring up ``lo``, in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        up = array.array("B", struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))
        fcntl.ioctl(probe, 0x8914, up)  # SIOCSIFFLAGS


def main() -> None:
    raise_loopback()
    root = Path("/mnt")  # covered by the file system in memory, here alone
    furnish(root, sys.argv[1].split(":"))
    os.chroot(root)
    os.chdir("/")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
