"""Builds archives as a container engine would, and as an attacker would."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from tests.artifacts.samples import EVENT, HISTORY, RESULT, STATES

GOOD: dict[str, bytes] = {
    "result.json": json.dumps(RESULT).encode(),
    "states.json": json.dumps(STATES).encode(),
    "events.jsonl": (json.dumps(EVENT) + "\n").encode() * 3,
    "state_history.jsonl": (json.dumps(HISTORY) + "\n").encode() * 2,
    "stdout.log": b"hello\n\xff\x1b[31m",
    "extra/plots/ä.txt": b"x" * 1000,
}


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """An entry; `fields` are attributes of its TarInfo."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def archive(
    members: Iterable[tuple[tarfile.TarInfo, bytes]], format: int = tarfile.PAX_FORMAT, **options: Any
) -> bytes:
    """A tar of `members`, ``out/`` first."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format, **options) as tar:
        tar.addfile(member("out", type=tarfile.DIRTYPE, mode=0o755)[0])
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def of_files(files: dict[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of plain files below ``out/``."""
    return archive((member(f"out/{name}", data) for name, data in files.items()), format)


def chunked(data: bytes, size: int = 1000) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def raw_header(name: bytes = b"out/extra/a", size: bytes = b"0" * 11 + b"\0", kind: bytes = b"0") -> bytes:
    """A ustar header with a right checksum around whatever the fields hold."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124 : 124 + len(size)] = size
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)
