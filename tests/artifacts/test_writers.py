"""Whole files or none; journals that survive kill -9; cells that are safe."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.artifacts.records import GitInfo
from trace_bench.artifacts.writers import (
    Journal,
    read_journal,
    write_bytes,
    write_csv,
    write_json,
    write_pieces,
    write_text,
)
from trace_bench.display.text import csv_cell
from trace_bench.errors import HarnessError


def test_a_file_is_replaced_in_one_step_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.json"
    write_json(target, {"a": 1})
    write_json(target, GitInfo(commit="é"))
    assert json.loads(target.read_text(encoding="utf-8"))["commit"] == "é"
    assert target.read_bytes().endswith(b"}\n")
    assert [p.name for p in target.parent.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_json(target, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(target, {"a": float("nan")})
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_bytes(tmp_path / "folder", b"x")
    assert json.loads(target.read_text()) == {"a": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "folder"]


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_text(target, "0" * 100_000)
    stop = threading.Event()
    seen: set[tuple[int, str]] = set()

    def read() -> None:
        while not stop.is_set():
            text = target.read_text()
            seen.add((len(text), "".join(set(text))))

    thread = threading.Thread(target=read)
    thread.start()
    for digit in "123456789" * 3:
        write_text(target, digit * 100_000, durable=False)
    stop.set()
    thread.join()
    assert seen <= {(100_000, str(d)) for d in range(10)}


def test_line_ends_are_written_as_they_are(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "a\r\nb\rc\n")
    assert (tmp_path / "a").read_bytes() == b"a\r\nb\rc\n"


def test_a_journal_keeps_lines_in_order_from_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        threads = [
            threading.Thread(target=lambda i=i: [journal.append({"i": i, "k": k, "x": "é" * 500}) for k in range(50)])
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = read_journal(path).lines
    assert len(lines) == 400
    for i in range(8):
        assert [line["k"] for line in lines if line["i"] == i] == list(range(50))


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_torn_last_line_is_dropped_with_a_count_and_repaired(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"a":1}\n' + b'{"b":"long"}\n'[:-cut])
    whole = cut == 1  # only the newline is missing: nothing is lost
    found = read_journal(path)
    assert found.torn == (0 if whole or cut == 13 else 1)
    with Journal(path) as journal:
        assert journal.torn == found.torn
        journal.append({"c": 3})
    expected = [{"a": 1}, {"b": "long"}, {"c": 3}] if whole else [{"a": 1}, {"c": 3}]
    assert list(read_journal(path).lines) == expected


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":\n{"c":3}\n')
    with pytest.raises(HarnessError, match=r"j\.jsonl, line 2: it is not JSON"):
        read_journal(path)
    path.write_bytes(b'{"a":1}\n[]\n')
    with pytest.raises(HarnessError, match="line 2: it is not an object"):
        read_journal(path)


def test_kill_9_loses_at_most_the_line_being_written(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    script = f"""
import sys
from pathlib import Path
from trace_bench.artifacts.writers import Journal
journal = Journal(Path({str(path)!r}))
n = 0
while True:
    journal.append({{"n": n, "pad": "x" * 2000}})
    n += 1
    if n % 100 == 0:
        print(n, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    reported = [int(process.stdout.readline()) for _ in range(5)][-1]
    process.kill()
    process.wait()
    with Journal(path) as journal:
        numbers = [line["n"] for line in journal.found.lines]
        journal.append({"n": len(numbers)})
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= reported
    assert len(read_journal(path).lines) == len(numbers) + 1


def test_a_line_can_be_read_back_from_its_place(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        places = [journal.append({"n": n, "text": "é" * n}) for n in range(5)]
        assert [journal.read(place)["n"] for place in places] == list(range(5))
    assert read_journal(tmp_path / "j").places == tuple(places)


@pytest.mark.parametrize("written", [0, 1, 5])
def test_a_line_that_only_half_fits_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The last free bytes of a full disk take a part of it."""
    path = tmp_path / "j.jsonl"
    real, calls = os.write, []

    def write(fd: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) == 1 and written:
            return real(fd, data[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(path) as journal:
        places = [journal.append({"a": 1})]
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            with pytest.raises(OSError, match="No space left"):
                journal.append({"b": "lost"})
        assert path.read_bytes() == b'{"a":1}\n'
        places.append(journal.append({"c": 3}))
        assert [journal.read(place) for place in places] == [{"a": 1}, {"c": 3}]
    found = read_journal(path)
    assert (found.lines, found.torn, found.places) == (({"a": 1}, {"c": 3}), 0, tuple(places))


def test_a_line_that_is_written_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with Journal(tmp_path / "j") as journal, monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
        places = [journal.append({"n": n}) for n in range(3)]
        assert [journal.read(place) for place in places] == [{"n": n} for n in range(3)]
    assert read_journal(tmp_path / "j").places == tuple(places)


def test_a_line_after_closing_is_an_error_not_a_loss(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.close()
    journal.close()
    with pytest.raises(HarnessError, match="closed"):
        journal.append({})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (-3.5, "-3.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (10**30, "1" + "0" * 30),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "+1"),
        ("-", "'-"),
        ("-1e5", "-1e5"),
        ("@x", "'@x"),
        ("-x", "'-x"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\t=1", "\\t=1"),
        ("\u2028", "\\u2028"),
        ("\x1b[31m", "\\x1b[31m"),
        ({"b": 1, "a": [1.0, None]}, '{"b":1,"a":[1.0,null]}'),
        ({}, "{}"),
    ],
)
def test_cells(value: Any, text: str) -> None:
    assert csv_cell(value) == text


@given(st.lists(st.lists(st.text() | st.none() | st.floats() | st.integers(), min_size=2, max_size=2), max_size=5))
def test_a_row_is_always_one_line_and_never_a_formula(rows: list[list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        write_csv(path, ["a", "b"], rows)
        text = path.read_bytes().decode()
    assert len(text.splitlines()) == len(rows) + 1
    read = list(csv.reader(io.StringIO(text)))
    assert [len(row) for row in read] == [2] * (len(rows) + 1)
    for row, source in zip(read[1:], rows, strict=True):
        for shown, value in zip(row, source, strict=True):
            if isinstance(value, str) and shown[:1] in tuple("=+-@"):
                float(shown)
            if isinstance(value, float) and value == value:
                assert float(shown) == value


def test_a_secret_is_nobody_elses_to_read_from_its_first_byte_on(tmp_path: Path) -> None:
    seen = []

    def pieces() -> Iterator[bytes]:
        seen.append(next(tmp_path.iterdir()).stat().st_mode & 0o777)
        yield b"s"

    write_pieces(tmp_path / "salt", pieces(), mode=0o600)
    assert seen == [0o600] and (tmp_path / "salt").stat().st_mode & 0o777 == 0o600
