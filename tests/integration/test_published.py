"""Configs that repeat published settings run in stub mode, with instances and a budget that are cut down."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.integration.cli import REPOSITORY, run

pytestmark = pytest.mark.docker

PATHS = sorted((REPOSITORY / "configs").glob("published_*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_published_config_runs_cut_down(path: Path, images: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(path.read_text())
    if "co_bench" in path.stem:
        config["tasks"] = ["llm4ad:optimization/co_bench/set_covering_co_bench"]
    elif "n_items" in config["tasks"][0]["eval_kwargs"]:
        config["tasks"][0]["eval_kwargs"]["n_items"] = 200
    judged = 1
    if "splits" in config:
        judged = 2
        config["splits"] = {"train": judged, "validate": 0, "test": 1}
    done = run(tmp_path, images, **{**config, "seeds": [1], "budget": {"evaluations": 4 * judged}})
    assert done["code"] == 0, done["stderr"]
    assert len(done["jobs"]) == len(config["trainers"])
    for row in done["jobs"]:
        assert row["status"] == "ok", row
        spent = row["evaluations"]
        assert spent == judged if row["trainer_id"] == "NoOp" else judged < spent <= 4 * judged, row["trainer_id"]
