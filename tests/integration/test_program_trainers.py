"""Searches over one program in sandboxes, on tasks of llm4ad, and their replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run
from tests.integration.files import check_files, values_in
from tests.integration.test_replay import assert_equal, replay

pytestmark = pytest.mark.docker

TASKS: list[Any] = [
    {"id": "llm4ad:optimization/online_bin_packing", "eval_kwargs": {"n_items": 120}},
    "llm4ad:optimization/knapsack_construct",
    {"id": "llm4ad:optimization/tsp_construct", "eval_kwargs": {"problem_size": 15}},
]
SPLITS = {"train": 1, "validate": 2, "test": 1}
TRAINERS = [
    {"id": "FunSearch", "params": {"num_steps": 3, "samples_per_prompt": 2, "num_islands": 2}},
    {"id": "MCTS-AHD", "params": {"num_steps": 2, "init_size": 2, "mutations": 1}},
    {"id": "ReEvo", "params": {"num_steps": 2, "init_size": 3, "population_size": 2}},
    {"id": "EoH", "params": {"num_steps": 2, "population_size": 2, "operators": ["e1", "m1"]}},
]
SCRIPT = """
rules:
  - match: {contains: Answer with the description alone}
    text: "It packs item by item, place ${step} ${candidate}."
  - match: {contains: Answer with the hints alone}
    text: "Prefer nearly full bins, place ${step} ${candidate}."
  - match: {regex: 'everything that `(?P<entry>\\w+)` needs', contains: capacit}
    text: |
      Best fit, with a bonus for bins that are nearly full.

      ```python
      import numpy as np

      def ${entry}(item, bins):
          left = bins - item
          # ${step} ${candidate}
          return np.where(left < ${step} + 5 * ${proposal}, 1000.0, 0.0) - left
      ```
"""
"""A model that writes a program of its own in each answer, under the name that the prompt asks for."""


def better(row: dict[str, Any]) -> bool:
    way = 1 if row["score_direction"] == "maximize" else -1
    return bool(way * row["score_best"] > way * row["score_initial"])


def check(done: dict[str, Any]) -> None:
    """All jobs ended by themselves, and their histories are whole."""
    assert done["code"] == 0, (done["stderr"], [row["feedback"] for row in done["jobs"]])
    for row in done["jobs"]:
        assert (row["status"], row["stop_reason"]) == ("ok", "completed"), row
        lines = history(done, row)
        assert lines[-1]["best_score"] == pytest.approx(row["score_best"])
        known = {"seed"}
        for line in lines[1:]:
            assert line["parents"] and set(line["parents"]) <= known and line["accepted"] in (True, False)
            known.add(line["candidate"])
    assert check_files(done["folder"]) > 10 * len(done["jobs"])


@pytest.fixture(scope="module")
def stubbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("stubbed")
    return run(folder, images, tasks=TASKS, trainers=TRAINERS, seeds=[1], splits=SPLITS, max_workers=2, timeout=500)


@pytest.fixture(scope="module")
def scripted(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "writes.yaml").write_text(SCRIPT)
    llm = {"model": f"scripted:{folder / 'writes.yaml'}"}
    return run(
        folder, images, tasks=TASKS[:1], trainers=TRAINERS, seeds=[1], splits=SPLITS, llm=llm, max_workers=2,
        timeout=500,
    )  # fmt: skip


def test_each_searches_the_programs_that_the_stub_model_proposes(stubbed: dict[str, Any]) -> None:
    check(stubbed)
    assert len(stubbed["jobs"]) == 3 * len(TRAINERS) and not any(row.get("stub_inert") for row in stubbed["jobs"])
    for trainer in TRAINERS:
        assert any(better(row) for row in stubbed["jobs"] if row["trainer_id"] == trainer["id"])


def test_each_searches_the_programs_that_a_scripted_model_writes(scripted: dict[str, Any]) -> None:
    check(scripted)
    for row in scripted["jobs"]:
        lines = history(scripted, row)
        sources = [line["parameters"]["code"] for line in lines[1:]]
        assert len(sources) > 2 and all("def priority(item, bins):" in source for source in sources)
        assert better(row)
    asked = {
        row["trainer_id"]: values_in(Path(scripted["folder"], "jobs", row["job_id"], "llm.jsonl"))
        for row in scripted["jobs"]
    }
    assert len(asked["FunSearch"]) == 3 * 2


def test_what_a_scripted_model_wrote_is_repeated_from_the_cassettes(
    scripted: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    assert_equal(scripted["folder"], replay(scripted["folder"], tmp_path, images))


@pytest.mark.slow
def test_what_the_stub_model_proposed_is_repeated_from_the_cassettes(
    stubbed: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    assert_equal(stubbed["folder"], replay(stubbed["folder"], tmp_path, images))
