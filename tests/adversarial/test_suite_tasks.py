"""Attacks on shipped tasks, one of each kind, through their own evaluators."""

from __future__ import annotations

import pytest

from tests.adversarial.attacks import FAILED, HONEST
from tests.adversarial.attacks.registry import ATTACKS
from tests.adversarial.campaign import KINDS, SPLITS, Campaign, Job

pytestmark = pytest.mark.docker


def pairs() -> list[tuple[str, str]]:
    """Each attack on one of the kinds that it is for, by turns."""
    found = []
    for at, attack in enumerate(ATTACKS.values()):
        fitting = [name for name, kind in KINDS.items() if kind.interaction in attack.interactions]
        if fitting and not attack.by_guide:
            found.append((attack.name, fitting[at % len(fitting)]))
    return found


@pytest.mark.parametrize(("attack", "interaction"), pairs(), ids=map("-".join, pairs()))
def test_the_score_of_a_shipped_task_is_not_the_attackers(campaign: Campaign, attack: str, interaction: str) -> None:
    one, job = ATTACKS[attack], campaign.jobs[attack, interaction]
    assert job.result["status"] == "ok", job.result["feedback"]
    outcome = one.outcome_for(KINDS[interaction].interaction)
    for split in SPLITS:
        check_honest_neighbours(job, split)
        check_attacked(job, split, outcome)
    assert len(job.meta["attempts"]) == 1, "a candidate's own failure is never a retry"


def check_honest_neighbours(job: Job, split: str) -> None:
    found = [e.score for e in job.examples() if e.split == split and e.honest]
    assert found == pytest.approx(job.honest_scores(split), rel=1e-9)


def check_attacked(job: Job, split: str, outcome: str) -> None:
    """The honest score or that of a failure, and never a better one."""
    attacked = [e for e in job.examples() if e.split == split and not e.honest]
    for e, honest, failure in zip(attacked, job.honest_scores(split), job.failures(split), strict=True):
        close = (e.score == pytest.approx(honest, rel=1e-9), e.score == pytest.approx(failure, rel=1e-9))
        better = e.score > honest if job.result["score_direction"] == "maximize" else e.score < honest
        assert close[0] or close[1] or not better, (e.score, honest, failure, e.feedback)
        if outcome == HONEST and not e.failed:
            assert close[0], (e.score, honest)
        if outcome == FAILED:
            assert not better, e.feedback


def test_every_kind_is_attacked() -> None:
    assert {kind for _, kind in pairs()} == set(KINDS)
