"""Runs inside a sandbox and tries to get out of it. Prints one JSON object: what each attempt came to, for each of
``supervisor`` (the sandbox's uid 0), ``phase`` and ``candidate`` (uids without a right, and without the worker's own
filter: what holds them here is the sandbox alone).

Arguments: the uid of the phase, that of the candidate, how much to say on stdout before. Every attempt has an end of
its own: where a control is missing, the probe succeeds and stops.
"""

# ruff: noqa: PTH101, PTH102, PTH108, PTH110, PTH115, PTH116, PTH118, PTH123, PTH208
import ctypes
import errno
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import traceback

libc = ctypes.CDLL(None, use_errno=True)
SYSCALLS = {
    "x86_64": {"add_key": 248, "keyctl": 250, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "unshare": 272,
               "setns": 308, "open_by_handle_at": 304, "init_module": 175, "kexec_load": 246},
    "aarch64": {"add_key": 217, "keyctl": 219, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241, "unshare": 97,
                "setns": 268, "open_by_handle_at": 265, "init_module": 105, "kexec_load": 104},
}[os.uname().machine]  # fmt: skip
MOST_PROCESSES, MOST_FILES, MOST_BYTES = 300, 4096, 64 << 20


def outcome(action):
    """``done`` plus the result, or the name of the error."""
    try:
        result = action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done" if result is None else result


def in_child(action):
    """The outcome of what would change the rest of the probe if it worked."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_end, str(outcome(action)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        return file.read()


def call(function, *arguments):
    if function(*arguments) == -1:
        raise OSError(ctypes.get_errno(), "call")


def syscall(name, *arguments):
    call(libc.syscall, SYSCALLS[name], *arguments)


def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)


def read(*paths):
    """The first of `paths` that is there; empty if none is."""
    for path in paths:
        try:
            with open(path) as file:
                return file.read().strip()
        except OSError:
            continue
    return ""


def connect(address, port):
    with socket.socket() as sock:
        sock.settimeout(2)
        sock.connect((address, port))


def raw_socket(family, kind, protocol):
    socket.socket(family, kind, protocol).close()


def open_many():
    files = []
    try:
        while len(files) < MOST_FILES:
            files.append(os.open("/dev/null", os.O_RDONLY))
        return ["done", len(files)]
    except OSError as error:
        return [errno.errorcode[error.errno], len(files)]
    finally:
        for file in files:
            os.close(file)


def raise_limit(which):
    try:
        resource.setrlimit(which, (1 << 30, 1 << 30))
    except ValueError:  # what the module makes of EPERM
        raise PermissionError(errno.EPERM, "setrlimit") from None


def fill(path, chunk=1 << 20):
    written = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while written < MOST_BYTES:
                written += file.write(bytes(chunk))
        code = "done"
    except OSError as error:
        code = errno.errorcode[error.errno]
    os.unlink(path)
    return [code, written]


def fork_many():
    children, code = [], "done"
    try:
        while len(children) < MOST_PROCESSES:
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
                os._exit(0)
            children.append(pid)
    except OSError as error:
        code = errno.errorcode[error.errno]
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return [code, len(children)]


def core_dumped():
    pid = os.fork()
    if pid == 0:
        os.abort()
    return os.WCOREDUMP(os.waitpid(pid, 0)[1])


def orphan():
    """Who takes an orphan in, and whether its remains are cleared away."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:
            time.sleep(0.001)
        os.write(write_end, f"{os.getpid()} {os.getppid()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    pid, parent = os.read(read_end, 100).decode().split()
    os.close(read_end)
    os.close(write_end)
    end = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.01)
    return [int(parent), "left" if os.path.exists(f"/proc/{pid}") else "reaped"]


def status():
    lines = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
    keys = ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd", "Seccomp")
    found = {key: lines.get(key, "").strip() for key in keys}
    return {**found, "NoNewPrivs": str(libc.prctl(39, 0, 0, 0, 0))}  # not every kernel's status has such a line


def execute_in(folder):
    path = os.path.join(folder, f"script-{os.getuid()}")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n")
    try:
        os.chmod(path, 0o755)
        subprocess.run([path], check=True)
    finally:
        os.unlink(path)


def memory_of(pid):
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.read(1)


