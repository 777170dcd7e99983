"""How the built-in models change variables, and how they write it down.

The stub makes seeded steps for numbers and picks alternatives for code and text. An answer is in the form that the
prompt asks for, which the private header says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Value
from trace_bench.gateway.draws import Draws

SMALLEST_STEP = 1e-3
"""Relative to the range of a variable, or to its magnitude where it has no bounds."""
TRIES = 8
FORMATS = ("json", "tags", "improved")
"""How an answer gives new values: in a JSON object's ``suggestion``; each with its name, between tags; or one value
alone, between tags."""


@dataclass(frozen=True)
class Variable:
    """One value that the stub may change, as our proposer describes it in the private header.

    Attributes:
        kind: ``int``, ``float``, ``code`` or ``text``.
        bounds: inclusive; numbers only.
        alternatives: other admissible values; the only ones for code and text.
        format: one of `FORMATS`.
    """

    name: str
    kind: str
    value: Value
    bounds: tuple[float, float] | None = None
    alternatives: tuple[Value, ...] = ()
    format: str = "json"

    @classmethod
    def parse(cls, item: object) -> Variable:
        """A variable from parsed JSON.

        Raises:
            ValueError: a phrase on what is wrong with it.
        """
        if not isinstance(item, dict):
            raise ValueError("an item is not an object")
        unknown = item.keys() - {"name", "kind", "value", "bounds", "alternatives", "format"}
        if unknown:
            raise ValueError(f"an item has the unknown key {min(unknown)!r}")
        name, kind = item.get("name"), item.get("kind")
        value: Any = item.get("value")
        if not isinstance(name, str) or not name:
            raise ValueError("an item has no name")
        if kind not in ("int", "float", "code", "text"):
            raise ValueError(f"the kind of {name!r} is none of int, float, code, text")
        if not _fits(kind, value):
            raise ValueError(f"the value of {name!r} is not of kind {kind}")
        bounds = item.get("bounds")
        if bounds is not None:
            if not (isinstance(bounds, list) and len(bounds) == 2 and all(_is_number(b) for b in bounds)):
                raise ValueError(f"the bounds of {name!r} are not two numbers")
            if bounds[0] > bounds[1]:
                raise ValueError(f"the bounds of {name!r} are the wrong way round")
        alternatives = item.get("alternatives") or []
        if not isinstance(alternatives, list) or not all(_fits(kind, a) for a in alternatives):
            raise ValueError(f"the alternatives of {name!r} are not a list of kind {kind}")
        form = item.get("format", "json")
        if form not in FORMATS:
            raise ValueError(f"the format of {name!r} is none of {', '.join(FORMATS)}")
        return cls(name, kind, value, tuple(bounds) if bounds else None, tuple(alternatives), form)


def propose(variables: Sequence[Variable], draws: Draws) -> dict[str, Value]:
    """New values for a seeded, non-empty subset of those `variables` that can change; empty if none can.

    What a variable gets depends on its name and on `draws`, not on its place in the list.
    """
    fresh = {v.name: new for v in variables if (new := changed(v, draws.sub("value", v.name))) is not None}
    if len(fresh) < 2:
        return fresh
    chosen = {name for name in fresh if draws.sub("subset", name).flip()}
    if not chosen:
        chosen = {draws.sub("one").pick(sorted(fresh))}
    return {name: value for name, value in fresh.items() if name in chosen}


def written(variables: Sequence[Variable], suggestion: Mapping[str, Value], reasoning: str) -> str:
    """An answer that suggests these values, in the form that is asked for; that of the first of `variables` counts."""
    match variables[0].format if variables else "json":
        case "tags":
            changes = "".join(
                f"\n<variable>\n<name>{name}</name>\n<value>\n{value}\n</value>\n</variable>"
                for name, value in suggestion.items()
            )
            return f"<reasoning>\n{reasoning}\n</reasoning>{changes}"
        case "improved":
            value = next(iter(suggestion.values()), None)
            return reasoning if value is None else f"<IMPROVED_VARIABLE>{value}</IMPROVED_VARIABLE>"
        case _:
            return jsonio.dumps({"reasoning": reasoning, "answer": "", "suggestion": suggestion})


def changed(variable: Variable, draws: Draws) -> Value | None:
    """Another admissible value of `variable`, or None if there is none."""
    if variable.kind in ("code", "text"):
        others = [a for a in variable.alternatives if a != variable.value]
        return draws.pick(others) if others else None
    if variable.kind == "int":
        return _int_step(int(variable.value), variable.bounds, draws)
    return _float_step(float(variable.value), variable.bounds, draws)


def _step_size(value: float, bounds: tuple[float, float] | None, draws: Draws) -> float:
    """Log-uniform between `SMALLEST_STEP` and 1 of the scale: as many small steps as large ones."""
    span = bounds[1] - bounds[0] if bounds is not None else 0.0
    scale = span if 0.0 < span < math.inf else max(abs(value), 1.0)
    return scale * math.pow(SMALLEST_STEP, draws.unit())


def _float_step(value: float, bounds: tuple[float, float] | None, draws: Draws) -> float | None:
    low, high = bounds if bounds is not None else (-math.inf, math.inf)
    for _ in range(TRIES):
        size = _step_size(value, bounds, draws)
        sign = 1.0 if draws.flip() else -1.0
        for step in (sign * size, -sign * size):
            new = min(max(value + step, low), high)
            if new != value and math.isfinite(new):
                return new
    # Steps vanish beside the value (1e16 in a range of 1), or both bounds are the value.
    neighbours = (math.nextafter(value, high), math.nextafter(value, low))
    return next((new for new in neighbours if new != value and math.isfinite(new)), None)


def _int_step(value: int, bounds: tuple[float, float] | None, draws: Draws) -> int | None:
    low = math.ceil(bounds[0]) if bounds is not None else None
    high = math.floor(bounds[1]) if bounds is not None else None
    if low is not None and high is not None and low > high:
        return None
    size = max(1, round(_step_size(float(value), bounds, draws)))
    sign = 1 if draws.flip() else -1
    for step in (sign * size, -sign * size):
        new = value + step
        if low is not None and high is not None:
            new = min(max(new, low), high)
        if new != value:
            return new
    return None


def _is_number(value: Any) -> bool:
    """A number whose magnitude a double holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


def _fits(kind: str, value: Any) -> bool:
    if kind in ("code", "text"):
        return isinstance(value, str)
    if kind == "int":
        return _is_number(value) and isinstance(value, int)
    return _is_number(value)
