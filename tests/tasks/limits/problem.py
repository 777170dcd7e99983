"""Uses up memory and time, in the process that is named (a phase) or in candidates, one example for each word.

It is for containers: elsewhere it refuses to start.
"""

import mmap
import os
import time
from pathlib import Path

from trace_bench.worker.problem import CandidateError, Example, Parameter, Problem, ProblemError

PHASES = {"builder": 0, "trainer": 1, "scorer": 2}
PIECE = 8 << 20


def objects():
    kept = []
    while True:
        kept.append([len(kept)])


def mapping():
    with mmap.mmap(-1, 4 << 30) as memory:
        for place in range(0, len(memory), 4096):
            memory[place] = 1


def swallow():
    kept = []
    while True:
        try:
            kept.append(bytearray(PIECE))
        except MemoryError:
            time.sleep(0.01)


def files():
    for number in range(1000):
        Path(os.environ["HOME"], str(number)).write_bytes(bytes(PIECE))


def processes():
    """A family, none of whose members has much."""
    for _ in range(24):
        if os.fork() == 0:
            kept = bytearray(2 * PIECE)
            time.sleep(600)
            os._exit(len(kept) % 2)
    time.sleep(1)


def cache():
    """Pages of files on a disk are given back, and cost nobody anything."""
    path = Path("/out/extra/large")
    for _ in range(3):
        with path.open("wb") as file:
            for _ in range(40):
                file.write(bytes(PIECE // 8))
        assert len(path.read_bytes()) == 5 * PIECE
    path.unlink()


def busy():
    for _ in range(24):
        if os.fork() == 0:
            while True:
                pass
    while True:
        pass


def full_disk():
    """As much as the disk has. The answer is read by the tests that make it small."""
    with Path("/out/extra/large").open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()


DEEDS = {f.__name__: f for f in (objects, mapping, swallow, files, processes, cache, busy, full_disk)}

PROGRAM = """
import mmap, os, threading, time

def honest():
    return 1.0

def objects():
    kept = []
    while True:
        kept.append([len(kept)])

def mapping():
    return len(mmap.mmap(-1, 1 << 40))

def touched():
    with mmap.mmap(-1, 900 << 20) as memory:
        for place in range(0, len(memory), 4096):
            memory[place] = 1

def swallow():
    kept, end = [], time.monotonic() + 1
    while time.monotonic() < end:
        try:
            kept.append(bytearray(8 << 20))
        except MemoryError:
            time.sleep(0.01)

def spin():
    while True:
        pass

def busy():
    for _ in range(8):
        threading.Thread(target=spin).start()
    spin()

def file():
    with open("/tmp/large", "wb") as file:
        while True:
            file.write(bytes(1 << 20))

def memory_file():
    fd = os.memfd_create("large")
    while True:
        os.write(fd, bytes(1 << 20))

def killed():
    os.kill(os.getpid(), 9)

def solve(deed):
    return globals()[deed]()
"""


def build(context):
    who, deed = context.eval_kwargs["who"], context.eval_kwargs["deed"]
    if os.getuid() == 0 or not Path("/.dockerenv").exists():
        raise ProblemError("this task is for containers")

    def act(phase):
        if who == phase and os.getuid() % 16 == PHASES[phase]:
            DEEDS[deed]()

    act("builder")
    words = context.eval_kwargs["candidates"].split()

    def agent(ops, query):
        try:
            return ops.call("program", query)
        except CandidateError as error:
            return str(error)

    def guide(query, response, reference):
        act("trainer")
        act("scorer")
        return (1.0, "") if response == 1.0 else (0.0, str(response))

    return Problem(
        parameters=(Parameter("program", PROGRAM, "code", entry="solve"),),
        agent=agent,
        guide=guide,
        train=tuple(Example(id=f"{n}", query=word) for n, word in enumerate(words)),
        objective="Use up everything.",
        direction="maximize",
        failure_score=-100.0,
    )
