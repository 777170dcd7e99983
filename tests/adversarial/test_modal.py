"""The same attacks in sandboxes of Modal's loopback server: with what the service cannot set, a score is still nobody's
but the scorer's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adversarial import test_scores as scores
from tests.adversarial.attacks.registry import ATTACKS
from tests.adversarial.campaign import Campaign, together, wage
from tests.integration.modal_runs import Pushed, on_modal, pushed, served

pytestmark = [pytest.mark.docker, pytest.mark.slow]
__all__ = ["pushed"]

PAIRS = [(one.name, one.interactions[at % len(one.interactions)]) for at, one in enumerate(ATTACKS.values())]
"""Every attack in one interaction, by turns."""


@pytest.fixture(scope="module")
def campaign(pushed: Pushed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    folder = tmp_path_factory.mktemp("campaign")
    with served(pushed) as server:
        yield wage(folder, pushed.home, together(PAIRS), config_of=on_modal(), environment=server.environment)


@pytest.mark.parametrize(("attack", "interaction"), PAIRS)
def test_the_score_is_not_the_attackers(campaign: Campaign, attack: str, interaction: str) -> None:
    scores.test_the_score_is_not_the_attackers(campaign, attack, interaction)


def test_an_honest_job_among_attacks_has_its_score_and_no_flag(campaign: Campaign) -> None:
    scores.test_an_honest_job_among_attacks_has_its_score_and_no_flag(campaign)
