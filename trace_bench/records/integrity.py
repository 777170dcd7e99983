"""Reports how far the scores of a job can be trusted.

Official scores are those that the scorer found; nothing here changes them. A flag means: look at the job before you
quote its score.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from trace_bench.artifacts.calls import SCORE_PHASE, Usage
from trace_bench.artifacts.outputs import Claim, Failure, StateKind, StateScores, WorkerResult
from trace_bench.artifacts.records import IntegrityReport, JobMeta, Results
from trace_bench.worker.objective import finite_mean

FLAGS: Mapping[str, str] = {
    "claim_differs": "training said of a saved state what the scorer did not find on the same examples",
    "suspicious_source": "the source of a scored state has unusual code (only in runs of earlier versions)",
    "needs_files": "the task lets programs read files",
    "needs_processes": "the task lets programs start processes",
    "left_processes": "a candidate left processes behind, which were killed (only in runs of earlier versions)",
    "unswept": "a candidate's uid could not be emptied, and was retired",
    "scorer_changed": "a file that scoring depends on changed while it scored",
}
"""Every flag by name, and what it means. Documented in ``docs/design/integrity.md``."""
OF_EARLIER_VERSIONS = frozenset({"suspicious_source", "left_processes"})
"""Flags that new runs do not have."""

MARK = " !"
"""Mark behind the score of a flagged job, in every table."""
WITHHELD = frozenset({"scorer_changed", "not_recorded"})
"""Kinds of failures after which no score of the job counts or is shown."""
TOLERANCE = 1e-9
PAGE = "docs/design/integrity.md"


def integrity_report(
    result: WorkerResult | None, tolerance: float = TOLERANCE, *, comparable: bool = True
) -> IntegrityReport:
    """The report on one job.

    Args:
        tolerance: relative difference that the task allows between two scores of one example.
        comparable: the same state must get the same scores again. Otherwise (if scores depend on time, or on the
            answers of a model) differing claims are recorded, and cause no flag.
    """
    if result is None:
        return IntegrityReport()
    said = result.integrity
    scored = {kind: scores for kind, claim in said.claims.items() if (scores := _scored(result, kind, claim))}
    differing = [kind for kind, scores in scored.items() if _differs(said.claims[kind].score, scores, tolerance)]
    tallies = said.candidates.values()
    raised = {
        "claim_differs": comparable and bool(differing),
        "suspicious_source": any(said.signs.values()),
        "needs_files": any("files" in tally.needs for tally in tallies),
        "needs_processes": any("processes" in tally.needs for tally in tallies),
        "left_processes": any(tally.left_processes for tally in tallies),
        "unswept": any(tally.unswept for tally in tallies),
        "scorer_changed": said.scorer_files is not None and not said.scorer_files.unchanged,
    }
    return IntegrityReport(
        claims=said.claims,
        signs=said.signs,
        candidates=said.candidates,
        scorer_files=said.scorer_files,
        found={kind: finite_mean(scores) for kind, scores in scored.items()},
        flags=tuple(flag for flag in FLAGS if raised[flag]),
    )


def job_integrity(result: WorkerResult | None, meta: JobMeta, usage_by_phase: Mapping[str, Usage]) -> IntegrityReport:
    """The report for the record `meta` of a job, whose phases used models as `usage_by_phase` says."""
    comparable = not (meta.timing_sensitive or scoring_used_model(usage_by_phase))
    return integrity_report(result, meta.tolerance, comparable=comparable)


def scoring_used_model(usage_by_phase: Mapping[str, Usage]) -> bool:
    """Whether scoring called a model, whose answers can differ from those during training."""
    scoring = usage_by_phase.get(SCORE_PHASE, Usage())
    return bool(scoring.calls or scoring.reused or scoring.refused)


def is_withheld(failure: Failure | None, report: IntegrityReport) -> bool:
    """Whether no score of the job may be shown: its scorer was changed, or a replay lacked recorded answers."""
    return "scorer_changed" in report.flags or (failure is not None and failure.kind in WITHHELD)


def flags_of(row: Results) -> list[str]:
    """The flags of a row: the known ones first, then a few of the others, which are untrusted."""
    words = set(row.integrity_flags.split())
    return [flag for flag in FLAGS if flag in words] + sorted({word[:60] for word in words - FLAGS.keys()})[:9]


def flag_counts(rows: Iterable[Results]) -> dict[str, int]:
    """Jobs by flag."""
    counts = Counter(flag for row in rows for flag in flags_of(row))
    known = [flag for flag in FLAGS if counts[flag]]
    return {flag: counts[flag] for flag in [*known, *sorted(counts.keys() - FLAGS.keys())]}


def flags_sentence(rows: Iterable[Results]) -> str:
    """The explanation of the mark in a table of `rows`; empty if no row is flagged."""
    rows = list(rows)
    counts = flag_counts(rows)
    if not counts:
        return ""
    number = sum(bool(row.integrity_flags) for row in rows)
    jobs = "1 job is" if number == 1 else f"{number} jobs are"
    names = ", ".join(f"{count} {flag}" for flag, count in counts.items())
    return f"!: {jobs} flagged ({names}): look at the job before you quote its score; show RUN JOB says why, and {PAGE}"


def _scored(result: WorkerResult, kind: StateKind, claim: Claim) -> list[float]:
    """The official score of each example of the claim, with repetitions; empty if the scorer did not score all."""
    scores: StateScores | None = getattr(result.scores, kind)
    if scores is None:
        return []
    official = {e.id: e.score for e in scores.examples if e.split == claim.split}
    if not official.keys() >= set(claim.examples):
        return []
    return [official[i] for i in claim.examples]


def _differs(claimed: float, scores: Sequence[float], tolerance: float) -> bool:
    """Whether `claimed` cannot be the mean of `scores`, each of which can differ by `tolerance` of itself.

    The tolerance is relative to the sizes of the scores, not to their mean, which is small if they cancel. The effect
    of another order of addition is allowed too.
    """
    if tolerance >= 1:
        return False
    rounding = 4 * len(scores) * sys.float_info.epsilon
    allowed = (tolerance / (1 - tolerance) + rounding) * finite_mean([abs(score) for score in scores])
    return abs(claimed / 2 - finite_mean(scores) / 2) > allowed / 2  # halves: the difference may be beyond a double
