"""The shipped scripted model improves a score in containers, the same each time, however many threads ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, history, run
from tests.integration.files import check_files, values_in

pytestmark = pytest.mark.docker

LLM = {"model": f"scripted:{REPOSITORY / 'configs' / 'scripted' / 'towards_best.yaml'}"}
PARAMS = {"num_steps": 4, "num_candidates": 2, "num_proposals": 2}
WHAT_COUNTS = ("score", "best_score", "parameters", "candidate", "step", "split")


def demo(folder: Path, home: Path, threads: int = 1) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    trainers = [{"id": "PrioritySearch", "params": {**PARAMS, "num_threads": threads}}]
    done = run(folder, home, tasks=["internal:numeric_param"], trainers=trainers, seeds=[123], llm=LLM)
    assert done["code"] == 0, done["stderr"]
    return done


def search(done: dict[str, Any]) -> list[list[Any]]:
    return [[line.get(key) for key in WHAT_COUNTS] for line in history(done, done["jobs"][0])]


@pytest.fixture(scope="module")
def once(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return demo(tmp_path_factory.mktemp("once"), images)


def test_it_improves_and_costs_what_its_script_says(once: dict[str, Any]) -> None:
    (row,) = once["jobs"]
    assert (row["score_initial"], row["score_best"], row["model"]) == (-3.0, -0.125, "scripted:towards_best")
    calls = values_in(Path(once["folder"], "jobs", row["job_id"], "llm.jsonl"))
    assert row["cost_usd"] == pytest.approx(sum(call["cost_usd"] for call in calls)) and row["cost_usd"] > 0
    assert check_files(once["folder"]) > 15
    assert len(list(Path(once["folder"], "meta", "scripts").iterdir())) == 1


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_it_is_the_same_each_time_with_any_number_of_threads(
    once: dict[str, Any], images: Path, tmp_path: Path, threads: int
) -> None:
    again = demo(tmp_path, images, threads)
    assert search(again) == search(once) and len(search(once)) > 4
