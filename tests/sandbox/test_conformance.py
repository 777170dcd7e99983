"""Every backend passes the checks of `trace_bench.sandbox.conformance`, but for those that it says it cannot."""

from __future__ import annotations

import pytest

from tests.sandbox.conformance import CHECKS, Check, Lab

ALL = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
OF_MODAL = {
    "every_control_is_reported",
    "nothing_outside_can_be_reached",
    "stream_carries_all_bytes_exactly",
    "death_by_signal_is_128_plus_its_number",
    "kill_ends_grandchildren",
    "collect_follows_no_link",
    "remove_is_complete_and_harmless_twice",
}
"""One check of each part of the protocol, where each takes a second."""


@pytest.mark.docker
@ALL
def test_docker(docker_lab: Lab, check: Check) -> None:
    _pass(docker_lab, check)


@ALL
def test_local(local_lab: Lab, check: Check) -> None:
    _pass(local_lab, check)


@pytest.mark.docker
@pytest.mark.parametrize("name", sorted(OF_MODAL))
def test_modal(modal_lab: Lab, name: str) -> None:
    """The service's own client against a server of ours that runs each sandbox as a container."""
    (check,) = (check for check in CHECKS if check.name == name)
    _pass(modal_lab, check)


def _pass(lab: Lab, check: Check) -> None:
    if (reason := check.lacking(lab)) is not None:
        pytest.skip(reason)
    check.run(lab)
