"""The system-call filters, as programs and in force in a real process."""

from __future__ import annotations

import errno
import os
import platform
import queue
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_bench.worker.seccomp import Filter, program

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
DENY, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
NEEDS = [(), ("files",), ("processes",), ("files", "processes")]
PID = 4711


def verdict(
    machine: str, arch: int, number: int, *args: int, stage: str = "closed", needs: tuple[str, ...] = ()
) -> int:
    """Interpret the filter as the kernel would."""
    raw = program(machine, stage, needs, PID)
    code = [struct.unpack_from("<HBBI", raw, at) for at in range(0, len(raw), 8)]
    data = {0: number, 4: arch} | {16 + 8 * at: value for at, value in enumerate((*args, *[0] * 6)[:6])}
    at, accumulator = 0, 0
    while True:
        op, if_true, if_false, value = code[at]
        at += 1
        if op == 0x20:
            accumulator = data[value]
        elif op == 0x54:
            accumulator &= value
        elif op == 0x15:
            at += if_true if accumulator == value else if_false
        elif op == 0x35:
            at += if_true if accumulator >= value else if_false
        elif op == 0x06:
            return int(value)
        else:
            raise AssertionError(f"unknown instruction {op:#x}")


def closed(number: int, *args: int, needs: tuple[str, ...] = ()) -> int:
    return verdict("x86_64", ARCH["x86_64"], number, *args, needs=needs)


@pytest.mark.parametrize(("machine", "numbers"), [
    ("x86_64", {0: "read", 20: "writev", 45: "recvfrom", 12: "brk", 228: "clock_gettime", 318: "getrandom"}),
    ("aarch64", {63: "read", 66: "writev", 207: "recvfrom", 214: "brk", 113: "clock_gettime", 278: "getrandom"}),
])  # fmt: skip
def test_what_computing_needs_is_allowed(machine: str, numbers: dict[int, str]) -> None:
    for number, name in numbers.items():
        assert verdict(machine, ARCH[machine], number) == ALLOW, name


FORBIDDEN = {
    "open": 2, "openat": 257, "openat2": 437, "open_by_handle_at": 304, "stat": 4, "statx": 332, "getdents64": 217,
    "fcntl": 72, "flock": 73, "fadvise64": 221, "readahead": 187, "mincore": 27, "cachestat": 451, "preadv2": 327,
    "pread64": 17, "sync_file_range": 277, "io_uring_setup": 425, "memfd_create": 319, "inotify_init": 253,
    "socket": 41, "socketpair": 53, "sendmsg": 46, "recvmsg": 47, "pipe": 22, "pipe2": 293, "eventfd2": 290,
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "wait4": 61, "ptrace": 101, "process_vm_readv": 310,
    "pidfd_open": 434, "prctl": 157, "seccomp": 317, "unshare": 272, "mlock": 149, "process_madvise": 440,
    "getrusage": 98, "sysinfo": 99, "times": 100, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
    "keyctl": 250, "timer_create": 222, "sched_setaffinity": 203, "getpriority": 140, "one that is new": 9999,
}  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_all_else_is_refused(name: str) -> None:
    assert closed(FORBIDDEN[name]) == DENY


@pytest.mark.parametrize("name", [
    "flock", "fadvise64", "readahead", "mincore", "cachestat", "preadv2", "execve", "execveat", "prctl", "ptrace",
    "socket", "memfd_create", "process_madvise", "keyctl", "io_uring_setup", "unshare", "getrusage",
])  # fmt: skip
@pytest.mark.parametrize("needs", NEEDS)
def test_no_task_can_declare_that_it_needs(needs: tuple[str, ...], name: str) -> None:
    assert closed(FORBIDDEN[name], needs=needs) == DENY


def test_what_a_task_declares_is_allowed_and_nothing_else() -> None:
    assert [closed(257, needs=needs) for needs in NEEDS] == [DENY, ALLOW, DENY, ALLOW]
    assert [closed(57, needs=needs) for needs in NEEDS] == [DENY, DENY, ALLOW, ALLOW]


