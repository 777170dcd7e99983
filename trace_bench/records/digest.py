"""Lists and hashes the files of a run, and computes the digest of a run, which authors quote.

The digest of a run is the SHA-256 of the output of ``sha256sum`` for the files of its index, from within the run's
folder, sorted by the bytes of their names. It can be computed without this program::

    jq -r '.files[] | "\\(.sha256)  \\(.path)"' meta/files_index.json | LC_ALL=C sort -k 2 | sha256sum
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from trace_bench.artifacts.derived import FileEntry, FilesIndex
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.records.reading import read_index


def run_digest(files: Mapping[str, str]) -> str:
    """The digest of a run.

    Args:
        files: hex SHA-256 by path relative to the run, of every file but ``files_index.json``.
    """
    return hashlib.sha256("".join(checksum_lines(files)).encode("utf-8", "surrogateescape")).hexdigest()


def index_digest(index: FilesIndex) -> str:
    """The digest of the run that `index` lists."""
    return run_digest({entry.path: entry.sha256 for entry in index.files})


def checksum_lines(files: Mapping[str, str]) -> Iterator[str]:
    """Lines that ``sha256sum -c`` reads, sorted by the bytes of the names.

    >>> list(checksum_lines({"b": "00", "a": "ff"}))
    ['ff  a\\n', '00  b\\n']
    """
    for path in sorted(files, key=lambda path: path.encode("utf-8", "surrogateescape")):
        # sha256sum escapes line breaks in names in this way.
        escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        mark = "\\" if escaped != path else ""
        yield f"{mark}{files[path]}  {escaped}\n"


def files_index(run: RunLayout) -> FilesIndex:
    """Make the index of every regular file, except itself and unfinished files, with size, SHA-256 and schema."""
    itself = run.relative(run.files_index)
    entries = []
    for path in sorted(path for path in regular_files(run.root) if path != itself):
        digest, size = _hash(run.root / path)
        entries.append(FileEntry(path=path, size=size, sha256=digest, schema_name=schema_of(path)))
    return FilesIndex(run_id=run.run_id, files=tuple(entries))


def regular_files(root: Path) -> Iterator[str]:
    """Paths of all regular files below `root`, relative to it and with slashes, in no order. Links are not followed,
    and unfinished files are left out."""
    for path, item in _walk(root):
        if item.is_file(follow_symlinks=False) and not _is_unfinished(item):
            yield path


def unfinished(root: Path) -> Iterator[Path]:
    """Files and folders that a killed writer or collector left below `root`."""
    return (root / path for path, item in _walk(root) if _is_unfinished(item))


def other_entries(root: Path) -> list[str]:
    """Entries below `root` that are neither regular files nor folders, sorted by path."""
    kinds = ((path, item.is_dir(follow_symlinks=False), item.is_file(follow_symlinks=False)) for path, item in
             _walk(root))  # fmt: skip
    return sorted(path for path, is_folder, is_file in kinds if not (is_folder or is_file))


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below `root` with its path, except the content of links and of unfinished folders."""
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(root / folder) as items:
            for item in items:
                yield f"{folder}{item.name}", item
                if item.is_dir(follow_symlinks=False) and not _is_unfinished(item):
                    folders.append(f"{folder}{item.name}/")


def _is_unfinished(item: os.DirEntry[str]) -> bool:
    if item.is_dir(follow_symlinks=False):
        return ".collecting-" in item.name
    return item.name.startswith(".") and item.name.endswith(".tmp")


def hashes(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Hex SHA-256 of the files at `paths` below `root`."""
    return {path: _hash(root / path)[0] for path in paths}


def changed_files(run: RunLayout, files: Mapping[str, str]) -> tuple[str, ...]:
    """Paths whose hash in the run's index differs from the one in `files`; none if there is no index."""
    index = read_index(run)
    if index is None:
        return ()
    listed = {entry.path: entry.sha256 for entry in index.files}
    itself = run.relative(run.files_index)
    own = {path: digest for path, digest in files.items() if path != itself}
    return tuple(sorted(path for path in listed.keys() | own.keys() if listed.get(path) != own.get(path)))


def digest_of(run: RunLayout, files: Mapping[str, str]) -> str:
    """The digest of a run with `files`: hex SHA-256 by path. The index does not count."""
    itself = run.relative(run.files_index)
    return run_digest({path: digest for path, digest in files.items() if path != itself})


def _hash(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()


class Hashing:
    """A file that hashes the bytes that are read from it or written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()
