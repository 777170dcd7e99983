"""Reads what a run recorded: its manifest, its index, and the record, row and result of each job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.derived import FilesIndex
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RESULT, JobLayout, RunLayout
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import JobMeta, Manifest, ManifestEntry, Results
from trace_bench.artifacts.versions import read_versioned
from trace_bench.errors import HarnessError
from trace_bench.records.rows import skipped_row

M = TypeVar("M", bound=BaseModel)


def read_optional(model: type[M], path: Path) -> M | None:
    """Read a JSON file; None if it does not exist.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        return read_model(model, path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, JsonError) as error:
        raise HarnessError(f"{path}: {error}") from None


def read_manifest(run: RunLayout) -> Manifest | None:
    """Read the manifest; None if it does not exist yet.

    Raises:
        NewerRun: a later version wrote it. HarnessError: it is damaged.
    """
    try:
        return read_versioned(Manifest, run.manifest)
    except FileNotFoundError:
        return None


def read_index(run: RunLayout) -> FilesIndex | None:
    """Read the index of files; None if it does not exist yet.

    Raises:
        HarnessError: it is damaged.
    """
    return read_optional(FilesIndex, run.files_index)


def read_meta(job: JobLayout) -> JobMeta | None:
    """Read ``job_meta.json``; None if it does not exist.

    Raises:
        HarnessError: it is damaged.
    """
    return read_optional(JobMeta, job.meta)


def last_result(job: JobLayout, meta: JobMeta) -> WorkerResult | None:
    """Read what the sandbox of the last attempt wrote; None if it wrote nothing.

    Raises:
        HarnessError: it is damaged.
    """
    if not meta.attempts:
        return None
    return read_optional(WorkerResult, job.attempt_out(meta.attempts[-1].number) / RESULT)


def read_row(path: Path) -> Results:
    """Read a ``results.json``.

    Raises:
        FileNotFoundError: it does not exist. HarnessError: it is damaged.
    """
    try:
        return read_model(Results, path.read_bytes())
    except JsonError as error:
        raise HarnessError(f"{path}: {error}; run the job again") from None


class RowReader:
    """Reads the rows of one run again and again. A ``results.json`` is read again only if it has changed."""

    def __init__(self, run: RunLayout) -> None:
        self._run = run
        self._cache: dict[str, tuple[tuple[int, int, int], Results]] = {}

    def rows(self) -> list[Results]:
        """Read all rows that count, in the order of the manifest, or by job id if there is no manifest.

        Raises:
            HarnessError: a ``results.json`` or the manifest is damaged.
        """
        return self.rows_of(read_manifest(self._run))

    def rows_of(self, manifest: Manifest | None) -> list[Results]:
        """`rows`, given the manifest of the run."""
        found: dict[str, tuple[tuple[int, int, int], Results]] = {}
        for job in self._run.job_dirs():
            try:
                stat = job.results.stat()
            except FileNotFoundError:
                continue
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            known = self._cache.get(job.job_id)
            if known is None or known[0] != stamp:
                known = (stamp, read_row(job.results))
                if known[1].job_id != job.job_id:
                    raise HarnessError(f"{job.results}: it belongs to job {known[1].job_id}; delete this folder")
            found[job.job_id] = known
        self._cache = found
        rows = {job_id: row for job_id, (_, row) in found.items()}
        return ordered_rows(manifest, rows) if manifest is not None else [rows[job_id] for job_id in sorted(rows)]


def ordered_rows(manifest: Manifest, rows: Mapping[str, Results]) -> list[Results]:
    """The rows that count, in the order of `manifest`.

    A row of another fingerprint does not count: other code wrote it. A job that was not executed has a ``skipped`` row.

    Args:
        rows: by job id.
    """
    ordered = []
    for entry in manifest.jobs:
        row = rows.get(entry.job_id)
        if row is not None and row.fingerprint == entry.fingerprint:
            ordered.append(row)
        elif entry.status == "not_executed":
            ordered.append(skipped_row(manifest.run_id, entry))
    return ordered


def read_rows(run: RunLayout) -> list[Results]:
    """Read the rows of a run once."""
    return RowReader(run).rows()


def manifest_and_rows(run: RunLayout) -> tuple[Manifest | None, list[Results]]:
    """`read_manifest` and `read_rows`, each file read once."""
    manifest = read_manifest(run)
    return manifest, RowReader(run).rows_of(manifest)


def read_rows_and_waiting(run: RunLayout) -> tuple[list[Results], list[ManifestEntry]]:
    """`read_rows`, and the planned jobs that have no row yet.

    Raises:
        HarnessError: a ``results.json`` or the manifest is damaged.
    """
    manifest, rows = manifest_and_rows(run)
    known = {row.job_id for row in rows}
    return rows, [entry for entry in manifest.jobs if entry.job_id not in known] if manifest is not None else []
