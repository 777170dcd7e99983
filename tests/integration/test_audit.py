"""Audits of runs in containers."""

from __future__ import annotations

import pytest

from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.verify import audit

pytestmark = pytest.mark.docker


@pytest.mark.slow
def test_a_run_in_containers_is_verified_as_far_as_files_can_tell(recorded_in_containers: RunLayout) -> None:
    report = audit(recorded_in_containers)
    verdicts = {claim.claim: claim.verdict for claim in report.claims}
    assert report.ok, report.contradicted
    unverifiable = {claim for claim, verdict in verdicts.items() if verdict != "verified"}
    assert unverifiable - {"identity.git"} == {"unknown.provider", "unknown.scores", "unknown.author"}
    # None of the jobs is unprotected: there is a leaderboard to be checked.
    assert verdicts["tables.leaderboard"] == verdicts["conduct.controls"] == "verified"
