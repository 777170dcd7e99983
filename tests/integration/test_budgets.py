"""The budget of a run over real containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, run
from tests.integration.files import check_files

pytestmark = pytest.mark.docker

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}
WHOLE: dict[str, Any] = {
    "tasks": ["internal:numeric_param"], "trainers": [SEARCH], "seeds": list(range(1, 9)), "max_workers": 4,
}  # fmt: skip


def lines_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """All lines of all cassettes that are answers, and no copies."""
    cassettes = sorted(Path(result["folder"]).glob("jobs/*/llm.jsonl"))
    lines = [json.loads(line) for path in cassettes for line in path.read_text().splitlines()]
    return [line for line in lines if line["reused_from"] is None and not line["refused"]]


@pytest.mark.slow
def test_eight_jobs_on_four_workers_share_one_budget(images: Path, tmp_path: Path) -> None:
    cut = run(tmp_path, images, **WHOLE, run_id="shared", budget={"run": {"calls": 20}})
    assert len(lines_of(cut)) == 20
    assert sum(row["llm_calls"] for row in cut["jobs"]) == 20
    by_state = {state: [row for row in cut["jobs"] if state_of(row) == state] for state in ("whole", "cut", "skipped")}
    assert sum(map(len, by_state.values())) == 8
    assert by_state["skipped"] and by_state["cut"], "three to six calls a job: twenty are not enough for all"
    for row in by_state["cut"]:
        assert (row["status"], row["stop_reason"]) == ("ok", "budget")
        assert row["score_best"] is not None, "what it had is scored"
    for row in by_state["skipped"]:
        assert row["feedback"] == "the run's budget of 20 calls is used up"
    assert cut["code"] == 1, "it is not whole"
    assert "jobs did not finish; with a larger budget.run, the same command continues the run" in cut["stderr"]
    check_files(cut["folder"])

    more = run(tmp_path, images, **WHOLE, run_id="shared", budget={"run": {"calls": 1000}})
    assert more["code"] == 0, more["stderr"]
    assert {state_of(row) for row in more["jobs"]} == {"whole"}
    lines = lines_of(more)
    assert len(lines) == sum(row["llm_calls"] for row in more["jobs"])
    again = [row["llm_reused"] for row in more["jobs"] if row["job_id"] in {old["job_id"] for old in by_state["cut"]}]
    assert again == [row["llm_calls"] for row in by_state["cut"]], "what was paid is not paid again"

    (tmp_path / "alone").mkdir()
    alone = run(tmp_path / "alone", images, **WHOLE)
    assert [row["score_best"] for row in more["jobs"]] == [row["score_best"] for row in alone["jobs"]]
    assert [row["total_tokens"] for row in more["jobs"]] == [row["total_tokens"] for row in alone["jobs"]]

    totals = json.loads(cli("llm", "ls", more["folder"], "--json").stdout)["totals"]
    assert totals["prompt_tokens"] + totals["completion_tokens"] == sum(row["total_tokens"] for row in more["jobs"])


def state_of(row: dict[str, Any]) -> str:
    if row["status"] == "skipped":
        return "skipped"
    return "cut" if row["cut_by_run_budget"] else "whole"


@pytest.mark.slow
def test_when_the_time_of_a_run_is_up_its_jobs_end_in_order(images: Path, tmp_path: Path) -> None:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 0.2}}
    endless = {"id": "PrioritySearch", "params": {"num_steps": 100_000, "num_candidates": 1, "num_proposals": 1}}
    config: dict[str, Any] = {"tasks": [task], "trainers": [endless], "seeds": [1, 2, 3], "max_workers": 2}
    result = run(tmp_path, images, **config, budget={"run": {"seconds": 12}})
    assert sorted(map(state_of, result["jobs"])) == ["cut", "cut", "skipped"]
    for row in result["jobs"]:
        if state_of(row) == "cut":
            assert (row["status"], row["stop_reason"]) == ("ok", "budget"), row["feedback"]
            assert row["score_initial"] is not None, "it was scored"
        else:
            assert row["feedback"] == "the run's budget of 12 seconds is used up"
