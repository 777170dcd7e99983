"""The system-call filter, as a program and in force in a real process."""

from __future__ import annotations

import errno
import os
import platform
import struct

import pytest

from trace_bench.worker.seccomp import Filter, program

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
DENY = 0x00050000 | errno.EPERM


def verdict(machine: str, arch: int, number: int, first: int = 0) -> int:
    """Interpret the filter as the kernel would."""
    code = [struct.unpack_from("<HBBI", program(machine), at) for at in range(0, len(program(machine)), 8)]
    at, accumulator = 0, 0
    while True:
        op, if_true, if_false, value = code[at]
        at += 1
        if op == 0x20:
            accumulator = {0: number, 4: arch, 16: first}[value]
        elif op == 0x45:
            at += if_true if accumulator & value else if_false
        elif op == 0x15:
            at += if_true if accumulator == value else if_false
        elif op == 0x35:
            at += if_true if accumulator >= value else if_false
        elif op == 0x06:
            return int(value)


@pytest.mark.parametrize(
    ("machine", "number", "expected"),
    [
        ("x86_64", 0, ALLOW),  # read
        ("x86_64", 1, ALLOW),  # write
        ("x86_64", 41, DENY),  # socket, the first of the table
        ("x86_64", 29, DENY),  # shmget, the smallest number
        ("x86_64", 438, DENY),  # pidfd_getfd, the largest
        ("x86_64", 101, DENY),  # ptrace
        ("x86_64", 439, ALLOW),
        ("x86_64", 0x40000000 | 41, DENY),  # the x32 way to a socket
        ("x86_64", 0x40000000, DENY),
        ("aarch64", 198, DENY),  # socket
        ("aarch64", 63, ALLOW),  # read
        ("aarch64", 117, DENY),  # ptrace
    ],
)
def test_verdicts(machine: str, number: int, expected: int) -> None:
    assert verdict(machine, ARCH[machine], number) == expected


@pytest.mark.parametrize(("machine", "prctl", "execve"), [("x86_64", 157, 59), ("aarch64", 167, 221)])
def test_a_process_cannot_own_its_files_in_proc_again(machine: str, prctl: int, execve: int) -> None:
    assert verdict(machine, ARCH[machine], prctl, 4) == DENY  # PR_SET_DUMPABLE
    assert verdict(machine, ARCH[machine], prctl, 15) == ALLOW  # PR_SET_NAME, which threads use
    assert verdict(machine, ARCH[machine], execve) == DENY


CLONE = {"x86_64": 56, "aarch64": 220}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("flags", [0x01200011, 0x003D0F00], ids=["fork", "thread"])
def test_processes_and_threads_can_be_had(machine: str, flags: int) -> None:
    assert verdict(machine, ARCH[machine], CLONE[machine], flags) == ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("flag", [0x20000, *(1 << bit for bit in range(25, 31))])
def test_a_process_in_another_namespace_cannot_be_had(machine: str, flag: int) -> None:
    assert verdict(machine, ARCH[machine], CLONE[machine], 0x11 | flag) == DENY


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_clone3_seems_unknown_so_that_the_c_library_takes_clone(machine: str) -> None:
    assert verdict(machine, ARCH[machine], 435) == 0x00050000 | errno.ENOSYS


def test_another_architectures_calls_kill_the_process() -> None:
    assert verdict("x86_64", 0x40000003, 1) == KILL  # i386 has other numbers


@pytest.mark.skipif(platform.machine() not in ARCH, reason="no system-call table for this machine")
def test_in_force_it_refuses_sockets_and_lets_computation_be() -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            import socket

            Filter().install()
            try:
                socket.socket()
            except PermissionError:
                code = 0 if sum(range(1000)) == 499500 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