@pytest.mark.parametrize("command", [6, 7, 37, 38, 1024, 1026], ids=["SETLKW", "x", "OFD", "OFDW", "LEASE", "NOTIFY"])
@pytest.mark.parametrize("needs", NEEDS)
def test_locks_and_leases_of_files_are_refused(needs: tuple[str, ...], command: int) -> None:
    assert closed(72, 3, command, needs=needs) == DENY


FORK, THREAD = 0x01200011, 0x003D0F00
CLONE = {"x86_64": 56, "aarch64": 220}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("stage", ["loading", "closed"])
def test_threads_can_be_had_and_processes_only_where_they_are_declared(machine: str, stage: str) -> None:
    def asked(flags: int, needs: tuple[str, ...] = ()) -> int:
        return verdict(machine, ARCH[machine], CLONE[machine], flags, stage=stage, needs=needs)

    assert asked(THREAD) == ALLOW
    # CLONE_VM and CLONE_VFORK alone make processes.
    assert [asked(flags) for flags in (FORK, 0x100, 0x4100, 0)] == [DENY] * 4
    assert asked(FORK, ("processes",)) == ALLOW
    for bit in (17, *range(25, 31)):
        assert asked(THREAD | 1 << bit) == asked(FORK | 1 << bit, ("processes",)) == DENY


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_clone3_seems_unknown_so_that_the_c_library_takes_clone(machine: str) -> None:
    assert verdict(machine, ARCH[machine], 435) == UNKNOWN


def test_memory_is_anonymous_and_never_executable() -> None:
    private, shared, file, huge = 0x22, 0x21, 0x02, 0x40022
    assert [closed(9, 0, 4096, 3, flags) for flags in (private, shared, file, huge)] == [ALLOW, ALLOW, DENY, DENY]
    assert [closed(9, 0, 4096, rights, private) for rights in (0, 1, 3, 4, 5, 7)] == [ALLOW] * 3 + [DENY] * 3
    assert [closed(10, 0, 4096, rights) for rights in (0, 1, 3, 4, 5, 7)] == [ALLOW] * 3 + [DENY] * 3
    assert closed(329, 0, 4096, 7) == DENY  # pkey_mprotect


def test_advice_about_memory_tells_nothing_and_evicts_nothing() -> None:
    assert [closed(28, 0, 4096, advice) for advice in (0, 4, 8, 14, 15)] == [ALLOW] * 5
    assert [closed(28, 0, 4096, advice) for advice in (3, 9, 20, 21, 22, 23, 100)] == [DENY] * 7


def test_a_process_can_signal_itself_and_no_other() -> None:
    assert [closed(62, pid, 9) for pid in (PID, 0, 1, 0xFFFFFFFF, PID + 1)] == [ALLOW, DENY, DENY, DENY, DENY]
    assert [closed(234, pid, PID, 6) for pid in (PID, 1)] == [ALLOW, DENY]


def test_locks_among_threads_are_allowed_and_those_that_tell_a_thread_id_are_not() -> None:
    private, clock = 0x80, 0x100
    assert [closed(202, 0, op | private | clock) for op in (0, 1, 3, 4, 5, 9, 10)] == [ALLOW] * 7
    assert [closed(202, 0, op) for op in (6, 7, 8, 11, 12, 13)] == [DENY] * 6  # with priority inheritance


@pytest.mark.parametrize("stage", ["loading", "closed"])
@pytest.mark.parametrize("needs", NEEDS)
def test_calls_of_other_architectures_are_refused(stage: str, needs: tuple[str, ...]) -> None:
    assert verdict("x86_64", 0x40000003, 1, stage=stage, needs=needs) == KILL  # i386 has other numbers
    assert verdict("x86_64", ARCH["x86_64"], 0x40000000, stage=stage, needs=needs) == DENY  # x32


