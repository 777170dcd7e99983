"""Finds what ships with the package (recipes, tasks, configs, schemas), and what plugs into it.

In a checkout the files are folders at its top; in an installed wheel they lie under ``trace_bench/_data``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

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


@lru_cache(maxsize=1)
def package_hash() -> str:
    """SHA-256 (hex) over the sources of the whole package, as they are when it is asked for first."""
    hasher = hashlib.sha256()
    sources = (file for file in files_below(_PACKAGE) if file.endswith(".py"))
    for parts in sorted(tuple(file.split("/")) for file in sources):
        if parts[0] == "_data":
            continue  # beside the package in a checkout
        relative = "/".join(parts)
        name, data = relative.encode(), (_PACKAGE / relative).read_bytes()
        hasher.update(b"%d %d " % (len(name), len(data)) + name + data)
    return hasher.hexdigest()


def files_below(folder: Path) -> Iterator[str]:
    """The paths of all files below `folder`, relative to it and with slashes, in no order.

    Folders that are symbolic links are left out.
    """
    # `Path.rglob` makes several objects for each entry, which takes twice as long.
    for place, _, names in os.walk(folder):
        below = os.path.relpath(place, folder).replace(os.sep, "/")
        yield from names if below == "." else (f"{below}/{name}" for name in names)


def plug_ins(group: str) -> list[metadata.EntryPoint]:
    """The entry points of `group` of all installed packages, sorted by name."""
    return list(_of_group(group, tuple(sys.path)))


@lru_cache(maxsize=32)
def _of_group(group: str, path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    # Every job asks for its trainer's, and there are hundreds of them in an environment.
    return tuple(sorted(_entry_points(path).select(group=group), key=lambda point: point.name))


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> Any:  # its type differs between versions of Python
    # Each look reads the metadata of every package in `path` (5 to 10 ms), and a start looks seven times.
    return metadata.entry_points()
