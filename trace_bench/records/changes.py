"""Show how two states differ."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping

from trace_bench.artifacts.contract import Value


def change(
    before: Mapping[str, Value], after: Mapping[str, Value], names: tuple[str, str] = ("initial", "best")
) -> dict[str, list[str]]:
    """The differences by parameter: a unified diff of text, ``a → b`` of numbers.

    Args:
        names: of the two states, in the heads of diffs.
    """
    found: dict[str, list[str]] = {}
    for name in (*before, *(name for name in after if name not in before)):
        old, new = before.get(name), after.get(name)
        if old == new and type(old) is type(new):
            continue
        if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
            found[name] = list(difflib.unified_diff(old.split("\n"), new.split("\n"), *names, lineterm=""))
        else:
            found[name] = [f"{_value(old)} → {_value(new)}"]
    return found


def _value(value: Value | None) -> str:
    return "(none)" if value is None else json.dumps(value, ensure_ascii=False)
