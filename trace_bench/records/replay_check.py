"""Compares a replay with its recording, job by job: rows, states and histories.

With the same image and CPU model, numbers must be equal to the bit; otherwise within the task's tolerance. Times are
not compared. Where calls overlap, neither are the sums of a history: they depend on which calls had ended when a line
was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trace_bench.artifacts.derived import ReplayDifference, ReplayReport
from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import read_journal
from trace_bench.artifacts.yamlio import read_state
from trace_bench.display.text import quoted
from trace_bench.errors import HarnessError
from trace_bench.records.integrity import OF_EARLIER_VERSIONS
from trace_bench.records.reading import read_meta, read_optional
from trace_bench.records.rows import GAP, LATER

COLUMNS = (
    "status", "failure_boundary", "failure_kind", "stop_reason", "score_initial", "score_final", "score_best",
    "score_test", "evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "total_tokens", "cost_usd",
    "stub_inert", "cut_by_run_budget", "cached_tokens", "reasoning_tokens", "score_claimed", "integrity_flags",
    "score_evaluations", "evaluations_saved", "search_answers", "unusable_answers",
    "objective", "metrics_initial", "metrics_final", "metrics_best", "metrics_test", "hypervolume",
)  # fmt: skip
"""Columns of a row that must be equal."""
TIMES = frozenset({"seconds"})
SPENT = frozenset({"llm_calls", "prompt_tokens", "completion_tokens", "cost_usd"})
THREADS = ("num_threads", "threads")
"""Parameters of trainers with which calls overlap."""
SUMS = frozenset({"cost_usd"})
"""Sums of floats, which depend on the order in which calls end."""
SHOWN = 5
"""Differences of one job that a report lists."""
TEXT = 300


def compare(
    recorded: RunLayout,
    replayed: RunLayout,
    rows: Iterable[Results],
    then: Mapping[str, Results],
    tolerances: Mapping[str, float],
    skipped: int = 0,
) -> ReplayReport:
    """The report on a replay.

    Args:
        rows: the rows of the replay, of jobs that ran.
        then: the recorded rows, by job id.
        tolerances: relative, by task id.
        skipped: number of jobs that could not be replayed.
    """
    differences: list[ReplayDifference] = []
    jobs = equal = exactly = 0
    for row in rows:
        before = then[row.job_id]
        exact = same_machine(recorded.job(row.job_id), replayed.job(row.job_id), before, row)
        tolerance = 0.0 if exact else tolerances.get(row.task_id, 1e-9)
        found = list(differences_of(recorded, replayed, before, row, tolerance))
        differences += found[:SHOWN]
        jobs += 1
        equal += not found
        exactly += exact
    return ReplayReport(
        run_id=replayed.run_id,
        recorded_run=recorded.run_id,
        jobs=jobs,
        equal=equal,
        exact=exactly,
        skipped=skipped,
        differing=jobs - equal,
        differences=tuple(differences),
    )


def read_report(run: RunLayout) -> ReplayReport | None:
    """Read the report of a replay; None for any other run.

    Raises:
        HarnessError: it is damaged.
    """
    return read_optional(ReplayReport, run.replay)


def sentences(report: ReplayReport, shown: int = 5) -> list[str]:
    """A report as lines of text: how many jobs are equal, and the first differences."""
    how = "to the bit" if report.exact == report.jobs else f"{report.exact} of them compared to the bit"
    tail = f", {report.skipped} could not be replayed" if report.skipped else ""
    lines = [f"replay of {report.recorded_run}: {report.equal} of {report.jobs} jobs came out equal ({how}){tail}"]
    lines += [
        f"differs     {d.job_id}  {d.what}: was {quoted(d.recorded, TEXT)}, is {quoted(d.replayed, TEXT)}"
        for d in report.differences[:shown]
    ]
    if report.differing and len(report.differences) > shown:
        lines.append(f"and more, in {report.differing} jobs")
    return lines


def same(one: Any, other: Any, tolerance: float) -> bool:
    """Whether a recorded value and its replay are equal, floats within the relative `tolerance`. Types must be equal.

    >>> same({"x": [1.0]}, {"x": [1.0 + 1e-12]}, 1e-9), same(1.0, 1.0 + 1e-12, 0.0)
    (True, False)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        # Runs of earlier versions measured the gap otherwise, or not at all; it follows from scores that are compared.
        names = one.keys() - {GAP}
        return names == other.keys() - {GAP} and all(same(one[key], other[key], tolerance) for key in names)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float) and tolerance:
        return math.isclose(one, other, rel_tol=tolerance)
    return type(one) is type(other) and bool(one == other)


