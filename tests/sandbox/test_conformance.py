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


_LONG = {
    "forty_megabytes_go_in_by_the_stream_and_come_back_as_a_file",
    "frames_keep_their_order_both_ways_while_the_sandbox_is_busy",
    "names_of_all_kinds_come_back",
    "many_sandboxes_at_once",
    "sandbox_that_vanished_says_so_whatever_is_asked",
    "controller_that_was_killed_leaves_what_the_next_one_adopts",
    "exit_codes_come_back",
    "find_goes_by_labels_in_every_state",
    "attaching_to_a_torrent_tears_no_bytes",
    "wait_returns_none_after_its_timeout",
    "collect_brings_what_was_written_while_it_runs_and_afterwards",
    "folder_that_vanishes_while_it_is_collected_is_no_whole_folder",
    "cpu_time_stops_at_the_limit",
}
"""On Modal's loopback server: more than two seconds each. What they look at is tried on it elsewhere, on a smaller
scale (``tests/sandbox/modal``, ``tests/integration/test_modal.py``)."""


@pytest.mark.docker
@pytest.mark.parametrize(
    "check",
    [pytest.param(check, marks=pytest.mark.slow if check.name in _LONG else ()) for check in CHECKS],
    ids=lambda check: check.name,
)
def test_modal(modal_lab: Lab, check: Check) -> None:
    """The service's own client against a server of ours that runs each sandbox as a container."""
    _pass(modal_lab, check)


def _pass(lab: Lab, check: Check) -> None:
    if (reason := check.lacking(lab)) is not None:
        pytest.skip(reason)
    check.run(lab)
