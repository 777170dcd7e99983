"""Tables and runs as HTML, for the output of a notebook's cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from html import escape

from trace_bench.analysis.render import BETTER, EMPTY, TASK, UNPROTECTED, dollars, left_out_sentence, number
from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.records import Results
from trace_bench.records.integrity import MARK
from trace_bench.records.leaderboard import LeaderboardRow, hardware_sentence, shown_to_people, task_names
from trace_bench.records.rows import is_final

MOST_ROWS = 200
"""Of one table."""
_HEADER = ("task", "#", "trainer", "parameters", "model", "seeds", "initial", "validation", "held-out", "calls", "usd")
_NUMERIC = frozenset({"#", "seeds", "initial", "validation", "held-out", "calls", "usd"})


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[str] = ()) -> str:
    """`rows` below `header`; columns named in `numeric` are flush right. Rows past `MOST_ROWS` are counted instead."""
    align = ["right" if name in numeric else "left" for name in header]
    lines = [_row("th", header, align), *(_row("td", row, align) for row in rows[:MOST_ROWS])]
    table = f"<table>\n<thead>{lines[0]}</thead>\n<tbody>\n{''.join(lines[1:])}</tbody>\n</table>"
    return table + (_said(f"… and {len(rows) - MOST_ROWS} more") if len(rows) > MOST_ROWS else "")


def run_html(run_id: str, rows: Sequence[Results], planned: int) -> str:
    """How the jobs of a run ended, and its leaderboard."""
    board = shown_to_people(rows)
    cells = [_cells(row, task) for row, task in zip(board, task_names(board), strict=True)]
    table = table_html(_HEADER, cells, _NUMERIC) if board else _said(EMPTY)
    notes = _said(left_out_sentence(board)) + _said(hardware_sentence(row.hardware for row in board))
    return f"<p><b>{escape(printable(run_id))}</b> {escape(_outcome(rows, planned))}</p>{table}{notes}"


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


def _cells(row: LeaderboardRow, task: str) -> tuple[str, ...]:
    spread = f" ± {row.score_std:.2g}" if row.score_std is not None else ""
    return (
        f"{printable(task, TASK)} ({BETTER[row.score_direction]})",
        str(row.rank),
        printable(row.trainer_id, 60) + (UNPROTECTED if row.integrity == "unprotected" else ""),
        printable(row.variant, 200),
        printable(row.model, 40),
        str(row.jobs) if row.jobs == row.seeds else f"{row.jobs}/{row.seeds}",
        number(row.score_initial),
        f"{number(row.score_mean)}{spread}{MARK if row.flagged_jobs else ''}",
        number(row.score_test),
        f"{row.llm_calls:.0f}",
        dollars(row.cost_usd) if row.cost_usd else "-",
    )


def _row(tag: str, cells: Sequence[str], align: Sequence[str]) -> str:
    shown = "".join(
        f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, align, strict=True)
    )
    return f"<tr>{shown}</tr>\n"


def _said(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""
