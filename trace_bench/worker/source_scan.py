"""Reads Python source without running it: what scanners of task code, candidates and frameworks have in common."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef
Default = tuple[ast.arg, ast.expr | None]


def parse(source: str | bytes) -> ast.Module | None:
    """The syntax tree of `source`; None if it does not parse, or is nested too deeply to be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(source: str | bytes | ast.Module) -> dict[str, Function]:
    """The functions that the top level of `source` defines; of two with one name the first. Empty if it does not
    parse."""
    tree = source if isinstance(source, ast.Module) else parse(source)
    found: dict[str, Function] = {}
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, node)
    return found


def signature_of(source: str, entry: str) -> str:
    """The header and docstring of the function `entry` of `source`."""
    function = functions(source)[entry]
    documented = ast.get_docstring(function) is not None
    function.body = function.body[:1] if documented else [ast.Expr(ast.Constant(...))]
    function.decorator_list = []
    return ast.unparse(function)


def positional(function: Function) -> list[str]:
    """Names of the arguments that `function` takes by position."""
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def defaults(function: Function) -> Iterator[Default]:
    """Each argument of `function` with the expression of its default; None if it has none."""
    arguments = function.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    without: list[ast.expr | None] = [None] * (len(by_position) - len(arguments.defaults))
    yield from zip(by_position, [*without, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def names_in(annotation: ast.expr | None) -> set[str]:
    """The names that an annotation uses: ``{"Optional", "int"}`` of ``Optional[int]``."""
    return set() if annotation is None else {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """``(name, origin)`` of each name that an import statement binds: ``("np", "numpy")``; none of other nodes.

    ``import a.b`` binds ``a``. The origin of a relative import begins with the module that it names.
    """
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"


def chain(node: ast.AST) -> tuple[ast.AST, list[str]]:
    """What a chain of attributes begins with, and their names in order: ``a``, ``["b", "c"]`` of ``a.b.c``."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, names[::-1]
