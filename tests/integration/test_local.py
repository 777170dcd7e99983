"""The local backend: no engine, no protection, and never a doubt about either."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, cli, result_of, run, start, write_config

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}
SECRET = "not-for-a-sandbox-4711"
TOML = """
title = "A task of this test"
statement = "Do as the code says."
interaction = "value"
suite = "internal"
[score]
direction = "maximize"
failure = -1.0
"""
NO_ENGINE = "unix:///nonexistent/trace-bench.sock"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's sandboxes lie, and a host environment full of what must not get into them."""
    folder = tmp_path / "state"
    monkeypatch.setenv("TRACE_BENCH_STATE_DIR", str(folder))
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "SOME_TOKEN", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, SECRET)
    return folder


def processes_of(folder: Path) -> list[str]:
    """Command lines of live processes that know `folder`, or stand in it."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            here = str((process / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in command or here.startswith(str(folder)):
            found.append(command)
    return found


def gone(folder: Path, seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while processes_of(folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def environ_task(root: Path) -> None:
    """A task that prints its environment. The task `probe` is no task for this backend."""
    folder = root / "environ"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TOML)
    (folder / "problem.py").write_text(
        """
import json, os
from trace_bench.worker.problem import Parameter, Problem, examples

def build(context):
    def guide(query, response, reference):
        print("ENVIRON", json.dumps(dict(os.environ)))
        return 0.0, ""
    return Problem(parameters=(Parameter("x", 0.0, "float"),), guide=guide, train=examples(["only"]),
                   objective="Print.", direction="maximize", failure_score=-1.0)
"""
    )


def sleeping_task(root: Path, marker: Path) -> None:
    """A task whose training starts a grandchild in a session of its own, and then waits for ever."""
    folder = root / "sleeper"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TOML)
    (folder / "problem.py").write_text(
        f"""
import subprocess, sys, time
from trace_bench.worker.problem import Parameter, Problem, examples

def build(context):
    def guide(query, response, reference):
        sleep = [sys.executable, "-c", "import time; time.sleep(600)", {str(marker)!r}]
        child = f"import subprocess; subprocess.Popen({{sleep!r}}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", child])
        open({str(marker)!r}, "w").close()
        time.sleep(600)
        return 0.0, ""
    return Problem(parameters=(Parameter("x", 0.0, "float"),), guide=guide, train=examples(["only"]),
                   objective="Sleep.", direction="maximize", failure_score=-1.0)
