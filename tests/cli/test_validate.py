"""``validate`` without an engine: what it says, what it creates, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import NO_ENGINE, refused
from tests.integration.cli import Done, cli, run, start, write_config
from trace_bench.artifacts.schema import validate as fits_schema

NUMBER = "internal:numeric_param"
FIXED = "internal:non_trainable"
SHORT = {"id": "PrioritySearch", "params": {"num_steps": 1, "num_candidates": 1}}
TOML = """
title = "A task of this test"
statement = "Do as the code says."
interaction = "value"
suite = "internal"
[score]
direction = "minimize"
failure = 1.0
"""
PROBLEM = """
import os, sys, time
from trace_bench.worker.problem import *

def problem(**over):
    fields = dict(parameters=(Parameter("x", 0.0, "float"),), guide=lambda *a: 1 / 0, train=examples(["only"]),
                  objective="None.", direction="minimize", failure_score=1.0)
    return Problem(**{**fields, **over})

"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_BENCH_STATE_DIR", str(tmp_path / "state"))


def write_task(folder: Path, name: str, build: str) -> Path:
    """A task whose builder is `build`, below the root that is returned."""
    task = folder / "tasks" / name
    task.mkdir(parents=True)
    (task / "task.toml").write_text(TOML)
    (task / "problem.py").write_text(PROBLEM + build)
    return folder / "tasks"


def check(folder: Path, *arguments: str, **config: Any) -> Done:
    path = write_config(folder, **{"trainers": ["NoOp"], **config})
    done = cli("validate", "--config", str(path), "--backend", "local", *arguments, timeout=120)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_every_trainer_and_task_has_a_line_and_nothing_is_created(tmp_path: Path) -> None:
    tasks = [NUMBER, "internal:multi_param", FIXED, *({"id": "internal:code_param", "eval_kwargs": {"n_strings": n}}
             for n in (4, 5))]  # fmt: skip
    done = check(tmp_path, tasks=tasks, trainers=["PrioritySearch", "NoOp"], seeds=[1, 2], max_workers=2)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "OK trainer PrioritySearch",
        "OK trainer NoOp",
        "OK task internal:numeric_param  (1 parameter, 1 train / 1 validate / 0 test examples, maximize)",
        "OK task internal:multi_param  (2 parameters, 1 train / 1 validate / 0 test examples, maximize)",
        "WARN task internal:non_trainable: it has no trainable parameter, and every run of it will fail  "
        "(1 parameter, none trainable, 1 train / 0 validate / 0 test examples, maximize)",
        'OK task internal:code_param {"n_strings":4}  (1 parameter, 2 train / 2 validate / 2 test examples, maximize)',
        'OK task internal:code_param {"n_strings":5}  (1 parameter, 2 train / 2 validate / 2 test examples, maximize)',
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "state"]
    assert list((tmp_path / "state").iterdir()) == [], "sandboxes are removed"


def slow(build: str, said: str) -> Any:
    """One that others stand for."""
    return pytest.param(build, said, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ("def build(context): return 1 / 0", "task: task_build: task/problem.py, line 10: ZeroDivisionError"),
        slow("def build(context): raise ProblemError('no data\\x1b[2J')", "task: task_build: no data\\x1b[2J"),
        slow("def build(context): os._exit(3)", "task: build_died: the build process exited with code 3"),
        ("def build(context): time.sleep(600)", "task: build_timeout: build took more than score_timeout = 2 s"),
        slow("def build(context): return 5", "returned int where a Problem is expected"),
        slow("def build(context): return problem(train=())", "task: task_build: the problem has no training example"),
    ],
)
def test_a_problem_that_does_not_build_has_a_line_and_the_exit_code_1(tmp_path: Path, build: str, said: str) -> None:
    root = write_task(tmp_path, "broken", build)
    done = check(tmp_path, "--root", str(root), tasks=["internal:broken", NUMBER], score_timeout=2)
    assert done.returncode == 1
    trainer, broken, other = done.stdout.splitlines()
    assert broken.startswith("FAIL task internal:broken: ") and said in broken
    assert trainer == "OK trainer NoOp" and other.startswith(f"OK task {NUMBER}")


