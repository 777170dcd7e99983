"""The gap of a run: the template is 0 and the reference program 1, on the instances of this very run."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

import trace_bench
from tests.integration.cli import REPOSITORY, cli, start
from trace_bench.artifacts.derived import Yardsticks
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.records.reading import last_result, read_rows

TASK = "llm4ad:online_bin_packing_local"
SMALL = {"n_instance": 2, "n_items": 1000}


def measured(tmp_path: Path, *options: str, home: Path, backend: str, cached: bool = False, **kwargs: object) -> tuple[
    RunLayout, dict[tuple[str, int], Results], Yardsticks, str
]:  # fmt: skip
    """Run the template, and a search whose stub model reaches the reference, with two seeds."""
    config = tmp_path / "config.json"
    trainers: list[object] = ["NoOp"]
    if backend == "docker" or "num_test" not in kwargs:
        trainers.append({"id": "EoH", "params": {"population_size": 2, "num_steps": 2}})
    entry = {"id": TASK, "eval_kwargs": {**SMALL, **kwargs}}
    config.write_text(json.dumps({"tasks": [entry], "trainers": trainers, "seeds": [3, 4]}))
    runs = tmp_path / "runs"
    done = cli(
        "run", str(config), "--runs-dir", str(runs), "--backend", backend, "--force", *options,
        home=home, XDG_CACHE_HOME=str(tmp_path / "cache"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    layout = RunLayout(max(runs.iterdir()))
    rows = {(row.trainer_id, row.seed): row for row in read_rows(layout)}
    assert ("gap    scoring 2 reference programs" in done.stderr) == (not cached)
    return layout, rows, Yardsticks.model_validate_json(layout.yardsticks.read_bytes()), done.stdout


@pytest.mark.parametrize(
    "backend", [pytest.param("local", marks=pytest.mark.slow), pytest.param("docker", marks=pytest.mark.docker)]
)
def test_the_template_has_a_gap_of_0_for_every_seed_and_split(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    home = request.getfixturevalue("images") if backend == "docker" else tmp_path / "home"
    layout, rows, found, said = measured(tmp_path, home=home, backend=backend)
    assert "gap: 0 is the template, 1 is the task's reference program on the same instances." in said
    for seed in (3, 4):
        template, search = rows["NoOp", seed], rows["EoH", seed]
        for state in ("initial", "best", "final", "test"):
            assert getattr(template, f"metrics_{state}")["gap"] == 0.0
        assert search.metrics_initial["gap"] == 0.0 and search.metrics_best["gap"] >= 0
    assert [each.problem for each in found.yardsticks] == ["", ""]
    assert {split: len(scores) for split, scores in found.yardsticks[0].reference.items()} == {"validate": 2, "test": 2}
    done = cli("rebuild", str(layout.root), "--jobs", "--check", home=home)
    assert done.returncode == 0, done.stdout
    done = cli("audit", str(layout.root), home=home)
    assert done.returncode == 0 and "nothing is contradicted" in done.stdout
    text = layout.yardsticks.read_text()
    layout.yardsticks.write_text(text.replace('"validate-0": ', '"validate-0": 1'))
    done = cli("audit", str(layout.root), home=home)
    assert done.returncode == 4 and "meta/yardsticks.json" in done.stdout and "gap" in done.stdout


def test_without_held_out_instances_a_later_run_reuses_the_yardstick(tmp_path: Path) -> None:
    home = tmp_path / "home"
    _, _, first, _ = measured(tmp_path, home=home, backend="local", num_test=0)
    layout, rows, second, _ = measured(tmp_path, home=home, backend="local", cached=True, num_test=0)
    assert first == second and len(list(layout.root.parent.iterdir())) == 2
    assert rows["NoOp", 3].metrics_best["gap"] == 0.0 and "gap" not in rows["NoOp", 3].metrics_test
    for spoil in ({"direction": "maximize"}, {"reference": {}, "best_known": {}}):
        for path in (home / "cache" / "yardsticks").iterdir():
            path.write_text(json.dumps({**json.loads(path.read_text()), **spoil}))
        _, _, third, _ = measured(tmp_path, home=home, backend="local", num_test=0)
        assert third == first, f"a file of no run with {spoil} is believed"


def test_a_run_that_is_stopped_before_its_gaps_are_measured_is_continued_there(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    entry = {"id": TASK, "eval_kwargs": SMALL}
    config.write_text(json.dumps({"tasks": [entry], "trainers": ["NoOp"], "seeds": [3, 4, 5]}))
    command = ("run", str(config), "--runs-dir", str(tmp_path / "runs"), "--backend", "local")
    stopped = start(*command, home=tmp_path / "home")
    assert stopped.stderr is not None
    while not (line := stopped.stderr.readline()).startswith("gap "):
        assert line, "it ended before"
    stopped.send_signal(signal.SIGINT)
    said = stopped.communicate(timeout=60)[1]
    assert stopped.returncode == 130 and "interrupted; 3 of 3 jobs have finished; the same command continues" in said
    (run,) = (tmp_path / "runs").iterdir()
    again = cli(*command, home=tmp_path / "home")
    assert again.returncode == 0 and again.stderr.count("reused") == 3 and "gap    scoring" in again.stderr
    assert [row.metrics_test["gap"] for row in read_rows(RunLayout(run))] == [0.0, 0.0, 0.0]
    assert "nothing is contradicted" in cli("audit", str(run), home=tmp_path / "home").stdout


def test_a_task_on_whose_instances_the_reference_is_no_better_has_no_gap_for_any_seed(tmp_path: Path) -> None:
    _, rows, found, said = measured(tmp_path, home=tmp_path / "home", backend="local", n_items=5, num_test=0)
    assert all("gap" not in row.metrics_initial for row in rows.values())
    why = "its reference program is no better than the template on the validate instances"
    assert [each.problem for each in found.yardsticks] == [why, why]
    assert f"{TASK} has no gap: {why} (seed 3)." in said


def test_a_reference_that_fails_leaves_the_gap_empty_and_every_table_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "spoilt"
    shutil.copytree(REPOSITORY / "benchmarks" / "LLM4AD" / "benchmark_tasks" / "online_bin_packing_local", folder)
    for name in ("reference.py", "stateless.py"):
        if (program := folder / "programs" / name).exists():
            program.write_text(program.read_text() + "\n\ndef priority(*_):\n    return 1 / 0\n")
    config = tmp_path / "config.json"
    entry = {"id": "internal:spoilt", "eval_kwargs": SMALL}
    config.write_text(json.dumps({"tasks": [entry], "trainers": ["NoOp"]}))
    runs = tmp_path / "runs"
    done = cli(
        "run", str(config), "--root", str(folder.parent), "--runs-dir", str(runs), "--backend", "local",
        home=tmp_path / "home",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    why = "internal:spoilt has no gap: its reference program fails on validate-0: "
    layout = RunLayout(next(runs.iterdir()))
    (row,) = read_rows(layout)
    assert "gap" not in row.metrics_best and "ZeroDivisionError" in done.stdout
    assert why in done.stdout and why in cli("results", str(layout.root), home=tmp_path / "home").stdout
    assert "has no gap" in layout.leaderboard_md.read_text()


def test_a_reference_that_fails_once_as_on_a_busy_machine_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On such a machine a program can take longer than its limit; here it is the first to be read that fails."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tries: list[str] = []

    def read(job: JobLayout, meta: JobMeta) -> WorkerResult | None:
        result = last_result(job, meta)
        assert result is not None and result.scores.best is not None
        if "yardstick" not in str(job.root):
            return result  # of the job, to compare with
        tries.append(meta.job_id)
        late = [each.model_copy(update={"failed": len(tries) == 1}) for each in result.scores.best.examples]
        best = result.scores.best.model_copy(update={"examples": tuple(late)})
        return result.model_copy(update={"scores": result.scores.model_copy(update={"best": best})})

    monkeypatch.setattr("trace_bench.execution.yardsticks.last_result", read)
    task = {"id": TASK, "eval_kwargs": {**SMALL, "num_test": 0}}
    config = {"tasks": [task], "trainers": ["NoOp"], "backend": "local", "runs_dir": str(tmp_path / "runs")}
    run = trace_bench.run(config)
    assert len(tries) == 2
    assert [row.metrics_best["gap"] for row in read_rows(run.layout)] == [0.0]


ECHO = {
    "task.toml": '''
title = "Echo"
statement = "Write `echo(number)`, which returns a float. The score is to be maximized."
interaction = "solve"
entry = "echo"
signature = """def echo(number: int) -> float:
    ..."""
[score]
direction = "maximize"
failure = -10.0
[metrics.normalised]
direction = "maximize"
failure = 0.0
range = [0.0, 1.0]
doc = "nothing"
[splits]
train = 1
validate = 3
test = 0
[candidates]
template = "template.py"
reference = "reference.py"
alternatives = ["huge.py"]
''',
    "evaluator.py": """def instances(split, seed, count):
    return list(range(count))


