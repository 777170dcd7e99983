"""Folders in the shape of CO-Bench (arXiv:2504.04310): ``config.py`` with ``DESCRIPTION``, ``solve``, ``load_data``,
``eval_func`` and, optionally, ``norm_score`` and ``get_dev``, and the files of data beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites.foreign.source import common, literals, parsed, text
from trace_bench.worker import source_scan

SUITE = "llm4ad"
MODULE = "config.py"
ENTRY = "solve"
NEEDED = (ENTRY, "load_data", "eval_func")
SECONDS = 10.0
"""Time limit of an instance there."""


def module_of(folder: Path) -> str | None:
    """`MODULE`, if it is in `folder` and defines the functions `NEEDED`."""
    return MODULE if not _missing(folder) else None


def lacking(folder: Path) -> str:
    """What the folder of a problem lacks; empty if it is none, or lacks nothing."""
    missing = _missing(folder)
    if not missing or len(missing) == len(NEEDED):
        return ""
    return f"{folder / MODULE} defines no {missing[0]} at its top level"


def described(folder: Path, module: str) -> dict[str, Any]:
    """The substitute for the ``task.toml`` of such a folder.

    Raises:
        ConfigError: the file is not Python, lacks a function, or there are no data beside it.
    """
    path = folder / module
    tree = parsed(path)
    functions = source_scan.functions(tree)
    if missing := [name for name in NEEDED if name not in functions]:
        raise ConfigError(f"{path}: defines no function {missing[0]} at its top level")
    name = folder.resolve().name
    spec: dict[str, Any] = {
        "title": name.replace("_", " "),
        "statement": text(literals(tree), "DESCRIPTION") or f"Solve the problem {name}, by what its evaluation says.",
        "interaction": "solve",
        "entry": ENTRY,
        "eval_kwargs": {
            "timeout_seconds": {
                "type": "float", "default": SECONDS, "minimum": 0.001, "doc": "Time limit on one instance.",
            }
        },
        **common(folder, SECONDS),
    }  # fmt: skip
    spec["score"]["failure"] = 0.0
    spec["data"] = {"folder": name, "files": ["*"], "whole": True}
    spec["foreign"] |= {"module": module, "free": False}
    return spec


def _missing(folder: Path) -> list[str]:
    """The functions that the module lacks, by a search in its text."""
    try:
        source = (folder / MODULE).read_bytes()
    except OSError:
        return list(NEEDED)
    return [name for name in NEEDED if not re.search(rb"^def " + name.encode() + rb"\s*\(", source, re.MULTILINE)]
