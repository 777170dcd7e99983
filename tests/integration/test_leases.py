"""Leases as jobs see them: whole devices, pinned cores and a quiet engine, among controllers that know nothing of each
other. Stand-ins for GPUs are device nodes of this machine."""

from __future__ import annotations

import json
import os
import secrets
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import assert_refused
from tests.integration.cli import TASKS, cli, run, start, write_config
from tests.integration.test_interruption import wait_for
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.labels import DEVICES, RUN

pytestmark = pytest.mark.docker
SOCKET = "unix:///var/run/docker.sock"
ZERO = os.makedev(1, 5)


@pytest.fixture
def devices() -> Iterator[tuple[str, ...]]:
    """Two device nodes of names of their own, for one engine of this machine to give."""
    if os.geteuid() != 0 or not Path(SOCKET.removeprefix("unix://")).is_socket():
        pytest.skip("device nodes need root, and an engine on this machine")
    mark = secrets.token_hex(4)
    paths = tuple(f"/dev/trace-bench-test-{mark}-{number}" for number in range(2))
    try:
        for path in paths:
            os.mknod(path, 0o666 | stat.S_IFCHR, ZERO)
            Path(path).chmod(0o666)
        yield paths
    finally:
        for path in paths:
            Path(path).unlink(missing_ok=True)


def config(folder: Path, devices: Sequence[str], seconds: float = 0.5, **more: Any) -> Path:
    """Jobs that say what they hold, and hold it for so long."""
    folder.mkdir(exist_ok=True)
    return write_config(
        folder,
        tasks=[{"id": "internal:held", "eval_kwargs": {"seconds": seconds}}],
        trainers=["NoOp"],
        **{"docker": {"hosts": [{"url": SOCKET, "name": "here", "gpus": list(devices)}]}, **more},
    )


def controller(path: Path, home: Path, *arguments: str) -> subprocess.Popen[str]:
    return start("run", "--config", str(path), "--root", str(TASKS), *arguments, home=home)


def ended(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said


def held(folder: Path) -> list[dict[str, Any]]:
    """What the jobs of all runs below `folder` said, each with its ``meta``."""
    found = []
    for log in folder.glob("runs/*/jobs/*/stdout.log"):
        meta = json.loads(log.with_name("job_meta.json").read_text())
        lines = [line for line in log.read_text().splitlines() if line.startswith("HELD")]
        found += [{**json.loads(line.removeprefix("HELD ")), "meta": meta} for line in lines]
    return found


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["begin"] < other["end"] and other["begin"] < one["end"])


def test_two_controllers_never_give_one_device_or_core_to_two_jobs_at_once(
    images: Path, tmp_path: Path, devices: tuple[str, ...]
) -> None:
    sandbox = {"gpus": 1, "pinned": True, "cpus": 1}
    paths = [config(tmp_path / name, devices, sandbox=sandbox, seeds=[1, 2], max_workers=2) for name in ("one", "two")]
    both = [controller(path, images, "-q") for path in paths]
    for process in both:
        ended(process)
    jobs = [job for name in ("one", "two") for job in held(tmp_path / name)]
    assert len(jobs) == 4
    for job in jobs:
        assert len(job["devices"]) == 1 and job["usable"] == job["devices"] == job["meta"]["devices"]
        assert [job["cores"]] == [str(core) for core in job["meta"]["cpuset"]], "one core, the one that is leased"
        said = {control["name"]: control for control in job["meta"]["controls"]}
        assert said["mounts"]["in_force"] and job["devices"][0] in said["mounts"]["detail"]
        assert said["cpus"]["in_force"] and f"on cores {job['cores']}" in said["cpus"]["detail"]
    for one, other in combinations(jobs, 2):
        shared = one["devices"] == other["devices"] or one["cores"] == other["cores"]
        assert not (shared and overlap(one, other)), (one, other)
    assert {job["devices"][0] for job in jobs} == set(devices)


def test_what_a_killed_controllers_sandbox_holds_is_free_once_it_has_ended(
    images: Path, tmp_path: Path, devices: tuple[str, ...]
) -> None:
    """It is adopted in between: the lease goes with it."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
    first = config(tmp_path / "first", devices[:1], 3.0, sandbox={"gpus": 1}, run_id=name)
    backend = DockerBackend()
    process = controller(first, images)
    try:
        wait_for(lambda: [box for box in backend.find({RUN: name}) if box.status() == "running"])
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (sandbox,) = backend.find({RUN: name})
    assert sandbox.labels[DEVICES] == devices[0] and devices[0] in backend.taken("").devices
    other = controller(config(tmp_path / "other", devices[:1], 0.1, sandbox={"gpus": 1}), images)
    try:
        ended(controller(first, images, "-q"))
        ended(other)
    finally:
        other.kill()
        other.communicate()
    (mine,), (theirs,) = held(tmp_path / "first"), held(tmp_path / "other")
    assert len(mine["meta"]["attempts"]) == 1, "it was adopted, and not begun again"
    assert mine["meta"]["devices"] == theirs["meta"]["devices"] == [devices[0]]
    assert theirs["begin"] > mine["end"]


def test_an_exclusive_job_is_alone_and_gets_its_turn(images: Path, tmp_path: Path, devices: tuple[str, ...]) -> None:
    """Two jobs of another controller are always there, which would never let it begin."""
    busy = controller(config(tmp_path / "busy", (), 0.3, seeds=list(range(6)), max_workers=2), images, "-q")
    try:
        wait_for(lambda: held(tmp_path / "busy"))
        ended(controller(config(tmp_path / "quiet", (), sandbox={"exclusive": True}), images, "-q"))
        assert busy.poll() is None, "it did not have to wait for all of them"
        ended(busy)
    finally:
        busy.kill()
        busy.communicate()
    (alone,) = held(tmp_path / "quiet")
    others = held(tmp_path / "busy")
    assert len(others) == 6 and not any(overlap(alone, other) for other in others)


def test_what_no_host_has_is_said_before_anything_starts(images: Path, tmp_path: Path) -> None:
    hosts = [{"url": SOCKET, "name": "here", "gpus": ["0"]}]
    task = {"id": "internal:numeric_param", "sandbox": {"gpus": 2}}
    path = write_config(tmp_path, tasks=[task], trainers=["NoOp"], docker={"hosts": hosts})
    done = cli("run", "--config", str(path), "-q", home=images)
    assert_refused(done, 2)
    assert "no host can run internal:numeric_param: here has 1 GPU, not 2" in done.stderr
    assert "tasks[0].sandbox" in done.stderr or "tasks.0.sandbox" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.gpu
def test_a_real_gpu_reaches_the_job_that_has_leased_it(images: Path, tmp_path: Path) -> None:
    (host,) = DockerBackend().hosts()
    if not host.gpus:
        pytest.skip("nobody can tell that this engine has GPUs")
    got = run(tmp_path, images, tasks=["internal:numeric_param"], trainers=["NoOp"], sandbox={"gpus": 1})
    meta = json.loads(Path(got["folder"], "jobs", got["jobs"][0]["job_id"], "job_meta.json").read_text())
    assert got["code"] == 0 and len(meta["devices"]) == 1 and meta["devices"][0] in host.gpus
