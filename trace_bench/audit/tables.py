"""The tables of a run against what its jobs' files come to."""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

from trace_bench.artifacts.derived import ReplayReport, Summary
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import ManifestEntry, Results
from trace_bench.audit.context import Audited
from trace_bench.audit.reading import Unreadable
from trace_bench.execution.records import outcome_of
from trace_bench.records.parquet import write_parquet
from trace_bench.records.rows import is_final, skipped_row
from trace_bench.records.tables import write_standings, write_tables

_PARQUET_BYTES = 1 << 30
_FROM_ROW = (
    "task_id", "suite", "trainer_id", "variant", "seed", "fingerprint", "integrity", "score_direction",
    "resolved_optimizer", "resolved_optimizer_kwargs", "resolved_guide", "resolved_guide_kwargs", "resolved_logger",
    "resolved_logger_kwargs", "resolved_trainer_kwargs", "eval_kwargs", "model",
)  # fmt: skip
"""What an entry of the manifest and a row say alike."""
_FAIL_FAST = re.compile(r"fail_fast: job ([0-9a-f]{12}) failed")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def check_tables(audited: Audited) -> list[Results]:
    """Every table; returns the rows, in the order of the manifest."""
    rows = _ordered(audited)
    _check_manifest(audited)
    _check_replay(audited, rows)
    why = audited.why_unfinished
    tables = {
        "tables.results_csv": audited.layout.results_csv,
        "tables.parquet": audited.layout.results_parquet,
        "tables.summary": audited.layout.summary,
        "tables.leaderboard": audited.layout.leaderboard,
    }
    if why:
        for claim in tables:
            audited.book.unknown(claim, why)
        return rows
    with tempfile.TemporaryDirectory(prefix="trace-bench-audit-") as folder:
        made = RunLayout(Path(folder) / "run")
        made.make()
        tags = audited.manifest.tags if audited.manifest is not None else ()
        write_tables(made, rows, len(audited.entries) or len(rows), tags)
        write_standings(made, rows)
        for claim, place in tables.items():
            path = audited.path(place)
            due = made.root / path
            if claim == "tables.summary":
                _check_summary(audited, path, due)
            elif claim == "tables.parquet":
                _check_parquet(audited, path, due, rows)
            else:
                _check_csv(audited, claim, path, due)
        for due in sorted(made.root.glob("leaderboard.*")):
            if due.name != made.leaderboard.name:
                _check_text(audited, due.name, due)
    return rows


def _ordered(audited: Audited) -> list[Results]:
    """The rows as `RunTables` has them."""
    if audited.manifest is None:
        return [audited.rows[job_id] for job_id in sorted(audited.rows)]
    ordered = []
    for entry in audited.entries.values():
        row = audited.rows.get(entry.job_id)
        if row is not None and row.fingerprint != entry.fingerprint:
            row = None
        if row is None and entry.status == "not_executed":
            row = skipped_row(audited.run_id, entry)
        if row is not None:
            ordered.append(row)
    return ordered


def _check_manifest(audited: Audited) -> None:
    book, claim = audited.book, "tables.manifest"
    path = audited.path(audited.layout.manifest)
    if audited.manifest is None:
        book.unknown(claim, "the run has no manifest")
        return
    if audited.layout.run_id != audited.run_id:
        book.remark("files.places", f"the folder is called {audited.layout.run_id}, the run {audited.run_id}")
    ended = not audited.why_unfinished
    for entry in audited.entries.values():
        row = audited.rows.get(entry.job_id)
        book.checked(claim)
        if row is None:
            if entry.status == "not_executed":
                _check_reason(audited, entry, path)
            if ended and entry.status != "not_executed":
                book.wrong(claim, path, f"{entry.job_id}: status", entry.status, "not_executed, as it has no result")
            continue
        if row.fingerprint != entry.fingerprint and not ended:
            continue  # of the code before; it runs again
        for name in _FROM_ROW:
            if getattr(entry, name) != getattr(row, name):
                book.wrong(claim, path, f"{entry.job_id}: {name}", getattr(entry, name), getattr(row, name))
        if ended:
            _check_outcome(audited, entry, row, path)
    _check_raw(audited)


