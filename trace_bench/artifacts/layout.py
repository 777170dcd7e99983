"""The path of every file of a run. Only this module knows their names.

See ``docs/reference/files.md``. Nothing here touches the disk, but for `RunLayout.job_dirs` and the two
``make``s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

JOB_ID = re.compile(r"[0-9a-f]{12}")

EVENTS = "events.jsonl"
HISTORY = "state_history.jsonl"
STATES = "states.json"
RESULT = "result.json"
CHECKPOINT = "checkpoint.jsonl"
STDOUT = "stdout.log"
STDERR = "stderr.log"
"""Last words of a sandbox that broke, in the folder of the attempt."""
NOT_RECORDED = "not_recorded.txt"
"""Requests of a replayed job that its recording does not hold, in the folder of the attempt."""
REPRODUCTION = "reproduction.json"
"""Report on the reproduction of a run, beside the new run."""
EXTRA = "extra"
OUT_FILES = (EVENTS, HISTORY, STATES, RESULT, STDOUT)
"""Files at the top of a sandbox's volume, next to the folder `EXTRA`."""


def is_unfinished(name: str) -> bool:
    """True for a temporary file at the top of a volume, which a killed sandbox may leave."""
    return name.endswith(".tmp") or (name.startswith(".") and name[1:] in OUT_FILES)


def pending_beside(cassette: Path) -> Path:
    """The folder of calls that are with a provider and have no line in `cassette` yet.

    >>> pending_beside(Path("jobs/0123456789ab/llm.jsonl")).as_posix()
    'jobs/0123456789ab/llm.asked'
    """
    return cassette.with_suffix(".asked")


class Below:
    """The path of a file or folder below the `root` of a layout."""

    def __init__(self, *parts: str) -> None:
        self._path = "/".join(parts)

    def __get__(self, layout: JobLayout | RunLayout, _: type) -> Path:
        return layout.root / self._path


@dataclass(frozen=True)
class JobLayout:
    """The folder of one job, ``jobs/<job_id>/``."""

    root: Path

    meta = Below("job_meta.json")
    results = Below("results.json")
    events = Below(EVENTS)
    stdout = Below(STDOUT)
    cassette = Below("llm.jsonl")
    pending = Below("llm.asked")
    """A file for each call that is with a provider (`pending_beside`); gone once its line is in the cassette."""
    services = Below("services.jsonl")
    """Requests of the job to services of the host, and their answers."""
    service_files = Below("services")
    """Files of services, a folder for each call."""
    checkpoint = Below(CHECKPOINT)
    """The results of the search so far, for another attempt; removed once the job is ok."""
    artifacts = Below("artifacts")
    initial_state = Below("artifacts", "initial_state.yaml")
    best_state = Below("artifacts", "best_state.yaml")
    final_state = Below("artifacts", "final_state.yaml")
    state_history = Below("artifacts", HISTORY)
    pareto = Below("artifacts", "pareto.json")
    """The trade-offs that the search found, made from its history."""
    extra = Below("artifacts", EXTRA)
    tb = Below("tb")
    attempts = Below("attempts")

    @property
    def job_id(self) -> str:
        return self.root.name

    def attempt(self, number: int) -> Path:
        """The folder of attempt `number` (from 1): its own `out`, and what was kept of a failure."""
        return self.attempts / str(number)

    def attempt_out(self, number: int) -> Path:
        """The folder for the collected volume of attempt `number`."""
        return self.attempt(number) / "out"

    def make(self) -> JobLayout:
        """Create the folders."""
        for folder in (self.artifacts, self.attempts):
            folder.mkdir(parents=True, exist_ok=True)
        return self


@dataclass(frozen=True)
class RunLayout:
    """The folder of one run, ``runs/<run_id>/``."""

    root: Path

    meta = Below("meta")
    config_snapshot = Below("meta", "config.snapshot.yaml")
    manifest = Below("meta", "manifest.json")
    lock = Below("meta", "lock.json")
    salt = Below("meta", ".salt")
    """The salt of the held-out seeds while the run is not over; then it is in the lock."""
    cancel = Below("meta", ".cancel")
    """The wish that a running controller should stop; see `trace_bench.execution.cancel`."""
    env = Below("meta", "env.json")
    git = Below("meta", "git.json")
    replay = Below("meta", "replay.json")
    """Comparison of a replay with the run that it repeats."""
    yardsticks = Below("meta", "yardsticks.json")
    """Scores of reference programs and best known scores, by which gaps are measured."""
    files_index = Below("meta", "files_index.json")
    log = Below("meta", "controller.log")
    """Log of the run's controllers, for people; nothing is derived from it."""
    jobs = Below("jobs")
    events = Below(EVENTS)
    results_csv = Below("results.csv")
    results_parquet = Below("results.parquet")
    summary = Below("summary.json")
    leaderboard = Below("leaderboard.csv")
    leaderboard_md = Below("leaderboard.md")
    """Ranking over all tasks, for people."""

    @property
    def run_id(self) -> str:
        return self.root.name

    def script(self, sha256: str) -> Path:
        """The copy of a scripted model's rules."""
        return self.meta / "scripts" / f"{sha256}.yaml"

    def job(self, job_id: str) -> JobLayout:
        """The folder of `job_id`.

        Raises:
            ValueError: it is not 12 hex digits, so it cannot name a folder of ours.
        """
        if not JOB_ID.fullmatch(job_id):
            raise ValueError(f"a job id has 12 hex digits, not {job_id!r}")
        return JobLayout(self.jobs / job_id)

    def job_dirs(self) -> Iterator[JobLayout]:
        """The jobs that have a folder, by id."""
        if self.jobs.is_dir():
            with os.scandir(self.jobs) as items:
                names = sorted(item.name for item in items if JOB_ID.fullmatch(item.name) and item.is_dir())
            for name in names:
                yield JobLayout(self.jobs / name)

    def relative(self, path: Path) -> str:
        """`path` as it is written in tables: relative to the run, with slashes."""
        return path.relative_to(self.root).as_posix()

    def make(self) -> RunLayout:
        """Create the folders."""
        for folder in (self.meta, self.jobs):
            folder.mkdir(parents=True, exist_ok=True)
        return self


_SCHEMAS = {
    "meta/manifest.json": "manifest",
    "meta/lock.json": "lock",
    "meta/env.json": "env",
    "meta/git.json": "git",
    "meta/files_index.json": "files_index",
    "meta/replay.json": "replay",
    "meta/yardsticks.json": "yardsticks",
    "summary.json": "summary",
    "events.jsonl": "event",
    "job_meta.json": "job_meta",
    "results.json": "results",
    "llm.jsonl": "llm_call",
    "services.jsonl": "service_call",
    "checkpoint.jsonl": "checkpoint",
    "state_history.jsonl": "history",
    "artifacts/state_history.jsonl": "history",
    "artifacts/pareto.json": "pareto",
    "artifacts/initial_state.yaml": "state",
    "artifacts/best_state.yaml": "state",
    "artifacts/final_state.yaml": "state",
    "states.json": "states",
    "result.json": "result",
}
_JOB_PREFIX = re.compile(r"jobs/[0-9a-f]{12}/(attempts/\d+/(out/)?)?")


def schema_of(relative: str) -> str | None:
    """Name of the schema of a file, given its path relative to the run; None where it has none.

    >>> schema_of("jobs/0123456789ab/llm.jsonl")
    'llm_call'
    """
    return _SCHEMAS.get(_JOB_PREFIX.sub("", relative, count=1))
