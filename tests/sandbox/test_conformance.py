"""Every backend passes the checks of `trace_bench.sandbox.conformance`, but for those that it says it cannot."""

from __future__ import annotations

import pytest

from tests.sandbox.conformance import CHECKS, Check, Lab

_all_checks = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)


@pytest.mark.docker
@_all_checks
def test_docker(docker_lab: Lab, check: Check) -> None:
    _pass(docker_lab, check)


@_all_checks
def test_local(local_lab: Lab, check: Check) -> None:
    _pass(local_lab, check)


def _pass(lab: Lab, check: Check) -> None:
    if (reason := check.lacking(lab)) is not None:
        pytest.skip(reason)
    check.run(lab)
