"""Give up rights for this process and its children, and read back from the kernel what is in force.

Runs inside a sandbox: Linux and the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trace_bench.sandbox.processes import PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, prctl, set_limit

KEPT = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7}
"""Capabilities that the supervisor needs, by their numbers."""
_CAPABILITY_VERSION = 0x20080522


def confine(closed: Iterable[str], nofile: int, fsize: int) -> dict[str, Any]:
    """Give up all rights that a supervisor does not need. Return `facts`.

    Args:
        closed: folders that only uid 0 may write to afterwards.
        nofile, fsize: resource limits.
    """
    for name in closed:
        with contextlib.suppress(OSError):
            if not Path(name).is_symlink():
                Path(name).chmod(0o755)
    for name, value in (("RLIMIT_NOFILE", nofile), ("RLIMIT_FSIZE", fsize), ("RLIMIT_CORE", 0)):
        set_limit(name, value)
    with contextlib.suppress(OSError):  # a process that is not root has none to give up
        for number in range(64):
            if number not in KEPT.values():
                with contextlib.suppress(OSError):  # the kernel has fewer capabilities
                    prctl(PR_CAPBSET_DROP, number)
        _keep_capabilities()
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    return facts()


def facts() -> dict[str, Any]:
    """What is in force for this process, as the kernel reports it."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    bounding, effective = (int(status.get(key, "f" * 16), 16) for key in ("CapBnd", "CapEff"))
    names = {number: name for name, number in KEPT.items()}
    return {
        "capabilities": [names.get(n, str(n)) for n in range(64) if (bounding | effective) >> n & 1],
        "usable": [names.get(n, str(n)) for n in range(64) if effective >> n & 1],
        "no_new_privs": status.get("NoNewPrivs", "").strip() == "1",
        "uid": os.getuid(),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "fsize": resource.getrlimit(resource.RLIMIT_FSIZE)[1],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
    }


def _keep_capabilities() -> None:
    """Hold no capability but those of `KEPT`."""
    kept = sum(1 << number for number in KEPT.values())
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    current = ctypes.create_string_buffer(24)
    if libc.capget(header, current) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    permitted = struct.unpack("6I", current.raw)[1] & kept
    if libc.capset(header, struct.pack("6I", permitted, permitted, 0, 0, 0, 0)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
