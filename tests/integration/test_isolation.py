"""What each process of a job can and cannot do, asked from inside by a task that looks around."""

from __future__ import annotations

import ast
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine import RUNTIME
from tests.integration.cli import TASKS, run, start, write_config
from trace_bench.sandbox.labels import owner
from trace_bench.sandbox.runtimes import host_threads

pytestmark = pytest.mark.docker
NONE = "0000000000000000"
OF_THE_IMAGE = {"PATH", "HOME", "TMPDIR", "HOSTNAME", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHASHSEED", "PYTHONPATH",
           "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS",
           "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "TRACE_BENCH_PRELOAD"}  # fmt: skip
"""Variables that a process may find in its environment, and that say nothing of the host."""


@pytest.fixture(scope="module")
def seen(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    got = run(tmp_path_factory.mktemp("probe"), images, tasks=["internal:probe"], trainers=["NoOp"])
    row = got["jobs"][0]
    assert row["status"] == "ok", row["feedback"]
    log = Path(got["folder"], "jobs", row["job_id"], "stdout.log").read_text()
    found = [json.loads(line.removeprefix("PROBE ")) for line in log.splitlines() if line.startswith("PROBE")]
    return {item["who"]: item for item in found}


def test_the_container_of_a_job_has_its_labels_and_the_limits_of_its_config(images: Path, tmp_path: Path) -> None:
    name = f"20000102-{time.strftime('%H%M%S')}-{time.time_ns() & 0xFFFFFFFF:08x}"
    sandbox = {"cpus": 0.5, "memory": "300m", "disk": "20m", "tmp": "10m", "pids": 77}
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 3.0}}
    config = write_config(tmp_path, tasks=[task], trainers=["NoOp"], run_id=name, sandbox=sandbox)
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    try:
        ask = ["docker", "ps", "-q", "--no-trunc", "--filter", f"label=trace-bench.run={name}"]
        found, deadline = "", time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            found = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        seen = json.loads(subprocess.run(["docker", "inspect", found], capture_output=True, check=True).stdout)[0]
        volume = seen["Mounts"][0]["Name"]
        ask = ["docker", "volume", "inspect", volume]
        volume_labels = json.loads(subprocess.run(ask, capture_output=True, check=True).stdout)[0]["Labels"]
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()
    (job,) = (tmp_path / "runs" / name / "jobs").iterdir()
    for labels in (seen["Config"]["Labels"], volume_labels):
        assert (labels["trace-bench.run"], labels["trace-bench.job"]) == (name, job.name)
        assert labels["trace-bench.owner"] == owner() and float(labels["trace-bench.lease"]) > 0
    host = seen["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 300 << 20, 300 << 20)
    assert host["PidsLimit"] == (host_threads(77) if RUNTIME else 77) and host["Runtime"] == (RUNTIME or "runc")
    assert f"size={10 << 20}" in host["Tmpfs"]["/tmp"]
    assert {u["Name"]: u["Hard"] for u in host["Ulimits"]}["fsize"] == 20 << 20
    assert json.loads((job / "job_meta.json").read_text())["attempts"][0]["sandbox_id"] == seen["Id"]


def uid(item: dict[str, Any]) -> int:
    return int(item["status"]["Uid"].split()[0])


@pytest.mark.parametrize("who", ["train", "score", "candidate of train", "candidate of score"])
def test_no_process_but_the_supervisors_has_a_capability(seen: dict[str, Any], who: str) -> None:
    status = seen[who]["status"]
    assert status["CapEff"] == status["CapPrm"] == NONE
    assert status["NoNewPrivs"] == ("unknown" if RUNTIME and who.startswith("candidate") else "1")
    # Phases share the group that may read the task and /out; candidates are not in it.
    assert status["Groups"].strip() == (str(uid(seen["train"]) - 1) if who in ("train", "score") else "")
    # gVisor answers the calls of phases itself, without the engine's filter; candidates have their own.
    assert status["Seccomp"] == ("0" if RUNTIME and not who.startswith("candidate") else "2")


def test_the_supervisor_has_four_capabilities_and_no_more(seen: dict[str, Any]) -> None:
    # CHOWN 0, KILL 5, SETGID 6, SETUID 7
    wanted = f"{1 << 0 | 1 << 5 | 1 << 6 | 1 << 7:016x}"
    caps = {status["CapBnd"] for status in seen["train"]["supervisor"].values()}
    assert caps == {wanted}


def test_every_process_has_a_uid_of_its_own_in_one_block(seen: dict[str, Any]) -> None:
    uids = {who: uid(seen[who]) for who in ("train", "score", "candidate of train", "candidate of score")}
    base = uids["train"] - 1
    assert base % 16 == 0
    assert uids["score"] == base + 2
    assert all(base + 4 <= uids[who] <= base + 15 for who in uids if who.startswith("candidate"))


@pytest.mark.parametrize("who", ["train", "score"])
def test_a_phase_cannot_touch_the_supervisor_the_root_or_the_result(seen: dict[str, Any], who: str) -> None:
    item = seen[who]
    assert {r[0] for r in item["kill_supervisor"].values()} == {"PermissionError"}
    assert {r[0] for r in item["mem_supervisor"].values()} == {"PermissionError"}
    assert item["write_result"][0] == "PermissionError" and item["write_root"][0] in ("PermissionError", "OSError")
    assert item["setuid0"][0] == "PermissionError"
    assert item["write_home"][0] == "done" and item["others_home"] == [who]


def test_only_the_trainer_may_leave_files(seen: dict[str, Any]) -> None:
    assert seen["train"]["write_extra"][0] == "done"
    assert seen["score"]["write_extra"][0] == "PermissionError"


@pytest.mark.parametrize("who", ["train", "score"])
def test_there_is_no_network_but_loopback(seen: dict[str, Any], who: str) -> None:
    assert seen[who]["interfaces"] == ["lo"]
    assert seen[who]["outside"][0] in ("OSError", "TimeoutError")


def test_a_phase_reaches_its_own_relay_only(seen: dict[str, Any]) -> None:
    for who in ("train", "score"):
        answers = list(seen[who]["relays"].values())
        assert len(answers) == 1 and answers[0] == ["done", "HTTP/1.1 200 OK"]


@pytest.mark.parametrize("who", ["train", "score", "candidate of train", "candidate of score"])
def test_no_environment_variable_holds_anything_of_the_host(seen: dict[str, Any], who: str) -> None:
    environ = seen[who]["environ"]
    if who.startswith("candidate"):
        assert environ == {}
        return
    (port,) = seen[who]["relays"]
    gateway = dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), f"http://127.0.0.1:{port}/v1")
    gateway |= {"OPENAI_API_KEY": "trace-bench", "TRACE_BENCH_MODEL": "stub", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    assert {name: value for name, value in environ.items() if name not in OF_THE_IMAGE} == gateway


@pytest.mark.parametrize("who", ["train", "score"])
def test_a_program_has_no_files_and_no_processes_but_threads_and_memory(seen: dict[str, Any], who: str) -> None:
    item = seen[f"closed candidate of {who}"]
    refused = {what for what, answer in item.items() if answer == ["PermissionError", 1]}
    assert refused == {"open", "look", "list", "fork", "pipe"}
    assert item["thread"][0] == "done" and item["memory"] == ["done", str(1 << 24)]


@pytest.mark.parametrize("who", ["candidate of train", "candidate of score"])
class TestCandidate:
    """What a program cannot do whose task declares that it needs files and processes."""

    def test_makes_no_socket_traces_nobody_and_has_no_namespace(self, seen: dict[str, Any], who: str) -> None:
        item = seen[who]
        assert item["socket"] == ["PermissionError", 1] and item["socketpair"] == ["PermissionError", 1]
        assert item["ptrace"] == ["done", -1] and item["unshare"] == item["clone_user"] == -1
        assert item["shmget"] == -1
        assert item["memfd"][0] == "PermissionError" and item["setuid0"][0] == "PermissionError"

    def test_reads_and_kills_no_other_process(self, seen: dict[str, Any], who: str) -> None:
        item = seen[who]
        assert item["kill_others"]
        shown = ("environ_others", "fd_others") if RUNTIME else ()  # gVisor lets everybody read these two
        for what in {"kill_others", "mem_others", "environ_others", "fd_others"}.difference(shown):
            assert {r[0] for r in item[what].values()} <= {"PermissionError", "ProcessLookupError"}, what

    def test_finds_nothing_in_an_environment_that_it_can_read(self, seen: dict[str, Any], who: str) -> None:
        """Empty where the kernel refuses; under gVisor it is what the container was started with."""
        read = [r[1] for r in seen[who]["environ_others"].values() if r[0] == "done"]
        names = {
            pair.partition("=")[0] for text in read for pair in ast.literal_eval(text).decode().split("\0") if pair
        }
        assert names <= OF_THE_IMAGE and bool(names) == bool(RUNTIME)

    def test_can_write_nowhere(self, seen: dict[str, Any], who: str) -> None:
        assert seen[who]["writable"] == []

    def test_has_a_bounded_number_of_processes(self, seen: dict[str, Any], who: str) -> None:
        assert 0 < seen[who]["processes"][1] < (33 if RUNTIME else 32)  # gVisor counts one less

    def test_leaves_no_process_behind(self, seen: dict[str, Any], who: str) -> None:
        assert seen[f"after {who.split()[-1]}"]["candidate_processes"] == []
