"""The script that finds best known scores, on a copy of one task."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.LLM4AD import best_known
from tests.suites.llm4ad.conftest import folders
from trace_bench.artifacts.yamlio import write_state

TASK = "optimization/knapsack_construct"
GREEDY = '''
def select_next_item(remaining_capacity, remaining_items):
    """The best value by weight of those that fit."""
    fitting = [item for item in remaining_items if item[0] <= remaining_capacity]
    return max(fitting, key=lambda item: item[1] / item[0]) if fitting else None
'''


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / TASK
    shutil.copytree(folders()[f"llm4ad:{TASK}"], folder)
    (folder / best_known.FILE).unlink(missing_ok=True)
    (folder / "programs" / "reference.py").write_text((folder / "programs" / "template.py").read_text())
    monkeypatch.setattr(best_known, "TASKS", tmp_path)
    monkeypatch.setattr(best_known, "HERE", tmp_path)
    return folder / best_known.FILE


def run(*options: str) -> None:
    assert best_known.main([TASK, "--size", "standard", "--jobs", "1", *options]) == 0


def test_a_better_program_of_a_job_is_taken_and_a_worse_one_is_not(table: Path, tmp_path: Path) -> None:
    run()
    first = json.loads(table.read_text())["standard"]
    assert all(entry[0] == entry[1] for entry in first["instances"].values()), "the template is the reference here"
    write_state(tmp_path / "best_state.yaml", {"code": GREEDY})
    run("--program", str(tmp_path / "best_state.yaml"), "--by", "a search")
    second = json.loads(table.read_text())["standard"]
    better = [entry for entry in second["instances"].values() if entry[1] > entry[0]]
    assert better and all(entry[2].startswith("a search, ") for entry in better)
    assert second["best"] > first["best"] == first["template"] == second["template"]
    run()
    assert json.loads(table.read_text())["standard"] == second, "what the table has is kept"


def test_a_solver_is_judged_by_the_evaluator(table: Path, tmp_path: Path) -> None:
    solvers = tmp_path / "solvers"
    solvers.mkdir()
    wrong = "BY = 'a liar'\n\n\ndef solve(instance, seconds):\n    return [0] * 10_000, True\n"
    (solvers / "optimization_knapsack_construct.py").write_text(wrong)
    run()
    assert "liar" not in table.read_text()
