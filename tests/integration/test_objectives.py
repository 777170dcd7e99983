"""The shipped task with two metrics under each objective, from a config to columns and a front; one run for each."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli, history, run
from tests.integration.files import check_files
from trace_bench.artifacts.records import OTHER_NAMES
from trace_bench.config import load_config

pytestmark = pytest.mark.docker

CAMEL = "internal:multiobjective_convex"
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}
OBJECTIVES: dict[str, Any] = {
    "scalar": "score",
    "weighted": {"mode": "weighted", "weights": {"base_loss": 1, "reg_loss": 0.25}},
    "pareto": {
        "mode": "pareto",
        "tie_break": "lexicographic",
        "pareto_metrics": ["reg_loss", "base_loss"],
        "reference": {"reg_loss": 5.5},
    },
}


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """By mode. The scalar one has a task without metrics, too, and two seeds; the others have one without --full."""
    found = {}
    for mode, objective in OBJECTIVES.items():
        tasks = [CAMEL, "internal:numeric_param"] if mode == "scalar" else [CAMEL]
        folder = tmp_path_factory.mktemp(mode)
        seeds = [1, 2] if mode == "scalar" or request.config.getoption("--full") else [1]
        found[mode] = run(
            folder, images, tasks=tasks, trainers=[SEARCH], seeds=seeds, objective=objective, max_workers=2
        )
        assert found[mode]["code"] == 0, found[mode]["stderr"]
    return found


def of(done: dict[str, Any], *path: str) -> Any:
    return json.loads(Path(done["folder"], *path).read_text())


def camels(done: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in done["jobs"] if row["task_id"] == CAMEL]


@pytest.mark.parametrize("mode", OBJECTIVES)
def test_the_official_score_is_what_the_objective_makes_of_the_official_metrics(
    runs: dict[str, dict[str, Any]], mode: str
) -> None:
    for row in camels(runs[mode]):
        assert (row["status"], row["objective"], row["integrity_flags"]) == ("ok", mode, "")
        for state in ("initial", "final", "best"):
            metrics = row[f"metrics_{state}"]
            base, reg = metrics["base_loss"], metrics["reg_loss"]
            assert metrics["score"] == pytest.approx(base + reg)
            due = {"scalar": base + reg, "weighted": -base - 0.25 * reg, "pareto": -base - reg}[mode]
            assert row[f"score_{state}"] == pytest.approx(due)
        assert row["score_direction"] == ("minimize" if mode == "scalar" else "maximize")
        assert row["score_claimed"] == row["score_best"] and row["metrics_initial"]["base_loss"] == pytest.approx(
            86 / 15
        )
    assert check_files(runs[mode]["folder"]) > 15


@pytest.mark.parametrize("mode", OBJECTIVES)
def test_the_best_state_is_the_best_of_the_history_by_the_objective(runs: dict[str, dict[str, Any]], mode: str) -> None:
    for row in camels(runs[mode]):
        lines = [line for line in history(runs[mode], row) if line["comparable"]]
        assert len(lines) > 5
        metrics = [line["metrics"] for line in lines]
        if mode == "pareto":
            best = min((m["reg_loss"], m["base_loss"]) for m in metrics)
            assert (row["metrics_best"]["reg_loss"], row["metrics_best"]["base_loss"]) == pytest.approx(best)
        else:
            scores = [line["score"] for line in lines]
            assert row["score_best"] == (min(scores) if mode == "scalar" else max(scores))


@pytest.mark.parametrize("mode", OBJECTIVES)
def test_each_job_has_the_front_of_its_history(runs: dict[str, dict[str, Any]], mode: str) -> None:
    for row in camels(runs[mode]):
        front = of(runs[mode], row["pareto_path"])
        lines = [line for line in history(runs[mode], row) if line["comparable"]]
        points = [(line["metrics"]["base_loss"], line["metrics"]["reg_loss"]) for line in lines]
        due = {p for p in points if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)}
        assert {(p["metrics"]["base_loss"], p["metrics"]["reg_loss"]) for p in front["points"]} == due
        assert [history(runs[mode], row)[p["line"] - 1]["candidate"] for p in front["points"]] == [
            p["candidate"] for p in front["points"]
        ]
        assert front["candidates"] == len(lines) and front["hypervolume"] == row["hypervolume"]
        first = "reg_loss" if mode == "pareto" else "base_loss"
        assert next(iter(front["metrics"])) == first
        assert front["reference_from"]["reg_loss"] == ("config" if mode == "pareto" else "task")


def test_metrics_have_columns_and_are_shown(runs: dict[str, dict[str, Any]], images: Path) -> None:
    with Path(runs["scalar"]["folder"], "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [f"metric_{state}:{name}" for name in ("score", "base_loss", "reg_loss")
             for state in ("initial", "final", "best")]  # fmt: skip
    assert list(rows[0])[-12:] == [*names, *OTHER_NAMES] and len(rows) == 4
    for row, known in zip(rows, runs["scalar"]["jobs"], strict=True):
        measured = known["task_id"] == CAMEL
        assert row["metric_best:reg_loss"] == (str(known["metrics_best"]["reg_loss"]) if measured else "")
        assert bool(row["pareto_path"]) == measured
    folder = Path(runs["pareto"]["folder"])
    shown = cli("show", folder.name, "--runs-dir", str(folder.parent), home=images)
    assert shown.returncode == 0 and "metrics of the best states, means over seeds" in shown.stdout
    assert "base_loss  reg_loss  hypervolume" in shown.stdout
    job = runs["pareto"]["jobs"][0]["job_id"]
    shown = cli("show", folder.name, job, "--runs-dir", str(folder.parent), home=images)
    assert "objective" in shown.stdout and "pareto over reg_loss, base_loss; tie-break lexicographic" in shown.stdout
    assert "reg_loss ↓" in shown.stdout and "pareto.json" in shown.stdout


def test_the_objective_is_of_the_fingerprint_and_not_of_the_job_id(runs: dict[str, dict[str, Any]]) -> None:
    jobs = [camels(done)[0] for done in runs.values()]
    assert len({row["job_id"] for row in jobs}) == 1 and len({row["fingerprint"] for row in jobs}) == 3
    resolved = of(runs["weighted"], "jobs", jobs[1]["job_id"], "job_meta.json")["objective"]
    assert resolved["weights"] == {"base_loss": 1.0, "reg_loss": 0.25}


def test_the_model_is_told_what_counts_and_each_metric(runs: dict[str, dict[str, Any]]) -> None:
    row = camels(runs["weighted"])[0]
    lines = Path(runs["weighted"]["folder"], "jobs", row["job_id"], "llm.jsonl").read_text()
    assert "The score is - 1 * base_loss - 0.25 * reg_loss; higher is better." in lines
    assert "higher is better; base_loss 5.733333333, lower is better; reg_loss 5, lower is better)" in lines


@pytest.mark.slow
def test_a_weighted_run_replays_with_its_metrics(runs: dict[str, dict[str, Any]], images: Path, tmp_path: Path) -> None:
    folder = Path(runs["weighted"]["folder"])
    done = cli("run", "--replay", str(folder), "--runs-dir", str(tmp_path), home=images)
    assert done.returncode == 0, done.stderr
    count = len(runs["weighted"]["jobs"])
    assert f"{count} of {count} jobs came out equal (to the bit)" in done.stdout + done.stderr


@pytest.mark.slow
def test_the_shipped_config_runs(images: Path, tmp_path: Path) -> None:
    path = REPOSITORY / "configs" / "multiobjective_demo.yaml"
    done = cli("run", "--config", str(path), "--runs-dir", str(tmp_path), home=images)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert load_config(path).objective.mode == "pareto" and len(list(folder.glob("jobs/*/artifacts/pareto.json"))) == 2
