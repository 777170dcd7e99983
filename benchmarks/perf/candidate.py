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
import io
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TASKS = {"circle_packing": "circle_packing", "online_bin_packing": "optimization/online_bin_packing"}
UID_BASE = 0x70000000
SANDBOX = [
    *("--network", "none", "--cap-drop", "ALL", "--read-only", "--security-opt", "no-new-privileges", "--ipc", "none"),
    *("--cap-add", "CHOWN", "--cap-add", "KILL", "--cap-add", "SETGID", "--cap-add", "SETUID", "--init"),
    *("--tmpfs", "/tmp:rw,nosuid,nodev,noexec,mode=0755", "--cpus", "1", "--pids-limit", "256"),
    *("--memory", "2g", "--memory-swap", "2g"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--where", default="container,local")
    parser.add_argument("--runtime", help="of the engine, for the container")
    chosen = parser.parse_args()
    runtime = ["--runtime", chosen.runtime, "--pids-limit", "4096"] if chosen.runtime else []
    from timing import image_of, load

    source = Path(__file__).read_text(encoding="utf-8")
    for where in chosen.where.split(","):
        if where == "container":
            options = [*SANDBOX, *runtime, "--entrypoint", "python3", image_of("llm4ad")]
            words = ["docker", "run", "--rm", "--interactive", *options, "-sP"]
        else:
            words = [sys.executable]
        done = subprocess.run(
            [*words, "-c", source, "inside", where, str(chosen.rounds)],
            input=packed_tasks(),
            env={**os.environ, "TRACE_BENCH_PRELOAD": "numpy", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0 or not done.stdout:
            sys.exit(f"the {where} measurement failed: {done.stderr.decode(errors='replace').strip()}")
        print(f"\n{where} ({load()})")
        for name, found in json.loads(done.stdout).items():
            report(name, found)


def packed_tasks() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, folder in TASKS.items():
            tar.add(Path(__file__).parents[1] / "LLM4AD" / "benchmark_tasks" / folder, arcname=name)
    return buffer.getvalue()


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


def inside(where: str, rounds: int) -> None:
    """Play the supervisor: fork the spawner, have it start one phase, print what that reports."""
    from trace_bench.worker import phases, spawner, wire

    with tempfile.TemporaryDirectory(dir="/tmp" if where == "container" else None) as name:
        tmp = Path(name)
        tmp.chmod(0o755)
        with tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())) as tar:
            for member in tar:  # tidy owners and modes: in there, root has no rights beyond its own files
                member.uid = member.gid = os.getuid()
                member.mode = 0o755 if member.isdir() else 0o644
                tar.extract(member, tmp)
        # The spawner is forked from here, so that its phases come here in place of their own entry.
        phases.enter = lambda name, ctl, spawn: measure(ctl, spawn, tmp, rounds)
        options = spawner.Options(UID_BASE if where == "container" else None, tmp, 256 << 20)
        spawn = spawner.fork(options)
        ours, theirs = socket.socketpair()
        wire.send_datagram(spawn, {"op": "phase", "name": "score"}, (theirs.fileno(), 2))
        theirs.close()
        unpacker = wire.Unpacker()
        reports = []
        while data := ours.recv(1 << 16):
            reports += unpacker.feed(data)
        received = wire.receive_datagram(spawn)
        while received is not None and received[0]["op"] != "exit":  # by then its home has been emptied
            received = wire.receive_datagram(spawn)
    for message in reports:
        print(json.dumps(message))


def measure(ctl: socket.socket, spawn: socket.socket, tmp: Path, rounds: int) -> None:
    """In a phase's process."""
    from trace_bench.worker import wire
    from trace_bench.worker.candidates import CandidatePrograms, SpawnerClient
    from trace_bench.worker.evaluate import evaluate_example

    results = {}
    for name in TASKS:
        within = WithinPrograms()
        ways = {"apart": CandidatePrograms(SpawnerClient(spawn), 1), "within": within}
        problems = {way: built(tmp / name, programs) for way, programs in ways.items()}
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
    ctl.sendall(wire.pack(results))


def built(folder: Path, programs: Any) -> Any:
    from trace_bench.suites.llm4ad.problem import build
    from trace_bench.worker.problem import BuildContext

    spec = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    defaults = {key: argument["default"] for key, argument in spec.get("eval_kwargs", {}).items()}
    return build(BuildContext(folder, spec, defaults, 1, programs))


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(sys.argv[2], int(sys.argv[3]))
    else:
        main()
