"""Folders whose module defines ``build_trace_problem(**eval_kwargs)``."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites.foreign.source import (
    TIMEOUT,
    arguments_of,
    changed_arguments,
    common,
    literals,
    parsed,
    text,
)
from trace_bench.worker import source_scan

SUITE = "llm4ad"
BUILDER = "build_trace_problem"

_DEFINED = re.compile(rb"^def " + BUILDER.encode() + rb"\s*\(", re.MULTILINE)


def module_of(folder: Path) -> str | None:
    """The file of `folder` that defines the builder at its top level, by a search in its text; None if none does."""
    for name in ("__init__.py", f"{folder.resolve().name}.py", "get_instance.py"):
        try:
            if _DEFINED.search((folder / name).read_bytes()):
                return name
        except OSError:
            continue
    return None


def described(folder: Path, module: str) -> dict[str, Any]:
    """The substitute for the ``task.toml`` of such a folder.

    Raises:
        ConfigError: the module is not Python, or does not define the builder.
    """
    path = folder / module
    tree = parsed(path)
    builder = source_scan.functions(tree).get(BUILDER)
    if builder is None:
        raise ConfigError(f"{path}: defines no function {BUILDER} at its top level")
    said = literals(tree)
    doc = (ast.get_docstring(tree) or "").strip()
    task = text(said, "TASK_DESCRIPTION", "task_description")
    statement = "\n\n".join(dict.fromkeys(t for t in (task, text(said, "OBJECTIVE_TEXT")) if t)) or doc
    arguments, free = arguments_of(builder)
    defaults = said.get("EVAL_KWARGS")
    seconds = defaults.get("timeout_seconds") if isinstance(defaults, dict) else None
    timeout = float(seconds) if isinstance(seconds, int | float) and 0 < seconds < 1e6 else TIMEOUT
    spec: dict[str, Any] = {
        "title": (doc.splitlines() or [""])[0].strip() or folder.resolve().name.replace("_", " "),
        "statement": statement or f"Improve the parameter of {folder.resolve().name}, by what its guide says.",
        "interaction": "policy" if text(said, "ENTRY_NAME") else "value",
        "eval_kwargs": arguments,
        **common(folder, timeout),
    }
    spec["foreign"] |= {"module": module, "free": free}
    if changed := changed_arguments(text(said, "TEMPLATE_FUNCTION"), text(said, "ENTRY_NAME")):
        spec["foreign"]["in_place"] = changed
    for key, name in (("entry", "ENTRY_NAME"), ("signature", "FUNCTION_SIGNATURE")):
        if found := text(said, name):
            spec[key] = found
    return spec