def writable():
    """Every folder outside /proc that this uid can make a file in."""
    found = []
    for folder, _, _ in os.walk("/"):
        if folder.startswith(("/proc", "/sys")):
            continue
        try:
            path = os.path.join(folder, ".probe")
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.unlink(path)
            found.append(folder)
        except OSError:
            continue
    return sorted(found)


def mounts():
    """``{place: [type, options of the mount, options of the file system]}`` of what is mounted."""
    found = {}
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        words = left.split()
        found[words[4]] = [right.split()[0], words[5].split(","), right.split()[2].split(",")]
    return found


def inside_kernel(name):
    return outcome(lambda: os.stat(name).st_mode and None)


def mqueue():
    call(libc.mq_open, b"/probe", os.O_CREAT | os.O_RDWR, 0o600, None)


def limit(name):
    cgroup = "/sys/fs/cgroup"
    return {
        "memory": lambda: read(f"{cgroup}/memory/memory.limit_in_bytes", f"{cgroup}/memory.max"),
        "swap": lambda: read(f"{cgroup}/memory/memory.memsw.limit_in_bytes", f"{cgroup}/memory.swap.max"),
        "pids": lambda: read(f"{cgroup}/pids/pids.max", f"{cgroup}/pids.max"),
        "cpu": lambda: read(f"{cgroup}/cpu/cpu.cfs_quota_us", f"{cgroup}/cpu,cpuacct/cpu.cfs_quota_us",
                            f"{cgroup}/cpu.max"),
    }[name]()  # fmt: skip


def raise_memory():
    for path in ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"):
        if os.path.exists(path):
            return write(path, str(64 << 30))
    raise FileNotFoundError(errno.ENOENT, "no such file is shown")


