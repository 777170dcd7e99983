"""The tables of a run. Each is derived from ``jobs/*/results.json`` alone and can be rebuilt at any time: a
job that ran twice has one folder and therefore one row."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.artifacts.records import (
    FileEntry,
    FilesIndex,
    Manifest,
    Results,
    Summary,
    TokenTotals,
)
from trace_bench.artifacts.writers import write_csv, write_json
from trace_bench.errors import HarnessError
from trace_bench.results.leaderboard import LeaderboardRow, rank

COLUMNS = tuple(Results.model_fields)
"""Columns of ``results.csv``."""


class RunTables:
    """Writes the tables of one run, and reads a job's row again only if its file has changed.

    Args:
        min_interval: least seconds between two writes by `maybe_refresh`.
    """

    def __init__(self, run: RunLayout, *, min_interval: float = 2.0) -> None:
        self._run = run
        self._min_interval = min_interval
        self._last = -float("inf")
        self._cache: dict[str, tuple[tuple[int, int, int], Results]] = {}

    def maybe_refresh(self) -> bool:
        """`refresh`, unless the last one was less than `min_interval` ago; True if it wrote."""
        if time.monotonic() - self._last < self._min_interval:
            return False
        self.refresh()
        return True

    def refresh(self, *, unprotected: bool = False, failed: bool = False) -> list[Results]:
        """Write ``results.csv``, ``summary.json`` and ``leaderboard.csv``.

        Args:
            unprotected: let unprotected jobs onto the leaderboard.
            failed: let failed jobs that have a score (a timeout) onto it.

        Raises:
            HarnessError: a ``results.json`` or the manifest is damaged.
        """
        rows = self.rows()
        manifest = read_manifest(self._run)
        write_csv(self._run.results_csv, COLUMNS, ([getattr(row, c) for c in COLUMNS] for row in rows))
        write_json(self._run.summary, summarise(self._run.run_id, rows, manifest), durable=False)
        write_leaderboard(self._run.leaderboard, rank(rows, unprotected=unprotected, failed=failed))
        self._last = time.monotonic()
        return rows

    def rows(self) -> list[Results]:
        """All rows, in the order of the manifest where there is one, else by job id."""
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
        manifest = read_manifest(self._run)
        order = {entry.job_id: place for place, entry in enumerate(manifest.jobs)} if manifest else {}
        ids = sorted(found, key=lambda job_id: (order.get(job_id, len(order)), job_id))
        return [found[job_id][1] for job_id in ids]


def read_rows(run: RunLayout) -> list[Results]:
    """The rows of a run, read once."""
    return RunTables(run).rows()


def read_row(path: Path) -> Results:
    """A ``results.json``.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        return read_model(Results, path.read_bytes())
    except JsonError as error:
        raise HarnessError(f"{path}: {error}; run the job again") from None


def read_manifest(run: RunLayout) -> Manifest | None:
    """The manifest, or None before there is one.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        return read_model(Manifest, run.manifest.read_bytes())
    except FileNotFoundError:
        return None
    except JsonError as error:
        raise HarnessError(f"{run.manifest}: {error}") from None


def summarise(run_id: str, rows: list[Results], manifest: Manifest | None) -> Summary:
    """Counts and totals. A job of the manifest without a row counts as ``not_executed`` unless the manifest
    says otherwise."""
    statuses: dict[str, str] = {row.job_id: row.status for row in rows}
    if manifest is not None:
        for entry in manifest.jobs:
            if entry.status in ("reused", "not_executed") or entry.job_id not in statuses:
                statuses[entry.job_id] = entry.status or "not_executed"
    counts = Counter({"ok": 0, "failed": 0, "skipped": 0})
    counts.update(statuses.values())
    failures = Counter(f"{row.failure_boundary}:{row.failure_kind}" for row in rows if row.failure_boundary is not None)
    prompt, completion = sum(r.prompt_tokens for r in rows), sum(r.completion_tokens for r in rows)
    return Summary(
        run_id=run_id,
        generated_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        total_jobs=len(statuses),
        counts=dict(counts),
        failures=dict(sorted(failures.items())),
        unprotected_jobs=sum(row.integrity == "unprotected" for row in rows),
        llm_calls=sum(row.llm_calls for row in rows),
        token_totals=TokenTotals(prompt=prompt, completion=completion, total=prompt + completion),
        cost_usd=sum(row.cost_usd for row in rows),
        tags=manifest.tags if manifest else (),
    )


def write_leaderboard(path: Path, ranked: Iterable[LeaderboardRow]) -> None:
    """``leaderboard.csv``; it has its header even if no job qualifies."""
    columns = LeaderboardRow.columns()
    write_csv(path, columns, ([getattr(row, c) for c in columns] for row in ranked))


def write_files_index(run: RunLayout) -> FilesIndex:
    """``files_index.json``: every regular file of the run with size, SHA-256 and schema. Links are not
    followed, and neither the index itself nor unfinished temporary files are listed."""
    entries: list[FileEntry] = []
    for folder, folders, names in os.walk(run.root):
        folders[:] = [f for f in folders if ".collecting-" not in f]
        for name in names:
            path = Path(folder, name)
            if path == run.files_index or path.is_symlink() or not path.is_file() or _is_temporary(name):
                continue
            relative = run.relative(path)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
            entries.append(FileEntry(path=relative, size=size, sha256=digest, schema_name=schema_of(relative)))
    index = FilesIndex(run_id=run.run_id, files=tuple(sorted(entries, key=lambda entry: entry.path)))
    write_json(run.files_index, index)
    return index


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
