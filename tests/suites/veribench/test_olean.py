"""Compiled files are read as Lean has written them, and whatever else there is in them does no harm."""

from __future__ import annotations

import base64
import contextlib
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.veribench.stand_in import PARTS, load
from tests.suites.veribench.support import RECORDINGS
from trace_bench.suites.veribench.olean import Malformed, Module, Terms, read_module


@cache
def files(task: str = "gcd", *, first: str = "/-- Euclid's algorithm") -> tuple[bytes, ...]:
    """The compiled files of the first recording whose text begins so."""
    for path in sorted(RECORDINGS.glob("*.json.xz")):
        found = load(path)
        if found["text"].startswith(first) and f"theorem {task}_" in found["text"] and found["files"]:
            return tuple(base64.b64decode(found["files"][part]) for part in PARTS if part in found["files"])
    raise AssertionError(f"there is no recording of {task}")


def module(terms: Terms | None = None) -> Module:
    return read_module(files(), terms or Terms())


def test_constants_are_those_of_the_source() -> None:
    found = module().constants
    assert found["gcd"].kind == "definition" and found["gcd_comm"].kind == "theorem"
    assert "gcdSteps" in found["gcd"].uses
    assert {"gcd", "Dvd.dvd"} <= found["gcd_dvd_left"].mentions
    assert "gcdSteps_dvd" in found["gcd_dvd_left"].uses - found["gcd_dvd_left"].mentions
    assert all(constant.kind != "axiom" for constant in found.values())


def test_equal_terms_have_equal_numbers_across_files() -> None:
    terms = Terms()
    one, other = module(terms), module(terms)
    assert one == other
    assert one.constants["gcd_comm"].type != one.constants["gcd_dvd_left"].type


def test_version_and_entries() -> None:
    found = module()
    assert found.lean.startswith("4.")
    assert found.entries["Lean.declRangeExt"] > 0
    assert "Lean.Compiler.implementedByAttr" not in found.entries


@pytest.mark.parametrize("data", [b"", b"olean", b"olean\x02" + bytes(200), b"\x7fELF" + bytes(200)])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_module([data], Terms())


@given(st.data())
def test_damaged_files_are_read_or_refused(data: st.DataObject) -> None:
    parts = [bytearray(part) for part in files()]
    part = parts[data.draw(st.integers(0, len(parts) - 1))]
    for _ in range(data.draw(st.integers(1, 8))):
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del part[data.draw(st.integers(0, len(part))) :]
    with contextlib.suppress(Malformed):
        read_module([bytes(each) for each in parts], Terms())
