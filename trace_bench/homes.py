"""The folders of the user that hold what outlives a run: data and cache."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "TRACE_BENCH_HOME"


def data_home(home: Path | None = None) -> Path:
    """The folder of the image lock and of fetched data: `home`, else ``$TRACE_BENCH_HOME``, else the user's own.
    May not exist yet."""
    if home is not None:
        return home
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).expanduser().absolute()
    return _user_folder("XDG_DATA_HOME", ".local/share")


def cache_home() -> Path:
    """The folder of what can be downloaded again: ``$TRACE_BENCH_HOME/cache``, else the user's cache folder."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).expanduser().absolute() / "cache"
    return _user_folder("XDG_CACHE_HOME", ".cache")


def _user_folder(variable: str, default: str) -> Path:
    """A folder of the XDG base directory specification, which asks to ignore relative values."""
    named = os.environ.get(variable, "")
    base = Path(named) if named.startswith("/") else Path.home() / default
    return base / "trace-bench"
