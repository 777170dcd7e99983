"""Foreign code in containers: its candidates' processes, what is flagged, and failures that name the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli, run

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
        ("llm4ad:broken", "failed", "unprotected"),
    ], result["stderr"]
    proxied, executing, _, objects, _, missing = (record(result, row) for row in rows)
    assert 0 < rows[0]["score_initial"] < 1
    assert proxied["integrity_report"]["candidates"]["score"]["opened"] > 0
    assert executing["integrity_report"]["candidates"]["score"]["opened"] == 0
    for meta, said in ((objects, "execute_in_scorer: true"), (missing, "imports pandaz, which is not in the image")):
        assert meta["failure"]["boundary"] == "task" and said in meta["failure"]["message"], meta["failure"]
    assert (
        "warning: llm4ad:executing: its own code may execute programs in the process that scores them (__init__.py, "
        in (result["stderr"])
    )
    assert "warning: llm4ad:objects: execute_in_scorer is set; its jobs are unprotected" in result["stderr"]
    manifest = (Path(result["folder"]) / "meta" / "manifest.json").read_text()
    assert manifest.count('"unprotected"') == 3


def test_a_search_improves_a_program_of_foreign_code(images: Path, tmp_path: Path) -> None:
    better = "def arrange(numbers):\n    return sorted(numbers.tolist())\n"
    script = tmp_path / "sorts.yaml"
    script.write_text(json.dumps({"rules": [{"match": {"contains": "arrange"}, "set": {"code": {"value": better}}}]}))
    result = run(
        tmp_path, images, "--root", str(FOLDERS), tasks=["proxied"], trainers=["BasicSearch"],
        llm={"model": f"scripted:{script}"},
    )  # fmt: skip
    (row,) = result["jobs"]
    assert 0 < row["score_initial"] < row["score_best"] == 1.0, result["stderr"]
    assert (row["integrity"], row["integrity_flags"]) == ("protected", "")


@pytest.mark.slow
def test_evaluations_of_the_package_llm4ad_run_in_an_image_of_their_own(images: Path, tmp_path: Path) -> None:
    built = cli("images", "build", "llm4ad+llm4ad_pkg", home=images, timeout=900)
    assert built.returncode == 0, built.stderr
    tasks: list[Any] = [
        "llm4ad_pkg:optimization/tsp_construct",
        {"id": "llm4ad_pkg:optimization/qap_construct", "eval_kwargs": {"n_instance": 1, "n_facilities": 8}},
        {"id": "llm4ad_pkg:machine_learning/acrobot", "eval_kwargs": {"max_steps": 100}},
        "llm4ad_pkg:science_discovery/stresstrain",
        "llm4ad_pkg:science_discovery/ode_1d",
    ]
    result = run(tmp_path, images, tasks=tasks, trainers=["NoOp"])
    assert [(row["status"], row["integrity"]) for row in result["jobs"]] == [
        *[("ok", "protected")] * 4,
        ("ok", "unprotected"),
    ], result["stderr"]
    scores = [row["score_initial"] for row in result["jobs"]]
    # What the package's own evaluator gives for its own templates, in one process.
    assert scores[0] == pytest.approx(-6.824, abs=1e-3) and scores[3] == pytest.approx(-0.1905, abs=1e-4)
    assert -1e9 < scores[1] < 0 and -10 < scores[2] <= 1 and -1 < scores[4] <= 0
