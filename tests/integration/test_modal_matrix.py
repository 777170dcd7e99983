"""A matrix on backend modal comes to what it comes to on Docker, and nothing of the host goes there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.cli import history, run
from tests.integration.modal_runs import Pushed, on_modal

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer

pytestmark = [pytest.mark.docker, pytest.mark.modal]

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}
MATRIX: dict[str, Any] = {
    "tasks": ["internal:numeric_param", "llm4ad:circle_packing"],
    "trainers": ["NoOp", SEARCH],
    "seeds": [1, 2],
    "max_workers": 4,
}
OF_A_RUN = {"run_id", "score_test", "score_final_test"}
"""Differs between any two runs: the held-out data follow from the run's salt."""
OF_A_CLOCK = {"seconds", "elapsed", "t", "started_at", "ended_at", "wall_seconds", "time_seconds"}


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    return value


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def found_in(result: dict[str, Any]) -> dict[str, Any]:
    """All of a run that must be the same wherever it ran, by job."""
    folder = Path(result["folder"])
    return {
        row["job_id"]: {
            "row": row,
            "history": history(result, row),
            "cassette": lines(folder / "jobs" / row["job_id"] / "llm.jsonl"),
            "events": lines(folder / "jobs" / row["job_id"] / "events.jsonl"),
        }
        for row in result["jobs"]
    }


def test_a_matrix_on_modal_comes_to_what_it_comes_to_on_docker(
    pushed: Pushed, server: ModalServer, tmp_path: Path
) -> None:
    for name in ("modal", "docker"):
        (tmp_path / name).mkdir()
    there = run(tmp_path / "modal", pushed.home, **MATRIX, **on_modal())
    here = run(tmp_path / "docker", pushed.home, **MATRIX)
    assert (there["code"], len(there["jobs"])) == (0, 8), there["stderr"]
    a, b = found_in(there), found_in(here)
    (Path("/tmp/fx/a.json")).write_text(json.dumps(a))
    (Path("/tmp/fx/b.json")).write_text(json.dumps(b))
