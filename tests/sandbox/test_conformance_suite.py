"""The checks for backends notice what they are there for: backends that say one thing and do another fail them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.console import here
from tests.integration.cli import cli
from tests.sandbox.conformance import CHECKS, Lab
from trace_bench.sandbox import Control, ExitStatus
from trace_bench.sandbox.conformance import Outcome, examine
from trace_bench.sandbox.local import STATE_DIR_VARIABLE, LocalBackend, LocalSandbox

BY_NAME = {check.name: check for check in CHECKS}


def outcome(backend: LocalBackend, check: str) -> Outcome:
    (found,) = examine(Lab(backend, "none"), [BY_NAME[check]])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sandboxes"


DECLARED = "every_capability_is_declared_once"


def test_who_says_that_he_can_and_that_he_cannot_fails(folder: Path) -> None:
    class Both(LocalBackend):
        capabilities = frozenset({"network"})

    found = outcome(Both(folder), DECLARED)
    assert found.state == "failed" and "says that it can and that it cannot: ['network']" in found.detail


def test_who_says_neither_fails(folder: Path) -> None:
    class Neither(LocalBackend):
        cannot: Mapping[str, str] = {name: why for name, why in LocalBackend.cannot.items() if name != "pids"}

    found = outcome(Neither(folder), DECLARED)
    assert found.state == "failed" and "neither that it can nor that it cannot: ['pids']" in found.detail


@pytest.mark.parametrize(
    ("control", "check"),
    [
        ("network", "nothing_outside_can_be_reached"),
        ("network", "every_control_is_reported"),
        ("nofile", "every_control_is_reported"),
    ],
)
def test_who_claims_what_he_does_not_do_fails(folder: Path, control: str, check: str) -> None:
    class Boaster(LocalBackend):
        capabilities = frozenset({control})
        cannot: Mapping[str, str] = {name: why for name, why in LocalBackend.cannot.items() if name != control}

    assert outcome(Boaster(folder), check).state == "failed"


def test_who_cannot_is_skipped_with_his_own_reason(folder: Path) -> None:
    found = outcome(LocalBackend(folder), "processes_stop_at_the_limit")
    assert found.state == "skipped"
    assert found.detail == f"the local backend has no pids: {LocalBackend.cannot['pids']}"


class Changed(LocalBackend):
    """Makes sandboxes of a class of its own."""

    sandboxes: type[LocalSandbox] = LocalSandbox

    def create(self, request):  # type: ignore[no-untyped-def]
        made = super().create(request)
        made.__class__ = self.sandboxes
        return made


class LosesTheExitCode(LocalSandbox):
    def wait(self, timeout: float) -> ExitStatus | None:
        ended = super().wait(timeout)
        return ended and ExitStatus(0, False, "")


class CollectsNothingOnceGone(LocalSandbox):
    def collect(self) -> Iterator[bytes]:
        return super().collect() if self._folder.exists() else iter(())


class ReportsNoControl(LocalSandbox):
    def controls(self) -> list[Control]:
        return super().controls()[1:]


@pytest.mark.parametrize(
    ("sandboxes", "check"),
    [
        (LosesTheExitCode, "exit_codes_come_back"),
        (CollectsNothingOnceGone, "remove_is_complete_and_harmless_twice"),
        (CollectsNothingOnceGone, "removed_sandbox_is_reported_by_every_call"),
        (ReportsNoControl, "every_control_is_reported"),
    ],
)
def test_a_defect_is_noticed(folder: Path, sandboxes: type[LocalSandbox], check: str) -> None:
    backend = Changed(folder)
    backend.sandboxes = sandboxes
    assert outcome(LocalBackend(folder), check).state == "passed"
    assert outcome(backend, check).state == "failed"


def test_a_sandbox_whose_removal_has_begun_is_no_sandbox_any_more(local_lab: Lab) -> None:
    """As a controller leaves it that dies in between: found, but neither to be collected nor to be adopted."""
    from tests.sandbox.conformance import SLEEP
    from trace_bench.sandbox.errors import SandboxRemoved
    from trace_bench.sandbox.labels import JOB

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


def test_without_assertions_nothing_is_said_to_be_right() -> None:
    code = (
        "from trace_bench.sandbox.conformance import Lab, examine\n"
        "from trace_bench.sandbox.local import LocalBackend\n"
        "next(examine(Lab(LocalBackend(), 'none')))\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert done.returncode != 0 and "run them without -O" in done.stderr


def test_doctor_runs_the_checks(tmp_path: Path) -> None:
    env = {STATE_DIR_VARIABLE: str(tmp_path / "state")}
    done = cli("doctor", "--conformance", "--backend", "local", "--only", "limit", **env)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok      memory_stops_at_the_limit" in lines
    assert any(line.startswith("skipped processes_stop_at_the_limit: the local backend has no pids") for line in lines)
    assert lines[-1].startswith("local: ") and " 0 failed, " in lines[-1]
    as_json = json.loads(
        cli("doctor", "--conformance", "--backend", "local", "--only", "description", "--json", **env).stdout
    )
    assert as_json == [{"check": "description_is_plain_json", "state": "passed", "detail": ""}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--conformance", "--only", "zzz"), "no check has 'zzz' in its name"),
        (("--only", "x"), "go with --conformance"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = here("doctor", *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
