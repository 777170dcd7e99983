"""What a matrix of jobs costs beside the jobs themselves.

    python benchmarks/perf/matrix.py [--rounds 3] [--only docker,plan,resume,controller] [--sizes 100,1000,10000]

* docker: one run of 16 jobs (2 tasks, 8 seeds, 4 workers), as a process, against 16 bare hardened `docker run`s, 4 at a
  time. Needs an engine and the image of `core` (`trace-bench images build core`).
* plan: 100,000 jobs are planned and their manifest is written: seconds, and the process's peak of memory.
* resume: 10,000 finished jobs are looked at again: seconds.
* controller: what one job costs the controller, at several sizes of the matrix, 8 workers. Should not grow.

All but the first use the simulated backend of the tests: no engine, no sandbox, but the real protocol and the real
files. One line a number, with the limit beside it. Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timing import TRACE_BENCH, environment, image_of, interleaved, load, process, show

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

if TYPE_CHECKING:
    from tests.execution.bench import Bench

JOBS, WORKERS, SEEDS = 16, 4, 8
TASKS = "[internal:numeric_param, internal:code_param]"
TRAINERS = {"NoOp": "", "PrioritySearch": ", params: {num_steps: 2, num_candidates: 2, num_proposals: 2}"}
HARDENED = [
    *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
    *("--tmpfs", "/tmp", "--memory", "2g", "--memory-swap", "2g", "--pids-limit", "256", "--init"),
]
OPTIONS = ("--no-build", "--accept-drift")

LIMIT_RATIO = 2.7
LIMIT_PLAN, LIMIT_MEMORY, LIMIT_RESUME = 10.0, 500, 5.0
"""Seconds, MB, seconds."""
PLANNED = {"variants": 250, "seeds": 100}
"""Times four tasks: 100,000 jobs."""
FINISHED = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="docker,plan,resume,controller")
    parser.add_argument("--sizes", default=f"100,1000,{FINISHED}", help="jobs of the runs of `controller`")
    parser.add_argument("--inside", nargs=3, metavar=("WHAT", "FOLDER", "SIZE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        what, folder, size = chosen.inside
        print(json.dumps(INSIDE[what](Path(folder), int(size))))
        return
    only = chosen.only.split(",")
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        folder = Path(name)
        if "plan" in only:
            found = inside("plan", folder, 0)
            line("plan, 100,000 jobs, with the manifest", f"{found['seconds']:.1f} s", f"{LIMIT_PLAN:.0f} s")
            line("  peak of memory", f"{found['megabytes']:.0f} MB", f"{LIMIT_MEMORY} MB")
            line("  of it, before there was a job", f"{found['before']:.0f} MB")
        if "controller" in only:
            for size in map(int, chosen.sizes.split(",")):
                found = inside("run", folder, size)
                line(f"controller, {size:,} jobs", f"{found['wall'] / size * 1e3:.1f} ms a job")
                line("  processor", f"{found['processor'] / size * 1e3:.1f} ms a job")
                line("  of it, the simulated sandboxes", f"{found['simulated'] / size * 1e3:.1f} ms a job")
                line("  begin and end of the run", f"{found['ends']:.2f} s")
        if "resume" in only:
            if not (folder / f"run-{FINISHED}").exists():
                inside("run", folder, FINISHED)
            found = inside("resume", folder, FINISHED)
            line(f"resume, {FINISHED:,} finished jobs", f"{found['seconds']:.1f} s", f"{LIMIT_RESUME:.0f} s")
        if "docker" in only:
            docker(folder, chosen.rounds)


def line(what: str, value: str, limit: str = "") -> None:
    print(f"{what:42} {value:>16}" + (f"   limit {limit}" if limit else ""), flush=True)


def docker(folder: Path, rounds: int) -> None:
    bare = ("docker", "run", "--rm", *HARDENED, "--entrypoint", "python3", image_of("core"), "-c", "pass")

    def all_bare() -> list[float]:
        started = time.perf_counter()
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda _: process(*bare), range(JOBS)))
        return [time.perf_counter() - started]

    against = f"{JOBS} bare docker runs, {WORKERS} at a time"
    cases: dict[str, Callable[[], list[float]]] = {against: all_bare}
    for trainer, params in TRAINERS.items():
        config = folder / f"{trainer}.yaml"
        config.write_text(
            f"name: perf\nmode: stub\nseeds: {list(range(1, SEEDS + 1))}\nmax_workers: {WORKERS}\ntasks: {TASKS}\n"
            f"trainers: [{{id: {trainer}{params}}}]\n"
        )
        words = (TRACE_BENCH, "run", *OPTIONS, "--config", str(config), "--runs-dir", str(folder / trainer))
        cases[f"{trainer}, {JOBS} jobs"] = lambda w=words: [process(*w)]
    print(f"\n{JOBS} jobs, {WORKERS} at a time ({load()})")
    times = interleaved(cases, rounds)
    show(times, against)
    base = statistics.median(times[against])
    for trainer in TRAINERS:
        ratio = statistics.median(times[f"{trainer}, {JOBS} jobs"]) / base
        line(f"{trainer}, ratio", f"{ratio:.2f}", f"{LIMIT_RATIO}")


# ------------------------------------------------------------------------------------------ in processes of their own


def inside(what: str, folder: Path, size: int) -> dict[str, float]:
    """`INSIDE[what]` in a new process."""
    locks = folder / "locks"
    locks.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, __file__, "--inside", what, str(folder), str(size)],
        env={**environment(), "TRACE_BENCH_LOCK_DIR": str(locks)}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{what} failed with {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak() -> float:
    """Most memory that this process has had, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def plan(folder: Path, _: int) -> dict[str, float]:
    from tests.execution.bench import Bench
    from trace_bench.execution.run_records import write_records

    bench = Bench(folder / "plan")
    bench.plan()
    before = peak()
    config: dict[str, Any] = {
        "tasks": ["internal:numeric_param", "internal:code_param", "internal:multi_param", "circle_packing"],
        "trainers": [
            {"id": "PrioritySearch", "params_variants": [{"num_steps": n + 1} for n in range(PLANNED["variants"])]}
        ],
        "seeds": list(range(PLANNED["seeds"])),
    }
    started = time.perf_counter()
    planned = bench.plan(**config)
    write_records(planned)
    seconds = time.perf_counter() - started
    assert len(planned.jobs) == 4 * PLANNED["variants"] * PLANNED["seeds"]
    return {"seconds": seconds, "megabytes": peak(), "before": before}


