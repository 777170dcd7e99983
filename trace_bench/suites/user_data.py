"""Published data that a user has on disk, found for the tasks that read them. On the host; nothing is parsed here.

A task's ``[data]`` names a folder (as CO-Bench calls it) and patterns of files. They are packed with the task as
``data/train/``, ``data/validate/`` and ``data/test/``: whole files are dealt out in the order of the hashes of their
names, so that no split has only the small ones of a series. They count for the task's content hash. Of a table that
says ``whole``, all files are packed in a folder of the name that the table has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.suites.data_files import FOLDER
from trace_bench.suites.spec_tables import DataSpec
from trace_bench.suites.task_files import MAX_TASK_BYTES

_DEALT = ("train", "test", "validate")
"""The first files go to training, to the test and to validation, then round again."""


def find(data: DataSpec, root: Path) -> tuple[tuple[str, bytes], ...]:
    """``(data/<split>/<name>, content)`` of each file of a task below `root`, sorted; ``(<folder>/<name>, content)`` of
    a table that says ``whole``. They are read here, once: what is hashed is what is sent.

    The task's folder is looked for without regard to case, blanks, hyphens and underscores; without it, `root` itself.

    Raises:
        ConfigError: there is none, two folders could be meant, or the files are too large or cannot be read.
    """
    found = sorted(_matching(data, root), key=lambda path: path.name)
    if not found and data.whole:
        raise ConfigError(f"{root} has no folder {data.folder!r} with files; add it, or take the task out")
    if not found:
        raise ConfigError(
            f"{root} has no file {' or '.join(data.files)}, neither in a folder {data.folder!r} nor by itself; add the "
            "files, or take the task out"
        )
    try:
        size = sum(path.stat().st_size for path in found)
        if size > MAX_TASK_BYTES // 2:
            raise ConfigError(
                f"{found[0].parent}: the files {' and '.join(data.files)} have {size / 2**20:.0f} MiB together, and a "
                f"task may have {MAX_TASK_BYTES >> 21} MiB of data; keep some of them"
            )
        contents = {path.name: path.read_bytes() for path in found}
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror or error}") from error
    if data.whole:
        return tuple(sorted((f"{data.folder}/{name}", content) for name, content in contents.items()))
    dealt = sorted(contents, key=lambda name: hashlib.sha256(f"trace-bench/data/{name}".encode()).digest())
    return tuple(sorted((f"{FOLDER}/{_DEALT[i % 3]}/{name}", contents[name]) for i, name in enumerate(dealt)))


def _matching(data: DataSpec, root: Path) -> Iterator[Path]:
    wanted = _plain(data.folder)
    try:
        own = sorted(child for child in root.iterdir() if child.is_dir() and _plain(child.name) == wanted)
        if len(own) > 1:
            raise ConfigError(
                f"{root} has two folders for {data.folder!r}, {own[0].name} and {own[1].name}; keep one of them"
            )
        for path in (own[0] if own else root).iterdir() if own or not data.whole else ():
            if path.is_file() and any(fnmatchcase(path.name, pattern) for pattern in data.files):
                yield path
    except OSError as error:
        raise ConfigError(f"{root}: cannot be listed: {error.strerror or error}") from error


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