def test_loading_may_read_files_and_take_the_next_filter() -> None:
    def loading(number: int, *args: int) -> int:
        return verdict("x86_64", ARCH["x86_64"], number, *args, stage="loading")

    assert [loading(number) for number in (257, 5, 217, 9)] == [ALLOW] * 4
    assert [loading(317), *(loading(157, option) for option in (38, 22, 4, 15))] == [ALLOW, ALLOW, DENY, DENY, DENY]
    assert [loading(number) for number in (41, 57, 59, 221, 425)] == [DENY] * 5


def in_process(body: Callable[[], bool]) -> bool:
    """Whether `body` is true in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if body() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def in_force(body: Callable[[], bool]) -> bool:
    """Whether `body` is true in a process that has both filters."""

    def filtered() -> bool:
        taken = Filter()
        taken.install("loading")
        taken.install("closed")
        return body()

    return in_process(filtered)


def refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except PermissionError:
        return True
    return False


@pytest.mark.skipif(platform.machine() not in ARCH, reason="no system-call table for this machine")
def test_in_force_they_refuse_files_and_processes_and_let_computation_be() -> None:
    assert in_force(lambda: refused(Path("/etc/passwd").read_text) and refused(os.fork) and refused(Path("/").stat))
    assert in_force(lambda: sum(range(1000)) == 499500 and len(bytes(1 << 24)) == 1 << 24)


@pytest.mark.skipif(platform.machine() not in ARCH, reason="no system-call table for this machine")
def test_a_thread_that_was_there_before_is_filtered_too() -> None:
    work: queue.Queue[Callable[[], object]] = queue.Queue()
    answers: queue.Queue[bool] = queue.Queue()

    def begin() -> bool:
        threading.Thread(target=lambda: answers.put(refused(work.get())), daemon=True).start()
        taken = Filter()
        taken.install("loading")
        taken.install("closed")
        work.put(Path("/etc/passwd").read_text)
        return answers.get(timeout=10)

    assert in_process(begin)


@pytest.mark.skipif(platform.machine() not in ARCH, reason="no system-call table for this machine")
def test_a_process_cannot_own_its_files_in_proc_again() -> None:
    import ctypes

    assert in_force(lambda: ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == -1)


@pytest.mark.parametrize("machine", list(ARCH))
def test_a_compiler_may_do_all_but_reach_others(machine: str) -> None:
    """It executes programs, and writes files; it has no network, no locks, and no look at other processes."""
    column = 0 if machine == "x86_64" else 1

    def compiling(numbers: tuple[int, int], *args: int) -> int:
        return verdict(machine, ARCH[machine], numbers[column], *args, stage="compiling")

    for name, numbers in {"execve": (59, 221), "openat": (257, 56), "wait4": (61, 260), "mmap": (9, 222)}.items():
        assert compiling(numbers, 0, 0, 7) == ALLOW, name
    refused = {"socket": (41, 198), "ptrace": (101, 117), "process_vm_readv": (310, 270), "flock": (73, 32),
               "fadvise64": (221, 223), "mincore": (27, 232), "unshare": (272, 97), "setns": (308, 268),
               "io_uring_setup": (425, 425), "shmget": (29, 194)}  # fmt: skip
    for name, numbers in refused.items():
        assert compiling(numbers) == DENY, name
    assert compiling((72, 25), 3, 2) == ALLOW and compiling((72, 25), 3, 37) == DENY  # F_SETFD, F_OFD_SETLK
    assert compiling((56, 220), 0x11) == ALLOW and compiling((56, 220), 0x20000000) == DENY  # CLONE_NEWPID
    assert compiling((435, 435)) == UNKNOWN


def test_candidates_take_two_filters_and_compilers_one() -> None:
    assert [Filter.stage(stage, ("files",)) for stage in ("loading", "closed")] == ["loading", "closed"]
    assert [Filter.stage(stage, ("compiler",)) for stage in ("loading", "closed")] == ["", "compiling"]
