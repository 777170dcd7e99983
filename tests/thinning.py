"""Long rows of parameters, of which a part is enough from day to day."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[1]
PAGES = tuple(f"docs/design/{page}.md" for page in ("code-tests", "durability", "integrity", "secrets"))
INVARIANTS = frozenset(name for page in PAGES for name in re.findall(r"tests/[\w/]+\.py", (TOP / page).read_text()))
"""Test files that guard an invariant: the design pages about invariants name them, and all their rows are tried."""


def slow_is_asked(request: pytest.FixtureRequest) -> bool:
    """True if a collected test of the fixture's module is slow: the fixture then prepares what those tests need."""
    own = request.node.nodeid.partition("::")[0]
    items = [item for item in request.session.items if item.nodeid.partition("::")[0] == own]
    return any(item.get_closest_marker("slow") for item in items)


def thinned(values: Iterable[Any], every: int) -> list[Any]:
    """All of `values` as parameters; one in `every`, the first among them, runs without --full."""
    marks = (), pytest.mark.slow
    return [pytest.param(value, marks=marks[bool(number % every)]) for number, value in enumerate(values)]
