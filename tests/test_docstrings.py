"""Examples in docstrings come out as they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import trace_bench

ROOT = Path(trace_bench.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if "    >>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples() -> None:
    assert len(MODULES) > 10


@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_they_say(name: str) -> None:
    tried = doctest.testmod(importlib.import_module(name), report=True)
    assert tried.attempted > 0 and tried.failed == 0
