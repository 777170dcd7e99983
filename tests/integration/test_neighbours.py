"""What one job does to its sandbox changes nothing in the sandbox beside it."""

from __future__ import annotations

import json
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
        for who in ("trainer", "candidate")
    ]


def test_fork_bombs_leave_the_neighbours_score_alone(images: Path, tmp_path: Path) -> None:
    """A trainer and a candidate that fork as fast as they may, and an honest search of many candidates beside them."""
    (tmp_path / "alone").mkdir()
    (tmp_path / "beside").mkdir()
    alone = run(tmp_path / "alone", images, tasks=[HONEST], trainers=[SEARCH])
    beside = run(tmp_path / "beside", images, tasks=[*bombs(6.0), HONEST], trainers=[SEARCH], max_workers=3)

    (quiet,) = alone["jobs"]
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in beside["jobs"]:
        by_task.setdefault(row["task_id"], []).append(row)
    (honest,) = by_task[HONEST]
    assert (honest["status"], honest["job_id"]) == ("ok", quiet["job_id"]), honest["feedback"]
    for key in ("score_initial", "score_best", "score_final", "evaluations", "llm_calls"):
        assert honest[key] == quiet[key], key
    assert [line["score"] for line in history(beside, honest)] == [line["score"] for line in history(alone, quiet)]

    # That it was so: the bombs went off, met their limits, and went on while the neighbour was at work.
    began, ended = worked(Path(beside["folder"]), honest["job_id"])
    for row in by_task["internal:bomb"]:
        went = [
            w for w in explosions(Path(beside["folder"]), row["job_id"]) if w["began"] < ended and w["ended"] > began
        ]
        assert went and all(w["refused"] > 0 for w in went), row["feedback"]


def explosions(folder: Path, job_id: str) -> list[dict[str, float]]:
    log = (folder / "jobs" / job_id / "stdout.log").read_text()
    return [json.loads(line.partition("BOMB ")[2]) for line in log.splitlines() if "BOMB " in line]


def worked(folder: Path, job_id: str) -> tuple[float, float]:
    """When the job's sandbox began to train, and when it ended; seconds since 1970."""
    from datetime import datetime

    def seconds(text: str) -> float:
        return datetime.fromisoformat(text).timestamp()

    meta = json.loads((folder / "jobs" / job_id / "job_meta.json").read_text())
    return seconds(meta["started_at"]), seconds(meta["ended_at"])
