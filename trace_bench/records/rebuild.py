"""Derives every table of a run again from its job files, and replaces those that differ."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.derived import ParetoFront, Summary, Yardsticks
from trace_bench.artifacts.jsonio import JsonError, loads
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.writers import write_bytes
from trace_bench.config.models import is_run_id
from trace_bench.errors import HarnessError
from trace_bench.records.derivation import derive_row, derive_rows, derive_tables
from trace_bench.records.digest import files_index
from trace_bench.records.gaps import Gaps
from trace_bench.records.pareto import pareto_front
from trace_bench.records.reading import (
    last_result,
    read_index,
    read_manifest,
    read_meta,
    read_optional,
    read_row,
    read_rows,
)
from trace_bench.records.runs import run_id_of
from trace_bench.records.tables import json_bytes, write_files_index
from trace_bench.resources import package_hash
from trace_bench.secrets import known

Found = Literal["same", "differs", "missing", "left over"]
"""``left over``: the file exists, and follows from nothing."""
HOW_MADE = ("generated_at", "package_hash")
"""Keys of a summary that do not follow from rows."""
Same = Callable[[bytes, bytes], bool]
"""Return True if two files of different bytes mean the same."""


@dataclass(frozen=True)
class Rebuilt:
    """A derived file, and what was found in its place."""

    path: str
    found: Found


def rebuild(run: RunLayout, *, jobs: bool = False, check: bool = False) -> list[Rebuilt]:
    """Derive every table again, and replace those that differ. No other process may change the run meanwhile.

    ``pareto.json`` of an ended job follows from its history and record. ``results.csv``, ``summary.json``, the
    leaderboards and ``results.parquet`` follow from rows, and the index from all files.

    Args:
        jobs: also derive the rows (``results.json``) from record, result and history. Without its old row, the wall
            time of a job is that of the last attempt in whole seconds.
        check: write nothing.

    Returns:
        What was found in the place of each file, in the order of derivation.

    Raises:
        HarnessError: a file that others follow from is damaged.
    """
    put = partial(_put, run, check=check)
    manifest = read_manifest(run)
    yardsticks = read_optional(Yardsticks, run.yardsticks) or Yardsticks(yardsticks=())
    gaps = Gaps.of(yardsticks.yardsticks)
    found: list[Rebuilt] = []
    rows: dict[str, Results] = {}
    for job in run.job_dirs():
        meta = read_meta(job)
        if meta is None or meta.status not in ("ok", "failed", "skipped") or not (jobs or job.results.exists()):
            continue
        front = pareto_front(job.state_history, job.job_id, meta.objective)
        if front is not None or job.pareto.exists():
            found.append(put(job.pareto, json_bytes(front) if front else b"", partial(_same_model, ParetoFront)))
        if jobs:
            result = last_result(job, meta)
            row = derive_row(run, meta, result, meta.usage, _seconds(job, meta), front, gaps)
            rows[job.job_id] = row
            found.append(put(job.results, json_bytes(row), partial(_same_model, Results)))
    for job in run.job_dirs() if jobs else ():
        if job.job_id not in rows and job.results.exists():
            rows[job.job_id] = read_row(job.results)
    counted = derive_rows(manifest, rows) if jobs else read_rows(run)

    def objective(job_id: str) -> ObjectiveSpec | None:
        meta = read_meta(run.job(job_id))
        return None if meta is None else gaps.objective(meta)

    name = run_id_of(run)  # its folder may have been renamed
    run_id = name if is_run_id(name) else run.run_id
    made = derive_tables(run, run_id, counted, manifest, yardsticks.yardsticks, objective)
    same: dict[str, Same] = {".json": _same_json, ".parquet": _same_parquet}
    tables = [put(path, made[path], same.get(path.suffix, bytes.__eq__)) for path in sorted(made)]
    if not check and any(file.found != "same" for file in tables):
        write_bytes(run.summary, made[run.summary], durable=False)  # it says which code wrote the tables
    return [*found, *tables, _index(run, check=check)]


def is_of_other_code(run: RunLayout) -> bool:
    """Whether another version of the code wrote the tables of `run`, and can have written them in another way."""
    try:
        summary = read_optional(Summary, run.summary)
    except HarnessError:
        return False
    return summary is not None and summary.package_hash != package_hash()


def _index(run: RunLayout, *, check: bool) -> Rebuilt:
    path = run.relative(run.files_index)
    there = None
    with contextlib.suppress(HarnessError):
        there = read_index(run)
    if there is not None and there.files == files_index(run).files:
        return Rebuilt(path, "same")
    found: Found = "differs" if run.files_index.exists() else "missing"
    if not check:
        write_files_index(run)
    return Rebuilt(path, found)


def _put(run: RunLayout, place: Path, data: bytes, same: Same, *, check: bool) -> Rebuilt:
    """Compare a file with the derived one, and replace it unless only to `check`.

    Args:
        data: empty if there should be no file.
    """
    data = known.data(data)
    try:
        old = place.read_bytes()
    except FileNotFoundError:
        old = b""
    except OSError as error:
        raise HarnessError(f"{place}: {error.strerror}; remove it") from None
    path = run.relative(place)
    if old == data or (old and data and same(old, data)):
        return Rebuilt(path, "same")
    if not check:
        if data:
            write_bytes(place, data)
        else:
            place.unlink()
    return Rebuilt(path, "missing" if not old else "differs" if data else "left over")


def _seconds(job: JobLayout, meta: JobMeta) -> float | None:
    """The wall time in the row, or else that between the recorded times of the last attempt."""
    try:
        seconds = read_row(job.results).time_seconds
    except (HarnessError, OSError):
        seconds = None
    end = meta.attempts[-1].ended_at if meta.attempts else None
    if seconds is not None or end is None:
        return seconds
    start = meta.attempts[-1].started_at
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _same_model(model: type[BaseModel], old: bytes, new: bytes) -> bool:
    """Equal once what an earlier version did not write has its default."""
    try:
        return model.model_validate(loads(old)) == model.model_validate(loads(new))
    except (JsonError, ValueError):
        return False


def _same_json(old: bytes, new: bytes) -> bool:
    try:
        one, other = loads(old), loads(new)
    except JsonError:
        return False
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    made = dict.fromkeys(HOW_MADE)
    return {**one, **made} == {**other, **made}


def _same_parquet(old: bytes, new: bytes) -> bool:
    """Of equal rows: another version of the library writes other bytes."""
    import pyarrow
    import pyarrow.parquet

    try:
        one, other = (pyarrow.parquet.read_table(pyarrow.BufferReader(data)) for data in (old, new))
    except (pyarrow.ArrowException, OSError):
        return False
    return bool(one.equals(other))
