"""Derives the rows, fronts and tables of a run again from its job files, and replaces those that differ."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.derived import ParetoFront, Summary
from trace_bench.artifacts.jsonio import JsonError, dumps, loads
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.writers import write_bytes
from trace_bench.config.models import is_run_id
from trace_bench.display.text import escape_json
from trace_bench.errors import HarnessError
from trace_bench.records.digest import files_index
from trace_bench.records.gaps import Gaps
from trace_bench.records.pareto import pareto_front
from trace_bench.records.parquet import write_parquet
from trace_bench.records.reading import (
    last_result,
    read_index,
    read_manifest,
    read_meta,
    read_optional,
    read_row,
    read_rows,
)
from trace_bench.records.rows import results_row
from trace_bench.records.runs import run_id_of
from trace_bench.records.tables import write_all_tables, write_files_index
from trace_bench.resources import package_hash

Found = Literal["same", "differs", "missing", "left over"]
"""``left over``: the file exists, and follows from nothing."""
HOW_MADE = ("generated_at", "package_hash")
"""Keys of a summary that do not follow from rows."""


@dataclass(frozen=True)
class Rebuilt:
    """A derived file, and what was found in its place."""

    path: str
    found: Found


@dataclass(frozen=True)
class _File:
    """A derived file. `data` is empty if there should be none; `same` says if other bytes mean the same."""

    path: str
    data: bytes
    same: Callable[[bytes, bytes], bool]


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
    found: list[Rebuilt] = []
    with tempfile.TemporaryDirectory(prefix="trace-bench-rebuild-") as folder:
        # Made beside the run, so that a check can derive the second table from the first, too.
        name = run_id_of(run)  # its folder may have been renamed
        made = RunLayout(Path(folder, name if is_run_id(name) else run.run_id)).make()
        gaps = Gaps.read(run)
        if run.yardsticks.exists():
            write_bytes(made.yardsticks, run.yardsticks.read_bytes(), durable=False)
        for job in run.job_dirs():
            for file in _of_job(run, job, made if jobs else None, gaps):
                found.append(_put(run, file, check=check))
        rows = _rows(run, made) if jobs else read_rows(run)
        tables = [_put(run, file, check=check) for file in _tables(run, made, rows)]
        if not check and any(file.found != "same" for file in tables):
            # It says which code wrote the tables.
            write_bytes(run.summary, made.summary.read_bytes(), durable=False)
        found += tables
    return [*found, _index(run, check=check)]


def is_of_other_code(run: RunLayout) -> bool:
    """Whether another version of the code wrote the tables of `run`, and can have written them in another way."""
    try:
        summary = read_optional(Summary, run.summary)
    except HarnessError:
        return False
    return summary is not None and summary.package_hash != package_hash()


def _of_job(run: RunLayout, job: JobLayout, made: RunLayout | None, gaps: Gaps) -> Iterator[_File]:
    """The derived files of one job. Its row is derived if there is a run `made`, which gets it too."""
    meta = read_meta(job)
    if meta is None or meta.status not in ("ok", "failed", "skipped"):
        return
    if made is None and not job.results.exists():
        return
    front = pareto_front(job.state_history, job.job_id, meta.objective)
    if front is not None or job.pareto.exists():
        yield _File(run.relative(job.pareto), _json(front), partial(_same_model, ParetoFront))
    if made is not None:
        result = last_result(job, meta)
        row = gaps.put(results_row(meta, result, meta.usage, _seconds(job, meta), run, front), result)
        data = _json(row)
        write_bytes(made.job(job.job_id).results, data, durable=False)
        yield _File(run.relative(job.results), data, partial(_same_model, Results))


def _rows(run: RunLayout, made: RunLayout) -> list[Results]:
    """The rows of `run`, of which those in `made` were derived."""
    for job in run.job_dirs():
        there = made.job(job.job_id).results
        if not there.exists() and job.results.exists():
            write_bytes(there, job.results.read_bytes(), durable=False)
    if run.manifest.exists():
        write_bytes(made.manifest, run.manifest.read_bytes(), durable=False)
    return read_rows(made)


def _tables(run: RunLayout, made: RunLayout, rows: Sequence[Results]) -> Iterator[_File]:
    """The tables, which are the files at the top of a run."""

    def objective(job_id: str) -> ObjectiveSpec | None:
        meta = read_meta(run.job(job_id))
        return None if meta is None else meta.objective

    write_all_tables(made, rows, read_manifest(run), objective)
    write_parquet(made.results_parquet, rows)
    for path in sorted(made.root.iterdir()):
        if path.is_file():
            same = {".json": _same_json, ".parquet": _same_parquet}.get(path.suffix, _never)
            yield _File(path.name, path.read_bytes(), same)


def _index(run: RunLayout, *, check: bool) -> Rebuilt:
    path = run.relative(run.files_index)
    try:
        there = read_index(run)
    except HarnessError:
        there = None
    if there is not None and there.files == files_index(run).files:
        return Rebuilt(path, "same")
    found: Found = "differs" if run.files_index.exists() else "missing"
    if not check:
        write_files_index(run)
    return Rebuilt(path, found)


def _put(run: RunLayout, file: _File, *, check: bool) -> Rebuilt:
    """Compare a file with the derived one, and replace it unless only to `check`."""
    place = run.root / file.path
    try:
        old = place.read_bytes()
    except FileNotFoundError:
        old = b""
    except OSError as error:
        raise HarnessError(f"{place}: {error.strerror}; remove it") from None
    if old == file.data or (old and file.data and file.same(old, file.data)):
        return Rebuilt(file.path, "same")
    if not check:
        if file.data:
            write_bytes(place, file.data)
        else:
            place.unlink()
    return Rebuilt(file.path, "missing" if not old else "differs" if file.data else "left over")


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


def _json(model: BaseModel | None) -> bytes:
    """As `trace_bench.artifacts.writers.write_json` writes it; nothing for None."""
    if model is None:
        return b""
    return (escape_json(dumps(model.model_dump(mode="json"), indent=2)) + "\n").encode("utf-8")


def _never(old: bytes, new: bytes) -> bool:
    return False


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
