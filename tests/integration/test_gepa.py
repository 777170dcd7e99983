"""GEPA in real containers: an agent of two parameters is searched, and the search comes out equal when replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run
from tests.integration.files import check_files
from tests.integration.test_replay import assert_equal, replay

pytestmark = pytest.mark.docker

TASKS = ["internal:multi_param"]
TRAINERS = [
    {"id": "GEPA-Base", "params": {"gepa_iters": 8, "gepa_merge_every": 2}},
    {"id": "GEPA-UCB", "params": {"gepa_iters": 8, "gepa_train_bs": 1}},
    {"id": "GEPA-Beam", "params": {"gepa_iters": 4, "num_threads": 4, "num_proposals": 2}},
]


@pytest.fixture(scope="module")
def searched(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("gepa"), images, tasks=TASKS, trainers=TRAINERS, seeds=[1], max_workers=2)


def test_all_three_search_an_agent_of_two_parameters(searched: dict[str, Any]) -> None:
    assert searched["code"] == 0, searched["stderr"]
    assert len(searched["jobs"]) == 3 and {row["status"] for row in searched["jobs"]} == {"ok"}
    assert check_files(searched["folder"]) > 3 * 10
    for row in searched["jobs"]:
        start, *steps = history(searched, row)
        assert start["candidate"] == "seed" and start["step"] == 0
        assert {line["accepted"] for line in steps} == {True, False}, row
        assert row["score_best"] > row["score_initial"]
        for line in steps:
            parents = [known for known in [start, *steps] if known["candidate"] in line["parents"]]
            assert parents
            if len(line["parents"]) == 1:  # one module at a time
                before, after = parents[0]["parameters"], line["parameters"]
                assert sum(before[name] != after[name] for name in before) == 1


@pytest.mark.slow
def test_they_come_out_equal_when_replayed(searched: dict[str, Any], images: Path, tmp_path: Path) -> None:
    assert_equal(searched["folder"], replay(searched["folder"], tmp_path, images))
