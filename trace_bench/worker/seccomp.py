"""The candidate's system-call filter, written as classic BPF: no library is needed in the image.

It refuses (EPERM) what a computation does not need and an attack does: sockets, tracing and reading other processes,
keys, namespaces (of clone too), mounts, System V and POSIX IPC, io_uring, performance counters, executing anything.
It stands on top of the engine's own profile and of the uid; it is not the only wall. Under gVisor, which need not apply
that profile, it is the only filter of candidates.

Executing, and ``prctl(PR_SET_DUMPABLE)``, are more than a nuisance: either makes a process the owner of its own files
in /proc again, and by ``oom_score_adj`` it then has the kernel kill the scorer in its place when memory runs out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000
_X32_BIT = 0x40000000
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
"""Its flags lie in memory, where a filter cannot look; without it, the C library falls back to clone."""
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_PR_SET_DUMPABLE = 4
_PRCTL = {"x86_64": 157, "aarch64": 167}

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED: dict[str, dict[str, int]] = {
    "x86_64": {
        "socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "socketpair": 53, "accept4": 288,
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_open": 434,
        "pidfd_getfd": 438, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "setns": 308,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "bpf": 321, "perf_event_open": 298,
        "userfaultfd": 323, "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66,
        "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241,
        "io_uring_setup": 425, "memfd_create": 319, "personality": 135, "execveat": 322, "fanotify_init": 300,
        "open_by_handle_at": 304, "init_module": 175, "kexec_load": 246, "execve": 59,
    },
    "aarch64": {
        "socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "accept": 202, "connect": 203, "accept4": 242,
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_open": 434,
        "pidfd_getfd": 438, "add_key": 217, "request_key": 218, "keyctl": 219, "unshare": 97, "setns": 268,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "bpf": 280, "perf_event_open": 241,
        "userfaultfd": 282, "shmget": 194, "shmctl": 195, "shmat": 196, "semget": 190, "semctl": 191,
        "semtimedop": 192, "semop": 193, "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189, "mq_open": 180,
        "mq_unlink": 181, "io_uring_setup": 425, "memfd_create": 279, "personality": 92, "execveat": 281,
        "fanotify_init": 262, "open_by_handle_at": 265, "init_module": 105, "kexec_load": 104, "execve": 221,
    },
}  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def program(machine: str) -> bytes:
    """The filter for `machine` (``uname -m``) as an array of ``struct sock_filter``.

    Raises:
        KeyError: no table for this machine.
    """
    denied = sorted(_DENIED[machine].values())
    load_arch, load_nr = (0x20, 0, 0, 4), (0x20, 0, 0, 0)
    jeq, jge, ret = 0x15, 0x35, 0x06
    jset, load_flags = 0x45, (0x20, 0, 0, 16)
    body: list[tuple[int, int, int, int]] = [
        load_arch,
        (jeq, 1, 0, _AUDIT_ARCH[machine]),
        (ret, 0, 0, _KILL_PROCESS),
    ]
    body.append(load_nr)
    if machine == "x86_64":
        body += [(jge, 0, 1, _X32_BIT), (ret, 0, 0, _ERRNO | errno.EPERM)]
    body += [
        (jeq, 0, 4, _CLONE[machine]),
        load_flags,
        (jset, 0, 1, _NEW_NAMESPACES),
        (ret, 0, 0, _ERRNO | errno.EPERM),
        (ret, 0, 0, _ALLOW),
        (jeq, 0, 1, _CLONE3),
        (ret, 0, 0, _ERRNO | errno.ENOSYS),
        (jeq, 0, 4, _PRCTL[machine]),
        (0x20, 0, 0, 16),  # the low half of the first argument
        (jeq, 0, 1, _PR_SET_DUMPABLE),
        (ret, 0, 0, _ERRNO | errno.EPERM),
        (ret, 0, 0, _ALLOW),
    ]
    for index, number in enumerate(denied):
        to_deny = len(denied) - index
        body.append((jeq, to_deny, 0, number))
    body += [(ret, 0, 0, _ALLOW), (ret, 0, 0, _ERRNO | errno.EPERM)]
    return b"".join(struct.pack("<HBBI", *item) for item in body)


class Filter:
    """A filter prepared before the fork, so that the child only has to install it."""

    def __init__(self) -> None:
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self.machine = os.uname().machine
        self.supported = self.machine in _DENIED
        code = program(self.machine) if self.supported else b""
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = _Program(len(code) // 8, ctypes.addressof(self._code))

    def no_new_privileges(self) -> None:
        """Give up ever gaining privileges through exec. Raises OSError."""
        if self._prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs was refused")

    def install(self) -> None:
        """Filter this process and its children from now on. Raises OSError if the kernel refuses."""
        if not self.supported:
            raise OSError(errno.ENOSYS, f"no system-call table for {self.machine}")
        self.no_new_privileges()
        if self._prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(self._program), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the system-call filter was refused")
