"""The order in which jobs start: across the matrix, or the longest first.

How long jobs take is read from the ``results.csv`` of the newest runs below ``runs_dir``, up to a limit of bytes. It
changes the order in which jobs start and no result.
"""

from __future__ import annotations

import contextlib
import csv
import heapq
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.layout import RunLayout
from trace_bench.config.frozen import thaw
from trace_bench.matrix import Job
from trace_bench.planning.planned_job import PlannedJob

RUNS = 200
"""Most runs whose tables are read, the newest first."""
BYTES, BYTES_PER_JOB = 1 << 20, 1 << 10
"""Bytes of tables that are read: a base, and an addition for each job …"""
MOST_BYTES = 16 << 20
"""… up to this."""
STEP = 1.25
"""Durations whose ratio is smaller count as equal, and keep the order of the matrix."""
SHORT = 1.0
"""Seconds; a shorter duration counts as this."""

_COLUMNS = (
    *("task_id", "trainer_id", "model", "resolved_trainer_kwargs", "eval_kwargs", "time_seconds", "status"),
    *("stop_reason", "cut_by_run_budget", "llm_reused", "llm_cached"),
)
_Key = tuple[str, str, str, str, str]


@dataclass
class Duration:
    """Seconds that jobs of one task, trainer, model and parameters took, whatever their seeds."""

    shortest: float
    total: float
    count: int = 1

    @property
    def mean(self) -> float:
        return self.total / self.count


def spread(tasks: int, variants: int, seeds: int) -> Iterator[int]:
    """Indices of the matrix (task, variant, seed, the last the fastest) in an order whose beginning covers it.

    Seed by seed; within a seed along diagonals, so that the first ``max(tasks, variants)`` jobs include every task and
    every variant. Every index comes once.

    >>> list(spread(2, 2, 2))
    [0, 6, 2, 4, 1, 7, 3, 5]
    """
    for seed in range(seeds):
        for shift in range(min(tasks, variants)):
            for step in range(max(tasks, variants)):
                if tasks >= variants:
                    task, variant = step, (step + shift) % variants
                else:
                    task, variant = (step + shift) % tasks, step
                yield (task * variants + variant) * seeds + seed


def known_durations(runs_dir: Path, jobs: Iterable[Job]) -> dict[str, Duration]:
    """Durations of jobs like `jobs` in earlier runs, by job id. Damaged files are ignored."""
    wanted: dict[_Key, list[str]] = {}
    texts: dict[int, str] = {}
    count = 0

    def text(value: Any) -> str:
        if id(value) not in texts:  # jobs that differ in their seeds share it
            texts[id(value)] = _canonical(thaw(value))
        return texts[id(value)]

    for job in jobs:
        key = (job.task_id, job.trainer_id, str(job.model["id"]), text(job.params), text(job.eval_kwargs))
        wanted.setdefault(key, []).append(job.job_id)
        count += 1
    found: dict[_Key, Duration] = {}
    left = min(MOST_BYTES, BYTES + BYTES_PER_JOB * count)
    for path in _tables(runs_dir) if wanted else ():
        with contextlib.suppress(OSError, ValueError, csv.Error):
            left -= _read(path, left, wanted, found)
        if left <= 0:
            break
    return {job_id: found[key] for key, job_ids in wanted.items() if key in found for job_id in job_ids}


def longest_first(jobs: Sequence[PlannedJob], known: Mapping[str, Duration]) -> list[PlannedJob]:
    """`jobs` with those first that took longest. A job without a known duration counts as the mean of the others; jobs
    of about equal durations keep their order."""
    means = {job.job_id: known[job.job_id].mean for job in jobs if job.job_id in known}
    if not means:
        return list(jobs)
    typical = sum(means.values()) / len(means)
    return sorted(jobs, key=lambda job: -_size(means.get(job.job_id, typical)))


def _size(seconds: float) -> int:
    return math.floor(math.log(max(seconds, SHORT) / SHORT, STEP))


def _tables(runs_dir: Path) -> list[Path]:
    """The tables of the newest runs, the newest first."""
    dated: list[tuple[float, str]] = []
    with contextlib.suppress(OSError), os.scandir(runs_dir) as entries:
        for entry in entries:
            path = os.fspath(RunLayout(Path(entry.path)).results_csv)
            with contextlib.suppress(OSError):
                dated.append((os.stat(path).st_mtime, path))  # noqa: PTH116 - there may be thousands
    return [Path(path) for _, path in heapq.nlargest(RUNS, dated)]


def _read(path: Path, most: int, wanted: Mapping[_Key, object], found: dict[_Key, Duration]) -> int:
    """Add the durations of `wanted` in the table at `path` to `found`; returns the number of bytes that were read.

    Raises:
        OSError, ValueError, csv.Error: it is not a table of results.
    """
    tasks = {key[0] for key in wanted}
    with path.open("rb") as file:
        data = file.read(most)
    lines = data.decode("utf-8", "replace").splitlines()
    rows = csv.reader(lines)
    header = next(rows, [])
    at = [header.index(name) for name in _COLUMNS]
    texts: dict[str, str] = {}
    for row in rows:
        if len(row) != len(header) or row[at[0]] not in tasks:
            continue
        task_id, trainer_id, model, params, eval_kwargs, seconds, *how = (row[i] for i in at)
        duration = float(seconds or "nan")
        if not _counts(duration, *how):
            continue
        for value in (params, eval_kwargs):
            if value not in texts:
                texts[value] = _canonical(json.loads(value))
        key = (task_id, trainer_id, model, texts[params], texts[eval_kwargs])
        if key in found:
            known = found[key]
            found[key] = Duration(min(known.shortest, duration), known.total + duration, known.count + 1)
        elif key in wanted:
            found[key] = Duration(duration, duration)
    return len(data)


def _counts(seconds: float, status: str, stop_reason: str, cut: str, reused: str, cached: str) -> bool:
    """Whether a job ended by itself, with model calls of its own: a replay, for example, is faster."""
    whole = (status == "ok" or stop_reason == "timeout") and stop_reason != "interrupted" and cut != "true"
    own_calls = reused in ("", "0") and cached in ("", "0")
    return math.isfinite(seconds) and seconds >= 0 and whole and own_calls


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
