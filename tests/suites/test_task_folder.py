"""Task folders that ship their own ``problem.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_bench.suites.task_builder import build
from trace_bench.suites.task_folder import load_module, oriented
from trace_bench.worker.problem import BuildContext, Problem, ProblemError, Programs

TOML = """
title = "t"
statement = "s"
interaction = "value"

[score]
direction = "maximize"
failure = -1
"""
BuildTask = Callable[..., Problem]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task.toml").write_text(TOML)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1\n", "problem.py defines no build(context)"),
        ("def build(context):\n    return 3\n", "build() returned int where a Problem is expected"),
        ("def build(context):\n    return context.nothing\n", "problem.py, line 2: AttributeError"),
        ("\nraise KeyError('x')\n", "problem.py, line 2: KeyError: 'x'"),
        ("def build(context:\n", "problem.py, line 1: SyntaxError"),
    ],
)
def test_a_faulty_problem_module_is_named_with_its_line(
    folder: Path, build_at: BuildTask, source: str, says: str
) -> None:
    (folder / "problem.py").write_text(source)
    with pytest.raises(ProblemError) as caught:
        build_at(folder)
    assert says in str(caught.value)


def test_a_folder_without_problem_module_is_refused(folder: Path, programs: Programs) -> None:
    context = BuildContext(task_dir=folder, spec={}, eval_kwargs={}, seed=1, programs=programs)
    with pytest.raises(ProblemError, match=r"problem\.py does not exist; a task folder needs it"):
        build(context)


def test_a_module_of_a_task_shadows_nothing_and_is_read_afresh(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text("VALUE = 1\n")
    first = load_module(path)
    path.write_text("VALUE = 2\n")
    assert (first.VALUE, load_module(path).VALUE) == (1, 2)
    assert sys.modules.get("json") is not first
    assert not (tmp_path / "__pycache__").exists()


def test_dataclasses_with_postponed_annotations_work_in_a_task_module(tmp_path: Path) -> None:
    path = tmp_path / "evaluator.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass(frozen=True)\nclass Instance:\n    size: int\n"
    )
    assert load_module(path).Instance(3).size == 3


def test_ranges_are_read_in_either_order() -> None:
    assert oriented("maximize", [2.7, 0.0], "range") == oriented("maximize", [0, 2.7], "range") == (0.0, 2.7)
    assert oriented("minimize", [1, 10], "range") == (10.0, 1.0)
    assert oriented("minimize", None, "range") is None
    with pytest.raises(ProblemError, match="range: \\[1\\]; give two numbers"):
        oriented("minimize", [1], "range")
