"""A long run under random faults: every job ends as it should, and the controller leaks nothing.

The seed is printed; ``TRACE_BENCH_FAULT_SEED`` gives it again. The long form writes what it measured to the terminal.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.faults import ENGINE, Door, Trial, docker, door, finished, matrix_config, rows_of, run_of
from tests.integration.files import paid_calls
from tests.integration.test_interruption import containers, wait_for
from trace_bench.errors import ExitCode

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock"),
]

MOST_DESCRIPTORS = 60
"""Of a controller with four jobs at work: connections, cassettes, locks, and some for outages."""
SMALL = {"memory": "256m", "disk": "16m", "tmp": "16m", "pids": 128}
ENDINGS = {
    ("internal:phased", ""): ("ok", None, None),
    ("internal:siege", "c_bomb"): ("ok", None, None),
    ("internal:siege", "c_memory"): ("ok", None, None),
    ("internal:hostile", "segfault"): ("failed", "trainer", "train_died"),
    ("internal:hostile", "links"): ("failed", "trainer", "bad_output"),
}
"""By task and deed: the status, boundary and kind of failure that its jobs end with, whatever happens to them."""
SCRIPT = """
prices: {prompt: 10.0, completion: 40.0}
rules:
  - match: {proposal: 0}
    set: {"*": {add: 0.25}}
    fail: {status: 503, message: overloaded, tries: 1}
    latency: 0.1
default:
  set: {"*": {add: -0.25}}
  latency: 0.1
"""
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 1, "num_candidates": 1, "num_proposals": 2}}


def soak_config(folder: Path, seeds: int, **config: object) -> Path:
    script = folder / "flaky.yaml"
    script.write_text(SCRIPT)
    tasks = [{"id": task, "eval_kwargs": {"deed": deed} if deed else {}} for task, deed in ENDINGS]
    return matrix_config(folder, tasks=tasks, trainers=["NoOp", SEARCH], seeds=list(range(1, seeds + 1)), retries=12,
                         max_workers=4, sandbox=SMALL, score_timeout=60, llm={"model": f"scripted:{script}"},
                         **config)  # fmt: skip


@dataclass
class Watch:
    """What a controller holds, twice a second."""

    pid: int
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Seconds, KiB of resident memory, threads, descriptors."""
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        proc, began = Path(f"/proc/{self.pid}"), time.monotonic()
        while not self._over.wait(0.5):
            with suppress(OSError, KeyError):
                lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
                rss, threads = int(lines["VmRSS"].split()[0]), int(lines["Threads"])
                self.samples.append((time.monotonic() - began, rss, threads, len(list((proc / "fd").iterdir()))))

    def thirds(self, column: int) -> list[float]:
        """The median of a column in each third of the time."""
        values = [sample[column] for sample in self.samples]
        third = len(values) // 3
        return [statistics.median(values[i * third : (i + 1) * third]) for i in range(3)]


