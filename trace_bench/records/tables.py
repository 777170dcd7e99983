"""Make and write the tables of a run.

Functions that return bytes are pure; `trace_bench.records.derivation` joins them. Tables follow from the rows
(``jobs/*/results.json``) and the manifest, ``leaderboard.md`` also from the yardsticks and the objectives in
``jobs/*/job_meta.json``. A job that ran twice has one folder and therefore one row.
"""

from __future__ import annotations

import csv
import io
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from operator import attrgetter

from pydantic import BaseModel

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.derived import FilesIndex, Summary, TokenTotals, Yardstick, Yardsticks
from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import csv_line, write_bytes, write_json, write_text
from trace_bench.display.text import escape_json
from trace_bench.errors import Boundary
from trace_bench.records.digest import files_index, unfinished
from trace_bench.records.gaps import sentences
from trace_bench.records.integrity import flag_counts
from trace_bench.records.leaderboard import LeaderboardRow, rank
from trace_bench.records.reading import read_optional
from trace_bench.records.rows import (
    FIELDS,
    field_columns,
    metric_columns,
    other_columns,
    skip_reasons,
    unmet_preconditions,
    was_cut,
)
from trace_bench.resources import package_hash

Objectives = Callable[[str], ObjectiveSpec | None]
"""Returns the objective of a job by its id; None if it is not known."""
COLUMNS = tuple(Results.model_fields)
"""Columns of ``results.csv``, before those of metrics."""


class LiveTables:
    """The tables of a run that is under way, from the rows that its controller has.

    They are written at most every `min_interval` seconds, and so seldom that writing them stays below a hundredth of
    the time: what a job costs the controller must not grow with the number of jobs. A row's line is made once.

    Args:
        order: the ids of all planned jobs.
    """

    def __init__(
        self, run: RunLayout, order: Sequence[str], tags: Sequence[str] = (), *, min_interval: float = 2.0
    ) -> None:
        self._run = run
        self._order = order
        self._tags = tuple(tags)
        self._min_interval = min_interval
        self._next = -float("inf")
        self._rows: dict[str, Results] = {}
        self._lines: dict[str, str] = {}

    def put(self, row: Results) -> None:
        """Set the row of a job, or replace it."""
        self._rows[row.job_id] = row
        self._lines.pop(row.job_id, None)

    def maybe_write(self) -> bool:
        """`write`, unless it is too early; True if it wrote."""
        began = time.monotonic()
        if began < self._next:
            return False
        self.write()
        ended = time.monotonic()
        self._next = ended + max(self._min_interval, 99 * (ended - began))
        return True

    def write(self) -> None:
        write_tables(self._run, self.rows(), len(self._order), self._tags, line_of=self._line_of)

    def _line_of(self, row: Results) -> str:
        line = self._lines.get(row.job_id)
        if line is None:
            line = self._lines[row.job_id] = _line_of(row)
        return line

    def rows(self) -> list[Results]:
        """The rows so far, in the order of the plan."""
        return [self._rows[job_id] for job_id in self._order if job_id in self._rows]


def write_tables(
    run: RunLayout,
    rows: Sequence[Results],
    planned: int,
    tags: Sequence[str] = (),
    *,
    line_of: Callable[[Results], str] | None = None,
) -> None:
    """Write ``results.csv``, ``summary.json`` and ``leaderboard.csv``. They are not flushed: they can be derived again.

    Args:
        planned: number of jobs of the run.
        line_of: returns the fields of a row as a line of ``results.csv``, for callers that keep these lines.
    """
    write_bytes(run.results_csv, results_csv(rows, line_of or _line_of), durable=False)
    write_bytes(run.summary, json_bytes(summarise(run.run_id, rows, planned, tags)), durable=False)
    write_bytes(run.leaderboard, leaderboard_csv(rank(rows)), durable=False)


def write_standings(run: RunLayout, rows: Sequence[Results]) -> None:
    """Write ``leaderboard.md``. It is not flushed: it can be derived again."""
    found = read_optional(Yardsticks, run.yardsticks)
    objectives = import_module("trace_bench.analysis.bounds").recorded(run)
    page = standings_page(run, rows, found.yardsticks if found is not None else (), objectives)
    write_text(run.leaderboard_md, page, durable=False)


def json_bytes(model: BaseModel) -> bytes:
    """Return `model` as `trace_bench.artifacts.writers.write_json` writes it."""
    return (escape_json(dumps(model.model_dump(mode="json"), indent=2)) + "\n").encode()


def _line_of(row: Results) -> str:
    """The fields of `row` as a line of ``results.csv``."""
    return csv_line([getattr(row, name) for name in FIELDS])


