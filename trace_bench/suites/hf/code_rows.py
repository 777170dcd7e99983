"""Reads which function the asserts of a program call, since a description alone does not say its name.

In the sandbox: standard library only.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from trace_bench.suites.hf.columns import Row


def mbpp_question(
    row: Row, column: str, prompt: str, tests: Sequence[str], solution: str
) -> tuple[str, str, tuple[str, ...]]:
    """Name of the function that `tests` call, `prompt` with that name and the number of its arguments, and other names
    of the program that the tests use.

    Args:
        row: the row that errors name.
        column: that of `tests`.
        tests: assert statements. Their values are not shown.
        solution: a right program, which defines the functions and classes that are not built in. May be empty.

    Raises:
        ValueError: a test is not Python, or no test calls a function.
    """
    calls: list[ast.Call] = []
    for test in tests:
        try:
            calls += _calls(ast.parse(test))
        except SyntaxError as error:
            raise row.error(column, f"has the test {test[:60]!r}, which is not Python: {error.msg}") from None
    functions, classes = _defined(solution)
    names = list(dict.fromkeys(_name(call) for call in calls))
    called = [name for name in names if name in functions] or [name for name in names if not _is_known(name)]
    if not called:
        raise row.error(column, "calls no function of the program")
    entry, *others = called
    others += [name for name in names if name in classes]
    return entry, f"{prompt}\n\nThe function is called {entry}{_arguments(calls, entry, ' and takes')}.", tuple(others)


def program_that_returns_none(entry: str) -> str:
    return f"def {entry}(*args, **kwargs):\n    return None\n"


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls by a plain name, outer ones first."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _defined(source: str) -> tuple[set[str], set[str]]:
    """Functions and classes of a program. A name that is assigned counts as a function."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return set(), set()
    functions = {node.name for node in statements if isinstance(node, ast.FunctionDef)}
    assigned = [target for node in statements if isinstance(node, ast.Assign) for target in node.targets]
    functions |= {target.id for target in assigned if isinstance(target, ast.Name)}
    return functions, {node.name for node in statements if isinstance(node, ast.ClassDef)}


def _is_known(name: str) -> bool:
    return hasattr(builtins, name)


def _arguments(calls: Sequence[ast.Call], name: str, verb: str) -> str:
    """After `verb`: how many arguments the calls of `name` have, and which of them they name."""
    own = [call for call in calls if _name(call) == name]
    if any(isinstance(argument, ast.Starred) for call in own for argument in call.args):
        return ""
    counts = sorted({len(call.args) + len(call.keywords) for call in own})
    named = dict.fromkeys(keyword.arg for call in own for keyword in call.keywords if keyword.arg)
    numbers = " or ".join(map(str, counts))
    by_name = f" ({', '.join(named)} by name)" if named else ""
    return f"{verb} {numbers} argument{'' if counts == [1] else 's'}{by_name}"