def _bench(folder: Path, size: int) -> tuple[Bench, dict[str, Any]]:
    from tests.execution.bench import Bench

    return Bench(folder / f"run-{size}"), {"seeds": list(range(size // 4)), "run_id": "run"}


def run(folder: Path, size: int) -> dict[str, float]:
    from tests.execution.simulated import SimulatedSandbox
    from trace_bench.execution.run import Run

    bench, config = _bench(folder, size)
    planned = bench.plan(**config)
    assert len(planned.jobs) == size
    spent = _clock(SimulatedSandbox, "_move")
    ends = 0.0
    began, processor = time.perf_counter(), time.process_time()
    controller = Run(planned)
    inner = controller._run_jobs

    def run_jobs(reporter: Any) -> None:
        nonlocal ends
        ends = time.perf_counter()
        inner(reporter)
        ends = time.perf_counter() - ends

    controller._run_jobs = run_jobs  # type: ignore[method-assign]
    result = controller.execute()
    wall = time.perf_counter() - began
    assert result.ok and bench.backend.most_alive <= 8
    return {
        "wall": wall, "processor": time.process_time() - processor, "simulated": spent[0], "ends": wall - ends,
    }  # fmt: skip


def _clock(owner: Any, name: str) -> list[float]:
    """Processor time of all threads in a method, seconds, as the one item of a list."""
    spent = [0.0]
    inner = getattr(owner, name)

    def outer(*args: Any) -> Any:
        started = time.thread_time()
        try:
            return inner(*args)
        finally:
            spent[0] += time.thread_time() - started

    setattr(owner, name, outer)
    return spent


def resume(folder: Path, size: int) -> dict[str, float]:
    bench, config = _bench(folder, size)
    started = time.perf_counter()
    planned = bench.plan(**config)
    seconds = time.perf_counter() - started
    assert planned.finished and len(planned.reused) == size
    return {"seconds": seconds}


INSIDE: dict[str, Callable[[Path, int], dict[str, float]]] = {"plan": plan, "run": run, "resume": resume}


if __name__ == "__main__":
    main()