def differences_of(
    recorded: RunLayout, replayed: RunLayout, before: Results, row: Results, tolerance: float
) -> Iterator[ReplayDifference]:
    """The differences of one job: columns, states, and the first line of the history. `tolerance` is relative."""
    for column in COLUMNS:
        if column in LATER and column not in before.model_fields_set:
            continue
        old, new = getattr(before, column), getattr(row, column)
        if column == "integrity_flags":
            old = " ".join(flag for flag in old.split() if flag not in OF_EARLIER_VERSIONS)
        if not same(old, new, max(tolerance, 1e-12) if column in SUMS else tolerance):
            yield _difference(row, column, old, new)
    try:
        was, now = recorded.job(row.job_id), replayed.job(row.job_id)
        for name in ("initial_state", "best_state", "final_state"):
            old, new = _state(getattr(was, name)), _state(getattr(now, name))
            if not same(old, new, tolerance):
                yield _difference(row, name, old, new)
        overlapping = any(_above_one(row.resolved_trainer_kwargs.get(name)) for name in THREADS)
        left_out = TIMES | SPENT if overlapping else TIMES
        old_lines, new_lines = _history(was.state_history, left_out), _history(now.state_history, left_out)
        for number, (a, b) in enumerate(zip_longest(old_lines, new_lines), start=1):
            if not same(a, b, tolerance):
                yield _line_difference(row, number, a, b, tolerance)
                return
    except (HarnessError, ValueError, OSError) as error:
        yield _difference(row, "files", None, f"{error}")


def _line_difference(
    row: Results, number: int, old: dict[str, Any] | None, new: dict[str, Any] | None, tolerance: float
) -> ReplayDifference:
    where = f"state_history line {number}"
    if old is None or new is None:
        return _difference(row, where, _brief(old), _brief(new))
    key = next(key for key in {**old, **new} if not same(old.get(key), new.get(key), tolerance))
    return _difference(row, f"{where}, {key}", old.get(key), new.get(key))


def _brief(line: dict[str, Any] | None) -> Any:
    return None if line is None else {key: line.get(key) for key in ("step", "candidate", "score")}


def _difference(row: Results, what: str, old: Any, new: Any) -> ReplayDifference:
    return ReplayDifference(job_id=row.job_id, what=what, recorded=_clipped(old), replayed=_clipped(new))


def _clipped(value: Any) -> Any:
    """`value`, or the beginning of a long text."""
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else dumps(value)
    return value if len(text) <= TEXT else text[:TEXT] + "…"


def same_machine(was: JobLayout, now: JobLayout, before: Results, row: Results) -> bool:
    """Whether both ran in the same image on the same CPU model, so that every bit must be equal."""
    cpus = {_cpu(was), _cpu(now)}
    return before.image_key == row.image_key and len(cpus) == 1 and cpus != {""}


def _cpu(job: JobLayout) -> str:
    try:
        meta = read_meta(job)
        return meta.cpu_model if meta is not None else ""
    except HarnessError:
        return ""


def _state(path: Path) -> dict[str, Any] | None:
    return read_state(path) if path.exists() else None


def _history(path: Path, left_out: frozenset[str]) -> Sequence[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in left_out} for line in read_journal(path).lines]


def _above_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1
