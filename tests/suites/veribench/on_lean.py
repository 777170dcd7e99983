"""Checks of every claim about Lean tasks with the `lean` of this machine, for people who have one.

    scripts/check-lean [--record FOLDER] [--lean PROGRAM] [--only NAME …]

It compiles the files of the starter tasks and of `cheats`, and compares what they score with what is said of them.
With ``--record`` it keeps what Lean answers for `stand_in`. It needs this checkout with its ``.venv``, and nothing
else. There is no container: the processes run as you.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forking import ForkingSpawner
from tests.suites.conftest import build_folder
from trace_bench.cli.new import new_tasks
from trace_bench.suites.veribench.lean import VARIABLE
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.problem import CandidateError, Problem

ROOT = Path(__file__).parents[3]
STARTERS = sorted(path.parent for path in (ROOT / "benchmarks" / "veribench").glob("*/task.toml"))
CHEATS = sorted((Path(__file__).parent / "cheats").glob("*.lean"))
ROWS = Path(__file__).parent / "data" / "rows.jsonl"
"""Rows in the format of the data set, written for this; beside it lie right translations."""
CHEATED = "gcd"
"""The task that the files of `cheats` claim to solve."""
STAND_IN = Path(__file__).parent / "stand_in.py"
RECORDINGS = Path(__file__).parent / "recordings"
TEST_SEED = 1
"""Tests are the same for every seed."""


@dataclass(frozen=True)
class Outcome:
    """What one file is worth on one split."""

    task: str
    file: str
    split: str
    score: float
    metrics: dict[str, float]
    feedback: str


@contextmanager
def built(folder: Path, **given: Any) -> Iterator[Problem]:
    """The problem of a task, with processes of this machine."""
    spawner = ForkingSpawner()
    problem = build_folder(
        folder, CandidatePrograms(spawner, seed=1), "veribench", seed=1, test_seed=TEST_SEED, **given
    )  # type: ignore[arg-type]
    try:
        yield problem
    finally:
        problem.guide.lean.close()  # type: ignore[attr-defined]
        for number in list(spawner.numbers):
            spawner.close(number)


def outcome(problem: Problem, task: str, path: Path, split: str) -> Outcome:
    """Score the file at `path` on `split`."""
    example = (problem.train if split == "train" else problem.test)[0]
    try:
        score, feedback, metrics = problem.guide(None, path.read_text(encoding="utf-8"), example.reference)  # type: ignore[misc]
        return Outcome(task, path.stem, split, float(score), dict(metrics), feedback)
    except CandidateError as error:
        return Outcome(task, path.stem, split, 0.0, dict(error.metrics or {}), str(error))


def without_source_check(problem: Problem, task: str, path: Path) -> Outcome:
    """What the compiled file alone says of a cheat."""
    guide: Any = problem.guide
    tests, shown = problem.train[0].reference
    try:
        _, _, verdict = guide.judge(path.read_text(encoding="utf-8"), tests, shown)
    except CandidateError as error:
        return Outcome(task, path.stem, "audit", 0.0, {}, str(error))
    share = (len(verdict.tests) + len(verdict.theorems)) / (len(tests) + len(guide.theorems))
    said = "; ".join([*verdict.violations, *(f"{name}: {why}" for name, why in verdict.why_not.items())])
    return Outcome(task, path.stem, "audit", 0.0 if verdict.violations else share, {}, said)


def row_outcomes(problem: Problem, folder: Path, split: str) -> list[Outcome]:
    """What the template and the right translation of a row score."""
    solution = ROWS.with_name(f"{folder.name.partition('_')[2]}.lean")
    return [outcome(problem, folder.name, path, split) for path in (folder / "template.lean", solution)]


def complaints(folder: Path, found: Sequence[Outcome]) -> list[str]:
    """What is not as the task says, on one split."""
    task = tomllib.loads((folder / "task.toml").read_text())["lean"]
    by = {each.file: each for each in found}
    gold, said = by["gold"], []
    proved = (len(task["theorems"]) - len(task.get("unproved", ()))) / len(task["theorems"])
    if gold.metrics.get("tests") != 1.0:
        said.append("gold does not pass all tests")
    if abs(gold.metrics.get("theorems", -1) - proved) > 1e-9:
        said.append(f"gold proves {gold.metrics.get('theorems')} of the theorems and not {proved}")
    if not by["template"].score < by["partial"].score < gold.score:
        said.append(
            f"template {by['template'].score:.3f}, partial {by['partial'].score:.3f}, gold {gold.score:.3f} do not rise"
        )
    if by["cheating"].score >= by["partial"].score:
        said.append(f"cheating scores {by['cheating'].score:.3f}")
    return [f"{folder.name}, {gold.split}: {each}; {gold.feedback}" for each in said]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="check-lean", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--lean", metavar="PROGRAM", help="Take this Lean and not the one on PATH.")
    parser.add_argument("--record", metavar="FOLDER", help="Keep Lean's answers in this folder.")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="Only these tasks, 'cheats' or 'rows'.")
    parser.add_argument("--seconds", type=float, default=120, help="Limit on a file.")
    parser.add_argument("--memory-mb", type=int, default=8192, help="Address space of Lean.")
    options = parser.parse_args()
    given = {"timeout_seconds": options.seconds, "memory_mb": options.memory_mb}
    lean = options.lean or os.environ.get(VARIABLE) or "lean"
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        if options.record:
            Path(options.record).mkdir(parents=True, exist_ok=True)
            wrapper = Path(folder, "lean")
            command = [sys.executable, str(STAND_IN), str(Path(options.record).resolve()), "--record", lean]
            wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            wrapper.chmod(0o755)
            lean = str(wrapper)
        os.environ[VARIABLE] = lean
        for task in STARTERS:
            if options.only and task.name not in options.only:
                continue
            with built(task, **given) as problem:
                for split in ("train", "test"):
                    found = [
                        outcome(problem, task.name, task / f"{name}.lean", split)
                        for name in ("template", "gold", "partial", "cheating")
                    ]
                    _show(found)
                    said += complaints(task, found)
                _show([without_source_check(problem, task.name, task / "cheating.lean")])
        if not options.only or "cheats" in options.only:
            with built(ROOT / "benchmarks" / "veribench" / CHEATED, **given) as problem:
                for path in CHEATS:
                    found = outcome(problem, "cheats", path, "train")
                    _show([found, without_source_check(problem, "cheats", path)])
                    if found.score > 0.1:
                        said.append(f"the cheat {path.stem} scores {found.score:.3f}")
        if not options.only or "rows" in options.only:
            for task in new_tasks("veribench", ROWS, Path(folder)).folders:
                with built(Path(folder, task), **given) as problem:
                    for split in ("train", "test"):
                        found_of_row = row_outcomes(problem, Path(folder, task), split)
                        _show(found_of_row)
                        if [each.score for each in found_of_row] != [0.1, 1.0]:
                            said.append(f"template and solution of the row {task} do not score 0.1 and 1")
    for line in said:
        print(f"NOT AS IT SHOULD BE: {line}")
    print("Some claims do not hold." if said else "All that was tried holds.")
    return 1 if said else 0


def _show(found: Sequence[Outcome]) -> None:
    for each in found:
        first = each.feedback.replace("\n", " | ")
        print(
            f"{time.strftime('%H:%M:%S')} {each.task}/{each.file} {each.split}: {each.score:.3f} {first[:400]}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
