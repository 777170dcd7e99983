"""Read the ``index.json`` of a task root: names of tasks whose folders have another name."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from trace_bench.errors import ConfigError
from trace_bench.suites import foreign

FILE = "index.json"


def read_index(root: Path) -> dict[str, str]:
    """The names of tasks, by the path of their folder below `root`.

    The file is a list of objects. Each has `key` (the name of a task) and `module` or `wrapper` (its folder, as a path
    or with dots). Another JSON file of that name is no index.

    Raises:
        ConfigError: the file cannot be read, is no JSON, names a folder outside of `root`, or names one key or one
            folder twice.
    """
    path = root / FILE
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from None
    found: dict[str, str] = {}
    for number, entry in enumerate(content if isinstance(content, list) else []):
        key, folder = (_text(entry, "key"), _folder(root, entry)) if isinstance(entry, dict) else ("", "")
        if not key or not folder:
            continue
        where = f"{path}, entry {number + 1}"
        if key.startswith("/") or ".." in PurePosixPath(key).parts or ":" in key:
            raise ConfigError(f"{where}: the key {key!r} is no name of a task; use words with slashes between them")
        if folder.startswith("/") or ".." in PurePosixPath(folder).parts:
            raise ConfigError(f"{where}: the folder {folder!r} is outside of {root}; move it below {root}")
        if found.get(folder, key) != key:
            raise ConfigError(f"{where}: the folder {folder!r} is also that of the key {found[folder]!r}; remove one")
        if any(known == key for other, known in found.items() if other != folder):
            raise ConfigError(f"{where}: the key {key!r} is there twice; remove one")
        found[folder] = key
    return found


def _text(entry: dict[str, object], name: str) -> str:
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _folder(root: Path, entry: dict[str, object]) -> str:
    """The folder that an entry names: the first candidate that is there, else the first."""
    names = [name for key in ("module", "wrapper") if (name := _text(entry, key))]
    ways = [way.rstrip("/") for name in names for way in (name, name.replace(".", "/"))]
    return next((way for way in ways if (root / way).is_dir()), ways[0] if ways else "")


def named_folder(root: Path, name: str) -> str:
    """The folder that the index of `root` has for a task; empty if it has none."""
    return next((folder for folder, key in read_index(root).items() if key == name), "")


def nothing_below(root: Path, index: dict[str, str]) -> str:
    """The sentence about a root that has no task: what was looked for, and what is missing."""
    said = f"the task root {root} has no task: no folder in it has {foreign.EXPECTED}"
    if index:
        there = [folder for folder in index if (root / folder).is_dir()]
        count = f"{root / FILE} names {len(index)} folder{'' if len(index) == 1 else 's'}"
        if not there:
            return f"{said}; {count}, and none of them is there (the first is {next(iter(index))})"
        return f"{said}; {count}, of which {len(there)} are there, such as {there[0]}"
    folders = sorted({path.parent for path in root.rglob("*.py")})
    if not folders:
        return f"{said}; it has no Python file at all"
    why = next((why for folder in folders for why in foreign.lacking(folder)), "")
    return f"{said}; {why or f'there are Python files in {folders[0]}'}"
