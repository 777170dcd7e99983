"""Candidates of tasks that declare processes or files: how they end, and what the record says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import run
from trace_bench.artifacts.layout import RunLayout

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def ran(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of both tasks: by task, the row, the job's record, and what it printed."""
    search = {"id": "PrioritySearch", "params": {"num_steps": 1}}
    folder = tmp_path_factory.mktemp("families")
    got = run(folder, images, tasks=["internal:families", "internal:operator"], trainers=[search])
    found = {}
    for row in got["jobs"]:
        job = RunLayout(Path(got["folder"])).job(row["job_id"])
        meta = json.loads(job.meta.read_text())
        log = (job.root / "stdout.log").read_text().splitlines()
        events = [json.loads(line) for line in (job.root / "events.jsonl").read_text().splitlines()]
        found[row["task_id"]] = {"row": row, "meta": meta, "log": log, "events": events}
        assert row["status"] == "ok", row["feedback"]
    return found


@pytest.fixture(scope="module")
def families(ran: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each candidate came to."""
    lines = [line for line in ran["internal:families"]["log"] if line.startswith("FAMILY")]
    said = [json.loads(line.removeprefix("FAMILY ")) for line in lines]
    return {item["name"]: item for item in said}


def test_a_program_that_ignores_the_signal_of_its_cpu_limit_is_ended(families: dict[str, Any]) -> None:
    phase, message = families["deaf"]["result"]
    assert phase == "timeout" and message == "the program used more than 1 s of CPU time"


def test_the_wall_limit_ends_processes_that_hide(families: dict[str, Any]) -> None:
    phase, message = families["hiding"]["result"]
    assert phase == "timeout" and "wall time" in message


@pytest.mark.parametrize("name", ["deaf", "hiding", "leaving", "writing", "honest"])
def test_nothing_of_a_family_is_left_when_it_is_closed(families: dict[str, Any], name: str) -> None:
    assert families[name]["left"] == []


def test_honest_candidates_after_all_that_are_right(families: dict[str, Any], ran: dict[str, Any]) -> None:
    assert families["honest"]["result"] == ["ok", 1]
    assert ran["internal:families"]["row"]["score_initial"] == 1.0


def test_there_is_no_place_where_a_candidate_can_leave_anything(families: dict[str, Any]) -> None:
    status, (written, shared_memory, uid) = families["writing"]["result"]
    assert status == "ok" and uid >= 1000
    assert (written, shared_memory) == ([], False)


def test_the_record_says_what_candidates_needed_and_used(families: dict[str, Any], ran: dict[str, Any]) -> None:
    report = ran["internal:families"]["meta"]["integrity_report"]
    train, score = report["candidates"]["train"], report["candidates"]["score"]
    assert train["opened"] > len(families) and (train["over_cpu"], train["unswept"]) == (1, 0)
    assert train["cpu_seconds"] > 1.0, "one has used up a second"
    assert train["needs"] == ["files", "processes"] and score["needs"] == []
    assert score["over_cpu"] == 0 and score["opened"] > 0
    assert {"needs_files", "needs_processes"} <= set(report["flags"])
    assert "needs_files needs_processes" in ran["internal:families"]["row"]["integrity_flags"]


def test_a_trainable_operator_of_a_graph_runs_under_the_uid_of_a_candidate(ran: dict[str, Any]) -> None:
    lines = [line.split()[1:] for line in ran["internal:operator"]["log"] if line.startswith("OPERATOR")]
    assert {number for *_, number in lines} > {"1"}, "the model's proposals ran too"
    offsets = {int(mine) % 16 for _, _, mine, _, _ in lines}
    assert offsets == {1, 2}, "in the trainer and in the scorer"
    for uid, pid, mine, my_pid, _ in lines:
        base = int(mine) // 16 * 16
        assert base + 4 <= int(uid) <= base + 15 and pid != my_pid


def test_a_job_of_honest_operators_has_no_flag(ran: dict[str, Any]) -> None:
    assert ran["internal:operator"]["row"]["integrity_flags"] == ""
