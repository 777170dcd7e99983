"""Every backend does what `tests.sandbox.conformance` asks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sandbox.conformance import CHECKS, Lab

_all_checks = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@pytest.mark.docker
@_all_checks
def test_docker(docker_lab: Lab, check: Callable[[Lab], None]) -> None:
    check(docker_lab)


@_all_checks
def test_local(local_lab: Lab, check: Callable[[Lab], None]) -> None:
    check(local_lab)
