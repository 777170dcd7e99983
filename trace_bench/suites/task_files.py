"""The files of a task: listed, hashed, and packed for sandboxes, without importing anything of the task."""

from __future__ import annotations

import hashlib
import io
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.suites.installed import reader_of

MAX_TASK_BYTES = 64 << 20
"""Largest size of all files of a task folder together."""


def task_files(folder: Path) -> list[tuple[str, Path]]:
    """``(relative path, path)`` of every file of a task folder, sorted by relative path.

    Hidden files, ``__pycache__`` and ``*.pyc`` are not part of a task.

    Raises:
        ConfigError: the folder holds a link, a device, a name that is not UTF-8, or more than `MAX_TASK_BYTES`.
    """
    files = sorted(_walk(folder, ""))
    total = sum(path.stat().st_size for _, path in files)
    if total > MAX_TASK_BYTES:
        raise ConfigError(
            f"{folder}: holds {total / 2**20:.0f} MiB; a task folder may hold {MAX_TASK_BYTES >> 20} MiB, "
            "so fetch large data when the image is built"
        )
    return files


def content_hash(folder: Path, data: Sequence[tuple[str, bytes]] = ()) -> str:
    """SHA-256 over relative paths and bytes of a task folder and its data: what a job's result depends on."""
    digest = hashlib.sha256(b"trace-bench/task/1\n")
    for name, source in _members(folder, data):
        content = _content(source)
        # Lengths keep two different folders from having one stream of bytes.
        digest.update(f"{len(name.encode())}:{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def pack_task(folder: Path, data: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """The task folder with its data as a tar that depends on nothing but its content: sorted, uid 0, mtime 0, modes
    0644 and 0755.

    No file is executable: task code is imported, never executed.
    """
    files = _members(folder, data)
    if (suite := reader_of(folder)) is not None:
        files = [(name, source) for name, source in files if suite.sends(name)]
    folders = {str(parent) for name, _ in files for parent in Path(name).parents if str(parent) != "."}
    members: list[tuple[str, Path | bytes | None]] = [*((name, None) for name in folders), *files]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, source in sorted(members, key=lambda m: m[0]):
            info = tarfile.TarInfo(name)
            if source is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                content = _content(source)
                info.mode, info.size = 0o644, len(content)
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _members(folder: Path, data: Sequence[tuple[str, bytes]]) -> list[tuple[str, Path | bytes]]:
    suite = reader_of(folder) if folder.is_file() else None
    return [*(suite.members(folder) if suite is not None else task_files(folder)), *data]


def _content(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    try:
        children = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be listed: {error.strerror or error}") from None
    for child in children:
        if child.name.startswith(".") or child.name == "__pycache__" or child.suffix == ".pyc":
            continue
        name = prefix + child.name
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{folder}: holds a file whose name is not UTF-8; rename it") from None
        mode = child.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(child, f"{name}/")
        elif stat.S_ISREG(mode):
            yield name, child
        else:
            kind = "a link" if stat.S_ISLNK(mode) else "not a plain file"
            raise ConfigError(f"{child}: is {kind}; a task folder holds plain files and folders only, so copy the file")
