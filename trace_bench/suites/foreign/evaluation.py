"""Folders in the shape of LLM4AD's own tasks: ``evaluation.py`` with a class derived from ``Evaluation``,
``template.py`` with ``template_program`` and ``task_description``, and ``paras.yaml`` with the class's name and
arguments."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites.foreign.source import TIMEOUT, arguments_of, changed_arguments, common, literals, parsed, text
from trace_bench.worker import source_scan

SUITE = "llm4ad_pkg"
MODULE = "evaluation.py"
TEMPLATE = "template.py"
PARAMETERS = "paras.yaml"
SECONDS = 60.0
"""An evaluation has at least so long: calls go to another process."""

_CLASS = re.compile(rb"^class\s+\w+\s*\([^)]*Evaluation\b", re.MULTILINE)
_PROGRAM = re.compile(rb"^template_program\b", re.MULTILINE)


def module_of(folder: Path) -> str | None:
    """`MODULE`, if it and its template are in `folder`."""
    return MODULE if _has(folder / MODULE, _CLASS) and _has(folder / TEMPLATE, _PROGRAM) else None


def lacking(folder: Path) -> str:
    """What the folder of an evaluation lacks; empty if it is none, or lacks nothing."""
    if not _has(folder / MODULE, _CLASS) or _has(folder / TEMPLATE, _PROGRAM):
        return ""
    return f"{folder / MODULE} has no {TEMPLATE} beside it that assigns template_program"


def described(folder: Path, module: str) -> dict[str, Any]:
    """The substitute for the ``task.toml`` of such a folder.

    Raises:
        ConfigError: a file cannot be read, there is no such class, or the template is not one function.
    """
    parameters = _parameters(folder / PARAMETERS)
    said = literals(parsed(folder / TEMPLATE))
    template = text(said, "template_program")
    defined = source_scan.functions(template)
    if len(defined) != 1:
        what = f"defines {len(defined)} functions" if template else "is not literal text"
        raise ConfigError(f"{folder / TEMPLATE}: template_program {what}; it must be the source of one function")
    (entry,) = defined
    made = _class(folder / module, str(parameters.get("name", "")))
    arguments, free = _arguments(made, parameters)
    timeout = float(arguments.get("timeout_seconds", {}).get("default") or TIMEOUT)
    task = text(said, "task_description")
    spec: dict[str, Any] = {
        "title": folder.resolve().name.replace("_", " ").capitalize(),
        "statement": task or f"Improve the function {entry}, by what its evaluation says.",
        "interaction": "policy",
        "entry": entry,
        "eval_kwargs": arguments,
        **common(folder, timeout),
    }
    # The suite's own image has everything; most evaluations need no more than the smaller one.
    spec.setdefault("image", "llm4ad")
    spec["foreign"] |= {"module": module, "evaluation": made.name, "free": free}
    if changed := changed_arguments(template, entry):
        spec["foreign"]["in_place"] = changed
    return spec


def _has(path: Path, pattern: re.Pattern[bytes]) -> bool:
    try:
        return pattern.search(path.read_bytes()) is not None
    except OSError:
        return False


def _parameters(path: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{line}: is not YAML: {getattr(error, 'problem', None) or error}") from None
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}


def _class(path: Path, name: str) -> ast.ClassDef:
    """The class `name` of the file, or the only one that is derived from ``Evaluation``."""
    classes = [node for node in parsed(path).body if isinstance(node, ast.ClassDef)]
    derived = [c for c in classes if any(ast.unparse(base).rpartition(".")[2] == "Evaluation" for base in c.bases)]
    named = [c for c in classes if c.name == name]
    if named or len(derived) == 1:
        return (named or derived)[0]
    which = ", ".join(c.name for c in derived) or "none"
    raise ConfigError(
        f"{path}: one class derived from Evaluation is expected, and there are {len(derived)} ({which}); name the "
        f"class in {PARAMETERS}, with the key name"
    )


def _arguments(made: ast.ClassDef, parameters: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], bool]:
    """The arguments of the class, with the values of `PARAMETERS` for defaults; and whether it takes others too."""
    init = next((n for n in made.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is None:
        return {}, False
    init.args.args = init.args.args[1:]  # without `self`
    arguments, free = arguments_of(init)
    for name, argument in arguments.items():
        value = parameters.get(name)
        fits = type(value) is type(argument["default"]) or (argument["type"] == "float" and type(value) is int)
        if value is not None and fits:
            argument["default"] = value
    if (timeout := arguments.get("timeout_seconds")) is not None:
        seconds = timeout["default"] if isinstance(timeout["default"], int | float) else TIMEOUT
        doc = "Time limit of the whole evaluation."
        timeout |= {"type": "float", "default": max(SECONDS, float(seconds)), "minimum": 0.001, "doc": doc}
    return arguments, free
