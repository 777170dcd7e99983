"""A machine as a remote engine, through a network device of its own: over TLS and over ssh, its cable pulled, its plug
pulled. The engine of this host is the other one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli
from tests.integration.faults import Trial, Undisturbed, finished, run_of, run_undisturbed
from tests.integration.test_faults import matrix
from tests.integration.test_hosts import TASKS, events, ran_on
from tests.integration.test_interruption import wait_for
from tests.vm.machine import Machine
from trace_bench.sandbox.labels import RUN

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SLOW = 1800.0
"""Seconds that a run has: the machine is emulated."""
CUT = 90.0
NEAR = {"url": os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock", "name": "near", "slots": 1}


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The same jobs on this host's engine."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return run_undisturbed(folder, images, spread(folder, [NEAR]))


def spread(folder: Path, hosts: list[dict[str, Any]]) -> Path:
    """Four jobs: those with a label on the machine, the others on either."""
    labelled = [{**host, "labels": ["far"]} if host["name"] == "far" or len(hosts) == 1 else host for host in hosts]
    tasks = [{**TASKS[0], "sandbox": {"labels": ["far"]}}, TASKS[1]]  # type: ignore[dict-item]
    return matrix(folder, tasks=tasks, seeds=[1, 2], max_workers=3, job_timeout=900, docker={"hosts": labelled})


def has_one_running(machine: Machine, folder: Path) -> Callable[[], bool]:
    return lambda: bool(machine.docker("ps", "-q", "--filter", f"label={RUN}={run_of(folder).name}").strip())


def left(trial: Trial, machine: Machine) -> list[str]:
    return machine.left(run_of(trial.folder).name)


def nothing_is_left(trial: Trial, machine: Machine) -> None:
    """Once the controller's leavings are swept, which waits for leases of sandboxes that it could not see."""

    def swept() -> bool:
        cleaned = cli("clean", "--config", str(trial.config), home=trial.home, timeout=300, **trial.env)
        assert cleaned.returncode == 0, cleaned.stderr
        return left(trial, machine) == []

    wait_for(swept, 300)


@pytest.mark.parametrize("way", ["tls", "ssh"])
def test_jobs_are_placed_on_it_with_images_that_it_is_given(
    bookworm: Machine, images: Path, tmp_path: Path, undisturbed: Undisturbed, way: str
) -> None:
    far = bookworm.tls_host if way == "tls" else bookworm.ssh_host
    bookworm.docker("rmi", "-f", *bookworm.docker("images", "-q", "trace-bench/core").split())
    trial = Trial(tmp_path, images, spread(tmp_path, [NEAR, far]), env={"PATH": bookworm.env["PATH"]})
    with trial.controller() as process:
        said = trial.ended(process, SLOW)
        assert process.returncode == 0, said
    assert said.count("far: copying trace-bench/core:") == said.count("far: copied trace-bench/core:") == 1
    trial.check(undisturbed)
    assert set(ran_on(tmp_path).values()) == {"near", "far"}
    assert left(trial, bookworm) == []


def test_a_link_that_is_cut_for_a_while_loses_nothing_and_pays_nothing_twice(
    bookworm: Machine, images: Path, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    trial = Trial(tmp_path, images, spread(tmp_path, [bookworm.tls_host]))
    with trial.controller() as process:
        wait_for(lambda: len(finished(tmp_path)) >= 1, SLOW)
        wait_for(has_one_running(bookworm, tmp_path), SLOW)
        bookworm.link("off")
        time.sleep(CUT)
        assert process.poll() is None, process.communicate()[1]
        bookworm.link("on")
        said = trial.ended(process, SLOW)
        assert process.returncode == 0, said
    trial.check(undisturbed)
    nothing_is_left(trial, bookworm)


def test_jobs_of_a_machine_whose_plug_is_pulled_are_done_on_the_other(
    bookworm: Machine, images: Path, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    labels = {"labels": ["far"]}  # so that the other may have them all
    trial = Trial(tmp_path, images, spread(tmp_path, [{**NEAR, **labels}, {**bookworm.tls_host, **labels}]))
    with trial.controller() as process:
        wait_for(lambda: len(finished(tmp_path)) >= 1, SLOW)
        wait_for(has_one_running(bookworm, tmp_path), SLOW)
        bookworm.pull_the_plug()
        said = trial.ended(process, SLOW)
        assert process.returncode == 0, said
    trial.check(undisturbed)
    assert [line["event"] for line in events(tmp_path) if line["event"].startswith("host.")] == ["host.lost"]
    bookworm.start("--same-disk")
    assert left(trial, bookworm) != [], "as its disk had them"
    nothing_is_left(trial, bookworm)
