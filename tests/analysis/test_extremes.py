"""Scores at the end of the range of a double: no table and no record breaks on their sums."""

from __future__ import annotations

import math

import pytest

from tests.analysis.folders import row
from tests.artifacts.samples import RESULT
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.records.integrity import integrity_report
from trace_bench.records.leaderboard import rank

LARGEST = 1.7e308


@pytest.mark.parametrize("scores", [(LARGEST, LARGEST), (LARGEST, -LARGEST), (-LARGEST,) * 5])
def test_the_leaderboard_has_a_mean_of_them(scores: tuple[float, ...]) -> None:
    (led,) = rank(row(n, score_best=score, score_initial=score, score_test=score) for n, score in enumerate(scores))
    assert math.isclose(led.score_mean, sum(score / len(scores) for score in scores))
    assert led.score_std is None or math.isfinite(led.score_std)


def test_a_claim_is_compared_with_their_mean() -> None:
    examples = [{"split": "validate", "id": f"v{n}", "score": LARGEST} for n in range(3)]
    said = {
        **RESULT,
        "scores": {"best": {"validate": LARGEST, "examples": examples}},
        "integrity": {"claims": {"best": {"score": LARGEST, "split": "validate", "examples": ["v0", "v1", "v2"]}}},
    }
    report = integrity_report(WorkerResult.model_validate(said))
    assert math.isclose(report.found["best"], LARGEST) and report.flags == ()
