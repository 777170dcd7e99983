"""Whole jobs in real containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, history, result_of, run, write_config
from tests.integration.files import check_files
from tests.integration.test_llm4ad import KINDS
from trace_bench.artifacts.jsonio import read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta
from trace_bench.sandbox import CONTROLS

pytestmark = pytest.mark.docker

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}
BOTH = ["internal:numeric_param", "llm4ad:circle_packing"]


@pytest.fixture(scope="module")
def smoke(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("smoke"), images, tasks=BOTH, trainers=[SEARCH], seeds=[1, 2], max_workers=2)


def test_both_tasks_improve_under_the_stub_model(smoke: dict[str, Any]) -> None:
    assert smoke["code"] == 0 and smoke["ok"]
    for row in smoke["jobs"]:
        assert row["status"] == "ok" and row["integrity"] == "protected"
        assert row["score_best"] > row["score_initial"], row["task_id"]
        assert row["llm_calls"] > 0 and row["total_tokens"] > 0


@pytest.mark.slow
def test_the_same_config_gives_the_same_searches_again(smoke: dict[str, Any], images: Path, tmp_path: Path) -> None:
    again = run(tmp_path, images, tasks=BOTH, trainers=[SEARCH], seeds=[1, 2], max_workers=1)
    for one, two in zip(smoke["jobs"], again["jobs"], strict=True):
        assert one["job_id"] == two["job_id"] and one["fingerprint"] == two["fingerprint"]
        assert one["score_best"] == two["score_best"] and one["score_final"] == two["score_final"]
        first, second = history(smoke, one), history(again, two)
        for line in (*first, *second):
            line.pop("seconds")
        assert first == second


def test_another_seed_searches_differently(smoke: dict[str, Any]) -> None:
    by_task: dict[str, list[Any]] = {}
    for row in smoke["jobs"]:
        by_task.setdefault(row["task_id"], []).append([line["parameters"] for line in history(smoke, row)])
    for task, (first, second) in by_task.items():
        assert first != second, task


def test_every_file_of_the_run_is_indexed_and_fits_its_schema(smoke: dict[str, Any]) -> None:
    assert check_files(smoke["folder"]) > 40


def test_the_controls_in_force_are_recorded(smoke: dict[str, Any]) -> None:
    layout = RunLayout(Path(smoke["folder"]))
    for job in layout.job_dirs():
        meta = read_model(JobMeta, job.meta.read_bytes())
        assert [c.name for c in meta.controls] == list(CONTROLS)
        assert {c.name for c in meta.controls if not c.in_force} <= {"apparmor"}, "which not every host has"
        assert all(c.wanted and c.detail for c in meta.controls)
        assert meta.image is not None and len(meta.image.key) in (64, 71)
        assert meta.attempts[0].sandbox_id


def test_the_salt_is_published_when_the_run_is_over(smoke: dict[str, Any]) -> None:
    lock = json.loads((Path(smoke["folder"]) / "meta" / "lock.json").read_text())
    assert len(lock["salt"]) == 32 and set(lock["images"]) == {"core", "llm4ad"}


def test_every_shipped_task_builds_and_scores_under_noop(images: Path, tmp_path: Path) -> None:
    listed = cli("list-tasks", "--bench", "internal,trace_examples").stdout.split()
    tasks = [t for t in listed if t != "internal:non_trainable"]
    assert len(tasks) == 11
    # Of the 65 others some, which tests/suites scores without containers; all of them under --full (test_llm4ad).
    tasks += KINDS
    got = run(tmp_path, images, tasks=tasks, trainers=["NoOp"], max_workers=2,
              splits={"train": 1, "validate": 1, "test": 1})  # fmt: skip
    assert got["code"] == 0, [(r["task_id"], r["feedback"]) for r in got["jobs"] if r["status"] != "ok"]
    for row in got["jobs"]:
        asks = row["task_id"] == "internal:multiobjective_gsm8k"  # its agent does
        assert row["score_best"] == row["score_initial"] and (row["llm_calls"] > 0) == asks


def test_held_out_data_is_scored_where_a_task_has_some(images: Path, tmp_path: Path) -> None:
    got = run(tmp_path, images, tasks=["llm4ad:optimization/online_bin_packing"], trainers=["NoOp"],
              eval_kwargs={"n_items": 100})  # fmt: skip
    assert got["jobs"][0]["score_test"] is not None


def test_a_task_without_trainable_parameters_fails_as_such(images: Path, tmp_path: Path) -> None:
    got = run(tmp_path, images, tasks=["internal:non_trainable"], trainers=["NoOp"])
    row = got["jobs"][0]
    assert got["code"] == 1
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "no_trainable_parameters")


def test_only_a_job_with_a_graph_imports_the_graph_library(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "modules"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(
        'title = "A task of this test"\nstatement = "Look."\ninteraction = "value"\nsuite = "internal"\n'
        '[score]\ndirection = "maximize"\nfailure = -1.0\n'
    )
    (folder / "problem.py").write_text(
        """
import os, sys
from trace_bench.worker.problem import Parameter, Problem, examples

def build(context):
    def guide(query, response, reference):
        print("MODULES", os.getuid() % 16, *[n for n in ("opto", "litellm", "numpy") if n in sys.modules], flush=True)
        return -abs(response - 3.0), ""
    return Problem(parameters=(Parameter("x", 0.0, "float", bounds=(-5.0, 5.0)),), guide=guide,
                   train=examples(["only"]), objective="Look.", direction="maximize", failure_score=-100.0)
"""
    )
    config = write_config(tmp_path, tasks=["internal:modules"], trainers=["NoOp", SEARCH])
    done = cli("run", "--config", str(config), "--root", str(tmp_path / "tasks"), "--json", home=images)
    assert done.returncode == 0, done.stdout
    result = result_of(done.stdout)
    train, score = {}, set()
    for row in result["jobs"]:
        log = Path(result["folder"], "jobs", row["job_id"], "stdout.log").read_text().splitlines()
        seen = [line.split()[1:] for line in log if line.startswith("MODULES")]
        train[row["trainer_id"]] = {tuple(names) for who, *names in seen if who == "1"}
        score |= {tuple(names) for who, *names in seen if who == "2"}
    assert train == {"NoOp": {()}, "PrioritySearch": {("opto",)}}
    assert score == {()}


def test_an_agent_of_two_operators_is_optimised_through_its_graph(images: Path, tmp_path: Path) -> None:
    got = run(tmp_path, images, tasks=["trace_examples:opentrace_greeting"], trainers=[SEARCH], seeds=[3])
    row = got["jobs"][0]
    assert row["status"] == "ok" and row["score_best"] >= row["score_initial"]
    cassette = Path(got["folder"], "jobs", row["job_id"], "llm.jsonl").read_text().splitlines()
    prompt = json.dumps(json.loads(cassette[0])["request"]["body"]["messages"])
    assert "decide_lang" in prompt and "greet" in prompt
