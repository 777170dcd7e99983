"""What an evaluation of a Lean file costs beyond Lean's own time.

Both sides have their process started ahead, as between two evaluations of a search, and are timed from the text to the
result: the program `lean` alone, and the guide of the task (limits, filter and protocol of the process, reading the
compiled file, comparing it with the template). `lean` is the stand-in of the tests, which answers in milliseconds; with
a real one the difference is the same, and the ratio nearer to 1.

    python benchmarks/perf/lean.py [--rounds 9] [--task NAME …]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import interleaved, load, show

from trace_bench.suites.veribench.harness import appended
from trace_bench.suites.veribench.lean import VARIABLE

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

AHEAD = 0.5
"""Seconds in which a process can start."""


def alone(lean: Path, text: bytes, folder: Path) -> float:
    """Seconds that the program takes for `text` once it waits for it."""
    command = [lean, "--json", "--stdin", "-DElab.async=false", "-o", folder / "alone.olean"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(AHEAD)
        started = time.perf_counter()
        process.communicate(text)
        seconds = time.perf_counter() - started
    if process.returncode != 0:
        sys.exit(f"the stand-in ended with {process.returncode}")
    return seconds


def judged(guide: Any, source: str, reference: Any) -> float:
    """Seconds that the guide takes."""
    time.sleep(AHEAD)
    started = time.perf_counter()
    guide(None, source, reference)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--task", nargs="*", default=["gcd", "insertion_sort", "run_length_encoding"])
    options = parser.parse_args()
    from tests.suites.veribench.on_lean import STARTERS, built
    from tests.suites.veribench.support import stand_in

    print(load())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lean = stand_in(folder)
        os.environ[VARIABLE] = str(lean)
        for task in STARTERS:
            if task.name not in options.task:
                continue
            source = (task / "gold.lean").read_text(encoding="utf-8")
            with built(task) as problem:
                reference: Any = problem.train[0].reference
                text = appended(source, *reference).text.encode()
                times = interleaved(
                    {
                        "lean alone": lambda text=text: [alone(lean, text, folder)],
                        task.name: lambda p=problem, s=source, r=reference: [judged(p.guide, s, r)],
                    },
                    options.rounds,
                )
            show(times, "lean alone")
            middle, least = statistics.median(times[task.name]), min(times[task.name])
            beyond = middle - statistics.median(times["lean alone"]), least - min(times["lean alone"])
            print(f"{'beyond Lean':34} median {beyond[0] * 1e3:7.1f} ms   min {beyond[1] * 1e3:7.1f}")


if __name__ == "__main__":
    main()
