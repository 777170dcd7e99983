"""Programs that leave something behind for a later program, and what looks for it. Runs in a container (`spawned`)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import spawned

FORKING = """
import ctypes, os
fork = ctypes.CDLL(None).syscall  # without what Python does around a fork
def f(x):
    for _ in range(24):
        if fork(57) == 0:
            os._exit(0)
    if os.fork() == 0:
        os.setsid()
        while True:
            if fork(57) > 0:
                os._exit(0)
    return 1
"""
"""A process whose child takes its place as soon as it can: its pid changes all the time. The dead, for which nothing
waits, make a look through /proc take longer.
"""

_CODE = """
import ctypes, mmap
def machine_code(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    KEPT.append(page)
    return ctypes.addressof(ctypes.c_char.from_buffer(page))
KEPT = []
"""
CLONING = (
    _CODE
    + """
import os
# again: clone(CLONE_VM); in the child, and after an error: again; exit(0)
HOP = bytes.fromhex("b838000000 bf00010000 31f6 31d2 4d31d2 4d31c0 0f05 85c0 7ee6 b83c000000 31ff 0f05")
def f(x):
    run = ctypes.CFUNCTYPE(None)(machine_code(HOP))
    if os.fork() == 0:
        os.setsid()
        run()
    return 1
"""
)
"""The same in machine code, some ten thousand pids a second."""

_PAGES = """
import os, time
PATH = "/usr/lib/x86_64-linux-gnu/libapt-pkg.so.6.0"
BITS, STEP = 32, 3 * 4096
def send(number):
    file = opened(PATH)
    advise(file, RANDOM)
    advise(file, DONTNEED)
    for bit in range(BITS):
        if number >> bit & 1:
            look(file, bit * STEP)
    return number
def receive():
    file = opened(PATH)
    advise(file, RANDOM)
    seen = 0
    for bit in range(BITS):
        began = time.perf_counter_ns()
        look(file, bit * STEP)
        seen |= (time.perf_counter_ns() - began < 25_000) << bit
    return seen
DONTNEED, RANDOM = 4, 1
def f(number):
    return send(number) if number else receive()
"""
READING = (
    _PAGES
    + """
def opened(name): return os.open(name, os.O_RDONLY)
def advise(file, advice): os.posix_fadvise(file, 0, 0, advice)
def look(file, at): os.pread(file, 1, at)
"""
)
"""Writes a number into the page cache: a bit is 1 where a page of a file of the image is in memory."""
CALLING = (
    _PAGES
    + """
import ctypes
CALL = ctypes.CDLL(None, use_errno=True).syscall
CALL.restype = ctypes.c_long
PLACE = ctypes.create_string_buffer(1)
def checked(*words):
    result = CALL(*map(ctypes.c_long, words))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
def opened(name):
    KEPT.append(ctypes.create_string_buffer(name.encode()))
    return checked(257, -100, ctypes.addressof(KEPT[-1]), 0)
def advise(file, advice): checked(221, file, 0, 0, advice)
def look(file, at): checked(17, file, ctypes.addressof(PLACE), 1, at)
KEPT = []
"""
)
"""The same by raw system calls."""
SYSTEM_CALL = (
    _PAGES
    + _CODE
    + """
# rax, rdi, rsi, rdx, r10, r8 of the arguments; syscall; ret
CALL = bytes.fromhex("4889f8 4889f7 4889d6 4889ca 4d89c2 4d89c8 0f05 c3")
CALL = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 6)(machine_code(CALL))
PLACE = ctypes.create_string_buffer(1)
def opened(name):
    KEPT.append(ctypes.create_string_buffer(name.encode()))
    return CALL(257, -100, ctypes.addressof(KEPT[-1]), 0, 0, 0)
def advise(file, advice): CALL(221, file, 0, 0, advice, 0)
def look(file, at): CALL(17, file, ctypes.addressof(PLACE), 1, at, 0)
"""
)
"""The same in machine code."""
LOCKING = """
import fcntl, os, struct
PATHS = ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/debian_version"]
def f(number):
    files = [os.open(path, os.O_RDONLY) for path in PATHS]
    if number:
        for bit, file in enumerate(files):
            if number >> bit & 1:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork(): os._exit(0)
        return number
    seen = 0
    for bit, file in enumerate(files):
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            seen |= 1 << bit
    return seen
"""
"""Locks on files that everybody can read, held by a process that survives."""
PROGRAMS = {
    "forking": FORKING, "cloning": CLONING, "reading": READING, "calling": CALLING, "system_call": SYSTEM_CALL,
    "locking": LOCKING,
}  # fmt: skip


def main(folder: str, told: str) -> None:
    """`told`: JSON with the names of what follows, and the defences to take back."""
    asked: dict[str, Any] = json.loads(told)
    import naive

    for name in asked["weaker"]:
        getattr(naive, f"take_the_old_{name}")()
    phases = {"train": lambda spawn: dodge(spawn, asked)} if "tries" in asked else {}
    for phase, number in asked.get("numbers", {}).items():
        phases[phase] = lambda spawn, number=number: carry(spawn, asked["program"], number)
    spawned.play(phases, asked["uid_base"])


def dodge(spawn: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
    """Start a program of which something may survive, again and again: how often it did, and what it was refused."""
    survived, refused = 0, []
    for _ in range(asked["tries"]):
        answer = call(spawn, PROGRAMS[asked["program"]], 1, asked.get("needs", ()))
        if isinstance(answer, str):
            refused.append(answer)
        if seen(50 if "sweep" in asked["weaker"] else 3):
            survived += 1
            if asked.get("until_first"):
                break
    survived += bool(not survived and seen(200))
    return {"survived": survived, "refused": len(refused), "said": refused[:1]}


def carry(spawn: socket.socket, program: str, number: int) -> Any:
    """What a program answers that was told a number to leave, or 0 to find one."""
    return call(spawn, PROGRAMS[program], number, ())


def call(spawn: socket.socket, source: str, argument: int, needs: Any) -> Any:
    from trace_bench.worker.candidates import CandidatePrograms, SpawnerClient
    from trace_bench.worker.problem import CandidateError, Limits

    limits = Limits(wall_seconds=20.0, cpu_seconds=20.0, needs=frozenset(needs))
    try:
        with CandidatePrograms(SpawnerClient(spawn), 1).open(source, "f", limits) as program:
            return program(argument)
    except CandidateError as error:
        return str(error)


def seen(looks: int) -> bool:
    """Whether one of many looks finds a process of a candidate."""
    mine = os.getuid()
    candidates = range(mine // 16 * 16 + 4, mine // 16 * 16 + 16)
    for _ in range(looks):
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if not entry.name.isdigit() or os.stat(entry.path).st_uid not in candidates:  # noqa: PTH116
                    continue
                if Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    return True
        time.sleep(0.001)
    return False


if __name__ == "__main__":
    sys.exit("this runs in a container")
