"""How near many jobs on a service come to what its limits allow.

    python benchmarks/perf/scheduling.py [--jobs 2000] [--compress 4] [--slots 100] [--starting 20] [--rate 5]
        [--unknown]

A service in this process: sandboxes start after a time drawn from a distribution, some fail to, and more creations in a
second than its limit are refused. They are the simulated ones of the tests: the real protocol and the real files, but
no process. All times are divided by `--compress`, and what is printed is multiplied again; what the controller computes
takes as long as it takes.

The bound is the largest of these, each of which no schedule can beat:

* creations: one after another at the rate, and then the quickest job that there is;
* slots: all seconds of all sandboxes, shared by as many as there may be at a time;
* starts: all seconds of starting, shared by as many as may start at a time;
* the longest job, with its attempts and the least pauses between them.

Jobs of one task and variant take about as long as each other, and how long is known, as after an earlier run;
`--unknown` is a first run, which ends when a job does that happened to be long and late. Draws are seeded by job and
attempt, so that every run has the same. Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from tests.execution.bench import Bench  # noqa: E402
from tests.execution.simulated import SimulatedSandbox  # noqa: E402
from tests.execution.supervisor import Script  # noqa: E402
from trace_bench.execution import job_runner  # noqa: E402
from trace_bench.execution import run as controller  # noqa: E402
from trace_bench.planning.job_order import Duration  # noqa: E402
from trace_bench.planning.planned_job import PlannedJob  # noqa: E402
from trace_bench.sandbox.base import Host, SandboxRequest  # noqa: E402
from trace_bench.sandbox.errors import RateLimited  # noqa: E402
from trace_bench.scheduling import starting  # noqa: E402

START = (0.6, 8.0)
"""Seconds until a sandbox speaks: the median and the 99th percentile of a lognormal distribution."""
TRAINING = (3.0, 20.0)
"""Of the jobs of one task and variant, likewise; each takes up to a quarter more or less."""
VARIANTS = 20
FAILING = 0.02
"""Share of starts that fail."""
LIMIT_RATIO, LIMIT_PROCESSOR = 1.15, 20.0
"""Makespan against its bound; milliseconds of the controller a job."""


class Draws:
    """What each attempt at each job takes, in seconds of the service."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, job_id: str, attempt: int) -> tuple[float, bool]:
        """How long it starts, and whether that fails."""
        rng = random.Random(f"{self._seed} {job_id} {attempt}")
        return lognormal(rng, *START), rng.random() < FAILING

    def about(self, job: PlannedJob) -> float:
        """Seconds of training of its task and variant."""
        return lognormal(random.Random(f"{self._seed} {job.task_id} {job.variant}"), *TRAINING)

    def training(self, job: PlannedJob) -> float:
        return self.about(job) * random.Random(f"{self._seed} {job.job_id}").uniform(0.75, 1.25)

    def attempts(self, job: PlannedJob, most: int) -> list[tuple[float, float]]:
        """Seconds of starting and of training, by attempt, to the one that does not fail."""
        found = []
        for attempt in range(1, most + 1):
            starting_, fails = self.of(job.job_id, attempt)
            found.append((starting_, 0.0 if fails else self.training(job)))
            if not fails:
                break
        return found


def lognormal(rng: random.Random, median: float, p99: float) -> float:
    return float(median * math.exp(rng.gauss(0.0, 1.0) * math.log(p99 / median) / NormalDist().inv_cdf(0.99)))


class Service:
    """Refuses more than `rate` creations in any second; `squeeze` of its seconds are one of the machine's."""

    def __init__(self, rate: float, squeeze: float) -> None:
        self._rate, self._span = rate, 1.0 / squeeze
        self._recent: deque[float] = deque()
        self._lock = threading.Lock()
        self.refused = 0

    def create(self, request: SandboxRequest) -> None:
        now = time.monotonic()
        with self._lock:
            while self._recent and self._recent[0] <= now - self._span:
                self._recent.popleft()
            if len(self._recent) >= math.ceil(self._rate):
                self.refused += 1
                raise RateLimited("too many sandboxes in a second")
            self._recent.append(now)


def bounds(attempts: list[list[tuple[float, float]]], slots: int, starts: int, rate: float) -> dict[str, float]:
    """Seconds that no schedule can beat, by what limits it."""
    every = [attempt for job in attempts for attempt in job]
    whole = [sum(map(sum, job)) for job in attempts]
    pauses = [sum(job_runner.pause_before(n) / 2 for n in range(2, len(job) + 1)) for job in attempts]
    return {
        "creations": (len(every) - 1) / rate + min(sum(job[-1]) for job in attempts),
        "slots": sum(whole) / slots,
        "starts": sum(starting_ for starting_, _ in every) / starts,
        "the longest job": max(map(sum, zip(whole, pauses, strict=True))),
    }


