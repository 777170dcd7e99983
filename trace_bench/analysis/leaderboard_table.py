"""The leaderboard of a run as a table: for a terminal, a pipe, and a notebook."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from trace_bench.artifacts.records import Results
from trace_bench.display.markup import html, html_paragraph, html_text
from trace_bench.display.table import UNPROTECTED, Column, Table, dollars, number
from trace_bench.display.terminal import BETTER, Screen, plain_lines, run_table_lines, terminal_lines
from trace_bench.display.text import clean_line
from trace_bench.records.integrity import MARK
from trace_bench.records.leaderboard import LeaderboardRow, displayed_leaderboard, hardware_sentence, task_names
from trace_bench.records.rows import is_final

EMPTY = "No job qualifies for the leaderboard: failed and unprotected jobs are left out, and those that were cut off."
MOST_METRICS = 6
"""Columns of metrics below a leaderboard."""
MOST_ROWS = 200
"""Rows of a table in a notebook."""
_COLUMNS = (
    Column("task", limit=160),
    Column("#", right=True),
    Column("trainer", limit=60),
    Column("variant"),
    Column("optimizer", limit=40),
    Column("model", limit=40),
    Column("seeds", right=True),
    Column("initial", True, number),
    Column("validation", right=True),
    Column("held-out", True, number),
    Column("evals", True, "{:.0f}".format),
    Column("calls", True, "{:.0f}".format),
    Column("s", True, "{:.1f}".format),
    Column("tokens", True, "{:.0f}".format),
    Column("usd", True, dollars),
    Column("direction"),
)
_IN_NOTEBOOKS = ("task", "#", "trainer", "variant", "model", "seeds", "initial", "validation", "held-out", "calls",
                 "usd")  # fmt: skip


def leaderboard_table(rows: Sequence[LeaderboardRow]) -> Table:
    """One row for each row of the leaderboard. ``validation`` is the mean over seeds with its standard deviation,
    ``evals`` counts evaluations in training, and ``calls`` and the columns after it are means per job."""
    cells = [
        (
            task,
            row.rank,
            row.trainer_id + (UNPROTECTED if row.integrity == "unprotected" else ""),
            row.variant,
            row.optimizer,
            row.model,
            row.jobs if row.jobs == row.seeds else f"{row.jobs}/{row.seeds}",
            row.score_initial,
            number(row.score_mean)
            + (f" ± {row.score_std:.2g}" if row.score_std is not None else "")
            + (MARK if row.flagged_jobs else ""),
            row.score_test,
            row.evaluations,
            row.llm_calls,
            row.time_seconds,
            row.total_tokens,
            row.cost_usd or None,
            row.score_direction,
        )
        for row, task in zip(rows, task_names(rows), strict=True)
    ]
    shrink = {"variant": 16, "trainer": 14, "optimizer": 8, "model": 8}
    return Table.of(_COLUMNS, cells, shrink=shrink, drop=("tokens", "s", "optimizer", "initial", "evals", "usd"))


def leaderboard_lines(
    rows: Sequence[LeaderboardRow], screen: Screen | None = None, *, several_objectives: bool = False
) -> list[str]:
    """The leaderboard as lines. A pipe (no `screen`) gets all columns. A terminal gets a section per task with the
    direction in its heading, and a line above the table that states what holds for all rows.

    Args:
        several_objectives: the searches traded metrics off against each other, so their fronts have a hypervolume.
    """
    if not rows:
        return [EMPTY]
    table, metrics = leaderboard_table(rows), _metrics_table(rows, several_objectives)
    table = table if screen is None else table.without("calls", "direction")
    shared = ("variant", "optimizer", "model", "held-out")
    lines = run_table_lines(table, screen, [row.score_direction for row in rows], shared)
    if metrics is not None:
        lines += ["", metrics.title, *(terminal_lines(metrics, screen) if screen else plain_lines(metrics))]
    return lines


def _metrics_table(rows: Sequence[LeaderboardRow], several_objectives: bool) -> Table | None:
    """The metrics of the best states; None where no task has any."""
    places = [place for place, row in enumerate(rows) if row.metrics]
    names = list(dict.fromkeys(name for place in places for name in rows[place].metrics))
    if not names:
        return None
    title = "validation metrics of the best states, means over seeds"
    if len(names) > MOST_METRICS:
        title += f"; the first {MOST_METRICS} of {len(names)}, all are in leaderboard.csv"
        names = names[:MOST_METRICS]
    extra = [Column("hypervolume", True, number)] if several_objectives else []
    numbers = [*(Column(clean_line(name, 40), True, number) for name in names), *extra]
    ids = leaderboard_table(rows).only(("task", "#", "trainer", "variant"))
    cells = [
        (
            *ids.rows[place],
            *(rows[place].metrics.get(name) for name in names),
            *([rows[place].hypervolume] if several_objectives else []),
        )
        for place in places
    ]
    columns = (*ids.columns, *numbers)
    drop = [column.heading for column in reversed(numbers)]
    return Table.of(columns, cells, title=title, shrink={"task": 8, "variant": 16}, drop=drop)


def left_out_sentence(rows: Sequence[LeaderboardRow]) -> str:
    """The explanation of ``2/3`` among the seeds; empty where all seeds count."""
    if all(row.jobs == row.seeds for row in rows):
        return ""
    failed, unfinished = sum(row.failed_jobs for row in rows), sum(row.unfinished_jobs for row in rows)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{unfinished} failed by infrastructure, were cut off or never ran"] if unfinished else []
    unprotected = sum(row.seeds - row.jobs for row in rows) - failed - unfinished
    parts += [f"{unprotected} unprotected"] if unprotected else []
    return f"seeds: counted/total; excluded from means: {', '.join(parts)}"


def run_html(run_id: str, rows: Sequence[Results], planned: int, spending: Sequence[str] = ()) -> str:
    """The outcome of a run's jobs and its leaderboard, as HTML for a notebook.

    Args:
        spending: sentences about it (`trace_bench.analysis.spending`).
    """
    board = displayed_leaderboard(rows)
    table = leaderboard_table(board)
    named = [(f"{row[0]} ({BETTER[of.score_direction]})", *row[1:]) for row, of in zip(table.rows, board, strict=True)]
    whole = Table.of(table.columns, named).only(_IN_NOTEBOOKS).first(MOST_ROWS)
    shown = html(whole) if board else html_paragraph(EMPTY)
    notes = [left_out_sentence(board), hardware_sentence(row.hardware for row in board), *spending]
    head = f"<p><b>{html_text(run_id)}</b> {html_text(_outcome(rows, planned))}</p>"
    return head + shown + "".join(map(html_paragraph, notes))


def _outcome(rows: Sequence[Results], planned: int) -> str:
    counts = Counter(row.status if is_final(row) else "unfinished" for row in rows)
    parts = [f"{counts['ok']} of {planned} jobs ok"]
    parts += [f"{counts['failed']} failed"] if counts["failed"] else []
    unfinished = planned - counts["ok"] - counts["failed"]
    parts += [f"{unfinished} did not finish"] if unfinished else []
    parts.append(f"{sum(row.total_tokens for row in rows):,} tokens")
    cost = math.fsum(row.cost_usd for row in rows)
    parts += [f"${dollars(cost)}"] if cost else []
    return " · ".join(parts)
