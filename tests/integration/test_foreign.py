"""Foreign code in containers: its candidates' processes, what is flagged, and failures that name the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, run

pytestmark = pytest.mark.docker
FOLDERS = REPOSITORY / "tests" / "foreign"


def record(result: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    path = Path(result["folder"]) / "jobs" / row["job_id"] / "job_meta.json"
    return dict(json.loads(path.read_text()))


def test_foreign_folders_run_and_those_that_execute_programs_are_flagged(images: Path, tmp_path: Path) -> None:
    broken = tmp_path / "more" / "broken"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("import pandaz\n\n\ndef build_trace_problem(**kwargs):\n    return {}\n")
    tasks: list[Any] = [
        {"id": "llm4ad:proxied", "eval_kwargs": {"n_instance": 2}},
        "executing",
        "agent",
        "objects",
        {"id": "objects", "eval_kwargs": {"execute_in_scorer": True}},
        "broken",
    ]
    result = run(
        tmp_path, images, "--root", str(FOLDERS), "--root", str(tmp_path / "more"), tasks=tasks, trainers=["Minibatch"]
    )  # fmt: skip
    rows = result["jobs"]
    assert [(row["task_id"], row["status"], row["integrity"]) for row in rows] == [
        ("llm4ad:proxied", "ok", "protected"),
        ("llm4ad:executing", "ok", "unprotected"),
        ("llm4ad:agent", "ok", "protected"),
        ("llm4ad:objects", "failed", "protected"),
        ("llm4ad:objects", "ok", "unprotected"),
        ("llm4ad:broken", "failed", "protected"),
    ], result["stderr"]
    proxied, executing, _, objects, _, missing = (record(result, row) for row in rows)
    assert 0 < rows[0]["score_initial"] < 1
    assert proxied["integrity_report"]["candidates"]["score"]["opened"] > 0
    assert executing["integrity_report"]["candidates"]["score"]["opened"] == 0
    for meta, said in ((objects, "execute_in_scorer: true"), (missing, "imports pandaz, which is not in the image")):
        assert meta["failure"]["boundary"] == "task" and said in meta["failure"]["message"], meta["failure"]
    manifest = (Path(result["folder"]) / "meta" / "manifest.json").read_text()
    assert manifest.count('"unprotected"') == 2
