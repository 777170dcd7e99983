"""Runs inside a sandbox and tries to get out of it. Prints one JSON object: what each attempt came to.

``supervisor`` attempts run as the sandbox's uid 0, ``candidate`` attempts as the first candidate's uid (given as the
first argument), after the supervisor closed /tmp as the worker does.
"""

# ruff: noqa: PTH101, PTH108, PTH116, PTH118, PTH123, PTH208, SIM115
import ctypes
import errno
import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import time
import traceback

libc = ctypes.CDLL(None, use_errno=True)
SYSCALLS = {"add_key": 248, "keyctl": 250, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "unshare": 272}


def outcome(action):
    """``done`` plus the result, or the name of the error."""
    try:
        result = action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done" if result is None else result


def call(function, *arguments):
    if function(*arguments) == -1:
        raise OSError(ctypes.get_errno(), "call")


def syscall(name, *arguments):
    call(libc.syscall, SYSCALLS[name], *arguments)


def write(path):
    with open(path, "w") as file:
        file.write("x")


def connect(address, port):
    with socket.socket() as sock:
        sock.settimeout(2)
        sock.connect((address, port))


def raw_socket(family, kind, protocol):
    socket.socket(family, kind, protocol).close()


def open_many():
    files = []
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        count = len(files)
        for file in files:
            os.close(file)
        return [errno.errorcode[error.errno], count]


def more_files():
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    except ValueError:  # what the module makes of EPERM
        raise PermissionError(errno.EPERM, "setrlimit") from None


def fill(path, chunk=1 << 20):
    written = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while True:
                written += file.write(bytes(chunk))
    except OSError as error:
        os.unlink(path)
        return [errno.errorcode[error.errno], written]


def fork_many():
    children = []
    try:
        while True:
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
                os._exit(0)
            children.append(pid)
    except OSError as error:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        return [errno.errorcode[error.errno], len(children)]


def capabilities():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    found = {key: lines[key].strip() for key in ("CapEff", "CapPrm", "CapBnd", "Seccomp")}
    return {**found, "NoNewPrivs": str(libc.prctl(39, 0, 0, 0, 0))}  # gVisor's status has no such line


def execute_in(folder):
    path = os.path.join(folder, "script")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(path, 0o755)
    subprocess.run([path], check=True)


def read_mem(pid):
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.read(1)


def writable(uid):
    """Every folder outside /proc that the candidate's uid can make a file in."""
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


def interfaces():
    return sorted(name for _, name in socket.if_nameindex())


def mqueue():
    call(libc.mq_open, b"/probe", os.O_CREAT | os.O_RDWR, 0o600, None)


def common(supervisor):
    return {
        "capabilities": capabilities(),
        "write /": outcome(lambda: write("/x")),
        "write /etc": outcome(lambda: write("/etc/passwd")),
        "write /usr": outcome(lambda: write("/usr/bin/x")),
        "write /proc/sys": outcome(lambda: write("/proc/sys/kernel/hostname")),
        "write /sys": outcome(lambda: write("/sys/fs/cgroup/x")),
        "raw socket": outcome(lambda: raw_socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
        "packet socket": outcome(lambda: raw_socket(socket.AF_PACKET, socket.SOCK_RAW, 0)),
        "connect metadata": outcome(lambda: connect("169.254.169.254", 80)),
        "connect out": outcome(lambda: connect("192.0.2.1", 53)),
        "connect gateway": outcome(lambda: connect("172.17.0.1", 22)),
        "interfaces": interfaces(),
        "mount": outcome(lambda: call(libc.mount, b"tmpfs", b"/mnt", b"tmpfs", 0, None)),
        "umount": outcome(lambda: call(libc.umount2, b"/proc/acpi", 2)),
        "mknod": outcome(lambda: os.mknod("/run/sda", 0o600 | stat.S_IFBLK, os.makedev(8, 0))),
        "chroot": outcome(lambda: os.chroot("/tmp")),
        "hostname": outcome(lambda: socket.sethostname("x")),
        "unshare": outcome(lambda: syscall("unshare", 0x10000000)),
        "add_key": outcome(lambda: syscall("add_key", b"user", b"x", b"y", 1, -2)),
        "bpf": outcome(lambda: syscall("bpf", 0, 0, 0)),
        "perf_event_open": outcome(lambda: syscall("perf_event_open", 0, 0, -1, -1, 0)),
        "nice": outcome(lambda: os.setpriority(os.PRIO_PROCESS, 0, -10)),
        "more files": outcome(more_files),
        "open many": open_many(),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "exec in /run": outcome(lambda: execute_in("/run")),
        "shm": outcome(lambda: write("/dev/shm/x")),
        "shmget": outcome(lambda: call(libc.shmget, 4711, 4096, 0o1600)),
        "msgget": outcome(lambda: call(libc.msgget, 4711, 0o1600)),
        "semget": outcome(lambda: call(libc.semget, 4711, 1, 0o1600)),
        "mqueue": outcome(mqueue),
        "engine socket": outcome(lambda: os.stat("/var/run/docker.sock").st_mode),
        "devices": sorted(name for name in os.listdir("/dev") if stat.S_ISBLK(os.stat(f"/dev/{name}").st_mode)),
    }


def as_candidate(uid, supervisor):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    return {
        **common(supervisor),
        "writable": writable(uid),
        "kill supervisor": outcome(lambda: os.kill(supervisor, 9)),
        "kill init": outcome(lambda: os.kill(1, 9)),
        "ptrace supervisor": outcome(lambda: call(libc.ptrace, 16, supervisor, 0, 0)),
        "memory of supervisor": outcome(lambda: read_mem(supervisor)),
        "environment of supervisor": outcome(lambda: open(f"/proc/{supervisor}/environ").read()),
        "root again": outcome(lambda: os.setuid(0)),
        "setuid file": subprocess.run(
            ["/out/python", "-I", "-c", "import os; print(os.geteuid())"], capture_output=True, text=True
        ).stdout.strip(),
    }


def main():
    uid = int(sys.argv[1])
    os.chmod("/tmp", 0o755)
    shutil.copyfile(os.path.realpath("/usr/bin/python3"), "/out/python")
    os.chmod("/out/python", 0o4755)
    supervisor = os.getpid()
    read, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(end, json.dumps(as_candidate(uid, supervisor)).encode())
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)
    os.close(end)
    with os.fdopen(read, "rb") as file:
        candidate = json.loads(file.read())
    os.waitpid(pid, 0)
    found = {
        **common(supervisor),
        "init": open("/proc/1/comm").read().strip(),
        "host name": socket.gethostname(),
        "fill /tmp": fill("/tmp/x"),
        "fill /out": fill("/out/x"),
        "fork": fork_many(),
    }
    print(json.dumps({"supervisor": found, "candidate": candidate}))


main()
