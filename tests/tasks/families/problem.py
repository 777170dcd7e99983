"""Prints, for each candidate, what a call of it came to and which processes of its uid were left afterwards.

It is for containers: elsewhere it refuses to start.
"""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

from trace_bench.worker.problem import CandidateError, Limits, Parameter, Problem, ProblemError, examples

CPU = Limits(wall_seconds=40.0, cpu_seconds=1.0)
WALL = Limits(wall_seconds=1.0, cpu_seconds=30.0)
FORKING = replace(CPU, needs=frozenset({"processes"}))
HIDDEN = replace(WALL, needs=frozenset({"processes"}))
READING = Limits(wall_seconds=60.0, cpu_seconds=60.0, needs=frozenset({"files"}))

DEAF = """
import signal
def f(x):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True: pass
"""
HIDING = """
import os, signal, time
def f(x):
    for n in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                if n == 1: os.kill(os.getpid(), signal.SIGSTOP)
                if os.fork() == 0 and n == 2: os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(600)
            if n: os._exit(0)
            time.sleep(600)
    time.sleep(600)
"""
LEAVING = """
import os, time
def f(x):
    ready, told = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            os.write(told, b"x")
            time.sleep(600)
    while x < 2: x += len(os.read(ready, 1))
    return x
"""
WRITING = """
import os
def f(x):
    found = []
    def attempt(what, path, action):
        try:
            action()
        except OSError:
            return
        found.append([what, path])
    for top, folders, files in os.walk("/"):
        if top == "/":
            folders[:] = [d for d in folders if d not in ("proc", "sys")]
        probe = os.path.join(top, "probe")
        attempt("mkdir", top, lambda: os.mkdir(probe))
        attempt("symlink", top, lambda: os.symlink("x", probe))
        attempt("mkfifo", top, lambda: os.mkfifo(probe))
        attempt("create", top, lambda: os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY)))
        attempt("chmod", top, lambda: os.chmod(top, 0o777))
        attempt("times", top, lambda: os.utime(top))
        attempt("attribute", top, lambda: os.setxattr(top, "user.x", b"x"))
        for name in files:
            path = os.path.join(top, name)
            if not path.startswith("/dev/") or os.path.isfile(path):
                attempt("open", path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
    return [found, os.path.exists("/dev/shm"), os.getuid()]
"""
HONEST = "def f(x): return x + 1"
WAITING = "import time\nMARK = 'candidate-' + 'held'\ndef f(x):\n    time.sleep(x)\n    return x"
SOURCES = {
    "deaf": (DEAF, CPU),
    "hiding": (HIDING, HIDDEN),
    "leaving": (LEAVING, FORKING),
    "writing": (WRITING, READING),
    "honest": (HONEST, WALL),
}


def processes_of_candidates():
    base = os.getuid() // 16 * 16
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid >= base + 4:
                    found.append(entry.name)
            except OSError:
                pass
    return found


def call(programs, source, limits, argument=0):
    try:
        with programs.open(source, "f", limits) as program:
            return ["ok", program(argument)]
    except CandidateError as error:
        return [error.phase, error.message]


def build(context):
    if os.getuid() < 1000 or not Path("/out").is_dir():
        raise ProblemError("this task is for containers")

    asked = []

    def guide(query, response, reference):
        if os.getuid() % 16 == 1 and context.eval_kwargs["hold"]:
            mark = "trainer-" + "held"
            print("HOLD", call(context.programs, WAITING, Limits(wall_seconds=30.0), 6), mark)
        elif os.getuid() % 16 == 1 and not asked:
            asked.append(1)
            for name, (source, limits) in SOURCES.items():
                started = time.monotonic()
                result = call(context.programs, source, limits)
                left = processes_of_candidates()
                told = {"name": name, "result": result, "left": left, "seconds": time.monotonic() - started}
                print("FAMILY", json.dumps(told))
        return call(context.programs, HONEST, WALL)[1] * response, ""

    return Problem(
        parameters=(Parameter("x", 1.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Fork.",
        direction="maximize",
        failure_score=-100.0,
    )
