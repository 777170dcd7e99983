"""Attacks by processes: what stays behind, what multiplies, and what is aimed at parent, spawner and supervisor."""

from tests.adversarial.attacks import FAILED, Attack

ATTACKS = (
    Attack(
        "daemon",
        """
import os, time
def deed():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
""",
    ),
    Attack(
        "thread",
        """
import threading, time
def linger():
    while True:
        time.sleep(1)
def deed():
    for _ in range(4):
        threading.Thread(target=linger).start()
""",
    ),
    Attack(
        "a_child_that_answers",
        """
import os, time
def attack(honest, *args):
    if os.fork() == 0:
        return honest(*args)
    time.sleep(600)
""",
        FAILED,
        "PermissionError",
    ),
    Attack(
        "fork_bomb",
        """
import os, time
def attack(honest, *args):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.05)
""",
        FAILED,
        timeout_seconds=1.0,
    ),
    Attack(
        "memory_bomb",
        "def attack(honest, *args):\n    kept = []\n    while True: kept.append(bytearray(1 << 24))",
        FAILED,
        "memory failed",
    ),
    Attack(
        "a_lower_oom_score",
        """
import ctypes, os, time
def spare_me():
    # Back to where the container's first process stands, so that the scorer is a likelier victim than this.
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")
def attack(honest, *args):
    try:
        spare_me()
    except OSError:
        pass
    else:
        raise Leak("nothing makes the kernel choose a candidate any more")
    return honest(*args)
""",
    ),
    Attack(
        "program_that_spares_itself",
        """
import os, sys
def deed():
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(sys.executable or "/usr/bin/python3", ["python3", "-c",
                     "open('/proc/self/oom_score_adj', 'w').write('0')"])
        except OSError:
            os._exit(9)
    if os.waitpid(pid, 0)[1] == 0:
        raise Leak("a program that it executed has lowered its oom_score_adj")
""",
    ),
    Attack(
        "busy_children",
        """
import os, time
def attack(honest, *args):
    for _ in range(16):
        if os.fork() == 0:
            while True: pass
    time.sleep(60)
""",
        FAILED,
        "PermissionError",
    ),
    Attack(
        "kill_everybody",
        """
import os, signal
def deed():
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
        for pid in range(1, 200):
            if pid != os.getpid():
                try:
                    os.kill(pid, number)
                except OSError:
                    continue
                if os.stat(f"/proc/{pid}").st_uid != os.getuid():
                    raise Leak(pid)
""",
    ),
    Attack(
        "kill_minus_one",
        """
import os, signal
def deed():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(-1, signal.SIGTERM)
    os.killpg(0, signal.SIGTERM)
    for pid in (os.getppid(), 1):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            try:
                os.kill(pid, number)
            except PermissionError:
                continue
            raise Leak(pid)
""",
    ),
    Attack(
        "ptrace",
        """
import ctypes, os
def deed():
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in [os.getppid(), *(int(p) for p in os.listdir("/proc") if p.isdigit())]:
        for request in (16, 0x4206):
            if libc.ptrace(request, pid, None, None) == 0:
                raise Leak(pid)
        local = (ctypes.c_ulong * 2)(0, 0)
        # Of no bytes: the kernel would let that pass for any process, and only a filter refuses it.
        if libc.process_vm_readv(pid, local, 1, local, 1, 0) != -1 or libc.syscall(434, pid, 0) >= 0:
            raise Leak(pid)
""",
    ),
    Attack(
        "limits_of_others",
        """
import os, resource
def deed():
    for pid in (p for p in map(str, os.listdir("/proc")) if p.isdigit()):
        if os.stat("/proc/" + pid).st_uid == os.getuid():
            continue
        for try_it in (
            lambda: resource.prlimit(int(pid), resource.RLIMIT_CPU, (1, 1)),
            lambda: os.setpriority(os.PRIO_PROCESS, int(pid), 19),
            lambda: os.sched_setscheduler(int(pid), os.SCHED_IDLE, os.sched_param(0)),
        ):
            try:
                try_it()
            except OSError:
                continue
            raise Leak(pid)
""",
    ),
    Attack(
        "become_somebody_else",
        """
import ctypes, os
def deed():
    uid = os.getuid()
    for other in (0, uid - uid % 16 + 2, uid + 1):
        for become in (os.setuid, os.seteuid, os.setgid, lambda u: os.setresuid(u, u, u), lambda u: os.setgroups([u])):
            try:
                become(other)
            except OSError:
                continue
            raise Leak(other)
    libc = ctypes.CDLL(None)
    if libc.unshare(0x10000000) == 0 or libc.setns(0, 0) == 0 or libc.mount(b"none", b"/tmp", b"tmpfs", 0, 0) == 0:
        raise Leak("namespaces")
""",
    ),
    Attack(
        "hold_a_lock",
        """
import fcntl, struct
def deed():
    # 37: F_OFD_SETLK, whose locks every process that opens the file can see
    lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
    for number in (0, 1, 2, 3):
        for take in (lambda: fcntl.flock(number, fcntl.LOCK_SH), lambda: fcntl.fcntl(number, 37, lock),
                     lambda: fcntl.lockf(number, fcntl.LOCK_SH)):
            try:
                take()
            except OSError:
                continue
            raise Leak(number)
""",
    ),
    Attack(
        "advice_about_pages",
        """
import ctypes, mmap, resource
def deed():
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.mmap(-1, 4096)
    place, seen = ctypes.addressof(ctypes.c_char.from_buffer(page)), ctypes.create_string_buffer(8)
    # of the memory that the interpreter's own file is mapped to: populate, pageout, cold, willneed
    for advice in (22, 21, 20, 3):
        if libc.madvise(ctypes.c_void_p(id(int) & ~4095), ctypes.c_size_t(4096), advice) == 0:
            raise Leak(advice)
    if libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(4096), seen) == 0:
        raise Leak("mincore")
    if libc.posix_fadvise(0, 0, 0, 4) == 0 or libc.readahead(0, 0, 1) == 0:
        raise Leak("files")
    try:
        resource.getrusage(0)
    except OSError:
        return
    raise Leak("a count of page faults")
""",
    ),
    Attack(
        "memory_that_runs",
        """
import ctypes, mmap
def deed():
    both = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    for rights in (both, mmap.PROT_READ | mmap.PROT_EXEC):
        try:
            mmap.mmap(-1, 4096, prot=rights)
        except OSError:
            continue
        raise Leak("mmap")
    page = mmap.mmap(-1, 8192)
    place = -(-ctypes.addressof(ctypes.c_char.from_buffer(page)) // 4096) * 4096
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(place), ctypes.c_size_t(4096), 5) == 0:
        raise Leak("mprotect")
""",
    ),
    Attack(
        "sleep_below_the_limit",
        "import time\ndef attack(honest, *args):\n    time.sleep(0.9)\n    return honest(*args)",
        FAILED,
        "together",
        timeout_seconds=1.0,
        cpu_seconds=0.5,
        interactions=("policy",),
    ),
)
