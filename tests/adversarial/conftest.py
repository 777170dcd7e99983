"""One run for all attacks that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversarial.campaign import Campaign, together, wage
from tests.integration.conftest import engine, home, images

__all__ = ["engine", "home", "images"]


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """The run that attacks, with each pair of attack and interaction that a collected test is about."""
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    pairs = {
        (call.params["attack"], call.params["interaction"]): None
        for call in calls
        if call is not None and {"attack", "interaction"} <= set(call.params)
    }
    return wage(tmp_path_factory.mktemp("campaign"), images, together(pairs))
