"""Leases as jobs see them: whole devices, pinned cores and a quiet engine, among controllers that know nothing of each
other. Stand-ins for GPUs are device nodes of this machine."""

from __future__ import annotations

import json
import os
import secrets
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import assert_refused
from tests.engine import BASE_IMAGE, base_image
from tests.engines import engines
from tests.integration.cli import REPOSITORY, TASKS, cli, run, start, write_config
from tests.integration.test_interruption import wait_for
from tests.sandbox.conformance import Lab, read_all
from trace_bench.sandbox.base import Resources
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.errors import GpusMissing, LeaseLost
from trace_bench.sandbox.labels import DEVICES, RUN
from trace_bench.sandbox.local import STATE_DIR_VARIABLE
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE

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
    journal = next((tmp_path / "other").glob("runs/*/events.jsonl")).read_text()
    assert [line["event"] for line in map(json.loads, journal.splitlines())][1:3] == ["lease.wait", "job.start"]
    assert len(mine["meta"]["attempts"]) == 1, "it was adopted, and not begun again"
    assert mine["meta"]["devices"] == theirs["meta"]["devices"] == [devices[0]]
    assert theirs["begin"] > mine["end"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", pytest.param("docker", marks=pytest.mark.slow)])
def test_an_exclusive_job_is_alone_and_gets_its_turn(
    backend: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs of another controller are always there, which would never let it begin. On an engine it waits for
    whoever else uses that, and they for it; local sandboxes and locks of its own are nobody else's."""
    if backend == "local":
        monkeypatch.setenv(LOCK_DIR_VARIABLE, str(tmp_path))
        monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    where = {"backend": backend, "docker": {}}
    busy = controller(config(tmp_path / "busy", (), 0.7, seeds=list(range(10)), max_workers=2, **where), images, "-q")
    try:
        wait_for(lambda: held(tmp_path / "busy"))
        ended(controller(config(tmp_path / "quiet", (), sandbox={"exclusive": True}, **where), images, "-q"))
        assert busy.poll() is None, "it did not have to wait for all of them"
        ended(busy)
    finally:
        busy.kill()
        busy.communicate()
    alone, others = held(tmp_path / "quiet"), held(tmp_path / "busy")
    assert alone and len({job["meta"]["seed"] for job in others}) == 10
    assert not any(overlap(one, other) for one in alone for other in others)


def test_a_sandbox_is_not_made_with_what_a_controller_of_another_machine_has(devices: tuple[str, ...]) -> None:
    """Its locks are elsewhere; its container is here."""
    lab = Lab(DockerBackend(), base_image())
    resources = Resources(gpus=1, memory_bytes=64 << 20, pids=16)
    try:
        theirs = lab.backend.create(lab.request("", gpu_names=devices[:1], resources=resources))
        with pytest.raises(LeaseLost, match="at the same moment"):
            lab.backend.create(lab.request("", gpu_names=devices[:1], resources=resources))
        lab.backend.create(lab.request("", gpu_names=devices[1:], resources=resources)).remove()
        assert [box.id for box in lab.backend.find({RUN: lab.run})] == [theirs.id], "the refused one leaves nothing"
    finally:
        lab.sweep()


def test_what_no_host_has_is_said_before_anything_starts(images: Path, tmp_path: Path) -> None:
    hosts = [{"url": SOCKET, "name": "here", "gpus": ["0"]}]
    task = {"id": "internal:numeric_param", "sandbox": {"gpus": 2}}
    path = write_config(tmp_path, tasks=[task], trainers=["NoOp"], docker={"hosts": hosts})
    done = cli("run", "--config", str(path), "-q", home=images)
    assert_refused(done, 2)
    assert "no host can run internal:numeric_param: here has 1 GPU, not 2" in done.stderr
    assert "tasks[0].sandbox" in done.stderr or "tasks.0.sandbox" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def newer_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 13's engine (26) goes before the installed one."""
    script = str(REPOSITORY / "scripts" / "second-engine")
    with tempfile.TemporaryDirectory(
        prefix="tb-newer-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:  # names of sockets must be short
        for name in ("RUN", "DATA"):
            monkeypatch.setenv(f"TRACE_BENCH_ENGINE26_{name}", f"{folder}/{name.lower()}")
        done = subprocess.run([script, "start"], capture_output=True, text=True, timeout=600)
        subprocess.run([script, "stop", "--purge"], capture_output=True, timeout=120)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    default = Path.home() / ".cache" / "trace-bench" / "engine26"
    root = Path(os.environ.get("TRACE_BENCH_ENGINE26_CACHE", default)) / "root"
    monkeypatch.setenv("PATH", f"{root}/usr/sbin:{os.environ['PATH']}")


@pytest.mark.slow
def test_a_cdi_device_reaches_the_sandbox_and_no_other_does(
    devices: tuple[str, ...], newer_programs: None, tmp_path: Path
) -> None:
    """As NVIDIA's toolkit describes GPUs to newer engines, here with stand-ins."""
    (tmp_path / "cdi").mkdir()
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "trace-bench.test/gpu",
        "devices": [
            {"name": str(n), "containerEdits": {"deviceNodes": [{"path": path}]}} for n, path in enumerate(devices)
        ],
    }
    (tmp_path / "cdi" / "stand-ins.json").write_text(json.dumps(spec))
    settings = {"features": {"cdi": True}, "cdi-spec-dirs": [str(tmp_path / "cdi")]}
    look = "say(' '.join(p for p in sorted(os.listdir('/dev')) if p.startswith('trace-bench-test-')))"
    with engines(1, settings=settings) as (engine,):
        engine.load(base_image())
        lab = Lab(DockerBackend(engine.url, gpus=("trace-bench.test/gpu=0", "trace-bench.test/gpu=1")), BASE_IMAGE)
        for number, path in enumerate(devices):
            asked = {"gpu_names": (f"trace-bench.test/gpu={number}",), "resources": Resources(gpus=1, pids=64)}
            with lab.running(look, **asked) as (sandbox, stream):
                assert read_all(stream).decode().split() == [path.removeprefix("/dev/")]
                (mounts,) = [control for control in sandbox.controls() if control.name == "mounts"]
                assert mounts.in_force and mounts.detail.endswith(f"; GPU trace-bench.test/gpu={number}")
        missing = {"gpu_names": ("trace-bench.test/gpu=7",), "resources": Resources(gpus=1, pids=64)}
        with pytest.raises(GpusMissing), lab.running(look, **missing):
            pytest.fail("it has started")
        lab.sweep()


@pytest.mark.gpu
def test_a_real_gpu_reaches_the_job_that_has_leased_it(images: Path, tmp_path: Path) -> None:
    (host,) = DockerBackend().hosts()
    if not host.gpus:
        pytest.skip("nobody can tell that this engine has GPUs")
    got = run(tmp_path, images, tasks=["internal:numeric_param"], trainers=["NoOp"], sandbox={"gpus": 1})
    meta = json.loads(Path(got["folder"], "jobs", got["jobs"][0]["job_id"], "job_meta.json").read_text())
    assert got["code"] == 0 and len(meta["devices"]) == 1 and meta["devices"][0] in host.gpus