def _check_reason(audited: Audited, entry: ManifestEntry, path: str) -> None:
    """Why a job never ran must be possible by the config; anything else only its author knows."""
    config, reason = audited.config, entry.reason or ""
    if config is None:
        return
    key, limits = f"{entry.job_id}: reason", config.budget.run.model_dump().values()
    if reason.startswith("the run's budget of ") and (config.mode == "replay" or not any(limits)):
        audited.book.wrong("tables.manifest", path, key, reason, "another one, as the run has no budget")
    if failed := _FAIL_FAST.match(reason):
        row = audited.rows.get(failed[1])
        if not config.fail_fast or row is None or row.status != "failed":
            audited.book.wrong("tables.manifest", path, key, reason, "another one, as no failure ends the run")


def _check_outcome(audited: Audited, entry: ManifestEntry, row: Results, path: str) -> None:
    due = outcome_of(row)
    if (entry.status, entry.reason) != due:
        was = [entry.status, entry.reason]
        audited.book.wrong("tables.manifest", path, f"{entry.job_id}: status", was, list(due))


def _check_raw(audited: Audited) -> None:
    """What each variant says itself, against the config."""
    for job_id, job in audited.expanded.items():
        entry = audited.entries.get(job_id)
        if entry is None or audited.why_differs(job.task_id):
            continue
        if entry.variant != job.variant.label or dict(entry.raw_params) != dict(job.raw_params):
            path = audited.path(audited.layout.manifest)
            audited.book.wrong("tables.manifest", path, f"{job_id}: raw_params", entry.raw_params, job.raw_params)


def _check_replay(audited: Audited, rows: Sequence[Results]) -> None:
    path, claim = audited.path(audited.layout.replay), "tables.replay"
    try:
        report = audited.folder.model(ReplayReport, path)
    except Unreadable:
        return  # noted with the schemas
    replayed = audited.config is not None and audited.config.mode == "replay"
    if report is None:
        if replayed and not audited.why_unfinished:
            audited.book.wrong(claim, path, was=None, due="how the replay came out")
        return
    book = audited.book
    if not replayed and audited.config is not None:
        book.wrong(claim, path, was="a report", due="none, as the run is no replay")
    book.equal("files.places", path, "run_id", report.run_id, audited.run_id)
    if audited.why_unfinished:
        book.unknown(claim, audited.why_unfinished)
        return
    ended = sum(row.status != "skipped" for row in rows)
    book.equal(claim, path, "jobs", report.jobs, ended)
    book.equal(claim, path, "skipped", report.skipped, len(rows) - ended)
    book.equal(claim, path, "differing", report.differing, report.jobs - report.equal)
    known = {difference.job_id for difference in report.differences}
    if not known <= audited.entries.keys():
        book.wrong(claim, path, "differences", sorted(known - audited.entries.keys()), "jobs of the run")
    if len(known) != report.differing:
        book.wrong(claim, path, "differing", report.differing, f"{len(known)} jobs with differences")
    book.unknown(claim, "the recording is another run: trace-bench run --replay compares again")


def _check_summary(audited: Audited, path: str, due_path: Path) -> None:
    book, claim = audited.book, "tables.summary"
    try:
        found = audited.folder.model(Summary, path)
    except Unreadable:
        found = None
    if found is None:
        book.wrong(claim, path, was=None, due="the summary")
        return
    due = Summary.model_validate_json(due_path.read_bytes())
    book.equal("files.places", path, "run_id", found.run_id, audited.run_id)
    for name in Summary.model_fields:
        if name in ("generated_at", "package_hash", "run_id"):
            continue
        if name not in found.model_fields_set and not audited.has_tables_of_this_code:
            continue  # new since
        was, there = found.model_dump(mode="json")[name], due.model_dump(mode="json")[name]
        if isinstance(there, float) and isinstance(was, float) and _close(was, there):
            book.checked(claim)
            continue
        book.equal(claim, path, name, was, there)


