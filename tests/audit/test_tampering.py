"""Whoever changes a published run is found out, also where the index of its files was made anew afterwards."""

from __future__ import annotations

import json

import pytest

from tests.audit.forged_jobs import JOB_FORGERIES
from tests.audit.forged_runs import RUN_FORGERIES
from tests.audit.forger import Forger, Forgery
from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.claims import AuditReport
from trace_bench.audit.verify import audit

FORGERIES = [*JOB_FORGERIES, *RUN_FORGERIES]


def contradicted(report: AuditReport) -> dict[str, str]:
    """Claims that are, with all their evidence as text."""
    return {
        claim.claim: " ".join(json.dumps(evidence.model_dump(mode="json")) for evidence in claim.evidence)
        for claim in report.claims
        if claim.verdict == "contradicted"
    }


def test_nothing_is_said_against_a_run_that_nobody_changed(small: RunLayout) -> None:
    assert contradicted(audit(small)) == {}


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name)
def test_tampering_is_found(forger: Forger, forgery: Forgery) -> None:
    forgery.change(forger)
    if forgery.claim != "files.links":
        assert contradicted(audit(forger.run)).keys() & {"files.hashes", "files.unlisted"}
    forger.index()
    found = contradicted(audit(forger.run))
    said = [text for claim, text in found.items() if claim.startswith(forgery.claim)]
    assert said, found
    assert forgery.names in " ".join(said)


def test_there_are_at_least_thirty_kinds() -> None:
    assert len({forgery.name for forgery in FORGERIES}) == len(FORGERIES) > 30
