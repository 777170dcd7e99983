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
SEEDS, FEW = list(range(1, 9)), [1, 2, 5]
"""Of the jobs under --full, and without it."""


def scores(result: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What counts of each job, by job id."""
    keys = ("score_initial", "score_final", "score_best", "score_test", "total_tokens", "evaluations")
    return {row["job_id"]: tuple(row[key] for key in keys) for row in result["jobs"]}


@pytest.fixture(scope="module")
def seeds(request: pytest.FixtureRequest) -> list[int]:
    return SEEDS if request.config.getoption("--full") else FEW


@pytest.fixture(scope="module")
def matrix(seeds: list[int], images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("matrix")
    return run(folder, images, tasks=TASKS, trainers=[SEARCH], seeds=seeds, max_workers=4)


@pytest.mark.slow
def test_all_jobs_are_ok_with_four_workers(matrix: dict[str, Any], seeds: list[int]) -> None:
    count = len(TASKS) * len(seeds)
    assert (matrix["code"], matrix["planned"], len(matrix["jobs"])) == (0, count, count), matrix["stderr"]
    assert {row["status"] for row in matrix["jobs"]} == {"ok"}
    assert check_files(matrix["folder"]) > count * 15
    csv = Path(matrix["folder"], "results.csv").read_text().splitlines()
    assert len(csv) == count + 1 and Path(matrix["folder"], "results.parquet").is_file()


@pytest.mark.slow
def test_all_jobs_again_have_equal_scores(
    matrix: dict[str, Any], seeds: list[int], images: Path, tmp_path: Path
) -> None:
    again = run(tmp_path, images, tasks=TASKS, trainers=[SEARCH], seeds=seeds, max_workers=4)
    assert again["code"] == 0 and again["run_id"] != matrix["run_id"]
    held_out = 3  # which the run's salt decides
    assert {k: v[:held_out] + v[held_out + 1 :] for k, v in scores(again).items()} == {
        k: v[:held_out] + v[held_out + 1 :] for k, v in scores(matrix).items()
    }


@pytest.mark.slow
def test_seeds_matter(matrix: dict[str, Any], seeds: list[int]) -> None:
    # Of programs the stub model knows a handful, so that some searches are alike.
    for task, least in zip(TASKS, (len(seeds) - len(seeds) // 4, len(seeds) // 2), strict=True):
        searches = [
            [line["parameters"] for line in history(matrix, row)] for row in matrix["jobs"] if row["task_id"] == task
        ]
        assert len(searches) == len(seeds)
        different = [search for index, search in enumerate(searches) if search not in searches[:index]]
        assert len(different) >= least, f"{task}: only {len(different)} of {len(seeds)} seeds search differently"


@pytest.mark.slow
def test_neither_order_nor_neighbours_nor_workers_change_a_score(
    matrix: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    """Some of the same jobs: one at a time, in another order, beside other tasks and trainers."""
    config: dict[str, Any] = {
        "tasks": ["internal:multi_param", TASKS[1], TASKS[0]], "trainers": ["NoOp", SEARCH], "seeds": [5, 2]
    }  # fmt: skip
    alone = run(tmp_path, images, max_workers=1, **config)
    assert alone["code"] == 0, alone["stderr"]
    known = scores(matrix)
    shared = {job_id: found for job_id, found in scores(alone).items() if job_id in known}
    assert len(shared) == 4
    for job_id, found in shared.items():
        assert found[:3] == known[job_id][:3] and found[4:] == known[job_id][4:]