def evaluate(program, number):
    return program(number), "", {"normalised": 0.5}
""",
    **{
        f"{name}.py": f"def echo(number: int) -> float:\n    return {value}\n"
        for name, value in (("template", 1.0), ("reference", 2.0), ("huge", 1.7e308))
    },
}


def test_scores_whose_sum_is_beyond_a_double_end_neither_a_run_nor_its_audit_or_report(tmp_path: Path) -> None:
    folder, runs = tmp_path / "tasks" / "echo", ("--runs-dir", str(tmp_path / "runs"))
    folder.mkdir(parents=True)
    for name, text in ECHO.items():
        (folder / name).write_text(text)
    given = ("-t", "internal:echo", "--root", str(folder.parent), "--backend", "local", "-p", "num_steps=5")
    done = cli("run", *given, "-T", "PrioritySearch", "-T", "NoOp", "--run-id", "huge", *runs, home=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    rows = {row.trainer_id: row for row in read_rows(RunLayout(tmp_path / "runs" / "huge"))}
    assert rows["PrioritySearch"].metrics_best["gap"] == rows["PrioritySearch"].score_best == 1.7e308
    for command in (("audit", "huge"), ("report", "huge", "-o", str(tmp_path / "r.html")), ("results", "huge")):
        assert cli(*command, *runs, home=tmp_path / "home").returncode == 0, command


def test_a_config_without_gaps_scores_no_reference(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    entry = {"id": TASK, "eval_kwargs": SMALL}
    config.write_text(json.dumps({"tasks": [entry], "trainers": ["NoOp"], "gaps": False, "backend": "local"}))
    done = cli("run", str(config), "--runs-dir", str(tmp_path / "runs"), home=tmp_path / "home")
    assert done.returncode == 0 and "reference program" not in done.stderr + done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    (row,) = read_rows(RunLayout(folder))
    assert not RunLayout(folder).yardsticks.exists() and "gap" not in row.metrics_best
    assert cli("audit", str(folder), home=tmp_path / "home").returncode == 0
