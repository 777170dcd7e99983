"""What training claims against what is found, in real containers: one run of tasks whose guides know where they run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, result_of, write_config
from tests.integration.files import check_files

pytestmark = pytest.mark.docker

SPEC = """
title = "A task of this test"
statement = "Look."
interaction = "value"
suite = "internal"
tolerance = {tolerance}
timing_sensitive = {timing}
[score]
direction = "maximize"
failure = -1.0
"""
PROBLEM = """
import os
from trace_bench.worker.problem import Parameter, Problem, examples

def build(context):
    def guide(query, response, reference):
        training = os.getuid() % 16 == 1
        return (1.0 if training else {scored}), "\\x1b[2J=1+1 <b>[red]\\nforged"
    return Problem(parameters=(Parameter("x", 0.0, "float", bounds=(-5.0, 5.0)),), guide=guide,
                   train=examples(["one", "two"]), objective="Look.", direction="maximize", failure_score=-100.0)
"""
TASKS = {
    "honest": {"scored": 1.0, "tolerance": 0.0, "timing": "false"},
    "two_faced": {"scored": 0.9, "tolerance": 0.01, "timing": "false"},
    "tolerant": {"scored": 0.9, "tolerance": 0.2, "timing": "false"},
    "timed": {"scored": 0.9, "tolerance": 0.0, "timing": "true"},
}


@pytest.fixture(scope="module")
def result(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("claims")
    for name, how in TASKS.items():
        task = folder / "tasks" / name
        task.mkdir(parents=True)
        (task / "task.toml").write_text(SPEC.format(**how))
        (task / "problem.py").write_text(PROBLEM.format(**how))
    config = write_config(folder, tasks=[f"internal:{name}" for name in TASKS], trainers=["NoOp"], max_workers=2)
    done = cli("run", "--config", str(config), "--root", str(folder / "tasks"), "--json", home=images)
    assert done.returncode == 0, done.stdout + done.stderr
    return result_of(done.stdout)


def rows(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["task_id"].removeprefix("internal:"): row for row in result["jobs"]}


def test_only_the_claim_that_should_have_come_true_is_flagged(result: dict[str, Any]) -> None:
    assert {name: row["integrity_flags"] for name, row in rows(result).items()} == {
        "honest": "", "two_faced": "claim_differs", "tolerant": "", "timed": "",
    }  # fmt: skip
    assert result["flagged_jobs"] == 1
    for name, row in rows(result).items():
        assert (row["score_claimed"], row["score_best"]) == (1.0, TASKS[name]["scored"]), "the scorer's counts"


def test_the_record_has_both_numbers_of_all_states(result: dict[str, Any]) -> None:
    for name, row in rows(result).items():
        meta = json.loads(Path(result["folder"], "jobs", row["job_id"], "job_meta.json").read_text())
        report = meta["integrity_report"]
        assert {kind: claim["score"] for kind, claim in report["claims"].items()} == dict.fromkeys(
            ("initial", "best", "final"), 1.0
        )
        assert report["found"] == dict.fromkeys(("initial", "best", "final"), TASKS[name]["scored"])
        assert (meta["tolerance"], meta["timing_sensitive"]) == (TASKS[name]["tolerance"], name == "timed")
    assert check_files(result["folder"]) > 20


def test_tables_mark_it(result: dict[str, Any]) -> None:
    folder = Path(result["folder"])
    with (folder / "leaderboard.csv").open(newline="") as file:
        flags = {row["task_id"]: (row["flagged_jobs"], row["integrity_flags"]) for row in csv.DictReader(file)}
    assert flags["internal:two_faced"] == ("1", "claim_differs") and flags["internal:honest"] == ("0", "")
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["flagged_jobs"], summary["flags"]) == (1, {"claim_differs": 1})
    shown = cli("show", str(folder)).stdout
    marked = [line for line in shown.splitlines() if " ! " in line]
    assert len(marked) == 2 and all("two_faced" in line for line in marked), "the job, and its row of the leaderboard"
    assert "\n!: 1 job is flagged (1 claim_differs): look at the job before you quote its score" in shown
    job = cli("show", str(folder), rows(result)["two_faced"]["job_id"]).stdout
    assert "claim_differs  training said of a saved state what the scorer did not find" in job
    assert "best     1        0.9    2 of train" in job
    assert job.isprintable() is False and all(line.isprintable() for line in job.splitlines())


def test_a_replay_comes_to_the_same_claims_and_flags(result: dict[str, Any], images: Path) -> None:
    folder = Path(result["folder"])
    tasks = folder.parents[1] / "tasks"
    done = cli("run", "--replay", str(folder), "--root", str(tasks), "--runs-dir", str(folder.parent / "again"),
               "--json", home=images)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    again = result_of(done.stdout)
    report = json.loads(Path(again["folder"], "meta", "replay.json").read_text())
    assert (report["equal"], report["differences"]) == (4, [])
    assert rows(again)["two_faced"]["integrity_flags"] == "claim_differs"
