"""Programs that were written for CO-Bench (arXiv:2504.04310), made into programs of the tasks that ship.

There ``solve(**kwargs)`` takes the keys of an instance and answers with a dict. What is appended to such a program
defines ``solve`` as the task calls it, by the functions of `co_bench_calls`. The result is an ordinary program: it runs
where any candidate runs, translates within its own process, and its answers are judged like those of any other.
"""

from __future__ import annotations

import ast
from functools import cache
from inspect import getsource, isgeneratorfunction

from trace_bench.errors import ConfigError
from trace_bench.suites.foreign import co_bench_calls, co_bench_packing
from trace_bench.suites.spec import Task
from trace_bench.worker import source_scan

ENTRY = "solve"
_TABLES = (co_bench_calls, co_bench_packing)
_SUFFIX = "_co_bench"
_APPENDED = """

_co_bench = {{"__name__": "co_bench"}}
exec(compile({text!r}, "<co-bench>", "exec"), _co_bench)
{entry} = _co_bench["replayed"](_co_bench[{problem!r}], {entry})
"""


def takes_keywords(source: str) -> bool:
    """Whether `source` is known to be a program of CO-Bench: its ``solve`` takes keywords alone."""
    function = _solve(source_scan.parse(source))
    if function is None or function.args.vararg is not None or source_scan.positional(function):
        return False
    return bool(function.args.kwarg or function.args.kwonlyargs)


def problems() -> frozenset[str]:
    """The problems whose calls are known, as the functions of the tables are named."""
    return frozenset(name for table in _TABLES for name, value in vars(table).items() if isgeneratorfunction(value))


def problem_of(task: Task) -> str | None:
    """The one of `problems` that is the counterpart of `task` in CO-Bench; None if there is none."""
    name = task.folder.name.removesuffix(_SUFFIX)
    is_ours = task.folder.name.endswith(_SUFFIX) and "foreign" not in task.spec.raw
    return name if is_ours and name in problems() else None


def replayed(source: str, task: Task, place: str) -> str:
    """`source`, a program of CO-Bench, as a program of `task`. Its lines keep their numbers.

    Args:
        place: what errors begin with.

    Raises:
        ConfigError: `task` has no counterpart in CO-Bench, or `source` defines no ``solve``.
    """
    problem = problem_of(task)
    if problem is None:
        raise ConfigError(
            f"{place}: {task.id} cannot be called as in CO-Bench; docs/how-to/foreign-tasks.md lists the tasks that can"
        )
    tree = source_scan.parse(source)
    if tree is not None and _solve(tree) is None:
        raise ConfigError(f"{place}: defines no function {ENTRY} at its top level, as programs of CO-Bench do")
    return source + _APPENDED.format(text=_text(), entry=ENTRY, problem=problem)


def _solve(tree: ast.Module | None) -> ast.FunctionDef | None:
    """The function `ENTRY` of a module, of several the last, which is the one that is called."""
    found = [n for n in (tree.body if tree else ()) if isinstance(n, ast.FunctionDef) and n.name == ENTRY]
    return found[-1] if found else None


@cache
def _text() -> str:
    """The tables as one module, without imports of this package."""
    first, *others = (ast.parse(getsource(table)).body for table in _TABLES)
    more = [node for body in others for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.unparse(ast.Module([*first, *more], []))
