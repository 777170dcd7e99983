"""Every optimizer in containers: with the stub model, and with a model that gives one bad answer after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run
from tests.integration.files import check_files, values_in
from trace_bench.trainers.optimizers import OPTIMIZERS

pytestmark = pytest.mark.docker

SEARCH = {"num_steps": 2, "num_candidates": 1, "num_proposals": 2}
CALLS = {"OptoPrimeMulti": 4 * 6, "TextGrad": 4 * 2}
"""Of four proposals, where it is not one for each: five answers and a choice; one edge and one rewrite."""


def job_of(done: dict[str, Any], optimizer: str) -> dict[str, Any]:
    (row,) = (row for row in done["jobs"] if row["resolved_optimizer"] == optimizer)
    return dict(row)


def kept(done: dict[str, Any], row: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return values_in(Path(done["folder"], "jobs", row["job_id"], name))


@pytest.fixture(scope="module")
def stub_run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    trainers = [{"id": "PrioritySearch", "optimizer": name, "params": SEARCH} for name in OPTIMIZERS]
    folder = tmp_path_factory.mktemp("stub")
    return run(folder, images, tasks=["internal:numeric_param"], trainers=trainers, seeds=[5])


def test_each_optimizer_changes_the_parameter_and_pays_for_each_call(stub_run: dict[str, Any]) -> None:
    assert stub_run["code"] == 0, stub_run["stderr"]
    assert check_files(stub_run["folder"]) > 15
    for name in OPTIMIZERS:
        row = job_of(stub_run, name)
        assert (row["status"], row["stub_inert"]) == ("ok", False), name
        calls = kept(stub_run, row, "llm.jsonl")
        assert len(calls) == CALLS.get(name, 4), name
        assert len({call["slot"] for call in calls}) == len(calls), name
        steps = history(stub_run, row)
        assert len({json.dumps(step["parameters"]) for step in steps}) >= 4, name  # the start and its children
