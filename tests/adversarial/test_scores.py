"""Each attack by itself: its official score is the honest one or the failure score, its honest neighbour's is right,
and a failure says why."""

from __future__ import annotations

import pytest

from tests.adversarial.attacks import BY_HEART, HONEST, INTERACTIONS
from tests.adversarial.attacks.registry import ATTACKS
from tests.adversarial.campaign import SPLITS, Campaign, Job

pytestmark = pytest.mark.docker

PAIRS = [(attack.name, interaction) for attack in ATTACKS.values() for interaction in attack.interactions]


@pytest.mark.parametrize(("attack", "interaction"), PAIRS, ids=map("-".join, PAIRS))
def test_the_score_is_not_the_attackers(campaign: Campaign, attack: str, interaction: str) -> None:
    one, job = ATTACKS[attack], campaign.jobs[attack, interaction]
    assert interaction in INTERACTIONS
    assert (job.result["status"], job.result["feedback"] is not None) == ("ok", True), job.result["feedback"]
    outcome = one.outcome_for(interaction)
    examples = job.examples()
    told = [e.feedback for e in examples]
    if outcome == BY_HEART:
        check_what_is_known_by_heart(job)
        return
    for split in SPLITS:
        found = [e.score for e in examples if e.split == split]
        assert found == pytest.approx(job.expected(split, outcome), rel=1e-9), told
    failed = [e for e in examples if e.failed]
    assert len(failed) == (0 if outcome == HONEST else len(examples) // 2)
    assert all(one.says in e.feedback for e in failed), told
    assert len(job.meta["attempts"]) == 1, "a candidate's own failure is never a retry"


def check_what_is_known_by_heart(job: Job) -> None:
    """Training data come from the job's seed, no secret. Held-out data are one: there it is the honest score."""
    train = [e.score for e in job.examples() if e.split == "train" and not e.honest]
    assert sum(train) < sum(job.honest_scores("train"))
    assert [e.score for e in job.examples() if e.split == "test"] == job.expected("test", HONEST)


def test_the_official_score_is_the_mean_over_all_examples(campaign: Campaign) -> None:
    jobs = {job.folder: job for job in campaign.jobs.values()}
    assert jobs
    for job in jobs.values():
        for split, column in (("train", "score_initial"), ("test", "score_test")):
            scores = [e.score for e in job.all_examples() if e.split == split]
            assert job.result[column] == pytest.approx(sum(scores) / len(scores), rel=1e-9)


def test_an_honest_job_among_attacks_has_its_score_and_no_flag(campaign: Campaign) -> None:
    assert campaign.honest
    for job in campaign.honest:
        assert job.result["status"] == "ok", job.result["feedback"]
        for split in SPLITS:
            found = [e.score for e in job.examples() if e.split == split]
            assert found == pytest.approx(job.expected(split, HONEST), rel=1e-9)
        assert job.meta["integrity_report"]["flags"] == [] and job.result["integrity_flags"] == ""


def test_no_attack_shows_as_a_traceback_or_fails_the_run_in_another_way(campaign: Campaign) -> None:
    assert campaign.code == 0
    assert "Traceback" not in campaign.stderr + campaign.stdout
