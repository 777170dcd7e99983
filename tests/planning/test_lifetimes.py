"""How long a job's sandbox may be there: by the job's own limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from trace_bench.artifacts.contract import JobLimits
from trace_bench.planning.prepare import MARGIN, most_seconds, outlives_a_day


def test_a_job_has_time_to_build_train_and_score_and_to_be_collected() -> None:
    limits = JobLimits(job_timeout=100.0, score_timeout=30.0)
    assert most_seconds(limits, lease=60.0) == 100 + 2 * 30 + 2 * 60 + MARGIN
    for without in ({"job_timeout": None}, {"score_timeout": None}):
        assert most_seconds(limits.model_copy(update=without), lease=60.0) is None


@pytest.mark.parametrize(
    ("job", "score", "mode", "longer"),
    [
        (600.0, 600.0, "real", False),
        (85_000.0, 600.0, "stub", True),
        (None, 600.0, "stub", False),
        (None, 600.0, "real", True),
    ],
)
def test_a_job_that_could_take_longer_than_a_day_is_told(
    job: float | None, score: float, mode: str, longer: bool
) -> None:
    planned = cast(Any, SimpleNamespace(limits={"job_timeout": job, "score_timeout": score}))
    assert outlives_a_day(planned, mode) is longer
