"""Long rows of parameters, of which a part is enough from day to day."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(values: Iterable[Any], every: int) -> list[Any]:
    """All of `values` as parameters; one in `every`, the first among them, runs without --full."""
    marks = (), pytest.mark.slow
    return [pytest.param(value, marks=marks[bool(number % every)]) for number, value in enumerate(values)]
