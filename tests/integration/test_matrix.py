"""A matrix of jobs: all of them ok, the same again, and no job's score depends on any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run
from tests.integration.files import check_files

pytestmark = pytest.mark.docker

TASKS = ["internal:numeric_param", "llm4ad:circle_packing"]
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}
SEEDS = list(range(1, 9))


def scores(result: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What counts of each job, by job id."""
    keys = ("score_initial", "score_final", "score_best", "score_test", "total_tokens", "evaluations")
    return {row["job_id"]: tuple(row[key] for key in keys) for row in result["jobs"]}


@pytest.fixture(scope="module")
def sixteen(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sixteen")
    return run(folder, images, tasks=TASKS, trainers=[SEARCH], seeds=SEEDS, max_workers=4)


def test_sixteen_of_sixteen_are_ok_with_four_workers(sixteen: dict[str, Any]) -> None:
    assert (sixteen["code"], sixteen["planned"], len(sixteen["jobs"])) == (0, 16, 16), sixteen["stderr"]
    assert {row["status"] for row in sixteen["jobs"]} == {"ok"}
    assert check_files(sixteen["folder"]) > 16 * 15
    csv = Path(sixteen["folder"], "results.csv").read_text().splitlines()
    assert len(csv) == 17 and Path(sixteen["folder"], "results.parquet").is_file()


@pytest.mark.slow
def test_sixteen_of_sixteen_again_with_equal_scores(sixteen: dict[str, Any], images: Path, tmp_path: Path) -> None:
    again = run(tmp_path, images, tasks=TASKS, trainers=[SEARCH], seeds=SEEDS, max_workers=4)
    assert again["code"] == 0 and again["run_id"] != sixteen["run_id"]
    held_out = 3  # which the run's salt decides
    assert {k: v[:held_out] + v[held_out + 1 :] for k, v in scores(again).items()} == {
        k: v[:held_out] + v[held_out + 1 :] for k, v in scores(sixteen).items()
    }


def test_seeds_matter(sixteen: dict[str, Any]) -> None:
    for task in TASKS:
        searches = [
            [line["parameters"] for line in history(sixteen, row)] for row in sixteen["jobs"] if row["task_id"] == task
        ]
        assert len(searches) == 8
        different = [search for index, search in enumerate(searches) if search not in searches[:index]]
        assert len(different) >= 6, f"{task}: only {len(different)} of 8 seeds search differently"


@pytest.mark.slow
def test_neither_order_nor_neighbours_nor_workers_change_a_score(
    sixteen: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    """Some of the same jobs: one at a time, in another order, beside other tasks and trainers."""
    config: dict[str, Any] = {
        "tasks": ["internal:multi_param", TASKS[1], TASKS[0]], "trainers": ["NoOp", SEARCH], "seeds": [5, 2]
    }  # fmt: skip
    alone = run(tmp_path, images, max_workers=1, **config)
    assert alone["code"] == 0, alone["stderr"]
    known = scores(sixteen)
    shared = {job_id: found for job_id, found in scores(alone).items() if job_id in known}
    assert len(shared) == 4
    for job_id, found in shared.items():
        assert found[:3] == known[job_id][:3] and found[4:] == known[job_id][4:]
