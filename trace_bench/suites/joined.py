"""Joins a table that is common to many tasks with a task's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def joined(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`common` with what `own` says otherwise; tables are joined by key."""
    found = {**common, **own}
    for key, value in common.items():
        if isinstance(value, Mapping) and isinstance(own.get(key), Mapping):
            found[key] = joined(value, own[key])
    return found
