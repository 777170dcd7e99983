"""The files of a run against their index and their schemas; and what none of them may hold."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from trace_bench.artifacts import schema
from trace_bench.artifacts.derived import FilesIndex
from trace_bench.artifacts.jsonio import JsonError, explain, loads
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.artifacts.yamlio import load_state
from trace_bench.audit.claims import Book
from trace_bench.audit.reading import Folder, Unreadable
from trace_bench.audit.secrets import Scanner
from trace_bench.records.digest import run_digest

MOST_HASHED = 64 << 30
"""Bytes of one file: no file of a run is larger, and a file may be all holes."""
MOST_STATE = 4 << 20
"""Bytes of a state that is read as YAML, which takes its time."""
_BLOCK = 1 << 20


class Inventory:
    """Takes in every file of a run, one after another.

    Args:
        why_not: why the index cannot be that of these files; empty where it must be.
    """

    def __init__(self, folder: Folder, layout: RunLayout, book: Book, environ: Mapping[str, str], why_not: str) -> None:
        self._folder = folder
        self._book = book
        self._scanner = Scanner(environ)
        self._why_not = why_not
        self._index_path = layout.relative(layout.files_index)
        self._unlisted = {self._index_path, layout.relative(layout.cancel)}
        self._listed: dict[str, tuple[int, str, str | None]] = {}
        self._hashes: dict[str, str] = {}
        if why_not:
            self._unknown(why_not)
        self._read_index()

    def _unknown(self, why: str) -> None:
        self._book.unknown("files.hashes", why)
        self._book.unknown("files.unlisted", why)

    def _read_index(self) -> None:
        try:
            index = self._folder.model(FilesIndex, self._index_path)
        except Unreadable as error:
            self._book.wrong("files.schemas", self._index_path, was=str(error), due="files_index")
            index = None
        if index is None:
            if not self._why_not:
                self._why_not = "the run has no index"
                self._unknown(self._why_not)
            return
        for entry in index.files:
            if entry.path in self._listed:
                self._book.wrong("files.hashes", self._index_path, entry.path, "listed twice", "listed once")
            self._listed[entry.path] = (entry.size, entry.sha256, entry.schema_name)

    def take(self, path: str, status: os.stat_result | None, *, is_read: bool = False) -> None:
        """One thing that is no folder.

        Args:
            is_read: it has been checked against its schema.
        """
        self._book.checked("files.links")
        if status is None or not stat.S_ISREG(status.st_mode):
            self._listed.pop(path, None)
            self._book.wrong("files.links", path, was=_kind(status), due="a file")
            return
        size, sha256 = self._hashed(path, status)
        if path not in self._unlisted:
            self._hashes[path] = sha256 or ""
        self._compare(path, size, sha256)
        if not is_read:
            self._check_schema(path)

    def end(self) -> str:
        """To be called when all files were taken; the digest of them."""
        if not self._why_not:
            for path, (size, _, _) in self._listed.items():
                self._book.wrong("files.hashes", path, was=None, due=f"{size} bytes")
        return run_digest(self._hashes)

    def _compare(self, path: str, size: int, sha256: str | None) -> None:
        listed = self._listed.pop(path, None)
        if self._why_not:
            return
        self._book.checked("files.unlisted")
        if listed is None:
            if path not in self._unlisted:
                self._book.wrong("files.unlisted", path, was=f"{size} bytes")
            return
        if not self._book.equal("files.hashes", path, "size", size, listed[0]):
            return
        self._book.equal("files.hashes", path, "sha256", sha256, listed[1])
        if listed[2] is not None or schema_of(path) is not None:
            self._book.equal("files.schemas", self._index_path, f"{path}: schema_name", listed[2], schema_of(path))

    def _hashed(self, path: str, status: os.stat_result) -> tuple[int, str | None]:
        """Size and hash, as its bytes pass by the scanner."""
        if status.st_size > MOST_HASHED:
            self._book.wrong("files.links", path, was=f"{status.st_size} bytes", due=f"at most {MOST_HASHED}")
            return status.st_size, None
        found, size = hashlib.sha256(), 0
        self._scanner.begin()
        self._book.checked("secrets.none")
        try:
            file = self._folder.open(path)
            if file is None:
                raise Unreadable("it is gone")
            with file:
                while block := file.read(_BLOCK):
                    found.update(block)
                    size += len(block)
                    for place, what, beginning in self._scanner.feed(block):
                        self._book.wrong("secrets.none", path, f"byte {place}", f"{beginning} ({what})")
        except (Unreadable, OSError) as error:
            self._book.wrong("files.links", path, was=str(error), due="a file that can be read")
            return status.st_size, None
        return size, found.hexdigest()

    def _check_schema(self, path: str) -> None:
        name = schema_of(path)
        if name is None:
            return
        self._book.checked("files.schemas")
        try:
            if path.endswith(".jsonl"):
                for number, raw in enumerate(self._folder.lines(path), start=1):
                    try:
                        _fits(schema.adapter(name), raw)
                    except ValueError as error:
                        self._book.wrong("files.schemas", path, f"line {number}", str(error), name)
                        return
            elif (data := self._folder.data(path)) is not None:
                if path.endswith(".yaml"):
                    state_of(data)
                else:
                    _fits(schema.adapter(name), data)
        except ValueError as error:
            self._book.wrong("files.schemas", path, was=str(error), due=name)


def state_of(data: bytes) -> dict[str, str | int | float]:
    """A saved state.

    Raises:
        Unreadable: it is none.
    """
    if len(data) > MOST_STATE:
        raise Unreadable(f"it has more than {MOST_STATE} bytes")
    try:
        return load_state(data.decode("utf-8"))
    except (ValueError, RecursionError, TypeError, AttributeError, OverflowError) as error:
        raise Unreadable(f"it is no state: {error}") from None


def _fits(adapter: TypeAdapter[object], data: bytes) -> None:
    """
    Raises:
        Unreadable
    """
    try:
        loads(data)
        adapter.validate_json(data, strict=True)
    except ValidationError as error:
        raise Unreadable(explain(error)) from None
    except (JsonError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def _kind(status: os.stat_result | None) -> str:
    if status is None:
        return "a folder that cannot be read, or lies too deep"
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")