"""
    )


@pytest.fixture
def smoke(tmp_path: Path) -> dict[str, Any]:
    return run(tmp_path, None, "--backend", "local", tasks=["internal:numeric_param", "llm4ad:circle_packing"],
               trainers=[SEARCH], max_workers=2)  # fmt: skip


def test_every_row_says_unprotected_and_the_leaderboard_is_empty(smoke: dict[str, Any], state: Path) -> None:
    assert smoke["code"] == 0
    assert [(row["integrity"], row["backend"], row["status"]) for row in smoke["jobs"]] == [
        ("unprotected", "local", "ok")
    ] * 2
    folder = Path(smoke["folder"])
    assert (folder / "results.csv").read_text().count("unprotected") == 2
    assert len((folder / "leaderboard.csv").read_text().splitlines()) == 1, "a header and nothing else"
    for path in folder.glob("jobs/*/job_meta.json"):
        meta = json.loads(path.read_text())
        assert meta["integrity"] == "unprotected" and meta["controls"]
        assert not [control["name"] for control in meta["controls"] if control["in_force"]]
    assert list(state.iterdir()) == [], "sandboxes are removed"


def test_the_terminal_says_unprotected(tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], backend="local")
    done = cli("run", "--config", str(config))
    assert done.returncode == 0
    assert "NoOp (unprotected)" in done.stdout and "a candidate could have written its own score" in done.stdout


@pytest.mark.slow
def test_local_gives_the_scores_of_its_seed_again(smoke: dict[str, Any], tmp_path: Path) -> None:
    again = run(tmp_path, None, "--backend", "local", tasks=["internal:numeric_param", "llm4ad:circle_packing"],
                trainers=[SEARCH])  # fmt: skip
    for one, two in zip(smoke["jobs"], again["jobs"], strict=True):
        assert (one["job_id"], one["score_best"]) == (two["job_id"], two["score_best"])


def test_a_required_control_is_refused(tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], backend="local",
                          sandbox={"require_controls": ["network"]})  # fmt: skip
    done = cli("run", "--config", str(config), "--json")
    assert done.returncode in (2, 3, 1) and "Traceback" not in done.stderr
    said = done.stderr + done.stdout
    assert "network" in said and "--backend docker" in said


def test_no_variable_of_the_host_gets_in(tmp_path: Path) -> None:
    environ_task(tmp_path / "tasks")
    config = write_config(tmp_path, tasks=["internal:environ"], trainers=["NoOp"], backend="local")
    done = cli("run", "--config", str(config), "--root", str(tmp_path / "tasks"), "--json")
    assert done.returncode == 0, done.stdout
    folder = Path(result_of(done.stdout)["folder"])
    (log,) = folder.glob("jobs/*/stdout.log")
    environs = [json.loads(line.partition(" ")[2]) for line in log.read_text().splitlines() if "ENVIRON " in line]
    allowed = {"PATH", "LANG", "LC_CTYPE", "HOME", "TMPDIR", "PYTHONHASHSEED", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE",
               "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
               "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "TRACE_BENCH_MODEL",
               "LITELLM_LOCAL_MODEL_COST_MAP"}  # fmt: skip
    assert environs
    for environ in environs:
        assert set(environ) <= allowed
    for path in folder.rglob("*"):
        if path.is_file():
            assert SECRET not in path.read_text(errors="replace"), path


@pytest.mark.slow
def test_a_timeout_kills_grandchildren(tmp_path: Path, state: Path) -> None:
    marker = tmp_path / "grandchild"
    sleeping_task(tmp_path / "tasks", marker)
    config = write_config(tmp_path, tasks=["internal:sleeper"], trainers=["NoOp"], backend="local",
                          job_timeout=2, score_timeout=2)  # fmt: skip
    began = time.monotonic()
    done = cli("run", "--config", str(config), "--root", str(tmp_path / "tasks"), "--json", timeout=120)
    assert done.returncode == 1 and time.monotonic() - began < 60
    (row,) = result_of(done.stdout)["jobs"]
    assert row["status"] == "failed" and marker.exists()
    assert gone(marker) and gone(state), processes_of(marker)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_no_process(tmp_path: Path, state: Path, times: int) -> None:
    config = write_config(tmp_path, tasks=[{"id": "internal:slow", "eval_kwargs": {"seconds": 1.0}}],
                          trainers=[SEARCH], seeds=[1, 2, 3, 4], backend="local", max_workers=2)  # fmt: skip
    process = start("run", "--config", str(config), "--root", str(TASKS), home=tmp_path / "home")
    end = time.monotonic() + 30
    while len(processes_of(state)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said and said.splitlines()[-1].startswith("error: ")
    assert gone(state), processes_of(state)
    assert list(state.iterdir()) == []


def test_a_killed_controller_leaves_what_clean_removes(tmp_path: Path, state: Path) -> None:
    config = write_config(tmp_path, tasks=[{"id": "internal:slow", "eval_kwargs": {"seconds": 5.0}}],
                          trainers=["NoOp"], backend="local")  # fmt: skip
    process = start("run", "--config", str(config), "--root", str(TASKS), home=tmp_path / "home")
    end = time.monotonic() + 30
    while len(processes_of(state)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    alive = cli("clean", "--backend", "local")
    assert alive.returncode == 0 and "left alone" in alive.stderr and alive.stdout == ""
    process.kill()
    process.communicate(timeout=30)
    end = time.monotonic() + 30
    while "left alone" in (done := cli("clean", "--backend", "local")).stderr and time.monotonic() < end:
        time.sleep(0.1)  # a process that it was about to start has its locks until it is another program
    assert done.returncode == 0 and done.stdout.startswith("removed trace-bench-"), done.stderr
    assert gone(state) and list(state.iterdir()) == []
