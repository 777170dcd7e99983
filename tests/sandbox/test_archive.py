"""Tar streams of hostile folders."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from pathlib import Path

from trace_bench.sandbox.archive import tar_of


def unpacked(folder: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(tar_of(folder, "out")))) as tar:
        return {member.name: member for member in tar}


def test_sockets_pipes_and_what_links_point_to_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "socket"))
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "up").symlink_to("../..")
    assert set(unpacked(tmp_path)) == {"out", "out/loop", "out/up"}


def test_names_that_are_no_unicode_and_long_names_survive(tmp_path: Path) -> None:
    bad = os.fsencode(tmp_path) + b"/\xff\xfe"
    with open(bad, "wb") as file:  # noqa: PTH123 - a path of bytes
        file.write(b"1")
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (deep / "f").write_bytes(b"22")
    found = unpacked(tmp_path)
    assert found["out/" + os.fsdecode(b"\xff\xfe")].size == 1
    assert found[f"out/{'d' * 200}/{'e' * 200}/f"].size == 2


def test_file_that_shrinks_or_grows_while_it_is_read_keeps_the_stream_sound(tmp_path: Path) -> None:
    for name in ("grows", "shrinks"):
        (tmp_path / name).write_bytes(b"x" * 300_000)
    (tmp_path / "zz-last").write_bytes(b"end")
    chunks = []
    for chunk in tar_of(tmp_path, "out"):
        chunks.append(chunk)
        with (tmp_path / "grows").open("ab") as file:
            file.write(b"y" * 1000)
        os.truncate(tmp_path / "shrinks", 100_000)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        assert tar.getnames() == ["out", "out/grows", "out/shrinks", "out/zz-last"]
        last = tar.extractfile("out/zz-last")
        assert last is not None and last.read() == b"end"


def test_file_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"1")
    chunks = []
    for chunk in tar_of(tmp_path, "out"):
        chunks.append(chunk)
        (tmp_path / "c").unlink(missing_ok=True)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        assert tar.getnames() == ["out", "out/a", "out/b"]
