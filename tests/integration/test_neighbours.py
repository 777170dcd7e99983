"""What one job does to its sandbox changes nothing in the sandbox beside it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run

pytestmark = pytest.mark.docker
SMALL = {"memory": "512m", "pids": 128, "cpus": 0.5}
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}
HONEST = "llm4ad:circle_packing"


def bombs(seconds: float) -> list[dict[str, Any]]:
    return [
        {"id": "internal:bomb", "eval_kwargs": {"who": who, "seconds": seconds}, "sandbox": SMALL}
        for who in ("trainer", "candidate", "quiet")
    ]


@pytest.mark.slow
def test_fork_bombs_leave_the_neighbours_score_alone(images: Path, tmp_path: Path) -> None:
    """A trainer and a candidate that fork as fast as they may; beside them an honest search of many candidates, and a
    candidate that starts one process after another and is refused none: limits count by uid over all containers."""
    (tmp_path / "alone").mkdir()
    (tmp_path / "beside").mkdir()
    alone = run(tmp_path / "alone", images, tasks=[HONEST], trainers=[SEARCH])
    beside = run(tmp_path / "beside", images, tasks=[*bombs(10.0), HONEST], trainers=[SEARCH], max_workers=4)

    (quiet,) = alone["jobs"]
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in beside["jobs"]:
        by_task.setdefault(row["task_id"], []).append(row)
    (honest,) = by_task[HONEST]
    assert (honest["status"], honest["job_id"]) == ("ok", quiet["job_id"]), honest["feedback"]
    for key in ("score_initial", "score_best", "score_final", "evaluations", "llm_calls"):
        assert honest[key] == quiet[key], key
    assert [line["score"] for line in history(beside, honest)] == [line["score"] for line in history(alone, quiet)]

    # That it was so: the bombs met their limits, all were at work at one time, and the quiet one was refused nothing.
    bomb, bomb_of_candidate, calm = (explosion(Path(beside["folder"]), row) for row in by_task["internal:bomb"])
    assert bomb["refused"] > 0 and bomb_of_candidate["refused"] > 0 and calm["refused"] == 0
    windows = [bomb, bomb_of_candidate, calm, worked(Path(beside["folder"]), honest)]
    assert max(w["began"] for w in windows) < min(w["ended"] for w in windows), windows


def explosion(folder: Path, row: dict[str, Any]) -> dict[str, float]:
    log = (folder / "jobs" / row["job_id"] / "stdout.log").read_text()
    (found,) = [json.loads(line.partition("BOMB ")[2]) for line in log.splitlines() if "BOMB " in line]
    return dict(found)


def worked(folder: Path, row: dict[str, Any]) -> dict[str, float]:
    """When the job began and when it ended; seconds since 1970."""
    meta = json.loads((folder / "jobs" / row["job_id"] / "job_meta.json").read_text())
    times = {"began": meta["started_at"], "ended": meta["ended_at"]}
    return {name: datetime.fromisoformat(text).timestamp() for name, text in times.items()}
