"""Checks the tables of a run against those that follow from its job files, and the manifest against the rows."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.derived import ReplayReport, Summary
from trace_bench.artifacts.records import JobMeta, ManifestEntry, Results
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.run import AuditedRun
from trace_bench.execution.run_records import manifest_outcome
from trace_bench.records.derivation import derive_rows, derive_tables
from trace_bench.records.rebuild import HOW_MADE
from trace_bench.records.rows import SHARED_WITH_ENTRY, is_final

CSV, LEADERBOARD, MANIFEST = "tables.results_csv", "tables.leaderboard", "tables.manifest"
PARQUET, REPLAY, SUMMARY = "tables.parquet", "tables.replay", "tables.summary"
_MAX_TABLE = 1 << 30
_FAIL_FAST = re.compile(r"fail_fast: job ([0-9a-f]{12}) failed")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def check_tables(run: AuditedRun) -> None:
    """Check every table, once all jobs were checked."""
    manifest, layout = run.manifest, run.layout
    if manifest is not None:
        manifest = manifest.model_copy(update={"jobs": tuple(run.entries.values())})
    rows = derive_rows(manifest, run.rows)
    _check_manifest(run)
    _check_replay(run, rows)
    _check_integrity(run, rows)
    if why := run.why_unfinished:
        for claim in (CSV, PARQUET, SUMMARY, LEADERBOARD):
            run.findings.unknown(claim, why)
        return

    def objective(job_id: str) -> ObjectiveSpec | None:
        meta = run.model(JobMeta, layout.job(job_id).meta)
        return None if meta is None else run.gaps.objective(meta)

    def derived(objectives: Callable[[str], ObjectiveSpec | None]) -> Mapping[Path, bytes]:
        return derive_tables(layout, run.run_id, rows, manifest, run.yardsticks, objectives)

    made = derived(objective)
    _check_summary(run, made[layout.summary])
    _check_table(run, CSV, layout.results_csv, made, _csv_table)
    _check_table(run, LEADERBOARD, layout.leaderboard, made, _csv_table)
    if any(run.folder.size(run.path(path)) is not None for path in (layout.results_parquet, layout.results_csv)):
        _check_table(run, PARQUET, layout.results_parquet, made, _parquet_table)
    # The first versions wrote no page, the next ones one whose intervals were not cut at the bounds of scores.
    page = run.at(layout.leaderboard_md)
    if run.same_package:
        _check_table(run, LEADERBOARD, layout.leaderboard_md, made, _page_table)
    elif run.folder.size(page.file) is not None:
        uncut = derived(lambda job_id: None)
        if _content(run, LEADERBOARD, layout.leaderboard_md) != uncut[layout.leaderboard_md]:
            _check_table(run, LEADERBOARD, layout.leaderboard_md, made, _page_table)


# ------------------------------------------------------------------------------------------------ manifest and replay


def _check_manifest(run: AuditedRun) -> None:
    if run.manifest is None:
        run.findings.unknown(MANIFEST, "the run has no manifest")
        return
    if run.layout.run_id != run.run_id:
        run.findings.remark("files.places", f"the name of the folder is {run.layout.run_id}, the run's {run.run_id}")
    at, finished = run.at(run.layout.manifest), not run.why_unfinished
    for entry in run.entries.values():
        row, key = run.rows.get(entry.job_id), f"{entry.job_id}: status"
        at.checked(MANIFEST)
        if row is None:
            if entry.status == "not_executed":
                _check_reason(run, entry, at)
            elif finished:
                at.wrong(MANIFEST, key, entry.status, "not_executed, as it has no result")
        elif row.fingerprint == entry.fingerprint or finished:  # else of earlier code: the job runs again
            for name in SHARED_WITH_ENTRY:
                if getattr(entry, name) != getattr(row, name):
                    at.wrong(MANIFEST, f"{entry.job_id}: {name}", getattr(entry, name), getattr(row, name))
            if finished and (entry.status, entry.reason) != manifest_outcome(row):
                at.wrong(MANIFEST, key, [entry.status, entry.reason], list(manifest_outcome(row)))
        job = run.expanded.get(entry.job_id)
        if job is None or run.why_differs(job.task_id):
            continue
        if entry.variant != job.variant.label or dict(entry.raw_params) != dict(job.raw_params):
            at.wrong(MANIFEST, f"{entry.job_id}: raw_params", entry.raw_params, job.raw_params)


def _check_reason(run: AuditedRun, entry: ManifestEntry, at: Findings) -> None:
    """The config allows the reason for which a job was not executed. Its truth, the author alone knows."""
    config, reason, key = run.config, entry.reason or "", f"{entry.job_id}: reason"
    if config is None:
        return
    has_budget = config.mode != "replay" and any(config.budget.run.model_dump().values())
    if reason.startswith("the run's budget of ") and not has_budget:
        at.wrong(MANIFEST, key, reason, "another one, as the run has no budget")
    if failed := _FAIL_FAST.match(reason):
        row = run.rows.get(failed[1])
        if not config.fail_fast or row is None or row.status != "failed":
            at.wrong(MANIFEST, key, reason, "another one, as no failure ends the run")


def _check_replay(run: AuditedRun, rows: Sequence[Results]) -> None:
    at, is_replay = run.at(run.layout.replay), run.config is not None and run.config.mode == "replay"
    report = run.model(ReplayReport, run.layout.replay)
    if report is None:
        if is_replay and not run.why_unfinished and run.folder.size(at.file) is None:
            at.wrong(REPLAY, found=None, expected="the result of the replay")
        return
    if not is_replay and run.config is not None:
        at.wrong(REPLAY, found="a report", expected="none, as the run is not a replay")
    at.equal("files.places", "run_id", report.run_id, run.run_id)
    if run.why_unfinished:
        at.unknown(REPLAY, run.why_unfinished)
        return
    ended = sum(row.status != "skipped" for row in rows)
    at.equal(REPLAY, "jobs", report.jobs, ended)
    at.equal(REPLAY, "skipped", report.skipped, len(rows) - ended)
    at.equal(REPLAY, "differing", report.differing, report.jobs - report.equal)
    named = {difference.job_id for difference in report.differences}
    if not named <= run.entries.keys():
        at.wrong(REPLAY, "differences", sorted(named - run.entries.keys()), "jobs of the run")
    if len(named) != report.differing:
        at.wrong(REPLAY, "differing", report.differing, f"{len(named)} jobs with differences")
    at.unknown(REPLAY, "the recording is another run: trace-bench run --replay compares again")


def _check_integrity(run: AuditedRun, rows: Sequence[Results]) -> None:
    """A flagged job causes a remark only. An unprotected job that the leaderboard counts without a mark is a
    contradiction."""
    flagged = [row for row in rows if row.integrity_flags]
    if flagged:
        flags = " ".join(sorted({flag for row in flagged for flag in row.integrity_flags.split()}))[:100]
        run.findings.remark("integrity.flags", f"{len(flagged)} jobs are flagged ({flags}): look at them")
    claim = "integrity.unprotected"
    run.findings.checked(claim, len(rows))
    if unprotected := sum(row.integrity == "unprotected" for row in rows):
        run.findings.remark(claim, f"{unprotected} of {len(rows)} jobs are unprotected")
    at = run.at(run.layout.leaderboard)
    try:
        header, *lines = _csv_lines(run.folder.data(at.file) or b"")
    except Unreadable:
        return
    by_id = {row.job_id: row for row in rows}
    for number, line in enumerate(lines, start=1):
        cells = dict(zip(header, line, strict=False))
        best, integrity = by_id.get(cells.get("best_job_id", "")), cells.get("integrity")
        if integrity != "protected" or (best is not None and best.integrity != "protected"):
            at.wrong(claim, f"row {number}: integrity", integrity, "protected")
        if best is not None and (not is_final(best) or best.status != "ok"):
            at.wrong(LEADERBOARD, f"row {number}: best_job_id", best.job_id, "a job that is ok")


# ------------------------------------------------------------------------------------------------------- comparison


class _Table(NamedTuple):
    """The names of columns, and the cells of each."""

    names: Sequence[str]
    columns: Sequence[Sequence[Any]]
    rows: int


def _csv_lines(data: bytes) -> list[list[str]]:
    with io.StringIO(data.decode("utf-8", "replace"), newline="") as text:
        try:
            return list(csv.reader(text)) or [[]]
        except csv.Error:
            return [[]]


def _csv_table(data: bytes) -> _Table:
    header, *lines = _csv_lines(data)
    columns = [[line[place] if place < len(line) else None for line in lines] for place in range(len(header))]
    return _Table(header, columns, len(lines))


def _page_table(data: bytes) -> _Table:
    lines = data.decode("utf-8", "replace").splitlines()
    return _Table(["text"], [lines], len(lines))


def _parquet_table(data: bytes) -> _Table:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise Unreadable(f"it cannot be read: {str(error).splitlines()[0]}") from None
    return _Table(table.column_names, [column.to_pylist() for column in table.columns], table.num_rows)


def _content(run: AuditedRun, claim: str, path: Path) -> bytes | None:
    """The bytes of a table. Without it, the claim is contradicted."""
    at = run.at(path)
    try:
        data = run.folder.data(at.file, _MAX_TABLE)
    except Unreadable as error:
        at.wrong(claim, found=str(error), expected="a table")
        return None
    if data is None:
        at.wrong(claim, found=None, expected="a table")
    return data


def _check_summary(run: AuditedRun, made: bytes) -> None:
    at, found = run.at(run.layout.summary), run.model(Summary, run.layout.summary)
    if found is None:
        at.wrong(SUMMARY, found=None, expected="the summary")
        return
    at.equal("files.places", "run_id", found.run_id, run.run_id)
    values = found.model_dump(mode="json")
    for name, expected in Summary.model_validate_json(made).model_dump(mode="json").items():
        if name in (*HOW_MADE, "run_id") or (name not in found.model_fields_set and not run.same_package):
            continue  # an earlier version lacks new fields
        value = values[name]
        close = isinstance(expected, float) and isinstance(value, float) and _close(value, expected)
        at.equal(SUMMARY, name, expected if close else value, expected)


def _check_table(
    run: AuditedRun, claim: str, path: Path, made: Mapping[Path, bytes], parse: Callable[[bytes], _Table]
) -> None:
    """Compare each cell."""
    at, data = run.at(path), _content(run, claim, path)
    if data is None:
        return
    try:
        found, expected = parse(data), parse(made[path])
    except Unreadable as error:
        at.wrong(claim, found=str(error), expected="a table")
        return
    at.checked(claim, min(found.rows, expected.rows))
    missing, unexpected = ([n for n in a.names if n not in b.names] for a, b in ((expected, found), (found, expected)))
    if (missing and run.same_package) or len(set(found.names)) < len(found.names):  # an earlier version lacks columns
        at.wrong(claim, "columns", found.names[-5:], missing[:5])
    if unexpected:
        _report_difference(run, claim, at, "columns", unexpected[:5], "those of this version")
    if found.rows != expected.rows:
        _report_difference(run, claim, at, "rows", found.rows, expected.rows)
    cells = dict(zip(expected.names, expected.columns, strict=True))
    for name, column in zip(found.names, found.columns, strict=True):
        for number, (one, other) in enumerate(zip(column, cells.get(name, ()), strict=False), start=1):
            if not _same_cell(one, other):
                _report_difference(run, claim, at, f"row {number}: {name}", one, other)


def _report_difference(run: AuditedRun, claim: str, at: Findings, key: str, found: object, expected: object) -> None:
    """Report that a table differs from the one that this code makes.

    It is a contradiction if this package wrote the table, or if the table copies numbers from rows.
    """
    one, other = str(found), str(expected)
    copied = claim == PARQUET or (_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other))
    if run.same_package or (claim != LEADERBOARD and key != "columns" and copied):
        at.wrong(claim, key, found, expected)
    else:  # there is room for the place where they differ only
        start = max(0, next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0) - 20)
        difference = f"{at.file}, {key} is {one[start:][:60]}, and would be {other[start:][:60]} here"
        at.unknown(claim, f"another version of the code wrote it: {difference}")


def _same_cell(one: Any, other: Any) -> bool:
    """Return True if two cells are equal, in CSV except for the rounding of numbers."""
    if one == other or not isinstance(one, str) or not isinstance(other, str):
        return bool(one == other)
    numbers = _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other)
    return numbers is not None and _close(float(one), float(other))


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-12)
