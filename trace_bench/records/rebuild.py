"""The tables of a run, derived again from its jobs' files: what the controller wrote, whoever changed it since."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from trace_bench.artifacts.derived import ParetoFront, Summary
from trace_bench.artifacts.jsonio import JsonError, dumps, loads, read_model
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import write_bytes
from trace_bench.config.models import is_run_id
from trace_bench.display.text import escape_json
from trace_bench.errors import HarnessError
from trace_bench.records.derive import derived_front, derived_row, read_meta
from trace_bench.records.digest import files_index, read_index
from trace_bench.records.parquet import write_parquet
from trace_bench.records.runs import run_id_of
from trace_bench.records.tables import (
    RunTables,
    read_manifest,
    read_row,
    write_files_index,
    write_standings,
    write_tables,
)
from trace_bench.resources import package_hash

Found = Literal["same", "differs", "missing", "left over"]
"""``left over``: it is there, and follows from nothing."""
HOW_MADE = ("generated_at", "package_hash")
"""Of a summary: no part of what it says."""


@dataclass(frozen=True)
class Rebuilt:
    """One file that follows from others, and what was found in its place."""

    path: str
    found: Found


@dataclass(frozen=True)
class _File:
    """A file as it should be, no bytes if there should be none, and who says that another one says the same."""

    path: str
    data: bytes
    same: Callable[[bytes, bytes], bool]


def rebuild(run: RunLayout, *, jobs: bool = False, check: bool = False) -> list[Rebuilt]:
    """Derive every table again, and replace those that differ. Nobody else may be at work in the run.

    Of each job that has ended ``pareto.json`` follows from its history and record; of the run ``results.csv``,
    ``summary.json``, the leaderboards and ``results.parquet`` follow from its rows, and the index from all files.

    Args:
        jobs: derive the rows too, ``results.json``, from record, result and history. The wall time of a row that is
            gone is then that of the attempt in whole seconds, as its record has it.
        check: write nothing.

    Returns:
        What was found in the place of each, in the order in which they follow from each other.

    Raises:
        HarnessError: a file that others follow from is damaged.
    """
    found: list[Rebuilt] = []
    with tempfile.TemporaryDirectory(prefix="trace-bench-rebuild-") as folder:
        # Made beside the run, so that a check can derive the second table from the first, too.
        name = run_id_of(run)  # its folder may have been renamed
        made = RunLayout(Path(folder, name if is_run_id(name) else run.run_id)).make()
        for job in run.job_dirs():
            for file in _of_job(run, job, made if jobs else None):
                found.append(_put(run, file, check=check))
        rows = _rows(run, made) if jobs else RunTables(run).rows()
        tables = [_put(run, file, check=check) for file in _tables(run, made, rows)]
        if not check and any(file.found != "same" for file in tables):
            # It says which code wrote the tables.
            write_bytes(run.summary, made.summary.read_bytes(), durable=False)
        found += tables
    return [*found, _index(run, check=check)]


def is_of_other_code(run: RunLayout) -> bool:
    """Another version of the code wrote the tables of `run`, and may have written them otherwise than this one."""
    try:
        return read_model(Summary, run.summary.read_bytes()).package_hash != package_hash()
    except (OSError, JsonError):
        return False


def _of_job(run: RunLayout, job: JobLayout, made: RunLayout | None) -> Iterator[_File]:
    """What follows of one job; its row, too, where it goes to the run `made`."""
    meta = read_meta(job)
    if meta is None or meta.status not in ("ok", "failed", "skipped"):
        return
    if made is None and not job.results.exists():
        return
    front = derived_front(job, meta)
    if front is not None or job.pareto.exists():
        yield _File(run.relative(job.pareto), _json(front), partial(_same_model, ParetoFront))
    if made is not None:
        row = derived_row(run, job, meta, seconds=_seconds(job))
        data = _json(row)
        write_bytes(made.job(job.job_id).results, data, durable=False)
        yield _File(run.relative(job.results), data, partial(_same_model, Results))


def _rows(run: RunLayout, made: RunLayout) -> list[Results]:
    """The rows of `run`, where those in `made` take the place of its own."""
    for job in run.job_dirs():
        there = made.job(job.job_id).results
        if not there.exists() and job.results.exists():
            write_bytes(there, job.results.read_bytes(), durable=False)
    if run.manifest.exists():
        write_bytes(made.manifest, run.manifest.read_bytes(), durable=False)
    return RunTables(made).rows()


def _tables(run: RunLayout, made: RunLayout, rows: Sequence[Results]) -> Iterator[_File]:
    """Whatever the writers of tables leave at the top of a run."""
    manifest = read_manifest(run)
    planned = len(manifest.jobs) if manifest is not None else len(rows)
    write_tables(made, rows, planned, manifest.tags if manifest is not None else ())
    write_standings(made, rows)
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
    """Compare, and unless only to `check`, replace."""
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


def _seconds(job: JobLayout) -> float | None:
    """Wall time, from the row if it can be read."""
    try:
        return read_row(job.results).time_seconds
    except (HarnessError, OSError):
        return None


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
