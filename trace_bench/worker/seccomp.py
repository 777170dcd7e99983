"""The candidate's system-call filters, written as classic BPF: no library is needed in the image.

Those of a candidate are lists of what is allowed; everything else is refused (EPERM). A process takes them one after
the other:

* ``loading``: before the source is looked at. It may open files, so that imports work. It may not start a process.
* ``closed``: before the first line of the source runs. What is left is memory, threads, clocks, random numbers and the
  socket that the candidate answers on: no file can be opened, looked at, mapped, locked or evicted, no process started,
  and no memory made executable.

A task may need more (``[limits] needs``): ``files`` and ``processes`` widen both lists, and with ``machine_code``
memory may be made executable, which PyTorch's convolutions need; what is executed there has the same filter. With
``files`` beside it, libraries may be loaded. Executing a program, ``prctl(PR_SET_DUMPABLE)``, file locks and advice
about the page cache are refused even then. The first two make a process the owner of its own files in /proc again,
where ``oom_score_adj`` has the kernel kill the scorer in its place.

``gpu`` allows what the driver of a GPU needs, with ``files`` and ``machine_code`` beside it: its device files are
opened, controlled and mapped. The list follows what is known of the driver; no GPU has been tried.

``compiler`` is for processes that run a compiler: `g++`, or Lean, which also runs code of what it compiles. What such
a program calls is not known in advance, so its filter, ``compiling``, is a list of what is refused: the network, other
processes' memory, namespaces, and what could carry a message to a later program (locks, the page cache, the IPC of
System V).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

NEEDS = ("files", "processes", "machine_code", "gpu", "compiler")
"""What a task may ask for beyond computing: in its spec all but the last two, which its code alone may ask for."""

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
"""Arguments of seccomp(2). A module may start a thread while it is imported, which must not keep what loading needs."""
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000
_X32_BIT = 0x40000000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OWN_PID = 0xFFFF_FFF1
"""Stands for the pid of the process that takes the filter."""

_CLOSED = {
    # What computing needs; the calls of a frame and of a thread first. Pairs: x86_64, aarch64.
    "recvfrom": (45, 207), "writev": (20, 66), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "clock_gettime": (228, 113), "sched_yield": (24, 124), "read": (0, 63), "write": (1, 64), "sendto": (44, 206),
    "close": (3, 57), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "clock_nanosleep": (230, 115), "nanosleep": (35, 101), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "getrandom": (318, 278), "sched_getaffinity": (204, 123), "restart_syscall": (219, 128),
    "setitimer": (38, 103), "getitimer": (36, 102), "alarm": (37, None), "pause": (34, None), "getpid": (39, 172),
    "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "set_robust_list": (273, 99), "rseq": (334, 293), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_READING = {
    "open": (2, None), "openat": (257, 56), "stat": (4, None), "lstat": (6, None), "fstat": (5, 80),
    "newfstatat": (262, 79), "statx": (332, 291), "lseek": (8, 62), "pread64": (17, 67), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78),
    "getdents64": (217, 61), "getcwd": (79, 17), "statfs": (137, 43), "fstatfs": (138, 44),
}  # fmt: skip
_LOADING = _READING | {
    # What importing modules needs beyond reading them.
    "mmap": (9, 222), "mprotect": (10, 226), "madvise": (28, 233), "ioctl": (16, 29), "uname": (63, 160),
    "sysinfo": (99, 179), "getrlimit": (97, 163), "prlimit64": (302, 261), "getrusage": (98, 165),
    "getsockname": (51, 204), "getsockopt": (55, 209), "seccomp": (317, 277),
}  # fmt: skip
_PROCESSES = {
    "fork": (57, None), "vfork": (58, None), "wait4": (61, 260), "waitid": (247, 95), "pipe": (22, None),
    "pipe2": (293, 59), "kill": (62, 129), "tgkill": (234, 131), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "setsid": (112, 157), "setpgid": (109, 154), "getpgid": (121, 155),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
}  # fmt: skip
_GPU = {
    "ioctl": (16, 29), "recvmsg": (47, 212), "mlock": (149, 228), "munlock": (150, 229), "getrusage": (98, 165),
    "uname": (63, 160), "sysinfo": (99, 179), "getrlimit": (97, 163), "prlimit64": (302, 261), "getcpu": (309, 168),
    "get_mempolicy": (239, 236), "membarrier": (324, 283), "eventfd2": (290, 19), "pipe2": (293, 59),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "sched_setaffinity": (203, 122), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
}  # fmt: skip


_NOT_WHILE_COMPILING: Mapping[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "flock": (73, 32),
    "fadvise64": (221, 223), "readahead": (187, 213), "mincore": (27, 232), "cachestat": (451, 451),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "msgget": (68, 186), "semget": (64, 190), "shmget": (29, 194), "mq_open": (240, 180),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "personality": (135, 92),
}  # fmt: skip


class _Check(NamedTuple):
    """Condition on an argument of a call: `argument` & `mask` is one of `values`."""

    argument: int
    mask: int
    values: tuple[int, ...]


class _Rule(NamedTuple):
    """A call that is allowed if all `checks` hold. `refusal` is the error otherwise."""

    numbers: tuple[int | None, int | None]
    checks: tuple[_Check, ...]
    refusal: int = errno.EPERM


_LOW = 0xFFFF_FFFF
_THREAD, _NAMESPACES = 0x10000, 0x7E020000
_CLONE, _CLONE3 = (56, 220), (435, 435)
_NO_CLONE3 = _Rule(_CLONE3, (_Check(0, 0, (1,)),), errno.ENOSYS)
"""Its flags lie in memory, where a filter cannot look; without it, the C library falls back to clone."""
_MEMORY = (
    # FUTEX_WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET, private or not, on either clock.
    _Rule((202, 98), (_Check(1, _LOW ^ 0x180, (0, 1, 3, 4, 5, 9, 10)),)),
    # mmap: anonymous, of usual pages; mmap and mprotect: nothing that can be executed.
    _Rule((9, 222), (_Check(2, 0x4, (0,)), _Check(3, 0x40020, (0x20,)))),
    _Rule((10, 226), (_Check(2, 0x4, (0,)),)),
    # MADV_NORMAL, DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE. Others tell of the page cache, or evict from it.
    _Rule((28, 233), (_Check(2, _LOW, (0, 4, 8, 14, 15)),)),
)
# MADV_DONTFORK, DOFORK too: the driver marks what it maps.
_ADVICE_OF_DRIVERS = _Rule((28, 233), (_Check(2, _LOW, (0, 4, 8, 10, 11, 14, 15)),))
_MACHINE_CODE = (_MEMORY[0], _Rule((9, 222), (_Check(3, 0x40020, (0x20,)),)), _Rule((10, 226), ()), _MEMORY[3])
_LIBRARIES = (_MEMORY[0], _Rule((9, 222), ()), _Rule((10, 226), ()), _MEMORY[3])
_THREADS_ONLY = _Rule(_CLONE, (_Check(0, _THREAD | _NAMESPACES, (_THREAD,)),))
_NO_NAMESPACE = _Rule(_CLONE, (_Check(0, _NAMESPACES, (0,)),))
_OWN_SIGNALS = (
    _Rule((62, 129), (_Check(0, _LOW, (_OWN_PID,)),)),
    _Rule((234, 131), (_Check(0, _LOW, (_OWN_PID,)),)),
)
_NO_NEW_PRIVILEGES = _Rule((157, 167), (_Check(0, _LOW, (_PR_SET_NO_NEW_PRIVS,)),))
# F_DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC: no locks, no leases, no notices.
_NO_LOCKS = _Rule((72, 25), (_Check(1, _LOW, (0, 1, 2, 3, 4, 1030)),))
# TCGETS (is it a terminal?), FIONBIO, FIOCLEX.
_TERMINAL = _Rule((16, 29), (_Check(1, _LOW, (0x5401, 0x5421, 0x5451)),))

_LD_ARCH, _LD_NUMBER, _JEQ, _JGE, _AND, _RET = (0x20, 0, 0, 4), (0x20, 0, 0, 0), 0x15, 0x35, 0x54, 0x06
_Instruction = tuple[int, int, int, int]


def program(machine: str, stage: str, needs: Collection[str] = (), pid: int = _OWN_PID) -> bytes:
    """The filter of `stage` for `machine` (``uname -m``) as an array of ``struct sock_filter``.

    Args:
        stage: ``loading``, ``closed`` or ``compiling``.
        needs: words of `NEEDS` that the task declares.
        pid: the only process that `kill` reaches, unless it needs processes.

    Raises:
        KeyError: no table for this machine.
    """
    arch = _AUDIT_ARCH[machine]
    column = 0 if machine == "x86_64" else 1
    refuse, allow = (_RET, 0, 0, _ERRNO | errno.EPERM), (_RET, 0, 0, _ALLOW)
    listed, otherwise = allow, refuse
    calls, rules = _allowed(stage, needs)
    if stage == "compiling":
        listed, otherwise = refuse, allow
    plain = [numbers[column] for numbers in calls.values() if numbers[column] is not None]
    body: list[_Instruction] = [_LD_ARCH, (_JEQ, 1, 0, arch), (_RET, 0, 0, _KILL_PROCESS), _LD_NUMBER]
    if machine == "x86_64":
        body += [(_JGE, 0, 1, _X32_BIT), refuse]
    for left, number in zip(range(len(plain) - 1, -1, -1), plain, strict=True):
        body.append((_JEQ, left, 0 if left else 1, number or 0))
    body.append(listed)
    for rule in rules:
        body += _conditional(rule, column, pid)
    body.append(otherwise)
    return b"".join(struct.pack("<HBBI", *item) for item in body)


def _allowed(stage: str, needs: Collection[str]) -> tuple[Mapping[str, tuple[int | None, int | None]], list[_Rule]]:
    """Calls that are allowed (while compiling: refused) whatever their arguments, and those that depend on them."""
    if stage == "compiling":
        return _NOT_WHILE_COMPILING, [_NO_CLONE3, _NO_NAMESPACE, _NO_LOCKS, _ADVICE_OF_DRIVERS]
    processes, files = "processes" in needs, "files" in needs
    calls = dict(_CLOSED)
    rules = [_NO_CLONE3, _NO_NAMESPACE if processes else _THREADS_ONLY]
    if stage == "loading":
        calls |= _LOADING
        rules += [_MEMORY[0], _NO_NEW_PRIVILEGES]
    else:
        rules += _MEMORY if "machine_code" not in needs else _LIBRARIES if files else _MACHINE_CODE
    if "gpu" in needs:
        calls |= _GPU
        rules = [rule for rule in rules if rule.numbers != _ADVICE_OF_DRIVERS.numbers] + [_ADVICE_OF_DRIVERS]
    if files:
        calls |= _READING
    if processes:
        calls |= _PROCESSES
    else:
        rules += _OWN_SIGNALS
    if files or processes or stage == "loading":
        rules.append(_NO_LOCKS)
    if (files or processes) and "ioctl" not in calls:
        rules.append(_TERMINAL)
    return calls, rules


def _conditional(rule: _Rule, column: int, pid: int) -> Iterator[_Instruction]:
    """Instructions that decide on the call of `rule` for good, and are passed over for every other one."""
    number = rule.numbers[column]
    if number is None:
        return
    refuse = (_RET, 0, 0, _ERRNO | rule.refusal)
    block: list[_Instruction] = []
    for check in rule.checks:
        block.append((0x20, 0, 0, 16 + 8 * check.argument))  # the low half of the argument
        block.append((_AND, 0, 0, check.mask))
        for left, value in zip(range(len(check.values) - 1, -1, -1), check.values, strict=True):
            # A match goes on behind the refusal; the last mismatch falls into it.
            block.append((_JEQ, left + 1, 0, pid if value == _OWN_PID else value))
        block.append(refuse)
    block.append((_RET, 0, 0, _ALLOW))
    yield (_JEQ, 0, len(block), number)
    yield from block


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """The filters of this machine. `prepare` before a fork what the child only has to install."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.machine = os.uname().machine
        self.supported = self.machine in _AUDIT_ARCH
        self._code: dict[tuple[str, frozenset[str]], bytes] = {}

    def prepare(self, stage: str, needs: Collection[str] = ()) -> bytes:
        """The program of `stage`, made once. Raises OSError where there is no table for this machine."""
        if not self.supported:
            raise OSError(errno.ENOSYS, f"no system-call table for {self.machine}")
        key = (stage, frozenset(needs))
        if key not in self._code:
            self._code[key] = program(self.machine, stage, needs)
        return self._code[key]

    def no_new_privileges(self) -> None:
        """Give up ever gaining privileges through exec. Raises OSError."""
        if self._libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs was refused")

    @staticmethod
    def stage(stage: str, needs: Collection[str]) -> str:
        """The filter that a candidate's process takes at `stage`; empty if it takes none yet."""
        if "compiler" in needs:
            return "compiling" if stage == "closed" else ""
        return stage

    def install(self, stage: str, needs: Collection[str] = ()) -> None:
        """Filter all threads of this process from now on, on top of what they have.

        Raises:
            OSError: the kernel refuses.
        """
        code = self.prepare(stage, needs).replace(struct.pack("<I", _OWN_PID), struct.pack("<I", os.getpid()))
        self.no_new_privileges()
        buffer = ctypes.create_string_buffer(code, len(code))
        filters = _Program(len(code) // 8, ctypes.addressof(buffer))
        call = _LOADING["seccomp"][0 if self.machine == "x86_64" else 1]
        if self._libc.syscall(call, _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(filters)) != 0:
            raise OSError(ctypes.get_errno(), "the system-call filter was refused")
