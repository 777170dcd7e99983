"""A run of thousands of sandboxes: how near it comes to what its limits allow, and what it costs its controller.

    python benchmarks/perf/scale.py [--jobs 2000] [--only modal,simulated] [--sandboxes 100] [--speedup 1]

* modal: the Modal backend with the service's own client, against the loopback server of the tests in a process of its
  own. Creations are limited to 5 a second; a start takes a lognormal time with median 0.6 s and 99th percentile 8 s,
  and 2 % fail; a job takes a lognormal time with median 8 s and 99th percentile 32 s. All drawn from one seed.
* simulated: the same jobs on the simulated backend of the tests, which has no service and no limit of creations.

A sandbox here is no process: the server itself speaks what would come out of it (`tests.modal_server.light`), frame by
frame, and hands over the files of a whole job. What a sandbox costs its machine is left out; what it costs the
controller is not. What the network adds (latency, TLS) is left out too.

The bound is computed from what was drawn, in `bounds.py`. `--speedup S` divides all times by S and multiplies the rate
of creations by it, except the controller's own pauses and intervals; beyond a few times, the processor is what limits.
Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from bounds import Bound, Limits, Start, lower_bound, schedule
from timing import environment, load

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

if TYPE_CHECKING:
    from tests.execution.bench import Bench
    from tests.execution.supervisor import Script
    from tests.modal_server.trouble import Starts

LIMIT_RATIO, LIMIT_PROCESSOR = 1.15, 20.0
"""Makespan over bound; milliseconds of the controller's processor time a job."""
START_P50, START_P99 = 0.6, 8.0
JOB_P50, JOB_P99 = 8.0, 32.0
"""Seconds."""
CALLS = 4
"""Model calls of a job, each with an evaluation."""
SAMPLES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the jobs at which the controller is looked at."""


@dataclass(frozen=True)
class Scale:
    """What is drawn, and the limits. Times are as they are slept, `speedup` included."""

    jobs: int = 2000
    sandboxes: int = 100
    starting: int = 20
    per_second: float = 5.0
    failures: float = 0.02
    speedup: float = 1.0
    seed: int = 0

    @property
    def limits(self) -> Limits:
        return Limits(self.per_second * self.speedup, self.sandboxes, self.starting)

    def service(self, *, refuses: bool) -> Starts:
        """How the server's creations go."""
        from tests.modal_server.trouble import Starts

        rate = math.ceil(self.per_second * self.speedup) if refuses else None
        return Starts(START_P50 / self.speedup, START_P99 / self.speedup, self.failures, rate, seed=self.seed)

    def starts(self) -> list[Start]:
        """What the server draws, creation by creation: more than any run needs."""
        drawn = self.service(refuses=False)
        return [Start(*drawn.draw()) for _ in range(2 * self.jobs + 100)]

    def seconds_of(self, job_id: str) -> float:
        """How long the job takes."""
        draw = random.Random(f"{self.seed} {job_id}")
        sigma = math.log(JOB_P99 / JOB_P50) / NormalDist().inv_cdf(0.99)
        return draw.lognormvariate(math.log(JOB_P50), sigma) / self.speedup

    def script(self, job_id: str) -> Script:
        from tests.execution.supervisor import Script

        return Script(seconds=self.seconds_of(job_id), calls=CALLS)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--only", default="modal,simulated")
    parser.add_argument("--sandboxes", type=int, default=100)
    parser.add_argument("--starting", type=int, default=20)
    parser.add_argument("--per-second", type=float, default=5.0)
    parser.add_argument("--failures", type=float, default=0.02)
    parser.add_argument("--speedup", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", help="file for what the controller spends its processor time on")
    parser.add_argument("--inside", nargs=2, metavar=("WHAT", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    scale = Scale(
        chosen.jobs, chosen.sandboxes, chosen.starting, chosen.per_second, chosen.failures, chosen.speedup, chosen.seed
    )
    if chosen.inside:
        what, folder = chosen.inside
        INSIDE[what](scale, Path(folder), chosen.profile)
        return
    words = sys.argv[1:] if words is None else words
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        for what in chosen.only.split(","):
            folder = Path(name) / what
            folder.mkdir()
            print(f"{what}: {scale.jobs:,} jobs ({load()})")
            with server(folder, words) if what == "modal" else contextlib.nullcontext({}) as variables:
                found = json.loads(inside(what, folder, words, variables))
            report(scale, found, limited=what == "modal")


def report(scale: Scale, found: dict[str, Any], *, limited: bool) -> None:
    jobs = found["seconds"]
    drawn = scale.starts() if limited else [Start(0.0, False)] * len(jobs)
    limits = scale.limits if limited else Limits(math.inf, scale.sandboxes, scale.sandboxes)
    bound = lower_bound(jobs, drawn, limits)
    show_bound(bound, limits, jobs, drawn)
    line("makespan", f"{found['wall']:.1f} s")
    line("  over the bound", f"{found['wall'] / bound.seconds:.3f}", f"{LIMIT_RATIO}")
    line("  of it, before the first and after the last job", f"{found['ends']:.2f} s")
    if limited:
        line("creations", f"{found['created']:,}")
        line("  refused as too many in a second", f"{found['refused']:,}")
        line("calls of the service", f"{sum(found['calls'].values()) / len(jobs):.1f} a job")
        for name, count in found["calls"].items():
            if count >= len(jobs) / 2:
                line(f"  {name}", f"{count / len(jobs):.1f} a job")
    line("jobs that are ok", f"{found['ok']:,} of {len(jobs):,}")
    line("  attempts beyond the first", f"{found['again']:,}")
    line("sandboxes at one time, at most", f"{found['most']}")
    line(
        "controller, processor time", f"{found['processor'] / len(jobs) * 1e3:.1f} ms a job", f"{LIMIT_PROCESSOR:g} ms"
    )
    for share, sample in zip(SAMPLES, found["samples"], strict=True):
        told = f"{sample['megabytes']:.1f} MB, {sample['threads']} threads, {sample['files']} files"
        line(f"  after {share:.0%} of the jobs", told)
        line("    processor time since the last look", f"{sample['processor']:.1f} ms a job")


def show_bound(bound: Bound, limits: Limits, jobs: Sequence[float], drawn: Sequence[Start]) -> None:
    failed = sum(start.fails for start in drawn[: bound.made])
    line("jobs, seconds together", f"{sum(jobs):,.0f} s")
    line("starts, seconds together", f"{sum(start.seconds for start in drawn[: bound.made]):,.0f} s")
    line("bound", f"{bound.seconds:.1f} s")
    if math.isfinite(limits.per_second):
        line(f"  {bound.made:,} creations ({failed} fail), {limits.per_second:g} a second", f"{bound.creations:.1f} s")
        line(f"  all starts, {limits.starting} at a time", f"{bound.starts:.1f} s")
    line(f"  all sandboxes, {limits.sandboxes} at a time", f"{bound.sandboxes:.1f} s")
    line("  the longest job", f"{bound.longest:.1f} s")
    line("the same jobs in the order given, at no cost", f"{schedule(jobs, drawn, limits):.1f} s")


def line(what: str, value: str, limit: str = "") -> None:
    print(f"{what:52} {value:>36}" + (f"   wanted: {limit} at most" if limit else ""), flush=True)


# ------------------------------------------------------------------------------------------ in processes of their own


def inside(what: str, folder: Path, words: Sequence[str], variables: dict[str, str]) -> str:
    """The last line that `INSIDE[what]` says in a new process."""
    locks = folder / "locks"
    locks.mkdir()
    done = subprocess.run(
        [sys.executable, __file__, *words, "--inside", what, str(folder)],
        env={**environment(), **variables, "TRACE_BENCH_LOCK_DIR": str(locks)},
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{what} failed with {done.returncode}")
    return done.stdout.splitlines()[-1]


@contextlib.contextmanager
def server(folder: Path, words: Sequence[str]) -> Iterator[dict[str, str]]:
    """A loopback server in a process of its own; the variables by which a client finds it."""
    command = [sys.executable, __file__, *words, "--inside", "server", str(folder)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield json.loads(running.stdout.readline())
        finally:
            running.send_signal(signal.SIGTERM)


def serve(scale: Scale, folder: Path, _: str | None) -> None:
    from tests.modal_server.light import LightEngine
    from tests.modal_server.server import ModalServer

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    _raise_open_files()
    with ModalServer(starts=scale.service(refuses=True), engine=LightEngine(scale.script)) as loopback:
        print(json.dumps(loopback.environment), flush=True)
        counted = folder / "server.json"
        while signal.sigtimedwait({signal.SIGTERM, signal.SIGINT}, 0.2) is None:
            if (folder / "ask").exists():
                (folder / "ask").unlink()
                part = counted.with_suffix(".part")
                created = len(loopback.sandboxes())
                calls = dict(Counter(call.rpc for call in loopback.calls()).most_common())
                refused = loopback.starts.refused
                part.write_text(json.dumps({"created": created, "refused": refused, "calls": calls}))
                part.rename(counted)


def modal(scale: Scale, folder: Path, profile: str | None) -> None:
    from trace_bench.config.places import ModalConfig
    from trace_bench.sandbox.modal import ModalBackend

    settings = ModalConfig(
        max_sandboxes=scale.sandboxes, max_starting=scale.starting, creations_per_second=scale.limits.per_second
    )
    found = controller(scale, folder, ModalBackend(settings), profile)
    (folder / "ask").touch()
    counted = folder / "server.json"
    while not counted.exists():
        time.sleep(0.05)
    print(json.dumps({**found, **json.loads(counted.read_text())}))


def simulated(scale: Scale, folder: Path, profile: str | None) -> None:
    from tests.execution.simulated import SimulatedBackend

    backend = SimulatedBackend(script=lambda job_id, number: scale.script(job_id), cpus=scale.sandboxes)
    print(json.dumps(controller(scale, folder, backend, profile)))


def controller(scale: Scale, folder: Path, backend: Any, profile: str | None) -> dict[str, Any]:
    """A run on `backend`, and what it cost this process."""
    from tests.execution.bench import Bench
    from tests.execution.listening import Listener
    from trace_bench.execution.run import Run

    _raise_open_files()
    bench: Bench = Bench(folder / "bench", backend)
    planned = bench.plan(
        tasks=["internal:numeric_param"], trainers=[{"id": "PrioritySearch", "params": {"num_steps": 1}}],
        seeds=list(range(scale.jobs)), max_workers=scale.sandboxes, retries=2, run_id="run",
    )  # fmt: skip
    watch = Watch(scale.jobs)

    class Looks(Listener):
        def job_finished(self, job: Any, row: Any) -> None:
            watch.finished()

    run = Run(planned, subscriber=Looks())
    inner, jobs = run._run_jobs, 0.0

    def run_jobs(reporter: Any) -> None:
        nonlocal jobs
        began = time.perf_counter()
        inner(reporter)
        jobs = time.perf_counter() - began

    run._run_jobs = run_jobs  # type: ignore[method-assign]
    began = time.perf_counter()
    watch.begin()
    with profiled(profile):
        result = run.execute()
    wall = time.perf_counter() - began
    return {
        "wall": wall, "ends": wall - jobs, "processor": watch.processor(),
        "samples": [asdict(sample) for sample in watch.samples],
        "ok": sum(row.status == "ok" for row in result.rows), "most": watch.most,
        "again": sum(len(_attempts(result.layout.job(row.job_id).meta)) - 1 for row in result.rows),
        "seconds": [scale.seconds_of(job.job_id) for job in planned.jobs],
    }  # fmt: skip


def _attempts(path: Path) -> list[Any]:
    found: list[Any] = json.loads(path.read_bytes())["attempts"]
    return found


@contextlib.contextmanager
def profiled(path: str | None) -> Iterator[None]:
    """Processor time of the parts of a job, and of threads, into a file."""
    if path is None:
        yield
        return
    spent: dict[str, list[float]] = {}
    for owner, name in _parts():
        _clock(owner, name, spent)
    try:
        yield
    finally:
        rows = [(seconds, f"{name} ({int(calls)} calls)") for name, (seconds, calls) in spent.items()]
        for thread in threading.enumerate():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
                rows.append(((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), f"thread {thread.name}"))
        Path(path).write_text("".join(f"{seconds:8.3f} s  {name}\n" for seconds, name in sorted(rows, reverse=True)))


def _parts() -> list[tuple[Any, str]]:
    """Functions whose time is measured, each with the module that looks it up."""
    from tests.execution.simulated import SimulatedSandbox
    from trace_bench.execution import (
        attempt,
        attempt_outcome,
        cancel,
        dispatch,
        job_runner,
        live,
        reporting,
        run,
        session,
    )  # fmt: skip
    from trace_bench.gateway.server import Gateway, Scope
    from trace_bench.planning.plan import RunPlan
    from trace_bench.records.tables import LiveTables
    from trace_bench.sandbox.modal import backend, sandbox
    from trace_bench.sandbox.modal.stream import ModalStream
    from trace_bench.sandbox.uids import UidBlocks
    from trace_bench.scheduling.allocation import Allocator
    from trace_bench.scheduling.starting import StartGate

    return [
        (SimulatedSandbox, "_move"), (attempt_outcome, "collect"), (attempt, "record_attempt"),
        (attempt, "observed"), (attempt, "keep_attempt"),
        (job_runner.JobRunner, "run"), (run.Run, "_finish"), (reporting.RunReporter, "notify"),
        (cancel.RunCancellation, "_request"),
        (live.JobListener, "_append"), (live.JobListener, "history"), (live.JobListener, "event"),
        (attempt.Attempt, "run"),
        (dispatch.Dispatcher, "_start_jobs"),
        (attempt.Attempt, "_supervise"), (attempt.Attempt, "_converse"),
        (session.Session, "run"), (session.Connection, "read"), (session.Connection, "_write"),
        (session.Session, "_on_message"), (session.Session, "_on_llm_request"), (session.Session, "_pass_on_stop"),
        (Allocator, "allocate_next"), (RunPlan, "prepare"), (StartGate, "enter"), (Gateway, "open"), (Scope, "handle"),
        (LiveTables, "write"), (UidBlocks, "acquire"), (attempt_outcome, "publish"), (attempt_outcome, "results_row"),
        (attempt_outcome, "sync_tree"), (attempt_outcome, "write_json"), (attempt_outcome, "cpu_model"),
        (backend.ModalBackend, "create"), (sandbox.ModalSandbox, "attach"), (sandbox.ModalSandbox, "start"),
        (sandbox.ModalSandbox, "controls"), (sandbox.ModalSandbox, "wait"), (sandbox.ModalSandbox, "collect"),
        (sandbox.ModalSandbox, "remove"), (ModalStream, "read"), (ModalStream, "write"),
    ]  # fmt: skip


def _clock(owner: Any, name: str, spent: dict[str, list[float]]) -> None:
    """Count the calls of a function and their processor time, what they call included."""
    if not hasattr(owner, name):
        return
    found = spent.setdefault(f"{owner.__name__}.{name}", [0.0, 0])
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*args: Any, **named: Any) -> Any:
        started = time.thread_time()
        try:
            return inner(*args, **named)
        finally:
            found[0] += time.thread_time() - started
            found[1] += 1

    setattr(owner, name, outer)


@dataclass(frozen=True)
class Sample:
    """The controller at one moment. `processor` is milliseconds a job since the last sample."""

    megabytes: float
    threads: int
    files: int
    processor: float


class Watch:
    """Looks at this process as its jobs end."""

    def __init__(self, jobs: int) -> None:
        self._at = [math.ceil(share * jobs) for share in SAMPLES]
        self._count = 0
        self._last = (0, 0.0)
        self.samples: list[Sample] = []
        self.most = 0

    def begin(self) -> None:
        self._began = _processor()

    def processor(self) -> float:
        """Seconds since `begin`."""
        return _processor() - self._began

    def finished(self) -> None:
        self._count += 1
        self.most = max(self.most, sum(thread.name.startswith("job") for thread in threading.enumerate()))
        while self._at and self._count >= self._at[0]:
            self._at.pop(0)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            count, spent = self._last
            now = self.processor()
            each = (now - spent) / max(1, self._count - count) * 1e3
            self._last = (self._count, now)
            megabytes = pages * resource.getpagesize() / 1e6
            files = sum(1 for _ in Path("/proc/self/fd").iterdir())
            self.samples.append(Sample(megabytes, threading.active_count(), files, each))


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))


INSIDE = {"server": serve, "modal": modal, "simulated": simulated}


if __name__ == "__main__":
    main()
