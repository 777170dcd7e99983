"""Configs that a command line names."""

from __future__ import annotations

from pathlib import Path

from trace_bench.resources import data_dir


def find_config(path: Path) -> Path:
    """`path`, or the shipped config of that file name where `path` does not exist."""
    if not path.exists():
        shipped = data_dir("configs") / path.name
        if shipped.is_file() and path.parent in (Path(), Path("configs")):
            return shipped
    return path
