"""The script that finds best known scores, on a copy of one task."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.LLM4AD import best_known
from tests.suites.llm4ad.conftest import folders

TASK = "optimization/knapsack_construct"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / TASK
    shutil.copytree(folders()[f"llm4ad:{TASK}"], folder)
    (folder / best_known.FILE).unlink(missing_ok=True)
    (folder / "programs" / "reference.py").write_text((folder / "programs" / "template.py").read_text())
    monkeypatch.setattr(best_known, "TASKS", tmp_path)
    monkeypatch.setattr(best_known, "HERE", tmp_path)
    return folder / best_known.FILE


def run() -> None:
    assert best_known.main([TASK, "--size", "standard", "--jobs", "1"]) == 0


def standard(table: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.read_text())["standard"]
    return found


def test_better_scores_of_checked_programs_are_taken_and_worse_ones_are_not(table: Path, tmp_path: Path) -> None:
    run()
    first = standard(table)
    assert all(entry[0] == entry[1] for entry in first["instances"].values()), "the template is the reference here"
    scores = [entry[1] + (5.0 if number == 2 else -5.0) for number, entry in enumerate(first["instances"].values())]
    programs = [{"scores": scores, "failed": 0}, {"scores": [1e9] * len(scores), "failed": 1}]
    checked = tmp_path / "checked.json"
    checked.write_text(json.dumps({"tasks": [{"id": f"llm4ad:{TASK}", "programs": programs}]}))
    assert best_known.main(["--checked", str(checked), "--by", "a search"]) == 0
    second = standard(table)
    changed = {key: entry for key, entry in second["instances"].items() if entry != first["instances"][key]}
    ((_, (template, best, source)),) = changed.items()
    assert best == template + 5 and source.startswith("a search, 20")
    assert second["best"] > first["best"] and second["template"] == first["template"]
    run()
    assert standard(table) == second, "what the table has is kept"


def test_a_solver_is_judged_by_the_evaluator_and_cannot_beat_the_bound(table: Path, tmp_path: Path) -> None:
    solvers = tmp_path / "solvers"
    solvers.mkdir()
    wrong = "BY = 'a liar'\n\n\ndef solve(instance, seconds):\n    return [0] * 10_000, True\n"
    (solvers / "optimization_knapsack_construct.py").write_text(wrong)
    run()
    assert "liar" not in table.read_text()
