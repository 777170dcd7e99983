"""Reads an untrusted tar as a stream, header by header, and trusts nothing in it.

Not `tarfile`: it follows what a header says before anybody can object (it reads an extended header of any
size into memory, seeks over sizes that are lies, restores sparse maps and links) and takes the last of two
contradicting fields. What is understood here is what container engines and `tarfile` write for plain files
and folders: ustar, the POSIX extended header for one file with its path, and GNU long names. All else is
refused by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from trace_bench.errors import BrokenArchive, CollectError, TraceBenchError

BLOCK = 512
EXTENSION_BYTES = 64 << 10
"""Largest extended header or long name."""
HEAD_BYTES = 64 << 10
"""How much of the stream's beginning is kept as evidence."""

_REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a fifo",
    b"7": "a contiguous file",
    b"S": "a sparse file",
    b"K": "a long link",
    b"g": "a global extended header",
}


@dataclass(frozen=True)
class Entry:
    """A file or folder of the archive. The `size` bytes of a file must be read before the next entry is asked
    for."""

    name: str
    kind: Literal["file", "folder"]
    size: int


class Source:
    """The bytes of the stream, counted and timed.

    Args:
        max_bytes: of the whole stream.
        max_seconds: from now to the last byte. It is checked between chunks: an iterator that may block for
        ever
            must have a timeout of its own.
    """

    def __init__(self, chunks: Iterator[bytes], max_bytes: int, max_seconds: float) -> None:
        self._chunks = chunks
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._deadline = time.monotonic() + max_seconds
        self._rest = memoryview(b"")
        self.taken = 0
        self.head = bytearray()

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes.

        Raises:
            BrokenArchive: the stream ends or breaks before, or is too slow.
            CollectError: it is too long.
        """
        parts: list[bytes] = []
        self.copy(size, parts.append)
        return b"".join(parts)

    def copy(self, size: int, sink: Callable[[bytes], object]) -> None:
        """Pass exactly `size` bytes to `sink`, in pieces as they come; raises as `read`."""
        while size:
            if not self._rest and not self._fill():
                raise BrokenArchive(f"the archive ends at byte {self.taken} in the middle of an entry")
            piece = bytes(self._rest[:size])
            self._rest = self._rest[len(piece) :]
            self.taken += len(piece)
            size -= len(piece)
            sink(piece)

    def drain_zeros(self) -> None:
        """Read the padding to the end of the stream.

        Raises:
            BrokenArchive, CollectError: something follows the end of the archive, or as `read`.
        """
        while self._rest or self._fill():
            if any(self._rest):
                raise BrokenArchive(f"data follows the end of the archive at byte {self.taken}")
            self.taken += len(self._rest)
            self._rest = memoryview(b"")

    def _fill(self) -> bool:
        """Fetch the next chunk that is not empty; False at the end of the stream."""
        while not self._rest:
            if time.monotonic() > self._deadline:
                raise BrokenArchive(f"the archive was not read within {self._max_seconds:g} s")
            try:
                chunk = next(self._chunks)
            except StopIteration:
                return False
            except TraceBenchError:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise BrokenArchive(f"the archive stream broke at byte {self.taken}: {reason}") from error
            if self.taken + len(chunk) > self._max_bytes:
                raise CollectError(f"the archive is larger than {self._max_bytes} bytes")
            if len(self.head) < HEAD_BYTES:
                self.head += chunk[: HEAD_BYTES - len(self.head)]
            self._rest = memoryview(chunk)
        return True


def entries(source: Source, root: str = "") -> Iterator[Entry]:
    """The files and folders of the archive, in its order.

    Args:
        root: name of the folder that all entries lie in, if the archive's maker chose it.

    Raises:
        BrokenArchive: the archive is malformed, or its root is not a folder.
        CollectError: it holds what is not a plain file or folder.
    """
    long_name: bytes | None = None
    extended: dict[bytes, bytes] | None = None
    while True:
        block = source.read(BLOCK)
        if not any(block):
            if long_name is not None or extended is not None:
                raise BrokenArchive("the archive ends after an extended header that describes nothing")
            if any(source.read(BLOCK)):
                raise BrokenArchive(f"the archive has a lone zero block before byte {source.taken}")
            source.drain_zeros()
            return
        kind, size, raw_name = _header(block, source.taken - BLOCK)
        if kind in (b"x", b"L"):
            if size > EXTENSION_BYTES:
                raise CollectError(
                    f"the extended header at byte {source.taken - BLOCK} claims {size} bytes; "
                    f"{EXTENSION_BYTES} is the limit"
                )
            if long_name is not None or extended is not None:
                raise BrokenArchive(f"two extended headers follow each other at byte {source.taken - BLOCK}")
            data = source.read(size)
            _skip_padding(source, size)
            if kind == b"x":
                extended = _pax(data)
            else:
                long_name = data.rstrip(b"\0")
            continue
        if extended is not None:
            raw_name = extended.get(b"path", raw_name)
            if extended.get(b"size", b"%d" % size) != b"%d" % size:
                raise BrokenArchive("an extended header contradicts the size of its entry")
        raw_name = raw_name if long_name is None else long_name
        long_name = extended = None
        name = _decode(raw_name)
        refusal = _refusal(name, root)
        if kind in _REFUSED:
            raise refusal(f"{name} is {_REFUSED[kind]}; only plain files and folders are collected")
        if kind == b"5":
            if size:
                raise refusal(f"the folder {name} claims {size} bytes of content")
            yield Entry(name, "folder", 0)
        elif kind in (b"0", b"\0"):
            before = source.taken
            yield Entry(name, "file", size)
            if source.taken - before != size:
                raise AssertionError("an entry was not read to its end")
            _skip_padding(source, size)
        else:
            raise refusal(f"{name} is an entry of the unknown type {kind!a}")


def _refusal(name: str, root: str) -> type[CollectError]:
    """The error for an entry that cannot be taken. The content of `root` is the sandbox's; the root itself, and what is
    beside it, the archive's maker's."""
    inside = not root or (name.startswith(f"{root}/") and name.strip("/") != root)
    return CollectError if inside else BrokenArchive


def _header(block: bytes, offset: int) -> tuple[bytes, int, bytes]:
    """Type, size and name of a header block."""
    stored = _number(block[148:156], "checksum", offset)
    if stored != sum(block) - sum(block[148:156]) + 8 * 0x20:
        raise BrokenArchive(f"the header at byte {offset} has a wrong checksum")
    magic = block[257:265]
    name = block[:100].partition(b"\0")[0]
    if magic == b"ustar\x0000":
        prefix = block[345:500].partition(b"\0")[0]
        name = prefix + b"/" + name if prefix else name
    elif magic != b"ustar  \0":
        raise BrokenArchive(f"the header at byte {offset} is of no tar format that is collected")
    return block[156:157], _number(block[124:136], "size", offset), name


def _number(field: bytes, what: str, offset: int) -> int:
    if field[0] == 0x80:  # base-256, positive
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise BrokenArchive(f"the header at byte {offset} has no valid {what}")
    return int(digits, 8)


def _pax(data: bytes) -> dict[bytes, bytes]:
    """The records of an extended header. Times, owners and attributes are read over: we set our own."""
    records: dict[bytes, bytes] = {}
    while data:
        digits, blank, _ = data[:12].partition(b" ")
        length = int(digits) if digits.isdigit() and blank else 0
        record = data[len(digits) + 1 : length]
        key, equals, value = record[:-1].partition(b"=")
        if length > len(data) or not record.endswith(b"\n") or not equals or not key:
            raise BrokenArchive("an extended header is malformed")
        if key in records:
            raise BrokenArchive(f"an extended header has the key {key!a} twice")
        if key.startswith(b"GNU.sparse"):
            raise CollectError("an extended header describes a sparse file; only plain files are collected")
        if key == b"hdrcharset":
            raise BrokenArchive("an extended header changes the character set; names are UTF-8")
        records[key] = value
        data = data[length:]
    return records


def _decode(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise CollectError(f"the name {ascii(name)[2:-1]} is not UTF-8") from None


def _skip_padding(source: Source, size: int) -> None:
    source.read(-size % BLOCK)