def resident() -> float:
    """Memory of this process, MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--compress", type=float, default=4.0)
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--starting", type=int, default=20)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unknown", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        os.environ["TRACE_BENCH_LOCK_DIR"] = name
        show(chosen, measure(chosen, Path(name)))


def measure(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    squeeze, retries = chosen.compress, 9
    draws, service = Draws(chosen.seed), Service(chosen.rate, squeeze)
    bench = Bench(folder)

    def script(job_id: str, number: int) -> Script:
        begins, fails = draws.of(job_id, number)
        seconds = training[job_id] / squeeze
        return Script(starting=begins / squeeze, seconds=seconds, ends="dies starting" if fails else "done")

    bench.backend.script, bench.backend.on_create = script, service.create
    pace = chosen.rate * squeeze
    bench.backend.several = (
        Host("service", slots=chosen.slots, starting=chosen.starting, creations_per_second=pace, scope="service"),
    )
    search = {"id": "PrioritySearch", "params_variants": [{"num_steps": n + 1} for n in range(VARIANTS)]}
    seeds = list(range(chosen.jobs // (2 * VARIANTS)))
    planned = bench.plan(trainers=[search], seeds=seeds, max_workers=chosen.slots, retries=retries)
    if not chosen.unknown:
        known = {job.job_id: draws.about(job) for job in planned.jobs}
        planned = replace(planned, durations={job_id: Duration(mean, mean) for job_id, mean in known.items()})
    training = {job.job_id: draws.training(job) for job in planned.jobs}
    attempts = [draws.attempts(job, retries + 1) for job in planned.jobs]
    found: dict[str, Any] = {"bounds": bounds(attempts, chosen.slots, chosen.starting, chosen.rate)}
    for module, names in ((job_runner, ("FIRST_PAUSE", "LONGEST_PAUSE")), (starting, ("FIRST_HOLD", "LONGEST_HOLD"))):
        for name in names:
            setattr(module, name, getattr(module, name) / squeeze)
    simulated = clocked(SimulatedSandbox, "_move")
    memory: list[float] = []
    threads = 0

    def look() -> None:
        nonlocal threads
        while not over.wait(0.5):
            memory.append(resident())
            threads = max(threads, threading.active_count())

    over = threading.Event()
    watcher = threading.Thread(target=look)
    watcher.start()
    began, processor = time.monotonic(), time.process_time()
    try:
        result = controller.Run(planned).execute()
    finally:
        over.set()
        watcher.join()
    found["makespan"] = (time.monotonic() - began) * squeeze
    found["processor"] = (time.process_time() - processor - simulated[0]) / len(planned.jobs) * 1e3
    assert result.ok, Counter(row.failure_kind for row in result.rows)
    assert bench.backend.most_alive <= chosen.slots and bench.backend.most_starting <= chosen.starting
    assert len(bench.backend.created) == sum(map(len, attempts))
    found |= {
        "attempts": len(bench.backend.created), "refused": service.refused, "alive": bench.backend.most_alive,
        "threads": threads, "memory": memory,
    }  # fmt: skip
    return found


def clocked(owner: Any, name: str) -> list[float]:
    """Processor time of all threads in a method, seconds, as the one item of a list."""
    spent, inner = [0.0], getattr(owner, name)

    def outer(*args: Any) -> Any:
        began = time.thread_time()
        try:
            return inner(*args)
        finally:
            spent[0] += time.thread_time() - began

    setattr(owner, name, outer)
    return spent


def show(chosen: argparse.Namespace, found: dict[str, Any]) -> None:
    print(f"{chosen.jobs} jobs, {found['attempts']} sandboxes, {chosen.slots} at a time, {chosen.starting} starting,")
    print(f"{chosen.rate:g} creations a second; times {chosen.compress:g} times as fast")
    for what, seconds in found["bounds"].items():
        line(f"bound by {what}", f"{seconds:.0f} s")
    bound = max(found["bounds"].values())
    line("makespan", f"{found['makespan']:.0f} s")
    line("  against the bound", f"{found['makespan'] / bound:.3f}", f"{LIMIT_RATIO}")
    line("controller", f"{found['processor']:.1f} ms a job", f"{LIMIT_PROCESSOR:.0f} ms")
    line("refused creations", f"{found['refused']}")
    line("sandboxes at a time, most", f"{found['alive']}")
    line("threads, most", f"{found['threads']}")
    memory = found["memory"]
    if len(memory) >= 8:
        line("memory at each eighth, MB", " ".join(f"{memory[len(memory) * n // 8]:.0f}" for n in range(1, 8)))
    line("peak of memory", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


def line(what: str, value: str, limit: str = "") -> None:
    print(f"{what:42} {value:>16}" + (f"   limit {limit}" if limit else ""), flush=True)


if __name__ == "__main__":
    main()
