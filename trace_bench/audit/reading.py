"""Reads a run's folder that comes from a stranger: no link is followed, no device opened, nothing is read without a
limit."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.jsonio import JsonError, loads, read_model
from trace_bench.artifacts.writers import is_torn

MOST_BYTES = 256 << 20
"""Of a file that is read at once."""
MOST_LINE = 64 << 20
"""Bytes of a line."""
MOST_DEPTH = 40
"""Of folders in one another."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

M = TypeVar("M", bound=BaseModel)


class Unreadable(ValueError):
    """A file that is there and cannot be taken for what it should be; the message is a phrase."""


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
        """A regular file; None if nothing is there.

        Raises:
            Unreadable: something else is there, or above it.
        """
        *folders, name = relative.split("/")
        at = self._fd
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER, dir_fd=at)
                if at != self._fd:
                    os.close(at)
                at = below
            # Looked at first: to open a device may do something.
            if not stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                raise Unreadable("it is no regular file")
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
            raise Unreadable("it is no regular file")
        return os.fdopen(file, "rb")

    def size(self, relative: str) -> int | None:
        """Bytes of a regular file; None if there is none."""
        with contextlib.suppress(Unreadable):
            file = self.open(relative)
            if file is not None:
                with file:
                    return os.fstat(file.fileno()).st_size
        return None

    def data(self, relative: str, limit: int = MOST_BYTES) -> bytes | None:
        """All of a file; None if there is none.

        Raises:
            Unreadable: it is no file, or larger than `limit`.
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
        """A file of JSON as `model`; None if there is none.

        Raises:
            Unreadable: also if it does not fit.
        """
        data = self.data(relative)
        return None if data is None else parsed(model, data)

    def lines(self, relative: str) -> Iterator[bytes]:
        """The lines of a JSONL file one after another; an unfinished end is left out.

        Raises:
            Unreadable: it is no file, or a line is too long.
        """
        file = self.open(relative)
        if file is None:
            return
        with file:
            while raw := file.readline(MOST_LINE + 1):
                if len(raw) > MOST_LINE:
                    raise Unreadable(f"a line has more than {MOST_LINE} bytes")
                if not raw.endswith(b"\n") and not _is_whole(raw):
                    return
                if b"\0" in raw and is_torn(raw + file.read(1 << 20)):
                    return
                yield raw

    def walk(self, relative: str = "") -> Iterator[tuple[str, os.stat_result | None]]:
        """Everything below a folder that is no folder, by path, with its `lstat`; None for a folder that cannot be read
        or is too deep."""
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
            elif path.count("/") < MOST_DEPTH:
                yield from self.walk(path)
            else:
                yield path, None


def _is_whole(raw: bytes) -> bool:
    """Whether a last line lacks but its newline."""
    try:
        return isinstance(loads(raw), dict)
    except (JsonError, RecursionError):
        return False


def parsed(model: type[M], data: bytes) -> M:
    """`data` as `model`.

    Raises:
        Unreadable: it is not.
    """
    try:
        return read_model(model, data)
    except JsonError as error:
        raise Unreadable(str(error)) from None
    except RecursionError:
        raise Unreadable("it is nested too deep") from None