def everybody():
    python = [shutil.which("python3") or "python3", "-I", "-c", "import os; print(os.geteuid())"]
    return {
        "status": status(),
        "groups": os.getgroups(),
        "setuid file": subprocess.run(["/out/python", *python[1:]], capture_output=True, text=True).stdout.strip(),
        "write /": outcome(lambda: write("/x")),
        "write /etc": outcome(lambda: write("/etc/passwd")),
        "write /usr": outcome(lambda: write("/usr/bin/x")),
        "write /proc/sys": outcome(lambda: write("/proc/sys/kernel/hostname")),
        "write core_pattern": outcome(lambda: write("/proc/sys/kernel/core_pattern")),
        "write sysrq": outcome(lambda: write("/proc/sysrq-trigger", "h")),
        "write /sys": outcome(lambda: write("/sys/fs/cgroup/x")),
        "remount /": outcome(lambda: call(libc.mount, None, b"/", None, 32 | 4096, None)),
        "raw socket": outcome(lambda: raw_socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
        "packet socket": outcome(lambda: raw_socket(socket.AF_PACKET, socket.SOCK_RAW, 0)),
        "connect metadata": outcome(lambda: connect("169.254.169.254", 80)),
        "connect out": outcome(lambda: connect("192.0.2.1", 53)),
        "connect gateway": outcome(lambda: connect("172.17.0.1", 22)),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "routes": read("/proc/net/route").splitlines()[1:],
        "mount": outcome(lambda: call(libc.mount, b"tmpfs", b"/mnt", b"tmpfs", 0, None)),
        "umount": outcome(lambda: call(libc.umount2, b"/proc/acpi", 2)),
        "mounts": mounts(),
        "mknod": outcome(lambda: os.mknod(f"{HOME[os.getuid()]}/sda", 0o600 | stat.S_IFBLK, os.makedev(8, 0))),
        "chroot": in_child(lambda: os.chroot("/tmp")),
        "set host name": in_child(lambda: socket.sethostname("x")),
        "host name": socket.gethostname(),
        "kernel": os.uname().release,
        "namespaces": {n: os.readlink(f"/proc/self/ns/{n}") for n in ("pid", "net", "mnt", "ipc", "uts")},
        "join namespace": outcome(lambda: syscall("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)),
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
        "host memory": {name: inside_kernel(name) for name in ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse")},
        "engine socket": {n: inside_kernel(n) for n in ("/var/run/docker.sock", "/run/docker.sock",
                                                         "/run/containerd/containerd.sock", "/run/podman/podman.sock")},
        "devices": sorted(name for name in os.listdir("/dev") if stat.S_ISBLK(os.stat(f"/dev/{name}").st_mode)),
        "unshare": in_child(lambda: syscall("unshare", 0x10000000)),
        "add_key": outcome(lambda: syscall("add_key", b"user", b"x", b"y", 1, -2)),
        "keyctl": outcome(lambda: syscall("keyctl", 0, -3, 0)),
        "bpf": outcome(lambda: syscall("bpf", 0, 0, 0)),
        "userfaultfd": outcome(lambda: syscall("userfaultfd", 0)),
        "perf_event_open": outcome(lambda: syscall("perf_event_open", 0, 0, -1, -1, 0)),
        "init_module": outcome(lambda: syscall("init_module", 0, 0, b"")),
        "kexec_load": outcome(lambda: syscall("kexec_load", 0, 0, 0, 0)),
        "apparmor": read("/proc/self/attr/apparmor/current", "/proc/self/attr/current").strip("\0"),
        "nice": outcome(lambda: os.setpriority(os.PRIO_PROCESS, 0, -10)),
        "memory limit": limit("memory"),
        "swap limit": limit("swap"),
        "pids limit": limit("pids"),
        "cpu limit": limit("cpu"),
        "raise memory": outcome(raise_memory),
        "raise nofile": outcome(lambda: raise_limit(resource.RLIMIT_NOFILE)),
        "raise fsize": outcome(lambda: raise_limit(resource.RLIMIT_FSIZE)),
        "raise core": outcome(lambda: raise_limit(resource.RLIMIT_CORE)),
        "open many": open_many(),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "core dumped": core_dumped(),
        "exec in /run": outcome(lambda: execute_in("/run")),
        "exec in /tmp": outcome(lambda: execute_in(HOME[os.getuid()])),
        "shm": outcome(lambda: write("/dev/shm/x")),
        "shmget": outcome(lambda: call(libc.shmget, 4711, 4096, 0o1600)),
        "msgget": outcome(lambda: call(libc.msgget, 4711, 0o1600)),
        "semget": outcome(lambda: call(libc.semget, 4711, 1, 0o1600)),
        "mqueue": outcome(mqueue),
        "init": read("/proc/1/comm"),
    }  # fmt: skip


def without_rights(supervisor, others):
    def other(what):
        return {str(uid): outcome(lambda uid=uid: what(uid)) for uid in others}

    return {
        **everybody(),
        "writable": writable(),
        "kill supervisor": outcome(lambda: os.kill(supervisor, 9)),
        "kill init": outcome(lambda: os.kill(1, 9)),
        "ptrace supervisor": outcome(lambda: call(libc.ptrace, 16, supervisor, 0, 0)),
        "memory of supervisor": outcome(lambda: memory_of(supervisor)),
        "environment of supervisor": outcome(lambda: open(f"/proc/{supervisor}/environ").read()),
        "files of supervisor": outcome(lambda: os.listdir(f"/proc/{supervisor}/fd")),
        "root again": outcome(lambda: os.setuid(0)),
        "become another": other(os.setuid),
        "home of another": other(lambda uid: os.listdir(HOME[uid])),
    }


def tried_by(uid, others):
    """What a child that has become `uid` says."""
    supervisor = os.getpid()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(write_end, json.dumps(without_rights(supervisor, others)).encode())
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    return json.loads(data)


HOME = {0: "/tmp"}


def main():
    phase, candidate, flood = map(int, sys.argv[1:4])
    for uid in (phase, candidate):
        HOME[uid] = f"/tmp/{uid}"
        os.mkdir(HOME[uid], 0o700)
        os.chown(HOME[uid], uid, uid)
    os.chmod("/tmp", 0o755)
    shutil.copyfile(os.path.realpath("/usr/bin/python3"), "/out/python")
    os.chmod("/out/python", 0o4755)
    signal.alarm(120)
    found = {"phase": tried_by(phase, [candidate]), "candidate": tried_by(candidate, [phase])}
    found["supervisor"] = {
        **everybody(),
        "fill /tmp": fill("/tmp/x"),
        "fill /run": fill("/run/x"),
        "fill /out": fill("/out/x"),
        "fork": fork_many(),
        "orphan": orphan(),
    }
    line = b"x" * 1023 + b"\n"
    for _ in range(flood // len(line)):
        os.write(1, line)
    os.write(1, json.dumps(found).encode() + b"\n")


main()
