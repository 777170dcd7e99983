"""Writers that leave a whole file or none, and a journal that survives ``kill -9``.

**What reaches the disk when.** `write_bytes` and what builds on it write to a temporary file in the same
folder, flush it with ``fsync``, rename it over the target, and ``fsync`` the folder: after it returns, the
new content survives a power cut, and at no instant does a reader see half a file. Tables that can be rebuilt
pass ``durable=False`` and skip both flushes. A `Journal` hands every line to the kernel with one ``write``,
so that a killed process loses at most the line it was writing; ``durable=True`` (cassettes of paid models)
adds an ``fsync`` per line.

All of them mask the secrets that this process knows (see `trace_bench.secrets`).
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from trace_bench.artifacts import jsonio
from trace_bench.display.text import csv_cell, escape_json
from trace_bench.errors import HarnessError
from trace_bench.secrets import known


def write_bytes(path: Path, data: bytes, *, durable: bool = True, mode: int | None = None) -> None:
    """Replace `path` by `data` in one step; its folder is created. `mode` is the file's, from its first instant on."""
    write_pieces(path, (data,), durable=durable, mode=mode)


def write_pieces(path: Path, pieces: Iterable[bytes], *, durable: bool = True, mode: int | None = None) -> None:
    """Replace `path` in one step by `pieces` one after another, which need not all be in memory at once."""
    make_folders(path.parent, durable=durable)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            masker = known.data_masker()
            file.writelines(masker.feed(piece) for piece in pieces)
            file.write(masker.rest())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def write_text(path: Path, text: str, *, durable: bool = True, mode: int | None = None) -> None:
    """Replace `path` by `text` in UTF-8, line ends as they are."""
    write_bytes(path, text.encode("utf-8"), durable=durable, mode=mode)


def write_json(path: Path, value: BaseModel | Any, *, durable: bool = True) -> None:
    """Replace `path` by `value` as JSON, two blanks of indent and a final newline. What cannot be seen, or would act on
    a terminal, is an escape.

    Raises:
        ValueError: `value` holds NaN or infinity.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    write_text(path, escape_json(jsonio.dumps(plain, indent=2)) + "\n", durable=durable)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Replace `path` by a table (see `csv_cell` for what a cell looks like). Not flushed: tables can be
    rebuilt."""
    write_csv_lines(path, header, map(csv_line, rows))


def write_csv_lines(path: Path, header: Sequence[str], lines: Iterable[str]) -> None:
    """`write_csv` of rows that are lines already (`csv_line`)."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(header)
    text.writelines(f"{line}\n" for line in lines)
    write_text(path, text.getvalue(), durable=False)


def csv_line(row: Sequence[Any]) -> str:
    """The cells of `row` as one line of a CSV file, without its end; lines of parts of a row, joined by commas, are
    that of the whole."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([csv_cell(value) for value in row])
    return text.getvalue()


class Place(NamedTuple):
    """A line of a journal: offset and size in bytes, newline included."""

    offset: int
    size: int


@dataclass(frozen=True)
class JournalLines:
    """The lines that `read_journal` found. `torn` counts an unfinished end (0 or 1) that was dropped; see `is_torn`."""

    lines: tuple[dict[str, Any], ...]
    torn: int = 0
    places: tuple[Place, ...] = ()
    """Place of each line in the file."""


