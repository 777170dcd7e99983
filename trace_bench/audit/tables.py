"""Checks the tables of a run: each is made again from the job files, and compared."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.derived import ReplayReport, Summary, Yardsticks
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta, ManifestEntry, Results
from trace_bench.artifacts.writers import write_json
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.run import AuditedRun
from trace_bench.execution.run_records import manifest_outcome
from trace_bench.records.parquet import write_parquet
from trace_bench.records.reading import ordered_rows
from trace_bench.records.rows import SHARED_WITH_ENTRY, is_final
from trace_bench.records.tables import write_standings, write_tables

CSV, LEADERBOARD, MANIFEST = "tables.results_csv", "tables.leaderboard", "tables.manifest"
PARQUET, REPLAY, SUMMARY = "tables.parquet", "tables.replay", "tables.summary"
_MAX_PARQUET = 1 << 30
_FAIL_FAST = re.compile(r"fail_fast: job ([0-9a-f]{12}) failed")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_SAYS_HOW_MADE = ("generated_at", "package_hash", "run_id")
"""Keys of a summary that do not follow from rows."""


def check_tables(run: AuditedRun) -> None:
    """Check every table, once all jobs were checked."""
    if run.manifest is None:
        rows = [run.rows[job_id] for job_id in sorted(run.rows)]
    else:
        rows = ordered_rows(run.manifest.model_copy(update={"jobs": tuple(run.entries.values())}), run.rows)
    _check_manifest(run)
    _check_replay(run, rows)
    _check_integrity(run, rows)
    if why := run.why_unfinished:
        for claim in (CSV, PARQUET, SUMMARY, LEADERBOARD):
            run.findings.unknown(claim, why)
        return
    layout = run.layout
    with tempfile.TemporaryDirectory(prefix="trace-bench-audit-") as folder:
        made = RunLayout(Path(folder) / "run")
        made.make()
        tags = run.manifest.tags if run.manifest is not None else ()
        write_tables(made, rows, len(run.entries) or len(rows), tags)
        write_json(made.yardsticks, Yardsticks(yardsticks=tuple(run.yardsticks)), durable=False)
        write_standings(made, rows, partial(_objective, run))
        earlier = RunLayout(Path(folder) / "earlier")
        earlier.make()
        write_standings(earlier, rows, lambda job_id: None)
        _check_summary(run, run.at(layout.summary), made.summary)
        _check_csv(run, CSV, run.at(layout.results_csv), made.results_csv)
        _check_csv(run, LEADERBOARD, run.at(layout.leaderboard), made.leaderboard)
        _check_parquet(run, run.at(layout.results_parquet), made.results_parquet, rows)
        _check_page(run, run.at(layout.leaderboard_md), made.leaderboard_md, earlier.leaderboard_md)


def _objective(run: AuditedRun, job_id: str) -> ObjectiveSpec | None:
    with contextlib.suppress(Unreadable):  # reported with the schemas
        meta = run.folder.model(JobMeta, run.path(run.layout.job(job_id).meta))
        return None if meta is None else run.gaps.objective(meta)
    return None


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
    try:
        report = run.folder.model(ReplayReport, at.file)
    except Unreadable:
        return  # reported with the schemas
    if report is None:
        if is_replay and not run.why_unfinished:
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
        header, *lines = _csv_lines(run.folder.data(at.file) or b"") or [[]]
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


def _check_summary(run: AuditedRun, at: Findings, made: Path) -> None:
    try:
        found = run.folder.model(Summary, at.file)
    except Unreadable:
        found = None
    if found is None:
        at.wrong(SUMMARY, found=None, expected="the summary")
        return
    at.equal("files.places", "run_id", found.run_id, run.run_id)
    values = found.model_dump(mode="json")
    for name, expected in Summary.model_validate_json(made.read_bytes()).model_dump(mode="json").items():
        if name in _SAYS_HOW_MADE or (name not in found.model_fields_set and not run.same_package):
            continue  # an earlier version lacks new fields
        value = values[name]
        close = isinstance(expected, float) and isinstance(value, float) and _close(value, expected)
        at.equal(SUMMARY, name, expected if close else value, expected)


@dataclass(frozen=True)
class _Table:
    """A table, read column by column."""

    names: Sequence[str]
    rows: int
    column: Callable[[str], Sequence[Any]]

    def lacks(self, other: _Table) -> list[str]:
        return [name for name in other.names if name not in self.names]


def _csv_table(data: bytes) -> _Table:
    header, *lines = _csv_lines(data) or [[]]
    places = {name: place for place, name in enumerate(header)}

    def column(name: str) -> Sequence[str | None]:
        place = places[name]
        return [line[place] if place < len(line) else None for line in lines]

    return _Table(header, len(lines), column)


def _arrow_table(table: Any) -> _Table:
    return _Table(table.column_names, table.num_rows, lambda name: table[name].to_pylist())


def _csv_lines(data: bytes) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline="")))
    except csv.Error:
        return []


def _read_table(run: AuditedRun, claim: str, at: Findings, limit: int) -> bytes | None:
    """The bytes of a table. Without it, the claim is contradicted."""
    try:
        data = run.folder.data(at.file, limit)
    except Unreadable as error:
        at.wrong(claim, found=str(error), expected="a table")
        return None
    if data is None:
        at.wrong(claim, found=None, expected="a table")
    return data


def _check_csv(run: AuditedRun, claim: str, at: Findings, made: Path) -> None:
    """Compare each cell. Numbers can differ by rounding, in a table of another version also by their digits."""
    data, expected_data = _read_table(run, claim, at, 256 << 20), made.read_bytes()
    if data is None:
        return
    if data == expected_data:
        at.checked(claim, data.count(b"\n"))
        return
    found, expected = _csv_table(data), _csv_table(expected_data)
    missing, unexpected = found.lacks(expected), expected.lacks(found)
    if missing and run.same_package:  # an earlier version lacks new columns
        at.wrong(claim, "columns", found.names[-5:], missing[:5])
    if unexpected:
        _report_difference(run, claim, at, "columns", unexpected[:5], "those of this version")
    if found.rows != expected.rows:
        _report_difference(run, claim, at, "rows", found.rows, expected.rows)
    at.checked(claim, min(found.rows, expected.rows))
    for name in dict.fromkeys(found.names):
        cells = zip(found.column(name), expected.column(name), strict=False) if name not in unexpected else ()
        for number, (one, other) in enumerate(cells, start=1):
            if not _same_cell(one, other, any_digits=not run.same_package):
                _report_difference(run, claim, at, f"row {number}: {name}", one, other)


def _check_parquet(run: AuditedRun, at: Findings, made: Path, rows: Sequence[Results]) -> None:
    size = run.folder.size(at.file)
    if size is None and run.folder.size(run.path(run.layout.results_csv)) is None:
        return
    if size is not None and size > _MAX_PARQUET:
        at.wrong(PARQUET, found=f"{size} bytes", expected="a table")
        return
    data = _read_table(run, PARQUET, at, _MAX_PARQUET)
    if data is None:
        return
    import pyarrow
    import pyarrow.parquet

    write_parquet(made, rows)
    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        at.wrong(PARQUET, found=f"it cannot be read: {str(error).splitlines()[0]}", expected="a table")
        return
    found, expected = _arrow_table(table), _arrow_table(pyarrow.parquet.read_table(made))
    at.checked(PARQUET, expected.rows)
    if found.rows != expected.rows:
        at.wrong(PARQUET, "rows", found.rows, expected.rows)
        return
    missing, unexpected = found.lacks(expected), expected.lacks(found)
    if unexpected and not run.same_package:
        names = ", ".join(unexpected)[:60]
        at.unknown(PARQUET, f"another version of the code wrote it, with the columns {names}")
    elif unexpected or (missing and run.same_package) or len(set(found.names)) < len(found.names):
        at.wrong(PARQUET, "columns", unexpected[:5], missing[:5])
    else:
        for name in found.names:
            for number, (one, other) in enumerate(zip(found.column(name), expected.column(name), strict=True), start=1):
                if one != other:
                    at.wrong(PARQUET, f"row {number}: {name}", one, other)
                    break


def _check_page(run: AuditedRun, at: Findings, made: Path, earlier: Path) -> None:
    """Compare the leaderboard for people line by line. Runs of earlier versions have none, or, as in `earlier`, one
    whose intervals are not cut at the declared bounds."""
    try:
        data = run.folder.data(at.file)
    except Unreadable as error:
        at.wrong(LEADERBOARD, found=str(error), expected="a table")
        return
    if data is None and run.same_package:
        at.wrong(LEADERBOARD, found=None, expected="a table")
    if data is None or data == made.read_bytes() or (not run.same_package and data == earlier.read_bytes()):
        return
    lines = zip_longest(data.decode("utf-8", "replace").splitlines(), made.read_text("utf-8").splitlines())
    for number, (one, other) in enumerate(lines, start=1):
        if one == other or (not run.same_package and one and other and _same_text(one, other)):
            continue
        if not run.same_package:  # there is room for the place where the lines differ only
            pairs = enumerate(zip_longest(one or "", other or ""))
            start = max(0, next((n for n, (left, right) in pairs if left != right), 0) - 20)
            one, other = (line if line is None else line[start:] for line in (one, other))
        _report_difference(run, LEADERBOARD, at, f"line {number}", one, other)
        return


def _report_difference(run: AuditedRun, claim: str, at: Findings, key: str, found: object, expected: object) -> None:
    """Report that a table differs from the one that this code makes.

    It is a contradiction if this package wrote the table, or if the table copies numbers from rows.
    """
    copied = claim == CSV and (key == "rows" or (_is_number(found) and _is_number(expected)))
    if copied or run.same_package:
        at.wrong(claim, key, found, expected)
    else:
        difference = f"{at.file}, {key} is {str(found)[:60]}, and would be {str(expected)[:60]} here"
        at.unknown(claim, f"another version of the code wrote it: {difference}")


def _is_number(value: object) -> bool:
    return isinstance(value, str) and _NUMBER.fullmatch(value) is not None


def _same_cell(one: str | None, other: str | None, *, any_digits: bool = False) -> bool:
    """Whether two cells are equal, numbers but for rounding.

    Args:
        any_digits: numbers can be printed with different numbers of digits.
    """
    if one == other:
        return True
    try:
        return _close(float(one or ""), float(other or "")) or (any_digits and _same_digits(one or "", other or ""))
    except ValueError:
        return False


def _same_text(one: str, other: str) -> bool:
    """Whether two lines are equal but for the digits of their numbers and the widths of columns."""
    one, other = (re.sub(r"-{2,}", "--", " ".join(line.split())) for line in (one, other))
    if _NUMBER.split(one) != _NUMBER.split(other):
        return False
    return all(map(_same_digits, _NUMBER.findall(one), _NUMBER.findall(other)))


def _same_digits(one: str, other: str) -> bool:
    """Whether two texts can be one number, rounded to different digits. False if too few digits remain to tell."""
    try:
        left, right = Decimal(one), Decimal(other)
        unit = max(Decimal(1).scaleb(int(number.as_tuple().exponent)) for number in (left, right))
        difference = abs(left - right)
        return difference <= unit * Decimal("0.501") and difference <= abs(right) / 100
    except (ArithmeticError, ValueError):
        return False


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-12)
