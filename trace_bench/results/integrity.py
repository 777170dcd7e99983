"""What a job's record says about how far its scores are to be believed.

Official scores are what the scorer found; nothing here changes one. A flag says: look at this job before you quote it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from trace_bench.artifacts.contract import Claim, ScorerFiles, StateKind, StateScores, WorkerIntegrity, WorkerResult
from trace_bench.artifacts.records import IntegrityReport

FLAGS: Mapping[str, str] = {
    "claim_differs": "training said of a saved state what the scorer did not find on the same examples",
    "suspicious_source": "the source of a scored state has what honest programs seldom need; read it",
    "left_processes": "a candidate left processes behind, which were killed before the next one started",
    "unswept": "a candidate's uid could not be emptied, and was retired",
    "scorer_changed": "a file that scoring depends on changed while it scored",
}
"""Every flag by name, and what it means. Documented in ``docs/design/integrity.md``."""

TOLERANCE = 1e-9


def integrity_report(result: WorkerResult | None, tolerance: float = TOLERANCE) -> IntegrityReport:
    """The report on one job.

    Args:
        tolerance: relative, of the task; what a claim and an official score may differ by.
    """
    if result is None:
        return IntegrityReport()
    said = result.integrity
    found = {kind: value for kind, claim in said.claims.items() if (value := _found(result, kind, claim)) is not None}
    return IntegrityReport(
        claims=said.claims,
        signs=said.signs,
        candidates=said.candidates,
        scorer_files=said.scorer_files,
        found=found,
        flags=tuple(_flags(said, found, tolerance)),
    )


def _flags(said: WorkerIntegrity, found: Mapping[StateKind, float], tolerance: float) -> list[str]:
    tallies = said.candidates.values()
    raised = {
        "claim_differs": any(
            not math.isclose(said.claims[kind].score, value, rel_tol=tolerance, abs_tol=tolerance)
            for kind, value in found.items()
        ),
        "suspicious_source": any(said.signs.values()),
        "left_processes": any(tally.left_processes for tally in tallies),
        "unswept": any(tally.unswept for tally in tallies),
        "scorer_changed": _changed(said.scorer_files),
    }
    return [flag for flag in FLAGS if raised[flag]]


def _changed(files: ScorerFiles | None) -> bool:
    return files is not None and not files.unchanged


def _found(result: WorkerResult, kind: StateKind, claim: Claim) -> float | None:
    """The scorer's mean over the examples of `claim`; None where it did not score all of them."""
    scores: StateScores | None = getattr(result.scores, kind)
    if scores is None or not claim.examples:
        return None
    official = {e.id: e.score for e in scores.examples if e.split == claim.split}
    if not official.keys() >= set(claim.examples):
        return None
    found = [official[i] for i in claim.examples]
    total = sum(found)
    # Scores at the end of the range of a double may have a mean there, and no sum.
    return total / len(found) if math.isfinite(total) else sum(score / len(found) for score in found)
