"""A run with TensorBoard's files: there, indexed, and of the same curves as the histories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.execution.test_tensorboard import read
from tests.integration.cli import history, run
from tests.integration.files import check_files

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.docker


def test_a_job_has_event_files_of_its_history(images: Path, tmp_path: Path) -> None:
    search = {"id": "PrioritySearch", "params": {"num_steps": 2}, "logger": "TensorboardLogger"}
    result = run(tmp_path, images, tasks=["internal:numeric_param"], trainers=[search])
    assert result["code"] == 0, result["stderr"]
    (row,) = result["jobs"]
    lines = history(result, row)
    found = read(Path(result["folder"]) / row["tb_logdir"])
    assert [time for _, time, _ in found["score/best"]] == [line["seconds"] for line in lines]
    assert [value for *_, value in found["spent/evaluations"]] == [line["evaluations"] for line in lines]
    assert row["resolved_logger"] == "TensorboardLogger"
    assert check_files(result["folder"]) > 0
    index = json.loads((Path(result["folder"]) / "meta" / "files_index.json").read_text())
    assert any("/tb/events.out.tfevents" in entry["path"] for entry in index["files"])