def _check_csv(audited: Audited, claim: str, path: str, due_path: Path) -> None:
    """Line by line; numbers may differ by what another way of adding up makes of them."""
    try:
        data = audited.folder.data(path)
    except Unreadable as error:
        audited.book.wrong(claim, path, was=str(error), due="a table")
        return
    if data is None:
        audited.book.wrong(claim, path, was=None, due="a table")
        return
    if data == due_path.read_bytes():
        audited.book.checked(claim, data.count(b"\n"))
        return
    was, due = _cells(data), _cells(due_path.read_bytes())
    known = was[0] if was else []
    # A table of an earlier version lacks columns that are new since.
    lacking = [name for name in (due[0] if due else []) if name not in known]
    ours = audited.has_tables_of_this_code
    if lacking and ours:
        audited.book.wrong(claim, path, "columns", known[-5:], lacking[:5])
    if len(was) != len(due):
        _differs(audited, claim, path, "rows", len(was) - 1, len(due) - 1)
    for number, (one, other) in enumerate(zip(was[1:], due[1:], strict=False), start=1):
        audited.book.checked(claim)
        left, right = dict(zip(known, one, strict=False)), dict(zip(due[0], other, strict=False))
        for name in known:
            if name in right and not _same_cell(left.get(name), right[name], printed=not ours):
                _differs(audited, claim, path, f"row {number}: {name}", left.get(name), right[name])
    if strange := [name for name in known if not due or name not in due[0]]:
        _differs(audited, claim, path, "columns", strange[:5], "those of this version")


def _check_text(audited: Audited, path: str, due: Path) -> None:
    """A table for people that is there if its writer makes it; runs of earlier versions have none."""
    try:
        data = audited.folder.data(path)
    except Unreadable as error:
        audited.book.wrong("tables.leaderboard", path, was=str(error), due="a table")
        return
    if data is None and audited.has_tables_of_this_code:
        audited.book.wrong("tables.leaderboard", path, was=None, due="a table")
    if data is None or data == due.read_bytes():
        return
    ours = audited.has_tables_of_this_code
    was, there = data.decode("utf-8", "replace").splitlines(), due.read_text("utf-8").splitlines()
    for number, (one, other) in enumerate(zip_longest(was, there), start=1):
        if one != other and (ours or one is None or other is None or not _same_text(one, other)):
            pairs = enumerate(zip_longest(one or "", other or ""))
            at = next((n for n, (left, right) in pairs if left != right), 0)
            told = (line if line is None or ours else line[max(0, at - 20) :] for line in (one, other))
            _differs(audited, "tables.leaderboard", path, f"line {number}", *told)
            return


def _differs(audited: Audited, claim: str, path: str, key: str, was: object, due: object) -> None:
    """A table says something else than this code would: a contradiction if it is this code's, or of copied numbers."""
    copied = claim == "tables.results_csv" and (key == "rows" or (_is_number(was) and _is_number(due)))
    if copied or audited.has_tables_of_this_code:
        audited.book.wrong(claim, path, key, was, due)
    else:
        told = f"{path}, {key} is {_told(was)}, and would be {_told(due)} here"
        audited.book.unknown(claim, f"another version of the code wrote it: {told}")


def _is_number(value: object) -> bool:
    return isinstance(value, str) and _NUMBER.fullmatch(value) is not None


def _told(value: object) -> str:
    return str(value)[:60]


