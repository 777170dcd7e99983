"""What a job costs from end to end, against a bare hardened `docker run` of the same image.

    python benchmarks/perf/job.py [--rounds 10] [--jobs 12] [--only single,many,phases,runtime] [--runtime runsc]

* single: `trace-bench run` with one job, as a process, alone and two at a time; so is the bare run. The first word of a
  case is the trainer.
* many: one run with many jobs, two at a time, against as many bare runs, two at a time; what one more job costs.
* phases: where the time of one job goes. Phases of the host are timed around its own functions in a process of this
  script, phases of the sandbox are taken from the job's ``events.jsonl``.
* runtime: bare runs and jobs under --runtime beside those under the engine's default. Only if asked for by name.

Needs an engine and the image of `core` (`trace-bench images build core`). Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from timing import TRACE_BENCH, at_once, environment, image_of, interleaved, load, process, show

TRAINERS = {"NoOp": "", "PrioritySearch": ", params: {num_steps: 2, num_candidates: 2, num_proposals: 2}"}
NUMERIC, PROGRAMS = "internal:numeric_param", "llm4ad:circle_packing"
HARDENED = [
    *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
    *("--tmpfs", "/tmp", "--memory", "2g", "--memory-swap", "2g", "--pids-limit", "256", "--init"),
]

# Drift is accepted, because it does not matter here and somebody may be at work on the worker.
OPTIONS = ("--no-build", "--accept-drift")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--only", default="single,many,phases")
    parser.add_argument("--runtime", default="runsc", help="of the engine, for --only runtime")
    parser.add_argument("--trace", nargs=2, metavar=("CONFIG", "RUNS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.trace:
        trace(*chosen.trace)
        return
    image = image_of("core")
    bare = ("docker", "run", "--rm", *HARDENED, "--entrypoint", "python3", image, "-c", "pass")
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        folder = Path(name)
        if "single" in chosen.only:
            single(folder, bare, chosen.rounds)
        if "many" in chosen.only:
            many(folder, bare, chosen.jobs)
        if "phases" in chosen.only:
            phases(folder, chosen.rounds)
        if "runtime" in chosen.only:
            runtimes(folder, bare, chosen.runtime, chosen.rounds)


def write_config(folder: Path, trainer: str, seeds: int, runtime: str = "", task: str = NUMERIC) -> Path:
    path = folder / f"{trainer}-{seeds}-{runtime}-{task.replace(':', '-')}.yaml"
    path.write_text(
        f"name: perf\nmode: stub\nseeds: {list(range(1, seeds + 1))}\nmax_workers: {min(2, seeds)}\n"
        f"tasks: [{task}]\ntrainers: [{{id: {trainer}{TRAINERS[trainer]}}}]\n"
        + (f"sandbox: {{runtime: {runtime}}}\n" if runtime else "")
    )
    return path


def command(folder: Path, trainer: str, seeds: int = 1, runtime: str = "", task: str = NUMERIC) -> list[str]:
    config = write_config(folder, trainer, seeds, runtime, task)
    return [TRACE_BENCH, "run", *OPTIONS, "--config", str(config), "--runs-dir", str(folder / "runs")]


def single(folder: Path, bare: tuple[str, ...], rounds: int) -> None:
    for number in (1, 2):
        cases = {"bare docker run": lambda n=number: at_once(n, *bare)}
        for trainer in TRAINERS:
            words = command(folder, trainer)
            cases[f"{trainer}, one job"] = lambda n=number, w=words: at_once(n, *w)
        print(f"\n{number} at a time ({load()})")
        show(interleaved(cases, rounds), "bare docker run")


def many(folder: Path, bare: tuple[str, ...], jobs: int) -> None:
    def all_bare() -> list[float]:
        started = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: process(*bare), range(jobs)))
        return [time.perf_counter() - started]

    cases: dict[str, Callable[[], list[float]]] = {f"{jobs} bare docker runs": all_bare}
    for trainer in TRAINERS:
        for count in (2, jobs):
            words = command(folder, trainer, count)
            cases[f"{trainer}, {count} jobs in one run"] = lambda w=words: [process(*w)]
    print(f"\ntwo at a time ({load()})")
    times = interleaved(cases, 3)
    show(times, f"{jobs} bare docker runs")
    per_bare = statistics.median(times[f"{jobs} bare docker runs"]) / jobs
    for trainer in TRAINERS:
        middle = {count: statistics.median(times[f"{trainer}, {count} jobs in one run"]) for count in (2, jobs)}
        one_more = (middle[jobs] - middle[2]) / (jobs - 2)
        print(f"{trainer}: one more job {one_more * 1e3:.0f} ms, ratio to one more bare run {one_more / per_bare:.2f}")


def runtimes(folder: Path, bare: tuple[str, ...], runtime: str, rounds: int) -> None:
    stronger = (*bare[:3], "--runtime", runtime, *bare[3:])
    default = "engine's default"
    pairs: dict[str, tuple[list[str], list[str]]] = {"bare docker run": (list(bare), list(stronger))}
    for trainer, task in (("NoOp", NUMERIC), ("PrioritySearch", NUMERIC), ("PrioritySearch", PROGRAMS)):
        ways = (command(folder, trainer, task=task), command(folder, trainer, runtime=runtime, task=task))
        pairs[f"{trainer}, {task.partition(':')[2]}"] = ways
    for name, ways in pairs.items():
        cases = {way: lambda w=words: at_once(1, *w) for way, words in zip((default, runtime), ways, strict=True)}
        print(f"\n{name} ({load()})")
        show(interleaved(cases, rounds), default)


def phases(folder: Path, rounds: int) -> None:
    for trainer in TRAINERS:
        config = write_config(folder, trainer, 1)
        lines: dict[str, list[float]] = {}
        for _ in range(rounds + 1):
            started = time.perf_counter()
            done = subprocess.run(
                [sys.executable, __file__, "--trace", str(config), str(folder / "runs")],
                env=environment(), capture_output=True, text=True, check=False,
            )  # fmt: skip
            wall = time.perf_counter() - started
            if done.returncode != 0:
                sys.exit(f"the traced run failed: {done.stderr.strip()}")
            spent = json.loads(done.stdout.splitlines()[-1])
            spent["host: Python's own start and end"] = wall - spent["total"]
            spent["total"] = spent.pop("total") + spent["host: Python's own start and end"]
            for name, seconds in spent.items():
                lines.setdefault(name, []).append(seconds)
        print(f"\n{trainer}: phases of one job ({load()})")
        for name, taken in lines.items():
            measured = taken[1:]
            print(f"  {name:34} median {statistics.median(measured) * 1e3:7.1f} ms   min {min(measured) * 1e3:7.1f}")


def trace(config: str, runs: str) -> None:
    """In a process of its own: one run with clocks around the host's functions; prints ``{phase: seconds}``."""
    clock = time.perf_counter
    begin = clock()
    import trace_bench.cli as cli

    cli.hurry()
    importlib.import_module("trace_bench.cli.app")
    from trace_bench.cli import run as cli_run
    from trace_bench.sandbox import docker, docker_sandbox

    spent: dict[str, float] = {"host: imports": clock() - begin}
    from trace_bench.execution import attempt, attempt_outcome, run, session, start

    def timed(owner: Any, name: str, label: str) -> None:
        inner = getattr(owner, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            started = clock()
            try:
                return inner(*args, **kwargs)
            finally:
                spent[label] = spent.get(label, 0.0) + clock() - started

        setattr(owner, name, outer)

    timed(cli_run, "load_config", "host: read config")
    timed(start, "resolve", "host: look up tasks and trainers")
    timed(start, "backend_of", "host: find engine, check it")
    timed(start, "prepare_images", "host: look up image")
    timed(start, "plan_run", "host: plan")
    timed(run, "write_records", "host: records before the jobs")
    timed(docker.DockerBackend, "create", "engine: create, read back")
    timed(docker_sandbox.DockerSandbox, "attach", "engine: attach")
    timed(docker_sandbox.DockerSandbox, "start", "engine: start")
    timed(session.Session, "run", "sandbox: from started to done")
    timed(docker_sandbox.DockerSandbox, "wait", "engine: see it end")
    timed(attempt_outcome, "collect", "engine: collect")
    timed(docker_sandbox.DockerSandbox, "remove", "engine: remove")
    timed(attempt, "record_attempt", "host: record of the job")
    timed(run.Run, "_finish", "host: tables, index")
    sys.argv[1:] = ["run", *OPTIONS, "--config", config, "--runs-dir", runs]
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise
    total = clock() - begin
    last = max(Path(runs).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    ends: dict[str, float] = {}
    for line in next(last.glob("jobs/*/events.jsonl")).read_text().splitlines():
        event = json.loads(line)
        if event["event"] in ("phase.start", "phase.end"):
            ends[f"{event['phase']} {event['event']}"] = event["t"]
        last_event = event["t"]
    inside = "sandbox: from started to done"
    ordered: dict[str, float] = {}
    for name, seconds in spent.items():
        ordered[name] = seconds
        if name == inside:
            ordered["  until the job arrives"] = seconds - last_event
            ordered["  build"] = ends["build phase.end"]
            ordered["  train, after build"] = ends["train phase.end"] - ends["build phase.end"]
            ordered["  score"] = ends["score phase.end"] - ends["train phase.end"]
    shown = sum(value for name, value in ordered.items() if not name.startswith("  "))
    ordered["host: rest"] = total - shown
    ordered["total"] = total
    print(json.dumps(ordered))


if __name__ == "__main__":
    main()
