"""Finds the files that ship with the package: recipes, tasks, configs, schemas.

In a checkout they are folders at its top; in an installed wheel they lie under ``trace_bench/_data``.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def package_dir() -> Path:
    """The folder of the ``trace_bench`` package itself."""
    return _PACKAGE


def data_dir(name: str) -> Path:
    """The folder ``name`` (``benchmarks``, ``configs``, ``images`` or ``schemas``) of this installation.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        found = base / name
        if found.is_dir():
            return found
    raise FileNotFoundError(f"this installation of trace-bench has no {name}/ folder; reinstall the package")
