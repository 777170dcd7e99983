"""Attacks that a search starts from: what they do while training goes on does not reach the official scores, nor the
honest program that the search finds after them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.adversarial.attacks import HONEST
from tests.adversarial.attacks.registry import ATTACKS
from tests.adversarial.campaign import SPLITS, Campaign, alone, wage

pytestmark = pytest.mark.docker
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 1, "num_proposals": 1}}
PAIRS = (
    ("os_exit", "solve"),
    ("fork_bomb", "solve"),
    ("patch_the_codec", "policy"),
    ("an_answer_that_is_a_score", "fit"),
    ("daemon", "solve"),
    ("two_answers", "fit"),
)


@pytest.fixture(scope="module")
def searched(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return wage(tmp_path_factory.mktemp("searched"), images, alone(PAIRS), trainers=[SEARCH])


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_what_an_attack_does_in_training_is_not_in_the_official_scores(searched: Campaign, name: str, way: str) -> None:
    job = searched.jobs[name, way]
    assert job.result["status"] == "ok", job.result["feedback"]
    outcome = ATTACKS[name].outcome_for(way)
    best = HONEST
    for state, expected in (("initial", outcome), ("best", best)):
        for split in SPLITS:
            found = [e.score for e in job.examples(state) if e.split == split]
            assert found == pytest.approx(job.expected(split, expected), rel=1e-9), (state, split)
    assert "claim_differs" not in job.meta["integrity_report"]["flags"]


def test_a_fork_bomb_leaves_the_score_of_the_job_beside_it_alone(searched: Campaign) -> None:
    bomb = searched.jobs["fork_bomb", "solve"]
    began, ended = _times(bomb.meta)
    beside = [
        job for job in [*searched.jobs.values(), *searched.honest] if job is not bomb and _met(job.meta, bomb.meta)
    ]
    assert beside, f"nothing else ran between {began} and {ended}"
    for job in beside:
        assert job.result["status"] == "ok"
        honest = [e for e in job.examples("best") if e.honest]
        assert [e.score for e in honest] == pytest.approx([s for split in SPLITS for s in job.honest_scores(split)])


def _times(meta: dict[str, str]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(meta["started_at"]), datetime.fromisoformat(meta["ended_at"])


def _met(one: dict[str, str], other: dict[str, str]) -> bool:
    (began, ended), (other_began, other_ended) = _times(one), _times(other)
    return began < other_ended and other_began < ended