def results_csv(rows: Sequence[Results], line_of: Callable[[Results], str] = _line_of) -> bytes:
    """Return ``results.csv``, with the columns of metrics that any row has."""
    more: dict[str, Callable[[Results], object]] = {
        name: attrgetter(name) for name in field_columns(rows)[len(FIELDS) :]
    }
    more |= metric_columns(rows)
    more |= {other: attrgetter(name) for other, name in other_columns(rows).items()}
    # The empty cell makes the comma between the two parts, and keeps a single empty value without quotes.
    lines = (
        line_of(row) + csv_line(["", *(value(row) for value in more.values())]) if more else line_of(row)
        for row in rows
    )
    return _csv((*FIELDS, *more), lines)


def leaderboard_csv(ranked: Iterable[LeaderboardRow]) -> bytes:
    """Return ``leaderboard.csv``; it has its header even if no job qualifies. The column ``fixture`` is there only if a
    row is of one, so that earlier runs are rebuilt to the byte."""
    rows = list(ranked)
    columns = [name for name in LeaderboardRow.columns() if name != "fixture" or any(row.fixture for row in rows)]
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    cells = ([getattr(row, c) for c in columns] + [row.metrics.get(name) for name in metrics] for row in rows)
    return _csv((*columns, *(f"metric_mean:{name}" for name in metrics)), map(csv_line, cells))


def _csv(header: Sequence[str], lines: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(header)
    text.writelines(f"{line}\n" for line in lines)
    return text.getvalue().encode()


def standings_page(
    run: RunLayout, rows: Sequence[Results], yardsticks: Sequence[Yardstick], objectives: Objectives
) -> str:
    """Return ``leaderboard.md``; see `trace_bench.analysis.standings`."""
    name, analysis = rows[0].run_id if rows else run.run_id, import_module("trace_bench.analysis.standings")
    found = replace(analysis.standings_of(rows, objectives), gaps=sentences(yardsticks))
    page: str = analysis.page(name, found)
    return page


def preload_standings() -> None:
    """Import what `write_standings` needs, for a thread of its own while something else is waited for."""
    import_module("trace_bench.analysis.standings").preload()


def summarise(run_id: str, rows: Sequence[Results], planned: int, tags: Sequence[str] = ()) -> Summary:
    """Counts and totals. A job that was cut off counts as ``interrupted`` and as nothing else, a planned one without a
    row as ``pending``."""
    counts = Counter({"ok": 0, "failed": 0, "interrupted": 0, "skipped": 0})
    counts.update("interrupted" if was_cut(row) else row.status for row in rows)
    if planned > len(rows):
        counts["pending"] = planned - len(rows)
    failed = [row for row in rows if row.failure_boundary is not None and not was_cut(row)]
    failures = Counter(f"{row.failure_boundary}:{row.failure_kind}" for row in failed)
    boundaries = Counter(row.failure_boundary for row in failed if row.failure_boundary is not None)
    prompt, completion = sum(row.prompt_tokens for row in rows), sum(row.completion_tokens for row in rows)
    tokens = TokenTotals(
        prompt=prompt,
        completion=completion,
        cached=sum(row.cached_tokens for row in rows),
        reasoning=sum(row.reasoning_tokens for row in rows),
        total=prompt + completion,
    )
    return Summary(
        run_id=run_id,
        generated_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        package_hash=package_hash(),
        total_jobs=max(planned, len(rows)),
        counts=dict(counts),
        failures=dict(sorted(failures.items())),
        boundaries={boundary: boundaries[boundary] for boundary in Boundary if boundaries[boundary]},
        infrastructure_failures=sum(n for boundary, n in boundaries.items() if boundary.is_infrastructure),
        unprotected_jobs=sum(row.integrity == "unprotected" for row in rows),
        flagged_jobs=sum(bool(row.integrity_flags) for row in rows),
        flags=flag_counts(rows),
        cannot_run={why: len(tasks) for why, tasks in unmet_preconditions(skip_reasons(rows)).items()},
        cut_by_run_budget=sum(row.cut_by_run_budget for row in rows),
        llm_calls=sum(row.llm_calls for row in rows),
        llm_tries=sum(row.llm_tries for row in rows),
        llm_reused=sum(row.llm_reused for row in rows),
        llm_cached=sum(row.llm_cached for row in rows),
        token_totals=tokens,
        cost_usd=math.fsum(row.cost_usd for row in rows),
        tags=tuple(tags),
    )


def write_files_index(run: RunLayout) -> FilesIndex:
    """``files_index.json``: every regular file of the run with size, SHA-256 and schema. Links are not
    followed, the index itself is not listed, and what a killed controller left half written is removed: no job may be
    at work."""
    for path in list(unfinished(run.root)):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    index = files_index(run)
    write_json(run.files_index, index)
    return index
