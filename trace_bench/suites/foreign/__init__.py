"""Task folders without a ``task.toml`` that were written for something else: found, and described from their source.
Nothing of them is imported.

Four shapes are known: a module with ``build_trace_problem`` (`builder`), an evaluation of LLM4AD (`evaluation`), a
problem of CO-Bench (`co_bench`), and a program with marks beside its evaluator (`evolved`). What such a folder must be
for its jobs to be protected: its files import what is known to execute nothing, and none executes source, as far as a
reader can tell (`signs_of_execution`). The evaluator of the first three then gets a function that calls the candidate
in its own process (`trace_bench.suites.llm4ad.compat`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_bench.suites.foreign import builder, co_bench, evaluation, evolved
from trace_bench.suites.foreign.source import signs_of_execution

__all__ = ["described", "lacking", "module_of", "signs_of_execution", "suite_of"]

SHAPES = (builder, evaluation, co_bench, evolved)
EXPECTED = (
    f"a task.toml, a module that defines {builder.BUILDER} at its top level, an evaluation.py with a template.py "
    "(LLM4AD), a config.py that defines solve, load_data and eval_func (CO-Bench), an evaluator.py with an "
    "initial_program.py (OpenEvolve), or an evaluate.py with an initial.py (ShinkaEvolve)"
)


def module_of(folder: Path) -> str | None:
    """The file of `folder` that makes it a task, by a search in its text; None if it is none."""
    return next((name for shape in SHAPES if (name := shape.module_of(folder)) is not None), None)


def suite_of(folder: Path) -> str:
    """The suite of the task in `folder`."""
    return evaluation.SUITE if module_of(folder) == evaluation.MODULE else builder.SUITE


def described(folder: Path, module: str) -> dict[str, Any]:
    """The substitute for the ``task.toml`` of such a folder.

    Raises:
        ConfigError: a file is not Python, or does not define what its shape asks for.
    """
    shapes = {evaluation.MODULE: evaluation, co_bench.MODULE: co_bench, **dict.fromkeys(evolved.PROGRAMS, evolved)}
    shape: Any = shapes.get(module, builder)
    found: dict[str, Any] = shape.described(folder, module)
    return found


def lacking(folder: Path) -> Iterator[str]:
    """Sentences about what a folder lacks that is almost a task."""
    for shape in (evaluation, co_bench, evolved):
        if why := shape.lacking(folder):
            yield why
