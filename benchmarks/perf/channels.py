"""What one program can tell another in spite of its filter: a sender and a receiver for each way that is left.

    python benchmarks/perf/channels.py [--bits 64]

* ``clock``: a program ends when the clock shows a remainder; the next one reads the clock. One number a program.
* ``pids``: a program starts and ends threads until the counter of thread ids shows a remainder; the next one starts one
  thread. One number a program.
* ``processor``: two programs in two containers at once, on one core: one computes or waits by turns, the other counts
  how far it comes. Bits a second.
* ``pages``, ``locks``: the ways that the filter closes (tests/adversarial tries them against the filter as it was).

Each line says how many bits of a message of random bits arrived as they were sent, and the bits a second that this is
worth: the capacity of a binary symmetric channel with that share of errors. Needs the image `core`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import spawned

WIDTH = 6
"""Bits of one number, of the clock and of the counter."""
CLOCK = """
import time
STEP, NUMBERS = 0.02, 64
def f(number):
    cycle = STEP * NUMBERS
    if number >= 0:
        goal = time.time() // cycle * cycle + number * STEP
        goal += cycle * (goal < time.time())
        time.sleep(goal - time.time())
        return 0
    return int(time.time() % cycle / STEP)
"""
PIDS = """
import threading
STEP, NUMBERS = 4, 64
def start():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return thread.native_id
def f(number):
    place = start()
    while number >= 0 and place // STEP % NUMBERS != number:
        place = start()
    return place // STEP % NUMBERS
"""
PROCESSOR = """
import time
def f(slots, seconds, begin):
    time.sleep(max(0.0, begin - time.time()))
    counts = []
    for at, slot in enumerate(slots):
        end, count = begin + (at + 1) * seconds, 0
        if slot:
            while time.time() < end: count += 1
        else:
            time.sleep(max(0.0, end - time.time()))
        counts.append(count)
    return counts
"""


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=64)
    bits = parser.parse_args().bits
    from timing import image_of, load

    image = image_of("core")
    print(f"({load()})")
    draw = random.Random(1)
    for way in ("clock", "pids"):
        numbers = [draw.randrange(1 << WIDTH) for _ in range(-(-bits // WIDTH))]
        (found,) = ask(image, 0, {"way": way, "numbers": numbers})
        # The receiver starts later than the sender ended, by much the same time and number of ids each time.
        shifts = sorted((got - sent) % (1 << WIDTH) for sent, got in zip(numbers, found["numbers"], strict=True))
        shift = shifts[len(shifts) // 2]
        wrong = sum(
            (sent ^ (got - shift) % (1 << WIDTH)).bit_count()
            for sent, got in zip(numbers, found["numbers"], strict=True)
        )
        report(way, len(numbers) * WIDTH, wrong, found["seconds"])
    message = [draw.randrange(2) for _ in range(bits)]
    slots, begin = 0.1, time.time() + 6.0
    with ThreadPoolExecutor(2) as both:
        words = {"way": "processor", "seconds": slots, "begin": begin}
        core = ("--cpuset-cpus", "0")
        sender = both.submit(ask, image, 0, {**words, "slots": message}, core)
        receiver = both.submit(ask, image, 1, {**words, "slots": [1] * bits}, core)
        sender.result()
        counts = receiver.result()[0]["counts"]
    middle = (max(counts) + min(counts)) / 2
    wrong = sum((count < middle) != bool(sent) for count, sent in zip(counts, message, strict=True))
    report("processor", bits, wrong, bits * slots)


def ask(image: str, slot: int, asked: dict[str, Any], options: tuple[str, ...] = ()) -> list[Any]:
    told = json.dumps({**asked, "uid_base": spawned.UID_BASE + 16 * slot})
    return spawned.run(image, {"channels.py": Path(__file__)}, "channels", told, options=options)


def report(way: str, bits: int, wrong: int, seconds: float) -> None:
    error = min(wrong / bits, 0.5)
    worth = 1.0 if not error else 1 + error * math.log2(error) + (1 - error) * math.log2(1 - error)
    print(f"{way:10} {bits - wrong:4} of {bits} bits right   {max(worth, 0.0) * bits / seconds:7.2f} bits/s")


# --------------------------------------------------- from here on inside: only what the worker's image holds


def main(folder: str, told: str) -> None:
    asked = json.loads(told)
    measure = at_once if asked["way"] == "processor" else in_turn
    spawned.play({"score": lambda spawn: measure(spawn, asked)}, asked["uid_base"])


def in_turn(spawn: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
    """A program sends each number, the next one receives it."""
    source, found = {"clock": CLOCK, "pids": PIDS}[asked["way"]], []
    began = time.perf_counter()
    for number in asked["numbers"]:
        call(spawn, source, number)
        found.append(call(spawn, source, -1))
    return {"numbers": found, "seconds": time.perf_counter() - began}


def at_once(spawn: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
    return {"counts": call(spawn, PROCESSOR, asked["slots"], asked["seconds"], asked["begin"])}


def call(spawn: socket.socket, source: str, *arguments: Any) -> Any:
    from trace_bench.worker.candidates import CandidatePrograms, SpawnerClient

    with CandidatePrograms(SpawnerClient(spawn), 1).open(source, "f") as program:
        return program(*arguments)


if __name__ == "__main__":
    run()
