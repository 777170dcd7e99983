"""Print the outcome of a run on stdout: the leaderboard, counts, failures and paths."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from trace_bench.analysis.leaderboard_table import leaderboard_lines, left_out_sentence
from trace_bench.analysis.spending import spending_sentences
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.cli.displays import why
from trace_bench.cli.show_run import unprotected_sentence
from trace_bench.cli.tally import Totals, outcome_of
from trace_bench.display import console
from trace_bench.display.console import emit, emit_block
from trace_bench.display.table import dollars
from trace_bench.records.answers import answers_of, answers_sentences, summed
from trace_bench.records.gaps import gap_sentences
from trace_bench.records.integrity import flags_sentence
from trace_bench.records.leaderboard import displayed_leaderboard, hardware_sentence
from trace_bench.records.rows import is_final, skip_reasons, unmet_sentences

FAILURES = 10
"""Failed jobs that are listed."""


def print_outcome(layout: RunLayout, rows: Sequence[Results], planned: int, *, taken: str = "spent") -> None:
    """Print the outcome of the run in `layout`. The leaderboard is made from `rows`, not read from a file.

    Args:
        rows: of the jobs that have one, in the order of the plan.
        planned: number of jobs of the run.
        taken: the label of their calls, tokens and cost, which a replay does not pay.
    """
    ended = [row for row in rows if row.status != "skipped"]
    unprotected = any(row.integrity == "unprotected" for row in ended)
    ranked = displayed_leaderboard(rows)
    traded = any(row.objective != "scalar" for row in ended)
    emit_block("\n".join(leaderboard_lines(ranked, console.screen(), several_objectives=traded)))
    for sentence in (
        flags_sentence(rows),
        left_out_sentence(ranked),
        hardware_sentence(row.hardware for row in ranked),
        unprotected_sentence(ended),
        inert_sentence(ended),
        _answers_sentence(layout, ended),
        *gap_sentences(layout),
        *spending_sentences(layout, rows),
    ):
        if sentence:
            emit(sentence)
    emit()
    emit(counts_text(rows, planned))
    for sentence in unmet_sentences(skip_reasons(rows)):
        emit(sentence)
    _print_failures([row for row in rows if outcome_of(row) == "failed"], layout)
    but = "  (unprotected jobs are left out of it)" if unprotected else ""
    _print_paths({
        **_spent(rows, taken),
        "run": layout.run_id,
        "folder": layout.root,
        "results": layout.results_csv,
        "leaderboard": f"{layout.leaderboard}{but}",
    })  # fmt: skip


def _answers_sentence(layout: RunLayout, rows: Sequence[Results]) -> str:
    """A sentence about the models' unusable answers; empty if there are none."""
    answers = summed(("", answers_of(row, layout.job(row.job_id))) for row in rows)
    return " ".join(answers_sentences(answers))


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
    """``14 of 16 jobs ok, 1 failed, 1 skipped``; counts of 0 are left out."""
    counts = dict(Totals.of(rows).counts)
    counts["skipped"] += planned - len(rows)
    infra = Totals.of(rows).infrastructure
    worded = {"failed": f"failed ({infra} by infrastructure)"} if infra else {}
    others = "".join(
        f", {count} {worded.get(outcome, outcome)}" for outcome, count in counts.items() if outcome != "ok" and count
    )
    cut = sum(row.cut_by_run_budget for row in rows)
    some = f" ({cut} cut off by the run's budget)" if cut else ""
    return f"{counts['ok']} of {planned} jobs ok{some}{others}"


def _spent(rows: Sequence[Results], label: str) -> dict[str, str]:
    """Calls, tokens and cost of all jobs; empty where no provider was asked and nothing cost anything."""
    totals = Totals.of(rows)
    if not totals.cost_usd and not any(row.llm_tries for row in rows):
        return {}
    return {label: f"{totals.llm_calls} calls, {totals.total_tokens} tokens, {dollars(totals.cost_usd)} USD"}


def _print_failures(failed: Sequence[Results], layout: RunLayout) -> None:
    for row in sorted(failed, key=is_final, reverse=True)[:FAILURES]:  # jobs that infrastructure broke come last
        where = f"{row.task_id}  {row.trainer_id}  {row.variant}"
        where += "" if row.model == "stub" else f"  {row.model}"
        emit(f"{'failed' if is_final(row) else 'broke':<11} {row.job_id}  {where}  seed {row.seed}  {why(row)}")
    if len(failed) > FAILURES:
        emit(f"and {len(failed) - FAILURES} more: trace-bench show {shlex.quote(str(layout.root))}")


def _print_paths(paths: Mapping[str, str | Path]) -> None:
    for label, path in paths.items():
        emit(f"{label:<11} {path}")
