"""Whoever changes a published run is found out, also where the index of its files was made anew afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.audit.forged_jobs import JOB_FORGERIES
from tests.audit.forged_runs import RUN_FORGERIES
from tests.audit.forger import Forger, Forgery
from tests.audit.untraceable import UNTRACEABLE, Untraceable
from tests.console import here
from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.claims import AuditReport
from trace_bench.audit.verify import audit
from trace_bench.records.tables import write_files_index

FORGERIES = [*JOB_FORGERIES, *RUN_FORGERIES]
WITHOUT_INDEX = {
    "a_better_score_in_the_row_alone": "results.json",
    "another_best_state": "best_state.yaml",
    "a_call_that_is_gone": "llm.jsonl",
    "other_rules_of_a_scripted_model": "meta/scripts",
    "a_row_of_the_leaderboard_that_was_put_in": "leaderboard.csv",
    "a_state_that_is_gone": "final_state.yaml",
}
"""What an audit names where the index is the old one; one of each sort of file."""


def contradicted(report: AuditReport) -> dict[str, str]:
    """Claims that are, with all their evidence as text."""
    return {
        claim.claim: " ".join(json.dumps(evidence.model_dump(mode="json")) for evidence in claim.evidence)
        for claim in report.claims
        if claim.verdict == "contradicted"
    }


def test_nothing_is_said_against_a_run_that_nobody_changed(small: RunLayout) -> None:
    assert contradicted(audit(small)) == {}


def test_there_are_at_least_thirty_kinds() -> None:
    assert len({forgery.name for forgery in FORGERIES}) == len(FORGERIES) > 30


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name)
def test_tampering_is_found_although_the_index_was_made_anew(forger: Forger, forgery: Forgery) -> None:
    forgery.change(forger)
    forger.index()
    found = contradicted(audit(forger.run))
    said = [text for claim, text in found.items() if claim.startswith(forgery.claim)]
    assert said, found
    assert forgery.names in " ".join(said)


@pytest.mark.parametrize("name", WITHOUT_INDEX)
def test_the_index_gives_away_which_file_was_changed(forger: Forger, name: str) -> None:
    (forgery,) = (forgery for forgery in FORGERIES if forgery.name == name)
    forgery.change(forger)
    assert WITHOUT_INDEX[name] in contradicted(audit(forger.run))["files.hashes"]


def test_a_file_that_was_added_is_not_in_the_index(forger: Forger) -> None:
    (forger.good.root / "note.txt").write_text("it went well")
    assert "note.txt" in contradicted(audit(forger.run))["files.unlisted"]


def test_a_run_without_an_index_is_not_verified(forger: Forger) -> None:
    forger.run.files_index.unlink()
    (hashes,) = (claim for claim in audit(forger.run).claims if claim.claim == "files.hashes")
    assert hashes.verdict != "verified"


@pytest.mark.parametrize("forgery", UNTRACEABLE, ids=lambda forgery: forgery.name)
def test_what_leaves_no_trace_is_found_by_the_digest_alone(forger: Forger, forgery: Untraceable) -> None:
    """If one of these fails, an audit has learnt something: move it to the others, and out of docs/how-to/audit.md."""
    published = audit(forger.run).digest
    run = forgery.change(forger) or forger.run
    write_files_index(run)
    assert contradicted(audit(run, expect=published)).keys() == {"unknown.author"}


@pytest.mark.parametrize(
    "forgery", [f for f in UNTRACEABLE if f.found_by.startswith("reproduce")], ids=lambda forgery: forgery.name
)
def test_running_it_again_finds_what_an_audit_cannot(forger: Forger, forgery: Untraceable, tmp_path: Path) -> None:
    forgery.change(forger)
    forger.index()
    command, *options = forgery.found_by.split()
    again = ("--job", forger.good.job_id, "--backend", "local", "-o", str(tmp_path / "again"))
    done = here(command, str(forger.run.root), *options, *again)
    assert done.returncode == 1, done
