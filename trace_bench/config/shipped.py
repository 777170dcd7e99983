"""Finds the configs that Trace-Bench ships."""

from __future__ import annotations

import os
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.resources import data_dir


def find_config(path: Path) -> Path:
    """`path`, or the shipped config of that name, with or without ``.yaml``, where `path` does not exist.

    Raises:
        ConfigError: neither exists, and `path` has the form of a task's id.
    """
    if not os.path.exists(path) and path.parent in (Path(), Path("configs")):  # noqa: PTH110 - long names raise nothing
        for name in (path.name, f"{path.name}.yaml"):
            shipped = data_dir("configs") / name
            if os.path.isfile(shipped):  # noqa: PTH113 - long names raise nothing
                return shipped
        if ":" in path.name:
            raise ConfigError(f"{path}: there is no such config; a task is named with -t: trace-bench run -t {path}")
    return path


def shipped_configs() -> list[str]:
    """The names of the shipped configs, without ``.yaml``."""
    return sorted(path.stem for path in data_dir("configs").glob("*.yaml"))
