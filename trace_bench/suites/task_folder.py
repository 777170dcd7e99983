"""Read a task folder for builders: its scoring, its own modules, and the place of an error in them.

A task's own modules are trusted. They are imported in the phases only, under a private name, so that a task called
``random`` or ``json`` shadows nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from trace_bench.worker.problem import BuildContext, Direction, ProblemError


@dataclass(frozen=True)
class Scoring:
    """The ``[score]`` table of a task spec, in natural units.

    Attributes:
        best_known: the best score that a source reports, if any.
        score_range: (worst, best), whichever way the score points.
    """

    direction: Direction
    failure: float
    best_known: float | None
    score_range: tuple[float, float] | None


def scoring(context: BuildContext) -> Scoring:
    """The scoring that the task spec declares.

    Raises:
        ProblemError: ``[score]`` lacks what it must have.
    """
    table: Mapping[str, object] = context.spec.get("score", {})
    direction = table.get("direction")
    if direction != "maximize" and direction != "minimize":
        raise ProblemError(f"task.toml, [score] direction: {direction!r}; give 'maximize' or 'minimize'")
    failure = number(table.get("failure"), "task.toml, [score] failure")
    best = table.get("best_known")
    return Scoring(
        direction=direction,
        failure=failure,
        best_known=None if best is None else number(best, "task.toml, [score] best_known"),
        score_range=oriented(direction, table.get("range"), "task.toml, [score] range"),
    )


def oriented(direction: Direction, pair: object, where: str) -> tuple[float, float] | None:
    """Two numbers as (worst, best) for `direction`; they may be given in either order."""
    if pair is None:
        return None
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ProblemError(f"{where}: {pair!r}; give two numbers")
    low, high = sorted(number(end, where) for end in pair)
    return (low, high) if direction == "maximize" else (high, low)


def number(value: object, where: str) -> float:
    """`value` as a float.

    Raises:
        ProblemError: it is no number; `where` names its place.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProblemError(f"{where}: {value!r}; give a number")
    return float(value)


def load_module(path: Path) -> ModuleType:
    """Import the Python file at `path` afresh, under a private name, leaving no bytecode beside it.

    Raises:
        ProblemError: it is missing, or its import raises.
    """
    if not path.is_file():
        raise ProblemError(f"{place(path)} does not exist; a task folder needs it (docs/design/job-contract.md)")
    name = f"_trace_bench_task_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Unwritten(name, str(path)))
    if spec is None or spec.loader is None:
        raise ProblemError(f"{place(path)} cannot be imported as Python source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise task_fault(path, error) from error
    return module


def task_fault(path: Path, error: BaseException) -> ProblemError:
    """The error of a task's own code as one sentence, with the last line of `path` in its trace."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    if line is None:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = lines[-1] if lines else None
    where = f"{place(path)}, line {line}" if line is not None else place(path)
    return ProblemError(f"{where}: {type(error).__name__}: {error}; the task's own code is at fault")


def place(path: Path) -> str:
    """`path` as messages name it: with its folder, without the machine's own prefix."""
    return f"{path.parent.name}/{path.name}"


class _Unwritten(SourceFileLoader):
    """Writes no ``__pycache__``: a task folder is content-addressed and may be read-only."""

    def set_data(self, path: str, data: bytes | bytearray | memoryview, *, _mode: int = 0o666) -> None:  # type: ignore[override]
        return None