def _check_parquet(audited: Audited, path: str, due_path: Path, rows: Sequence[Results]) -> None:
    book, claim = audited.book, "tables.parquet"
    size = audited.folder.size(path)
    if size is None:
        if audited.folder.size(audited.path(audited.layout.results_csv)) is not None:
            book.wrong(claim, path, was=None, due="a table")
        return
    if size > _PARQUET_BYTES:
        book.wrong(claim, path, was=f"{size} bytes", due="a table")
        return
    import pyarrow
    import pyarrow.parquet

    write_parquet(due_path, rows)
    due = pyarrow.parquet.read_table(due_path)
    try:
        data = audited.folder.data(path, _PARQUET_BYTES)
        found = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
        found.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, Unreadable) as error:
        book.wrong(claim, path, was=f"it cannot be read: {str(error).splitlines()[0]}", due="a table")
        return
    book.checked(claim, due.num_rows)
    if found.num_rows != due.num_rows:
        book.wrong(claim, path, "rows", found.num_rows, due.num_rows)
        return
    strange = [name for name in found.column_names if name not in due.column_names]
    lacking = [name for name in due.column_names if name not in found.column_names]
    if strange and not audited.has_tables_of_this_code:
        book.unknown(claim, f"another version of the code wrote it, with the columns {_told(', '.join(strange))}")
        return
    if strange or (lacking and audited.has_tables_of_this_code) or len(set(found.column_names)) < found.num_columns:
        book.wrong(claim, path, "columns", strange[:5], lacking[:5])
        return
    for name in found.column_names:
        was, there = found[name].to_pylist(), due[name].to_pylist()
        if was != there:
            number = next(n for n, (a, b) in enumerate(zip(was, there, strict=True)) if a != b)
            book.wrong(claim, path, f"row {number + 1}: {name}", was[number], there[number])


def check_leaderboard_integrity(audited: Audited, rows: Sequence[Results]) -> None:
    """Flags are a remark, as they accuse nobody; that an unprotected job counts unmarked is not."""
    book = audited.book
    flagged = [row for row in rows if row.integrity_flags]
    if flagged:
        words = sorted({word for row in flagged for word in row.integrity_flags.split()})
        book.remark("integrity.flags", f"{len(flagged)} jobs are flagged ({' '.join(words)[:100]}): look at them")
    free = [row for row in rows if row.integrity == "unprotected"]
    book.checked("integrity.unprotected", len(rows))
    if free:
        book.remark("integrity.unprotected", f"{len(free)} of {len(rows)} jobs are unprotected")
    path = audited.path(audited.layout.leaderboard)
    try:
        cells = _cells(audited.folder.data(path) or b"")
    except Unreadable:
        return
    by_id: Mapping[str, Results] = {row.job_id: row for row in rows}
    for number, line in enumerate(cells[1:], start=1):
        told = dict(zip(cells[0], line, strict=False))
        best = by_id.get(told.get("best_job_id", ""))
        if told.get("integrity") != "protected" or (best is not None and best.integrity != "protected"):
            book.wrong("integrity.unprotected", path, f"row {number}: integrity", told.get("integrity"), "protected")
        if best is not None and (not is_final(best) or best.status != "ok"):
            book.wrong("tables.leaderboard", path, f"row {number}: best_job_id", best.job_id, "a job that is ok")


def _cells(data: bytes) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline="")))
    except csv.Error:
        return []


def _same_cell(one: str | None, other: str, *, printed: bool = False) -> bool:
    """Args:
    printed: numbers may have other numbers of digits.
    """
    if one == other:
        return True
    try:
        return _close(float(one or ""), float(other)) or (printed and _same_digits(one or "", other))
    except ValueError:
        return False


def _same_text(one: str, other: str) -> bool:
    """Lines that say the same, with numbers that may have other numbers of digits, in columns of other widths."""
    one, other = (re.sub(r"-{2,}", "--", " ".join(line.split())) for line in (one, other))
    if _NUMBER.split(one) != _NUMBER.split(other):
        return False
    return all(map(_same_digits, _NUMBER.findall(one), _NUMBER.findall(other)))


def _same_digits(one: str, other: str) -> bool:
    """Both can be the same number, rounded; not if so few digits are left that it could be any."""
    try:
        left, right = Decimal(one), Decimal(other)
        unit = max(Decimal(1).scaleb(int(number.as_tuple().exponent)) for number in (left, right))
        difference = abs(left - right)
        return difference <= unit * Decimal("0.501") and difference <= abs(right) / 100
    except (ArithmeticError, ValueError):
        return False


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-12)
