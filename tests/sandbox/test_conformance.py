"""Every backend passes the checks of `tests.sandbox.conformance`, except those of what it says that it cannot do. A
backend with a defect fails the check of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.conformance import CHECKS, Check, Lab, examine
from tests.sandbox.lab import SLEEP
from trace_bench.sandbox import Control, ExitStatus
from trace_bench.sandbox.errors import SandboxRemoved
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.local import LocalBackend, LocalSandbox

ALL = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
OF_MODAL = {
    "every_control_is_reported",
    "nothing_outside_can_be_reached",
    "stream_carries_all_bytes_exactly",
    "death_by_signal_is_128_plus_its_number",
    "kill_ends_grandchildren",
    "collect_follows_no_link",
    "remove_is_complete_and_harmless_twice",
} | ({check.name for check in CHECKS} if "TRACE_BENCH_MODAL_CONFIG" in os.environ else set())
"""One check of each part of the protocol, where each takes a second; all for an account (`scripts/check-modal`)."""
BY_NAME = {check.name: check for check in CHECKS}


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
    """The service's own client against a server of ours that runs each sandbox as a container, or an account."""
    _pass(modal_lab, BY_NAME[name])


def _pass(lab: Lab, check: Check) -> None:
    if (reason := check.reason_to_skip(lab)) is not None:
        pytest.skip(reason)
    check.run(lab)


def test_checks_have_names_of_their_own() -> None:
    assert len(BY_NAME) == len(CHECKS)


# ------------------------------------------------------------------------------------------------------------- defects


class Changed(LocalBackend):
    """Makes sandboxes of another class."""

    sandboxes: type[LocalSandbox] = LocalSandbox

    def create(self, request: Any) -> LocalSandbox:
        made = super().create(request)
        assert isinstance(made, LocalSandbox)
        made.__class__ = self.sandboxes
        return made


def without(*names: str) -> dict[str, str]:
    """What a backend says that it cannot do, if it says nothing of `names`."""
    return {name: why for name, why in LocalBackend.cannot.items() if name not in names}


class Both(LocalBackend):
    capabilities = frozenset({"network"})


class Neither(LocalBackend):
    cannot: Mapping[str, str] = without("pids")


class ClaimsNetwork(LocalBackend):
    capabilities = frozenset({"network"})
    cannot: Mapping[str, str] = without("network")


class ClaimsNofile(LocalBackend):
    capabilities = frozenset({"nofile"})
    cannot: Mapping[str, str] = without("nofile")


class LosesTheExitCode(Changed):
    class sandboxes(LocalSandbox):
        def wait(self, timeout: float) -> ExitStatus | None:
            ended = super().wait(timeout)
            return ended and ExitStatus(0, False, "")


class CollectsNothingOnceGone(Changed):
    class sandboxes(LocalSandbox):
        def collect(self) -> Iterator[bytes]:
            return super().collect() if self._folder.exists() else iter(())


class ReportsOneControlLess(Changed):
    class sandboxes(LocalSandbox):
        def controls(self) -> list[Control]:
            return super().controls()[1:]


@pytest.mark.parametrize(
    ("backend", "name", "says"),
    [
        (Both, "every_capability_is_declared_once", "says that it can and that it cannot: ['network']"),
        (Neither, "every_capability_is_declared_once", "neither that it can nor that it cannot: ['pids']"),
        (ClaimsNetwork, "nothing_outside_can_be_reached", ""),
        (ClaimsNetwork, "every_control_is_reported", "declared, and not in force: ['network']"),
        (ClaimsNofile, "every_control_is_reported", "declared, and not in force: ['nofile']"),
        (LosesTheExitCode, "exit_codes_come_back", ""),
        (CollectsNothingOnceGone, "remove_is_complete_and_harmless_twice", "expected SandboxRemoved"),
        (CollectsNothingOnceGone, "removed_sandbox_is_reported_by_every_call", "expected SandboxRemoved"),
        (ReportsOneControlLess, "every_control_is_reported", ""),
    ],
)
def test_a_defect_is_noticed(tmp_path: Path, backend: type[LocalBackend], name: str, says: str) -> None:
    (outcome,) = examine(Lab(backend(tmp_path), "none"), [BY_NAME[name]])
    assert outcome.state == "failed" and says in outcome.detail, outcome


def test_what_a_backend_cannot_do_is_skipped_with_its_own_reason(tmp_path: Path) -> None:
    (outcome,) = examine(Lab(LocalBackend(tmp_path), "none"), [BY_NAME["processes_stop_at_the_limit"]])
    assert outcome.state == "skipped"
    assert outcome.detail == f"the local backend has no pids: {LocalBackend.cannot['pids']}"


def test_a_sandbox_whose_removal_has_begun_is_no_sandbox_any_more(local_lab: Lab) -> None:
    """As a controller leaves it that dies in between: found, but neither to be collected nor to be adopted."""
    with local_lab.created(SLEEP) as sandbox:
        assert isinstance(sandbox, LocalSandbox)
        half = sandbox._folder.with_name(f".{sandbox.name}-0")
        sandbox._folder.rename(half)
        (found,) = local_lab.backend.find({JOB: sandbox.labels[JOB]})
        assert (found.status(), sandbox.status()) == ("removed", "removed")
        with pytest.raises(SandboxRemoved):
            found.collect()
        found.remove()
        assert not half.exists() and local_lab.backend.find({JOB: sandbox.labels[JOB]}) == []
