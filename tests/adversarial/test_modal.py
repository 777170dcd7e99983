"""The same attacks in sandboxes of Modal's loopback server: with what the service cannot set, a score is still nobody's
but the scorer's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adversarial.attacks.registry import ATTACKS
from tests.adversarial.campaign import Campaign, wage
from tests.adversarial.test_scores import test_the_score_is_not_the_attackers
from tests.integration.modal_runs import Pushed, on_modal, pushed, served

pytestmark = [pytest.mark.docker, pytest.mark.slow]
__all__ = ["pushed", "test_the_score_is_not_the_attackers"]


@pytest.fixture(scope="module")
def campaign(pushed: Pushed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    folder = tmp_path_factory.mktemp("campaign")
    pairs = [(one.name, one.interactions[at % len(one.interactions)]) for at, one in enumerate(ATTACKS.values())]
    with served(pushed) as server:
        yield wage(folder, pushed.home, pairs, config_of=on_modal(), environment=server.environment)
