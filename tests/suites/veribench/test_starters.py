"""The starter tasks, judged with what a real Lean has answered about their files (`recordings`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.suites.conftest import BuildTask
from tests.suites.veribench.on_lean import CHEATS, complaints, outcome, without_source_check
from tests.suites.veribench.stand_in import load
from tests.suites.veribench.support import FOLDERS, RECORDINGS, stand_in
from trace_bench.suites.veribench.lean import VARIABLE
from trace_bench.worker.problem import Problem, ProblemError

FOUND_BY_TEXT_ALONE = {"fibonacci"}
"""Cheats that leave no trace in the compiled file: an option that turns the kernel's check off."""


@pytest.fixture
def opened(build_task: BuildTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv(VARIABLE, str(stand_in(tmp_path)))
    problems: list[Problem] = []

    def build(name: str, **given: Any) -> Problem:
        problems.append(build_task(f"veribench:{name}", test_seed=1, **given))
        return problems[-1]

    yield build
    for problem in problems:
        problem.guide.lean.close()  # type: ignore[attr-defined]


def test_there_are_sixteen_with_theorems_and_equivalences() -> None:
    tasks = [tomllib.loads((folder / "task.toml").read_text())["lean"] for folder in FOLDERS]
    assert len(tasks) >= 16 and all(len(task["theorems"]) >= 2 for task in tasks)
    assert sum(bool(task.get("equivalence")) for task in tasks) >= 4
    assert sum(bool(task.get("unproved")) for task in tasks) >= 4


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("split", ["train", "test"])
def test_files_score_what_is_said_of_them(folder: Path, split: str, opened: Any) -> None:
    problem = opened(folder.name)
    names = ("template", "gold", "partial", "cheating")
    assert complaints(folder, [outcome(problem, folder.name, folder / f"{name}.lean", split) for name in names]) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_cheats_earn_nothing_by_their_compiled_file_either(folder: Path, opened: Any) -> None:
    found = without_source_check(opened(folder.name), folder.name, folder / "cheating.lean")
    if folder.name in FOUND_BY_TEXT_ALONE:
        assert found.score > 0.5, found
    else:
        assert found.score < 0.6 and found.feedback, found


@pytest.mark.parametrize("path", CHEATS, ids=lambda path: path.stem)
def test_more_cheats_earn_no_more_than_the_template(path: Path, opened: Any) -> None:
    problem = opened("gcd")
    found = outcome(problem, "gcd", path, "train")
    assert found.score <= 0.1, found
    assert without_source_check(problem, "gcd", path).feedback


def test_feedback_tells_values_and_theorems_and_nothing_of_held_out_tests(opened: Any) -> None:
    problem = opened("bank_account")
    partial = (Path(FOLDERS[0]).parent / "bank_account" / "partial.lean").read_text()
    _, told, metrics = problem.guide(None, partial, problem.train[0].reference)
    assert "withdraw (Account.mk 10) 10 has to return some (Account.mk 0), and returns none." in told
    assert "does not count: it rests on sorry" in told
    assert metrics["compiles"] == 1.0 and metrics["axioms_ok"] == 1.0
    _, told, _ = problem.guide(None, partial, problem.test[0].reference)
    assert "has to return" not in told and "tests pass" in told


def test_what_is_not_recorded_is_an_error_and_no_score(opened: Any) -> None:
    problem = opened("gcd")
    with pytest.raises(ProblemError, match="no recording of what Lean says"):
        problem.guide(None, "def neverSeen := 1", problem.train[0].reference)


def test_recordings_say_which_lean_they_are_of() -> None:
    versions = {load(path)["lean"] for path in RECORDINGS.glob("*.json.xz")}
    assert versions - {""} == {"4.28.0-pre (38f3c0c45b8df6da2652faff6dcaa15afb5a6981)"}
