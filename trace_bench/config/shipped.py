"""Finds the configs that Trace-Bench ships."""

from __future__ import annotations

import os
from pathlib import Path

from trace_bench.resources import data_dir


def find_config(path: Path) -> Path:
    """`path`, or the shipped config of that file name where `path` does not exist."""
    if not os.path.exists(path) and path.parent in (Path(), Path("configs")):  # noqa: PTH110 - long names raise nothing
        shipped = data_dir("configs") / path.name
        if shipped.is_file():
            return shipped
    return path


def shipped_configs() -> list[str]:
    """The names of the shipped configs, without ``.yaml``."""
    return sorted(path.stem for path in data_dir("configs").glob("*.yaml"))
