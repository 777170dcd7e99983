# ruff: noqa: E501, PTH123, PTH208
"""Prints, from each phase and from a candidate in each phase, what they can do.

Signal 0 asks the kernel for the same right as SIGKILL and harms nobody where the answer is yes. Even so this task is
for sandboxes that isolate: elsewhere it refuses to start, for there it would look around, and write, on the host itself.
"""

import ctypes
import json
import os
import socket
from pathlib import Path

from trace_bench.worker.problem import CandidateError, Limits, Parameter, Problem, examples

CLOSED = """
import os, threading
def attempt(action):
    try:
        return ["done", str(action())]
    except BaseException as error:
        return [type(error).__name__, getattr(error, "errno", None)]
def look(x):
    thread = threading.Thread(target=lambda: None)
    return {
        "open": attempt(lambda: open("/etc/passwd")), "look": attempt(lambda: os.stat("/")),
        "list": attempt(lambda: os.listdir("/")), "fork": attempt(os.fork), "pipe": attempt(os.pipe),
        "thread": attempt(thread.start), "memory": attempt(lambda: len(bytes(1 << 24))),
    }
"""
CANDIDATE = """
import ctypes, json, os, socket
from pathlib import Path

def attempt(action):
    try:
        value = action()
        return ["done", value if isinstance(value, (int, str, list, dict, type(None))) else str(value)]
    except BaseException as error:
        return [type(error).__name__, getattr(error, "errno", None)]

def status(pid="self"):
    lines = dict(x.split(":", 1) for x in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in x)
    found = {k: lines[k].strip() for k in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapInh", "CapBnd", "Seccomp")}
    # gVisor's status has no such line, and the filter refuses prctl, which would tell.
    return found | {"NoNewPrivs": lines.get("NoNewPrivs", "unknown").strip()}

def others():
    mine = os.getuid()
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and p.stat().st_uid != mine]

def look(port):
    libc = ctypes.CDLL(None, use_errno=True)
    found = {
        "status": status(),
        "environ": dict(os.environ),
        "socket": attempt(lambda: socket.socket()),
        "socketpair": attempt(lambda: socket.socketpair()),
        "ptrace": attempt(lambda: libc.ptrace(16, 1, 0, 0) or ctypes.get_errno()),
        "unshare": libc.unshare(0x10000000),
        # clone of x86_64, and of aarch64; each is a call that fails on the other
        "clone_user": max(libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0) for number in (56, 220)),
        "setuid0": attempt(lambda: os.setuid(0)),
        "kill_others": {str(p): attempt(lambda p=p: os.kill(p, 0)) for p in others()},
        "mem_others": {str(p): attempt(lambda p=p: open(f"/proc/{p}/mem", "rb").read(1)) for p in others()},
        "environ_others": {str(p): attempt(lambda p=p: open(f"/proc/{p}/environ", "rb").read()) for p in others()},
        "fd_others": {str(p): attempt(lambda p=p: os.listdir(f"/proc/{p}/fd")) for p in others()},
        "writable": [d for d in ("/", "/tmp", "/run", "/out", "/out/extra", "/dev/shm", "/dev/mqueue", "/tmp/train",
                                 "/tmp/score", "/tmp/task", "/var/tmp", "/etc", "/root")
                     if attempt(lambda d=d: os.close(os.open(f"{d}/probe", os.O_CREAT | os.O_WRONLY)))[0] == "done"],
        "job_files": [p for p in ("/out/events.jsonl", "/out/extra") if attempt(lambda p=p: open(p).read())[0] == "done"],
        "exec": attempt(lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"])),
        "shmget": libc.shmget(1234, 4096, 0o1600),
        "memfd": attempt(lambda: os.memfd_create("x")),
        "processes": attempt(lambda: fork_many()),
    }
    return json.dumps(found)

def fork_many():
    children = 0
    try:
        while children < 500:
            if os.fork() == 0:
                import time
                time.sleep(30)
                os._exit(0)
            children += 1
    except OSError:
        pass
    return children
"""


def attempt(action):
    try:
        value = action()
        return ["done", value if isinstance(value, (int, str, list, type(None))) else str(value)]
    except BaseException as error:
        return [type(error).__name__, getattr(error, "errno", None)]


def status(pid="self"):
    lines = dict(x.split(":", 1) for x in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in x)
    found = {k: lines[k].strip() for k in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "Seccomp")}
    return found | ({"NoNewPrivs": str(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))} if pid == "self" else {})


def ports():
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A"]


def talk(port):
    with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
        sock.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return sock.recv(100).decode("latin-1").split("\r\n")[0]


def look():
    roots = [p for p in Path("/proc").iterdir() if p.name.isdigit() and p.stat().st_uid == 0]
    return {
        "status": status(),
        "supervisor": {p.name: status(p.name) for p in roots},
        "environ": dict(os.environ),
        "kill_supervisor": {p.name: attempt(lambda p=p: os.kill(int(p.name), 0)) for p in roots},
        "mem_supervisor": {p.name: attempt(lambda p=p: open(p / "mem", "rb").read(1)) for p in roots},
        "outside": attempt(lambda: socket.create_connection(("192.0.2.1", 80), timeout=2)),
        "interfaces": os.listdir("/sys/class/net"),
        "relays": {str(port): attempt(lambda port=port: talk(port)) for port in ports()},
        "write_result": attempt(lambda: open("/out/result.json", "w")),
        "write_root": attempt(lambda: open("/probe", "w")),
        "write_home": attempt(lambda: Path("mine").write_text("x")),
        "write_extra": attempt(lambda: Path("/out/extra/mine").write_text("x")),
        "tmp": sorted(os.listdir("/tmp")),
        "others_home": [
            d for d in ("build", "train", "score") if attempt(lambda d=d: os.listdir(f"/tmp/{d}"))[0] == "done"
        ],
        "setuid0": attempt(lambda: os.setuid(0)),
    }


def build(context):
    if not Path("/out").is_dir() or os.getuid() == 0:
        raise RuntimeError("the probe runs in a container only, and never as root")

    def guide(query, response, reference):
        phase = {1: "train", 2: "score"}.get(os.getuid() % 16, "?")
        print("PROBE", json.dumps({"who": phase, **look()}))
        try:
            # One that may do all that a task can declare, to look around, and one of a usual task.
            declared = Limits(wall_seconds=20, processes=32, needs=frozenset({"files", "processes"}))
            with context.programs.open(CANDIDATE, "look", declared) as program:
                print("PROBE", json.dumps({"who": f"candidate of {phase}", **json.loads(program(0))}))
            with context.programs.open(CLOSED, "look", Limits(wall_seconds=20)) as program:
                print("PROBE", json.dumps({"who": f"closed candidate of {phase}", **program(0)}))
        except CandidateError as error:
            print("PROBE", json.dumps({"who": f"candidate of {phase}", "error": str(error)}))
        left = [
            p.name
            for p in Path("/proc").iterdir()
            if p.name.isdigit() and p.stat().st_uid % 16 >= 4 and p.stat().st_uid
        ]
        print("PROBE", json.dumps({"who": f"after {phase}", "candidate_processes": left}))
        return 1.0, ""

    return Problem(
        parameters=(Parameter("x", 0.0, "float"),),
        guide=guide,
        train=examples(["only"]),
        objective="Look.",
        direction="maximize",
        failure_score=-100.0,
    )