def test_held_out_examples_are_built_too(tmp_path: Path) -> None:
    build = "def build(c): return problem(test=examples(['t'] * (3 if c.test_seed is not None else 0)))"
    root = write_task(tmp_path, "held", build)
    done = check(tmp_path, "--root", str(root), tasks=["internal:held"])
    assert "1 train / 0 validate / 3 test examples, minimize" in done.stdout
    (root / "held" / "problem.py").write_text(
        PROBLEM + "def build(c): return problem() if c.test_seed is None else 1/0"
    )
    done = check(tmp_path, "--root", str(root), tasks=["internal:held"])
    assert done.returncode == 1 and "ZeroDivisionError" in done.stdout


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"trainers": [{"id": "PrioritySearch", "params": {"num_stepps": 1}}]}, "num_stepps"),
        ({"trainers": [{"id": "PrioritySearch", "params": {"num_steps": "many"}}]}, "num_steps"),
        ({"trainers": [{"id": "PrioritySearch", "optimizer": "OptoPrimee"}]}, "OptoPrimee"),
        ({"trainers": [{"id": "NoOp", "guide": "LLMJudge"}]}, "trainer 'NoOp' asks no optimizer"),
        ({"trainers": ["NoOpp"]}, "unknown trainer 'NoOpp'; did you mean 'NoOp'?"),
        ({"tasks": ["internal:numeric_parm"]}, "no task 'internal:numeric_parm'"),
        ({"tasks": [{"id": NUMBER, "eval_kwargs": {"strat": 1.0}}]}, "strat"),
        ({"sandbox": {"require_controls": ["netwrok"]}}, "no control 'netwrok'"),
        ({"backend": "dcoker"}, "backend must be one of"),
    ],
)
def test_a_wrong_config_is_refused_as_by_run(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    path = write_config(tmp_path, **{"tasks": [NUMBER], "trainers": ["NoOp"], "backend": "local", **config})
    sentence = refused("validate", "--config", str(path), "--strict", cwd=tmp_path)
    assert said in sentence and f"{path}, line " in sentence
    assert sentence == refused("run", "--config", str(path), cwd=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_several_mistakes_are_all_named(tmp_path: Path) -> None:
    trainers = [{"id": "PrioritySearch", "params": {"num_stepps": 1}}, {"id": "PrioritySearch", "optimizer": "Nope"}]
    done = check(tmp_path, tasks=[{"id": NUMBER, "eval_kwargs": {"strat": 1.0}}], trainers=trainers)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 3
    assert all(word in done.stderr for word in ("num_stepps", "Nope", "strat"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bench", "llm4add"], "--bench: there is no suite llm4add; known are hf, internal, "),
        (["--bench", ","], "--bench: there is no suite ','; known are "),
        (["--max-workers", "0"], "option --max-workers: max_workers must be at least 1"),
        (["--backend", "nope"], "option --backend: backend must be one of"),
        (["--root", "nowhere"], "--root nowhere: no such folder; name a folder that holds task folders"),
        (["--strict", "--runs-dir", "config.json"], "config.json is no folder; name another one"),
    ],
)
def test_a_wrong_option(tmp_path: Path, arguments: list[str], said: str) -> None:
    write_config(tmp_path, tasks=[NUMBER], trainers=["NoOp"])
    assert said in refused("validate", "--config", "config.json", *arguments, cwd=tmp_path)


def test_bench_keeps_to_its_suites(tmp_path: Path) -> None:
    tasks = ["trace_examples:greeting_stub", NUMBER, "llm4ad:circle_packing"]
    # An argument that only a task of another suite takes is no mistake.
    config: dict[str, Any] = {"tasks": tasks, "eval_kwargs": {"start": 1.0}}
    done = check(tmp_path, "--bench", "llm4ad+trace_examples", **config)
    assert done.returncode == 0, done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines()] == ["NoOp", tasks[0], tasks[2]]
    strict = check(tmp_path, "--bench", "internal", "--strict", "--json", **config)
    document = json.loads(strict.stdout)
    assert [task["id"] for task in document["tasks"]] == [NUMBER]
    assert [job["task_id"] for job in document["jobs"]] == [NUMBER]
    assert [job["task_id"] for job in json.loads(Path(document["manifest"]).read_text())["jobs"]] == [NUMBER]


def test_a_config_without_tasks_of_the_suites_ends_well_and_says_so(tmp_path: Path) -> None:
    done = check(tmp_path, "--bench", "llm4ad,hf", "--strict", tasks=[NUMBER])
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "note: no task of this config is in llm4ad, hf; nothing was built\n"
    assert not (tmp_path / "runs").exists()
    assert json.loads(check(tmp_path, "--bench", "hf", "--json", tasks=[NUMBER]).stdout)["tasks"] == []


def test_strict_fails_a_problem_without_trainable_parameters(tmp_path: Path) -> None:
    done = check(tmp_path, "--strict", tasks=[FIXED, NUMBER])
    assert done.returncode == 1
    assert (
        "FAIL task internal:non_trainable: task: no_trainable_parameters: "
        "internal:non_trainable has no trainable parameter"
    ) in done.stdout.splitlines()
    assert f"OK task {NUMBER}" in done.stdout


def test_a_search_for_programs_is_told_from_a_task_without_one(tmp_path: Path) -> None:
    tasks, trainers = [NUMBER, {"id": "internal:code_param", "eval_kwargs": {"n_strings": 4}}], ["EoH", "NoOp"]
    why = "cannot be searched by EoH: expected a single trainable parameter of kind code, found guess (float)"
    done = check(tmp_path, tasks=tasks, trainers=trainers)
    assert done.returncode == 0 and f"WARN task {NUMBER}: it {why}, and those jobs will fail" in done.stdout
    assert "OK task internal:code_param" in done.stdout
    done = check(tmp_path, "--strict", tasks=tasks, trainers=trainers)
    assert done.returncode == 1 and f"FAIL task {NUMBER}: task: no_program: {NUMBER} {why}" in done.stdout


def test_strict_prints_the_matrix_and_writes_the_manifest_that_run_goes_on_from(tmp_path: Path) -> None:
    config: dict[str, Any] = {"tasks": [NUMBER], "trainers": ["NoOp", SHORT], "seeds": [1, 2]}
    done = check(tmp_path, "--strict", **config)
    assert done.returncode == 0, done.stderr
    jobs = [line for line in done.stdout.splitlines() if line.startswith("run  ")][:4]
    (folder,) = (tmp_path / "runs").iterdir()
    assert done.stdout.splitlines()[-1].split() == ["manifest", str(folder / "meta" / "manifest.json")]
    manifest = json.loads((folder / "meta" / "manifest.json").read_text())
    fits_schema("manifest", manifest)
    assert [line.split()[1] for line in jobs] == [job["job_id"] for job in manifest["jobs"]]
    assert re.split(r"  +", jobs[1])[2:] == [NUMBER, "NoOp", "default", "seed 2", "it has no result yet"]
    plan = cli("run", "--config", str(tmp_path / "config.json"), "--backend", "local", "--dry-run").stdout
    assert done.stdout.endswith(plan.partition("image ")[0]), "the layout and the reasons are those of a dry run"

    again = check(tmp_path, "--strict", **config)
    assert again.returncode == 0 and f"run {folder.name} is there already" in again.stderr
    result = run(tmp_path, None, "--backend", "local", **config)
    assert Path(result["folder"]) == folder and len(result["jobs"]) == 4
    before = (folder / "meta" / "manifest.json").read_bytes()
    assert len(list((tmp_path / "runs").iterdir())) == 1
    done = check(tmp_path, "--strict", **config, run_id=folder.name)
    assert done.returncode == 0 and (folder / "meta" / "manifest.json").read_bytes() == before
    assert done.stdout.count("  ok, and nothing that determines it has changed") == 4


def test_json_is_one_document(tmp_path: Path) -> None:
    root = write_task(tmp_path, "broken", "def build(context): raise ProblemError('no data')")
    done = check(tmp_path, "--root", str(root), "--json", tasks=[NUMBER, "internal:broken"])
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "ok": False,
        "trainers": [{"id": "NoOp", "ok": True}],
        "tasks": [
            {
                "id": NUMBER,
                "eval_kwargs": {"start": 0.0},
                "ok": True,
                "failure": None,
                "warning": None,
                "direction": "maximize",
                "parameters": [{"name": "guess", "kind": "float", "trainable": True}],
                "examples": {"train": 1, "validate": 1, "test": 0},
            },
            {
                "id": "internal:broken",
                "eval_kwargs": {},
                "ok": False,
                "failure": {"boundary": "task", "kind": "task_build", "message": "no data"},
                "warning": None,
                "direction": None,
                "parameters": None,
                "examples": None,
            },
        ],
    }


def test_without_an_engine_it_ends_with_3(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=[NUMBER], trainers=["NoOp"])
    assert NO_ENGINE in refused(
        "validate", "--config", str(path), "--strict", code=3, home=tmp_path / "home", DOCKER_HOST=NO_ENGINE
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    marker = tmp_path / "building"
    root = write_task(tmp_path, "slow", f"def build(c):\n    open({str(marker)!r}, 'w').close()\n    time.sleep(600)")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    path = write_config(tmp_path, tasks=["internal:slow", NUMBER], trainers=["NoOp"], score_timeout=None)
    process = start("validate", "--config", str(path), "--backend", "local", "--root", str(root), "--strict",
                    home=tmp_path / "home")  # fmt: skip
    end = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert [p.name.startswith("trace-bench-validate-") for p in scratch.iterdir()] == [True]
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == "OK trainer NoOp\n"
    assert err.splitlines() == [
        "stopping: the builds are ended and their sandboxes removed",
        "error: interrupted; 0 of 2 problems had been looked at",
    ]
    assert list(scratch.iterdir()) == list((tmp_path / "state").iterdir()) == []
    assert not (tmp_path / "runs").exists()
