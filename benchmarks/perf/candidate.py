"""What it costs that a candidate runs in a disposable process of another uid, against the same evaluation in process.

    python benchmarks/perf/candidate.py [--rounds 30] [--where container,local] [--runtime runsc]

* circle_packing (`solve`): one evaluation is one process and one call. Wanted: at most 20 ms more.
* online_bin_packing (`policy`): one process and a thousand calls an instance. Wanted: at most 150 µs more a call.

The real spawner forks a real phase, which evaluates each task's template with its own guide, in turns through the
spawner and in process. ``container`` is the image of `llm4ad` with the sandbox's uids, capabilities and limits
(`trace-bench images build llm4ad`); ``local`` is this interpreter without uids, as the local backend has it (needs
NumPy).
"""

from __future__ import annotations

import argparse
import random
import socket
import statistics
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import spawned

TASKS = {"circle_packing": "circle_packing", "online_bin_packing": "optimization/online_bin_packing"}


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--where", default="container,local")
    parser.add_argument("--runtime", help="of the engine, for the container")
    chosen = parser.parse_args()
    options = ["--runtime", chosen.runtime, "--pids-limit", "4096"] if chosen.runtime else []
    from timing import image_of, load

    tasks = Path(__file__).parents[1] / "LLM4AD" / "benchmark_tasks"
    files = {"candidate.py": Path(__file__)} | {name: tasks / folder for name, folder in TASKS.items()}
    for where in chosen.where.split(","):
        image = image_of("llm4ad") if where == "container" else None
        (found,) = spawned.run(image, files, "candidate", where, str(chosen.rounds), options=options)
        print(f"\n{where} ({load()})")
        for name, times in found.items():
            report(name, times)


def report(name: str, found: Mapping[str, Any]) -> None:
    apart, within = (statistics.median(found[key]) for key in ("apart", "within"))
    differences = [a - b for a, b in zip(found["apart"], found["within"], strict=True)]
    more, least, calls = statistics.median(differences), min(differences), found["calls"]
    print(
        f"{name:20} {calls:5} calls   apart {apart * 1e3:8.2f} ms   in process {within * 1e3:8.2f} ms   "
        f"ratio {apart / within:6.2f}   more {more * 1e3:7.2f} ms (min {least * 1e3:.2f})"
        + (f" = {more / calls * 1e6:.0f} µs a call" if calls > 1 else "")
    )


# --------------------------------------------------- from here on inside: only what the worker's image holds


class WithinPrograms:
    """The candidate in the scorer's own process: what we do not do, and measure ourselves against."""

    def __init__(self) -> None:
        self.calls = 0

    def open(self, source: str, entry: str, limits: Any = None) -> WithinProgram:
        return WithinProgram(self, source, entry)


class WithinProgram:
    def __init__(self, owner: WithinPrograms, source: str, entry: str) -> None:
        namespace: dict[str, Any] = {}
        exec(compile(source, "<candidate>", "exec"), namespace)
        self._function, self._owner = namespace[entry], owner

    def __enter__(self) -> WithinProgram:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def __call__(self, *args: Any) -> Any:
        self._owner.calls += 1
        return self._function(*args)

    def close(self) -> None: ...


def main(folder: str, where: str, rounds: str) -> None:
    """In the container, or the process that stands for it."""
    base = spawned.UID_BASE if where == "container" else None
    spawned.play({"score": lambda spawn: measure(spawn, Path(folder), int(rounds))}, base)


def measure(spawn: socket.socket, folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of each evaluation by task and way. In a phase's process."""
    from trace_bench.worker.candidates import CandidatePrograms, SpawnerClient
    from trace_bench.worker.evaluate import evaluate_example

    results = {}
    for name in TASKS:
        within = WithinPrograms()
        ways = {"apart": CandidatePrograms(SpawnerClient(spawn), 1), "within": within}
        problems = {way: built(folder / name, programs) for way, programs in ways.items()}
        found: dict[str, Any] = {way: [] for way in ways}
        for number in range(rounds + 1):
            scores = set()
            within.calls = 0
            for way, problem in problems.items():
                random.seed(number)
                state = problem.initial_state()
                started = time.perf_counter()
                rollout = evaluate_example(problem, state, problem.train[0], ways[way])
                seconds = time.perf_counter() - started
                if rollout.failed:
                    raise SystemExit(f"{name}: {rollout.feedback}")
                scores.add(rollout.score)
                if number:  # the first round imports what the task needs
                    found[way].append(seconds)
            if len(scores) != 1:
                raise SystemExit(f"{name}: the two ways disagree: {scores}")
        results[name] = {**found, "calls": within.calls}
    return results


def built(folder: Path, programs: Any) -> Any:
    from trace_bench.suites.llm4ad.problem import build
    from trace_bench.worker.problem import BuildContext

    spec = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    defaults = {key: argument["default"] for key, argument in spec.get("eval_kwargs", {}).items()}
    return build(BuildContext(folder, spec, defaults, 1, programs))


if __name__ == "__main__":
    run()
