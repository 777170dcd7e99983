"""What the scripts of this folder share: cases that take turns, and medians side by side."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TRACE_BENCH = str(Path(sys.executable).with_name("trace-bench"))

Times = dict[str, list[float]]


def interleaved(cases: Mapping[str, Callable[[], Sequence[float]]], rounds: int) -> Times:
    """Seconds by case. Each case goes once unmeasured, then all take turns, so that a busy minute of the machine meets
    all of them."""
    times: Times = {name: [] for name in cases}
    for case in cases.values():
        case()
    for _ in range(rounds):
        for name, case in cases.items():
            times[name] += case()
    return times


def process(*command: str) -> float:
    """Wall time of one process that must succeed, seconds."""
    started = time.perf_counter()
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return seconds


def at_once(number: int, *command: str) -> list[float]:
    """Wall time of each of `number` equal processes that start together, seconds."""
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(lambda _: process(*command), range(number)))


def environment() -> dict[str, str]:
    """This one's, with byte code kept as an installation keeps it."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def show(times: Times, against: str) -> None:
    """One line a case: median, least and most in milliseconds, and the median's ratio to that of `against`."""
    base = statistics.median(times[against])
    for name, taken in times.items():
        middle = statistics.median(taken)
        print(
            f"{name:34} median {middle * 1e3:7.0f} ms   min {min(taken) * 1e3:7.0f}   max {max(taken) * 1e3:7.0f}   "
            f"n={len(taken):<3} ratio {middle / base:5.2f}"
        )


def image_of(family: str) -> str:
    """The locked image of `family`."""
    text = subprocess.run([TRACE_BENCH, "images", "list", "--json"], capture_output=True, text=True, check=True).stdout
    for row in json.loads(text):
        if row["family"] == family and row.get("pin"):
            return str(row["pin"]["ref"])
    sys.exit(f"there is no image of family {family}; run `trace-bench images build {family}`")


def load() -> str:
    """How busy the machine is, for the record."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
