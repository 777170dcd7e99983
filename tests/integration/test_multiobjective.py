"""The shipped tasks with several metrics, each by a weighted sum and by dominance, from the config to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli import REPOSITORY, cli
from tests.integration.cli import run as run_in_containers
from tests.recorded import record
from trace_bench.artifacts.layout import RunLayout
from trace_bench.config import load_config, parse_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.matrix import Job, expand
from trace_bench.worker.objective import dominates

TASKS = ("internal:multiobjective_convex", "internal:multiobjective_bbeh", "internal:multiobjective_gsm8k")
MODES = ("weighted", "pareto")
PATH = REPOSITORY / "configs/multiobjective.yaml"
PROTOTYPE = {
    "mode": "stub",
    "seeds": [42],
    "max_workers": 6,
    "resume": "auto",
    "job_timeout": 1200,
    "tasks": [{"id": task, "eval_kwargs": {"objective_mode": mode}} for task in TASKS for mode in MODES],
    "trainers": [
        {"id": "BasicSearchAlgorithm", "params_variants": [{"num_proposals": 4, "num_epochs": 2, "batch_size": 1}]},
        {
            "id": "BeamsearchAlgorithm",
            "params_variants": [{"beam_width": 2, "num_proposals": 4, "max_depth": 2, "batch_size": 1}],
        },
        {"id": "PrioritySearch", "params_variants": [{"num_candidates": 4, "num_proposals": 2, "batch_size": 1}]},
    ],
}
"""The matrix of the Trace-Bench prototype, with its names."""
SIGNS = {"base_loss": -1, "reg_loss": -1, "accuracy": 1, "cpu_seconds": -1, "error": -1, "prompt_tokens": -1,
         "completion_tokens": -1}  # fmt: skip
WEIGHTS = {"cpu_seconds": 0.3, "prompt_tokens": 0.001, "completion_tokens": 0.001}


def jobs_of(config: RunConfig) -> list[Job]:
    config = select(config)
    found = resolve(config)
    return expand(config, found.tasks, found.trainers)


def test_the_shipped_config_and_the_prototypes_are_the_same_18_jobs() -> None:
    jobs = jobs_of(load_config(PATH))
    assert len({job.job_id for job in jobs}) == len(jobs) == 18
    assert [job.job_id for job in jobs] == [job.job_id for job in jobs_of(parse_config(PROTOTYPE))]
    assert {(job.task_id, job.objective["mode"]) for job in jobs} == {(task, mode) for task in TASKS for mode in MODES}
    for job in jobs:
        assert job.objective["weights"] == {name: WEIGHTS.get(name, 1.0) for name in job.objective["metrics"]}


@pytest.fixture(scope="module")
def traded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    """The shipped config on a few examples, and with ParetobasedPS: 24 jobs. Without --full, two trainers: 12 jobs."""
    shipped: dict[str, Any] = yaml.safe_load(PATH.read_text())
    first = 0 if request.config.getoption("--full") else 2
    steps = {"num_steps": 3, "num_candidates": 3, "num_proposals": 2, "batch_size": 1}
    return record(
        tmp_path_factory.mktemp("traded"),
        run_id="20260102-030405-traded",
        llm={"model": "stub"},
        seeds=[42],
        tasks=shipped["tasks"],
        trainers=[*shipped["trainers"][first:], {"id": "ParetobasedPS", "params": steps}],
        eval_kwargs={"num_train": 4, "num_validate": 3, "num_test": 0, "difficulty": 3},
    )


def results(run: RunLayout) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(run.root.glob("jobs/*/results.json"))]


def comparable(run: RunLayout, row: dict[str, Any]) -> list[dict[str, Any]]:
    lines = (run.root / row["state_history_path"]).read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["comparable"]]


def weighted(metrics: dict[str, float]) -> float:
    return sum(SIGNS[name] * WEIGHTS.get(name, 1.0) * value for name, value in metrics.items() if name != "score")


def point(metrics: dict[str, float]) -> list[float]:
    return [SIGNS[name] * value for name, value in metrics.items() if name != "score"]


def test_each_job_compares_by_the_mode_of_its_entry(traded: RunLayout) -> None:
    rows = results(traded)
    assert len(rows) in (12, 24) and all((row["status"], row["integrity_flags"]) == ("ok", "") for row in rows)
    for row in rows:
        assert row["objective"] == row["eval_kwargs"]["objective_mode"] and row["score_direction"] == "maximize"
        assert row["score_best"] == pytest.approx(weighted(row["metrics_best"]))
        lines = comparable(traded, row)
        assert len(lines) > 1
        claimed = [line for line in lines if line["score"] == pytest.approx(row["score_claimed"], abs=1e-12)]
        assert claimed, (row["job_id"], row["score_claimed"])
        if row["objective"] == "weighted":
            assert row["score_claimed"] == pytest.approx(max(line["score"] for line in lines))
        else:
            points = [point(line["metrics"]) for line in lines]
            assert any(not any(dominates(p, point(line["metrics"])) for p in points) for line in claimed)


@pytest.mark.parametrize("task", TASKS)
def test_searches_find_states_that_trade_one_metric_for_another(traded: RunLayout, task: str) -> None:
    sizes = []
    for row in results(traded):
        if row["task_id"] == task:
            front = json.loads((traded.root / row["pareto_path"]).read_text())
            points = [point(each["metrics"]) for each in front["points"]]
            assert not any(dominates(one, other) for one in points for other in points)
            sizes.append(len(points))
    assert len(sizes) in (4, 8) and max(sizes) > 1


def test_the_report_shows_the_metrics_of_each_entry(traded: RunLayout, tmp_path: Path) -> None:
    done = cli("report", str(traded.root), "-o", str(tmp_path / "report.html"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    for axes in ("base_loss against reg_loss", "accuracy against cpu_seconds", "error against prompt_tokens"):
        assert page.count(axes) >= 2, axes
    assert all(task in page for task in TASKS)


@pytest.mark.docker
def test_tokens_and_cpu_time_are_measured_in_containers(images: Path, tmp_path: Path) -> None:
    tasks = [{"id": task, "eval_kwargs": {"objective_mode": "pareto"}} for task in TASKS[1:]]
    search = {"id": "PrioritySearch", "params": {"num_steps": 1, "num_candidates": 2, "num_proposals": 2}}
    sizes = {"num_train": 3, "num_validate": 2, "num_test": 2}
    done = run_in_containers(tmp_path, images, tasks=tasks, trainers=[search], seeds=[1], eval_kwargs=sizes)
    assert done["code"] == 0, done["stderr"]
    for row in done["jobs"]:
        assert (row["status"], row["integrity"], row["integrity_flags"]) == ("ok", "protected", "")
    found = {row["task_id"]: row["metrics_best"] for row in done["jobs"]}
    assert 0 < found[TASKS[1]]["cpu_seconds"] < 0.1 and found[TASKS[1]]["accuracy"] == 1
    assert found[TASKS[2]]["prompt_tokens"] > 10 and found[TASKS[2]]["completion_tokens"] > 0
