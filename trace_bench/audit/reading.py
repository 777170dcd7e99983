"""Reads the folder of an untrusted run: follows no link, opens no device, and reads nothing without a limit."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.jsonio import JsonError, loads, read_model
from trace_bench.artifacts.writers import is_torn
from trace_bench.artifacts.yamlio import load_state
from trace_bench.audit.claims import Findings

MAX_FILE = 256 << 20
"""Bytes of a file that is read at once."""
MAX_LINE = 64 << 20
"""Bytes of a line."""
MAX_STATE = 8 << 20
"""Bytes of a state: YAML is slow to parse."""
MAX_DEPTH = 40
"""Nested folders."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Unreadable(ValueError):
    """A file that exists and is not what it should be; the message is a clause."""


class Folder:
    """The files of a run by their paths relative to it. Close when done."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)

    def open(self, relative: str) -> BinaryIO | None:
        """Open a regular file; None if it does not exist.

        Raises:
            Unreadable: it is no regular file, or a folder of its path is none.
        """
        *folders, name = relative.split("/")
        at = self._fd
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER, dir_fd=at)
                if at != self._fd:
                    os.close(at)
                at = below
            # Before it is opened: opening a device can have effects.
            if not stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                raise Unreadable("it is not a regular file")
            file = os.open(name, _FILE, dir_fd=at)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror or error}") from None
        finally:
            if at != self._fd:
                os.close(at)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise Unreadable("it is not a regular file")
        return os.fdopen(file, "rb")

    def size(self, relative: str) -> int | None:
        """Bytes of a regular file; None if there is none."""
        with contextlib.suppress(Unreadable):
            file = self.open(relative)
            if file is not None:
                with file:
                    return os.fstat(file.fileno()).st_size
        return None

    def data(self, relative: str, limit: int = MAX_FILE) -> bytes | None:
        """Read a whole file; None if it does not exist.

        Raises:
            Unreadable: it is not a regular file, or larger than `limit`.
        """
        file = self.open(relative)
        if file is None:
            return None
        with file:
            try:
                data = file.read(limit + 1)
            except OSError as error:
                raise Unreadable(f"it cannot be read: {error.strerror or error}") from None
        if len(data) > limit:
            raise Unreadable(f"it has more than {limit} bytes")
        return data

    def model(self, model: type[M], relative: str) -> M | None:
        """Read a JSON file as `model`; None if it does not exist.

        Raises:
            Unreadable: also if it does not fit.
        """
        data = self.data(relative)
        return None if data is None else parse_model(model, data)

    def state(self, relative: str) -> dict[str, str | int | float] | None:
        """Read a saved state; None if it does not exist.

        Raises:
            Unreadable: also if it is no state.
        """
        data = self.data(relative, MAX_STATE)
        return None if data is None else parse_state(data)

    def lines(self, relative: str) -> Iterator[bytes]:
        """The lines of a JSONL file; an unfinished last line is left out.

        Raises:
            Unreadable: it is not a regular file, or a line is too long.
        """
        file = self.open(relative)
        if file is None:
            return
        with file:
            while raw := file.readline(MAX_LINE + 1):
                if len(raw) > MAX_LINE:
                    raise Unreadable(f"a line has more than {MAX_LINE} bytes")
                if not raw.endswith(b"\n") and not _lacks_only_newline(raw):
                    return
                if b"\0" in raw and is_torn(raw + file.read(1 << 20)):
                    return
                yield raw

    def walk(self, relative: str = "") -> Iterator[tuple[str, os.stat_result | None]]:
        """Everything below a folder that is not a folder, by path, with its `lstat`; None for a folder that cannot be
        read or is too deep."""
        try:
            with os.scandir(self.root / relative) as found:
                items = sorted((item.name, item.stat(follow_symlinks=False)) for item in found)
        except OSError:
            yield relative, None
            return
        for name, status in items:
            path = f"{relative}/{name}" if relative else name
            if not stat.S_ISDIR(status.st_mode):
                yield path, status
            elif path.count("/") < MAX_DEPTH:
                yield from self.walk(path)
            else:
                yield path, None


class JsonLines(Generic[T]):
    """The parsed lines of a JSONL file with their numbers, up to the first line that does not fit.

    Args:
        parse: raises `Unreadable` for a line that does not fit.
        schema: name of the schema, for findings.
        claim: contradicted if the file is not a regular file, or has a line that is too long.
        line_claim: contradicted if a line does not fit.

    Attributes:
        whole: all lines were read. Known after the iteration.
    """

    def __init__(
        self, folder: Folder, at: Findings, parse: Callable[[bytes], T], *, schema: str, claim: str = "files.schemas",
        line_claim: str = "files.schemas",
    ) -> None:  # fmt: skip
        self._folder, self._at, self._parse = folder, at, parse
        self._schema, self._claim, self._line_claim = schema, claim, line_claim
        self.whole = True

    def __iter__(self) -> Iterator[tuple[int, T]]:
        claim, key = self._claim, ""
        try:
            for number, raw in enumerate(self._folder.lines(self._at.file), start=1):
                claim, key = self._line_claim, f"line {number}"
                yield number, self._parse(raw)
                claim, key = self._claim, ""
        except Unreadable as error:
            self.whole = False
            self._at.wrong(claim, key, str(error), self._schema)


def _lacks_only_newline(raw: bytes) -> bool:
    try:
        return isinstance(loads(raw), dict)
    except (JsonError, RecursionError):
        return False


def parse_model(model: type[M], data: bytes) -> M:
    """Parse JSON as `model`.

    Raises:
        Unreadable: it does not fit.
    """
    try:
        return read_model(model, data)
    except JsonError as error:
        raise Unreadable(str(error)) from None
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None


def parse_event(data: bytes) -> dict[str, Any]:
    """Parse a line of a journal: an object with ``event``, a text, and ``t``.

    Raises:
        Unreadable: it is not an event.
    """
    try:
        line = loads(data)
    except (JsonError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    if not isinstance(line, dict) or not isinstance(line.get("event"), str) or "t" not in line:
        raise Unreadable("it is not an event")
    return line


def parse_state(data: bytes) -> dict[str, str | int | float]:
    """Parse the YAML of a saved state.

    Raises:
        Unreadable: it is not a state.
    """
    if len(data) > MAX_STATE:
        raise Unreadable(f"it has more than {MAX_STATE} bytes")
    try:
        return load_state(data.decode("utf-8"))
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Unreadable(f"it is not a state: {error}") from None


def kind_of(status: os.stat_result | None) -> str:
    """The word for what `Folder.walk` found in the place of a regular file."""
    if status is None:
        return "a folder that cannot be read, or is nested too deeply"
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")
