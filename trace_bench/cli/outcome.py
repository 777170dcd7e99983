"""Print the outcome of a run on stdout: the leaderboard, counts, failures and paths."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from trace_bench.analysis.leaderboard_table import leaderboard_lines, left_out_sentence
from trace_bench.analysis.spending import spending_sentences
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.cli.displays import why
from trace_bench.cli.tally import outcome_of
from trace_bench.display import console
from trace_bench.display.console import emit, emit_block
from trace_bench.display.table import dollars
from trace_bench.records.answers import answers_of, answers_sentences, summed
from trace_bench.records.gaps import gap_sentences
from trace_bench.records.integrity import flags_sentence
from trace_bench.records.leaderboard import displayed_leaderboard, hardware_sentence
from trace_bench.records.rows import is_final, skip_reasons, unmet_sentences
from trace_bench.records.tables import summarise

FAILURES = 10
"""Failed jobs that are listed."""


def print_outcome(layout: RunLayout, rows: Sequence[Results], planned: int, *, taken: str = "spent") -> None:
    """Print the outcome of the run in `layout`. The leaderboard is made from `rows`, not read from a file.

    Args:
        rows: of the jobs that have one, in the order of the plan.
        planned: number of jobs of the run.
        taken: the label of their calls, tokens and cost, which a replay does not pay.
    """
    answers = summed(("", answers_of(row, layout.job(row.job_id))) for row in rows if row.status != "skipped")
    print_leaderboard(layout, rows, [flags_sentence(rows), " ".join(answers_sentences(answers))])
    emit()
    emit(counts_text(rows, planned))
    for sentence in unmet_sentences(skip_reasons(rows)):
        emit(sentence)
    _print_failures([row for row in rows if outcome_of(row) == "failed"], layout)
    summary = summarise(layout.run_id, rows, planned)
    spent = f"{summary.llm_calls} calls, {summary.token_totals.total} tokens, {dollars(summary.cost_usd)} USD"
    is_unprotected = any(row.integrity == "unprotected" for row in _ended(rows))
    for label, text in {
        **({taken: spent} if summary.cost_usd or summary.llm_tries else {}),
        "run": layout.run_id,
        "folder": layout.root,
        "results": layout.results_csv,
        "leaderboard": f"{layout.leaderboard}{'  (unprotected jobs are left out of it)' if is_unprotected else ''}",
    }.items():
        emit(f"{label:<11} {text}")


def print_leaderboard(layout: RunLayout, rows: Sequence[Results], remarks: Sequence[str] = ()) -> None:
    """Print the leaderboard of the run in `layout`, and the sentences that it needs, after `remarks`."""
    ended, ranked = _ended(rows), displayed_leaderboard(rows)
    traded = any(row.objective != "scalar" for row in ended)
    emit_block("\n".join(leaderboard_lines(ranked, console.screen(), several_objectives=traded)))
    for sentence in (
        *remarks,
        left_out_sentence(ranked),
        hardware_sentence(row.hardware for row in ranked),
        unprotected_sentence(ended),
        inert_sentence(ended),
        *gap_sentences(layout),
        *spending_sentences(layout, rows),
    ):
        if sentence:
            emit(sentence)


def _ended(rows: Sequence[Results]) -> list[Results]:
    return [row for row in rows if row.status != "skipped"]


def unprotected_sentence(ended: Sequence[Results]) -> str:
    """A sentence about jobs whose candidates could have written their own scores; empty if there are none."""
    count = sum(row.integrity == "unprotected" for row in ended)
    if not count:
        return ""
    if count == len(ended):
        return "All jobs of this run are unprotected: a candidate could have written its own score."
    return (
        f"Left out: {count} of {len(ended)} jobs, which are unprotected: a candidate could have written its own score."
    )


def inert_sentence(rows: Sequence[Results]) -> str:
    """A sentence about jobs in which the stub model could change nothing; empty if there are none."""
    inert = sorted({row.trainer_id for row in rows if row.stub_inert})
    if not inert:
        return ""
    number = sum(row.stub_inert for row in rows)
    what = "job" if number == 1 else "jobs"
    return (
        f"The stub model is inert for {', '.join(inert)}: the scores of {number} {what} say that it ran, and no more."
    )


def counts_text(rows: Sequence[Results], planned: int) -> str:
    """``14 of 16 jobs ok, 1 failed, 1 skipped``; counts of 0 are left out, and jobs without a row count as skipped."""
    summary = summarise("", rows, planned)
    counts = dict(summary.counts)
    counts["skipped"] += counts.pop("pending", 0)
    infra = summary.infrastructure_failures
    worded = {"failed": f"failed ({infra} by infrastructure)"} if infra else {}
    others = "".join(
        f", {count} {worded.get(outcome, outcome)}" for outcome, count in counts.items() if outcome != "ok" and count
    )
    cut = summary.cut_by_run_budget
    some = f" ({cut} cut off by the run's budget)" if cut else ""
    return f"{counts['ok']} of {planned} jobs ok{some}{others}"


def _print_failures(failed: Sequence[Results], layout: RunLayout) -> None:
    for row in sorted(failed, key=is_final, reverse=True)[:FAILURES]:  # jobs that infrastructure broke come last
        where = f"{row.task_id}  {row.trainer_id}  {row.variant}"
        where += "" if row.model == "stub" else f"  {row.model}"
        emit(f"{'failed' if is_final(row) else 'broke':<11} {row.job_id}  {where}  seed {row.seed}  {why(row)}")
    if len(failed) > FAILURES:
        emit(f"and {len(failed) - FAILURES} more: trace-bench show {shlex.quote(str(layout.root))}")
