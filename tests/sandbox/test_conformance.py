"""Every backend passes the checks of `trace_bench.sandbox.conformance`, but for those that it says it cannot."""

from __future__ import annotations

import pytest

from tests.sandbox.conformance import CHECKS, Check, Lab


@pytest.mark.docker
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_docker(docker_lab: Lab, check: Check) -> None:
    _pass(docker_lab, check)


_SHORT = {
    "every_capability_is_declared_once",
    "every_control_is_reported",
    "required_controls_that_it_lacks_are_refused",
    "host_environment_stays_outside",
    "nothing_outside_can_be_reached",
    "stream_carries_all_bytes_exactly",
    "stdout_ends_with_the_command",
    "stderr_is_kept_apart",
    "death_by_signal_is_128_plus_its_number",
    "kill_ends_grandchildren",
    "status_follows_the_life_of_a_sandbox",
    "collect_follows_no_link",
    "labels_come_back_as_they_were_given",
    "remove_is_complete_and_harmless_twice",
}
"""What is tried on other backends than Docker without --full: one check of each part of the protocol."""
_SHORTER = {
    "every_control_is_reported",
    "nothing_outside_can_be_reached",
    "stream_carries_all_bytes_exactly",
    "death_by_signal_is_128_plus_its_number",
    "kill_ends_grandchildren",
    "collect_follows_no_link",
    "remove_is_complete_and_harmless_twice",
}
"""Of those, what is tried where each takes a second."""


def _only(names: set[str]) -> pytest.MarkDecorator:
    """All checks; those with other names are slow."""
    checks = [pytest.param(check, marks=() if check.name in names else pytest.mark.slow) for check in CHECKS]
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.name)


@_only(_SHORT)
def test_local(local_lab: Lab, check: Check) -> None:
    _pass(local_lab, check)


def test_the_short_run_names_checks_that_there_are() -> None:
    assert {check.name for check in CHECKS} >= _SHORT >= _SHORTER


@pytest.mark.docker
@_only(_SHORTER)
def test_modal(modal_lab: Lab, check: Check) -> None:
    """The service's own client against a server of ours that runs each sandbox as a container."""
    _pass(modal_lab, check)


def _pass(lab: Lab, check: Check) -> None:
    if (reason := check.lacking(lab)) is not None:
        pytest.skip(reason)
    check.run(lab)