@dataclass
class Chaos:
    """Random faults from a seed: containers killed, removed, stopped or paused (each job once at most), the engine away
    for a second (`outages` times at most: each costs all jobs at work an attempt). `met` counts them."""

    folder: Path
    way: Door
    chance: random.Random
    every: float
    outages: int
    met: dict[str, int] = field(default_factory=dict)
    _hit: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Chaos:
        self._thread = threading.Thread(target=self._disturb, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _disturb(self) -> None:
        while not self._over.wait(self.chance.uniform(0.5, 1.5) * self.every):
            deed = self.chance.choice(("kill", "rm -f", "pause", "stop", "engine away"))
            if deed == "engine away":
                if self.met.get(deed, 0) == self.outages:
                    continue
                self.way.shut()
                time.sleep(1.0)
                self.way.open()
            elif not self._hit_one(deed):
                continue
            self.met[deed] = self.met.get(deed, 0) + 1

    def _hit_one(self, deed: str) -> bool:
        if not (self.folder / "runs").is_dir():
            return False
        found = [c for c in containers(run_of(self.folder).name) if c["State"] == "running"]
        found = [c for c in found if c["Labels"]["trace-bench.job"] not in self._hit]
        if not found:
            return False
        victim = self.chance.choice(found)
        self._hit.add(victim["Labels"]["trace-bench.job"])
        with suppress(AssertionError):  # it has ended meanwhile
            docker(*deed.split(), victim["Id"])
            if deed == "pause":
                time.sleep(0.5)
                docker("unpause", victim["Id"])
            return True
        return False


def soak(folder: Path, home: Path, seeds: int, kills: int, every: float) -> tuple[Watch, dict[str, int]]:
    """Disturb a run until it is finished, and check it; returns what its last controller held, and what it met."""
    seed = int(os.environ.get("TRACE_BENCH_FAULT_SEED", 1))
    print(f"TRACE_BENCH_FAULT_SEED={seed}")
    chance = random.Random(seed)
    temporary = folder / "tmp"
    temporary.mkdir()
    jobs = seeds * 2 * len(ENDINGS)
    trial = Trial(folder, home, soak_config(folder, seeds), env={"TMPDIR": str(temporary)})
    with door() as way, Chaos(folder, way, chance, every, max(2, jobs // 25)) as chaos:
        for part in range(kills):
            enough = (part + 1) * jobs // (3 * kills)  # in the first third: the last controller is watched for long
            with trial.controller(DOCKER_HOST=way.url) as process:
                wait_for(lambda: process.poll() is not None or len(rows_of(folder)) >= enough, 300)  # noqa: B023
        while True:
            with trial.controller(DOCKER_HOST=way.url) as process, Watch(process.pid) as watch:
                said = trial.ended(process, 580)
            if process.returncode != ExitCode.ENVIRONMENT:
                break  # else the engine was away just when the run was planned, and a user would try again
        assert process.returncode == ExitCode.JOB_FAILED, said
    assert trial.is_recorded, "every job has an ending that counts"
    trial.stopped()
    ended = {
        job_id: (row["status"], row["failure_boundary"], row["failure_kind"]) for job_id, row in rows_of(folder).items()
    }
    planned = json.loads((run_of(folder) / "meta" / "manifest.json").read_text())["jobs"]
    wanted = {job["job_id"]: ENDINGS[job["task_id"], job["eval_kwargs"].get("deed", "")] for job in planned}
    rows = rows_of(folder)
    assert [(wanted[j], ended[j], rows[j]["feedback"]) for j in wanted if ended.get(j) != wanted[j]] == []
    assert ended.keys() == wanted.keys() and len(wanted) == jobs and len(finished(folder)) == jobs * 3 // 5
    paid = paid_calls(run_of(folder))
    assert len(paid) == len(set(paid)) > seeds, "no call is paid twice"
    assert list(temporary.iterdir()) == [], "no temporary file is left"
    assert processes_with(f"TMPDIR={temporary}") == [], "no process is left"
    return watch, chaos.met


def processes_with(variable: str) -> list[str]:
    """Command lines of processes that have this in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.slow
def test_a_short_run_under_random_faults(images: Path, tmp_path: Path) -> None:
    watch, met = soak(tmp_path, images, seeds=2, kills=1, every=1.5)
    assert met and max(sample[3] for sample in watch.samples) < MOST_DESCRIPTORS


@pytest.mark.slow
def test_a_long_run_under_random_faults_leaks_nothing(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watch, met = soak(tmp_path, images, seeds=20, kills=3, every=2.0)
    rss, threads, descriptors = (watch.thirds(column) for column in (1, 2, 3))
    with capsys.disabled():
        print(f"\nsoak: {met}; RSS by thirds {rss} KiB, threads {threads}, descriptors {descriptors}")
    assert sum(met.values()) > 20
    assert rss[2] < rss[1] * 1.10, "its memory does not grow"
    assert threads[2] <= threads[0] + 4 and descriptors[2] <= descriptors[0] + 8 and descriptors[2] < MOST_DESCRIPTORS