def read_journal(path: Path) -> JournalLines:
    """All lines of a JSONL file; none if it does not exist.

    Raises:
        HarnessError: a line before an unfinished end is not a JSON object.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return JournalLines(())
    lines: list[dict[str, Any]] = []
    places: list[Place] = []
    start = 0
    for number, raw in enumerate(_split(data), start=1):
        try:
            value = jsonio.loads(raw)
            if not isinstance(value, dict):
                raise jsonio.JsonError("it is not an object")
        except jsonio.JsonError as error:
            if is_torn(data[start:]):
                return JournalLines(tuple(lines), 1, tuple(places))
            raise HarnessError(
                f"{path}, line {number}: {error}. Restore the file from a copy or delete the job's folder."
            ) from None
        lines.append(value)
        places.append(Place(start, len(raw)))
        start += len(raw)
    return JournalLines(tuple(lines), 0, tuple(places))


def is_torn(rest: bytes) -> bool:
    """Whether `rest`, which begins with a line that cannot be read, is what a writer left that was cut off: an
    unfinished last line, or after a power cut any number of lines with zeros in them, which no line of ours has."""
    return all(b"\0" in line or not line.endswith(b"\n") for line in _split(rest))


def repair_journal(path: Path) -> None:
    """Cut off the unfinished end of a JSONL file that is written no more. A damaged file is left as it is."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, HarnessError):
        found = read_journal(path)
        size = sum(place.size for place in found.places)
        if found.torn:
            os.truncate(path, size)
        elif size and not path.read_bytes().endswith(b"\n"):
            with path.open("ab") as file:
                file.write(b"\n")


def _split(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


class Journal:
    """An append-only JSONL file for one writing process and any number of its threads.

    Opening repairs the end: what is unfinished is cut off (`torn` is then 1, see `is_torn`), as the next line would
    otherwise be glued to it. `found` is what was there; it may be large, so `forget` it once it is read.
    """

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self.path = path
        self.found = read_journal(path)
        self.torn = self.found.torn
        self._durable = durable
        self._lock = threading.Lock()
        make_folders(path.parent, durable=durable)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if durable:
            sync_folder(path.parent)
        self._end = self._repair()

    def forget(self) -> None:
        """Free the lines found at opening."""
        self.found = JournalLines(())

    def append(self, value: BaseModel | Mapping[str, Any]) -> Place:
        """Add one line; when this returns it survives the death of this process. Returns where it lies."""
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else dict(value)
        data = known.data((escape_json(jsonio.dumps(plain)) + "\n").encode("utf-8"))
        with self._lock:
            if self._fd < 0:
                raise HarnessError(f"{self.path}: the journal is closed, a line came too late")
            place = Place(self._end, len(data))
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
                if self._durable:
                    os.fsync(self._fd)
            except BaseException:
                # The disk is full: no half line may stand before the next one.
                os.ftruncate(self._fd, self._end)
                raise
            self._end += place.size
            return place

    def read(self, place: Place) -> dict[str, Any]:
        """The line at `place`, as `append` or `JournalLines.places` gave it."""
        raw = os.pread(self._fd, place.size, place.offset)
        line: dict[str, Any] = jsonio.loads(raw)
        return line

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.fsync(self._fd)
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _repair(self) -> int:
        """Make the file end in a newline; returns its size."""
        if self.torn:
            whole = sum(place.size for place in self.found.places)
            os.ftruncate(self._fd, whole)
            return whole
        size = os.fstat(self._fd).st_size
        if size == 0 or os.pread(self._fd, 1, size - 1) == b"\n":
            return size
        # A whole object that lacks only its newline.
        return size + os.write(self._fd, b"\n")


def make_folders(folder: Path, *, durable: bool = True) -> None:
    """Create `folder` and those above it; what was created survives a power cut if `durable`."""
    missing = [folder, *folder.parents]
    missing = missing[: next((place for place, one in enumerate(missing) if one.is_dir()), len(missing))]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        if durable:
            sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Flush which names `folder` has: files that were created in it, or moved into it or out of it."""
    _flush(folder, os.O_DIRECTORY)


def sync_files(folder: Path) -> None:
    """Flush the files in `folder`, and its names; folders in it are left alone. Links are not followed."""
    with os.scandir(folder) as found:
        for item in found:
            if item.is_file(follow_symlinks=False):
                _flush(Path(item), os.O_NOFOLLOW)
    sync_folder(folder)


def sync_tree(folder: Path) -> None:
    """Flush all files and folders below `folder`, itself, and its own name."""
    for root, _, _ in os.walk(folder, topdown=False):
        sync_files(Path(root))
    sync_folder(folder.parent)


def _flush(path: Path, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
