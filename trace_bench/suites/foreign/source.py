"""What the source of foreign task code says, read without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites import code_execution
from trace_bench.worker import source_scan

FAILURE = -1_000_000.0
"""What a failure is worth in foreign code."""
TIMEOUT = 30.0
"""Seconds that a candidate has there for the whole evaluation, unless the folder says otherwise."""
LARGE_IMAGE = "llm4ad+llm4ad_pkg"
"""The image that has the packages of `_LARGE`, too."""

_LARGE = {"numba", "pandas", "pymoo", "sympy"}
_CHANGING = {
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "popitem",
    "fill",
}  # fmt: skip
_COMPILED = (".so", ".pyd", ".pyc")
_TYPES = {bool: "bool", int: "int", float: "float", str: "str", list: "list"}


def signs_of_execution(folder: Path) -> Iterator[str]:
    """Places where the files of a task may execute source: ``file, line N: what``. Scripts' main blocks do not count.

    Raises:
        ConfigError: a Python file of it cannot be read, or is not Python.
    """
    sources: dict[str, code_execution.SourceFile] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part == "__pycache__" for part in parts) or not path.is_file():
            continue
        name = "/".join(parts)
        if path.suffix in _COMPILED:
            yield f"{name}: compiled code, which cannot be read"
        elif path.suffix == ".py":
            is_package = path.name == "__init__.py"
            module = ".".join(parts[:-1] if is_package else [*parts[:-1], path.stem])
            sources[name] = code_execution.SourceFile(module, is_package, parsed(path))
    for name, line, what in code_execution.findings(sources):
        yield f"{name}, line {line}: {what}"


def image_of(folder: Path) -> str | None:
    """The image family that has what the files of `folder` import; None if the suite's own has it."""
    return LARGE_IMAGE if any(needs_large_image(parsed(path)) for path in sorted(folder.rglob("*.py"))) else None


def needs_large_image(tree: ast.Module) -> bool:
    """Return True if a module imports a package that only `LARGE_IMAGE` has."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(name.partition(".")[0] in _LARGE for name in names):
            return True
    return False


def data_of(folder: Path) -> str | None:
    """The folder of CO-Bench's data that the files of `folder` read with ``load_subdir_as_text``; None if none does."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("load_subdir_as_text"):
                continue
            given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "subdir")]
            if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) and given[0].value:
                return given[0].value
    return None


def common(folder: Path, timeout: float) -> dict[str, Any]:
    """What the descriptions of all foreign folders have. `timeout` is that of a whole evaluation, in seconds."""
    signs = list(signs_of_execution(folder))
    image, data = image_of(folder), data_of(folder)
    return {
        "tags": ["foreign", *(["unprotected"] if signs else [])],
        "score": {"direction": "maximize", "failure": FAILURE},
        "limits": {"wall_seconds": timeout, "cpu_seconds": max(timeout, TIMEOUT), "memory_mb": 1024},
        "foreign": {"executes_candidates": bool(signs), "signs": signs[:8]},
        **({"image": image} if image else {}),
        **({"data": {"folder": data, "files": ["*"], "whole": True}} if data else {}),
    }


def changed_arguments(source: str, entry: str) -> list[int]:
    """Positions of the arguments that the function `entry` of `source` changes in place, as far as it says so."""
    function = source_scan.functions(source).get(entry)
    if function is None:
        return []
    names = source_scan.positional(function)
    changed: set[str] = set()
    rebound: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed |= {n.id for n in [node.value] if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            changed |= {n.id for n in [node.func.value] if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            rebound.add(node.id)
    return [i for i, name in enumerate(names) if name in changed - rebound]


def parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        why = error.msg if isinstance(error, SyntaxError) else error
        raise ConfigError(f"{path}{line}: is not Python: {why}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply to be read") from None


def literals(tree: ast.Module) -> dict[str, Any]:
    """Literals that the top level assigns to names; the last assignment counts."""
    found: dict[str, Any] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and value is not None:
                try:
                    found[target.id] = ast.literal_eval(value)
                except (ValueError, TypeError, MemoryError, RecursionError):
                    found.pop(target.id, None)
    return found


def text(said: dict[str, Any], *names: str) -> str:
    return next((said[name].strip() for name in names if isinstance(said.get(name), str)), "")


def arguments_of(builder: ast.FunctionDef) -> tuple[dict[str, dict[str, Any]], bool]:
    """The arguments that the builder names with a plain default, as ``[eval_kwargs]`` has them; and whether it takes
    others too."""
    found: dict[str, dict[str, Any]] = {}
    free = builder.args.kwarg is not None
    for argument, default in source_scan.defaults(builder):
        value: Any = None
        if default is not None:
            try:
                value = ast.literal_eval(default)
            except (ValueError, TypeError):
                value = None
        named = source_scan.names_in(argument.annotation)
        kind = _TYPES.get(type(value)) or next((t for t in _TYPES.values() if t in named), None)
        if kind == "int" and "float" in named:
            kind = "float"
        if kind is None:
            free = True  # it takes what nothing is known of
        else:
            found[argument.arg] = {"type": kind, "default": value}
    return found, free
