"""Confine a freshly forked process before it runs anything: its descriptors, limits and uid."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def limits_of(asked: object) -> dict[str, int] | None:
    """Limits of a candidate as the kernel takes them; None if `asked` holds none."""
    names = ("cpu_seconds", "memory_bytes", "processes")
    if not isinstance(asked, dict):
        return None
    found = {}
    for name in names:
        value = asked.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 48:
            return None
        found[name] = math.ceil(value)
    for name in ("shared_bytes", "file_bytes"):
        value = asked.get(name, 0)
        if type(value) is not int or not 0 <= value < 1 << 40:
            return None
        found[name] = value
    return found


def fork_child(body: Callable[[], None]) -> int:
    """Fork a process that runs `body` and exits; returns its pid. Raises OSError if there is none to be had."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        body()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def redirect_to_null(*fds: int) -> None:
    """Have `fds` read nothing, and write to nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    os.close(null)


def keep_only(*fds: int) -> tuple[int, ...]:
    """Move `fds` to 3, 4, … and close everything above: no descriptor leaks into a child."""
    high = [os.dup2(fd, 500 + i, inheritable=False) for i, fd in enumerate(fds)]
    kept = tuple(os.dup2(fd, 3 + i) for i, fd in enumerate(high))
    os.closerange(3 + len(fds), 1024)
    return kept


def limit(which: int, value: int) -> None:
    """Set a limit of the kernel, soft and hard."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def become(uid: int, group: int | None = None) -> None:
    """Run as `uid` from here on, for good. Who is of `group` may read the task, and what was recorded."""
    os.setgroups([] if group is None else [group])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def address_space() -> int:
    """Bytes that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
