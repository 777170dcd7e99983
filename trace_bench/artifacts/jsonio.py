"""Strict reading of JSON, and writing of the same bytes for the same value.

`loads` refuses JSON that Python's ``json`` accepts and another reader reads differently: ``NaN`` and numbers beyond a
double, duplicate keys, lone surrogates, and nesting that overflows a recursive reader. It reads hostile bytes, so it
raises `JsonError` and nothing else.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trace_bench.display.text import quoted
from trace_bench.identity import canonical_json

MAX_DEPTH = 64
MAX_DEPTH_INSIDE = MAX_DEPTH - 8
"""Depth of JSON that becomes part of one of our lines or files, which are read with `MAX_DEPTH`."""

_DIGITS = 308
"""Digits of an integer that never exceeds a double."""

M = TypeVar("M", bound=BaseModel)


class JsonError(ValueError):
    """JSON that is not accepted. The message has no place: the caller adds file and line."""


def dumps(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON text: UTF-8 as it is, no NaN, keys in the order given (models keep their field
    order)."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)


def canonical(value: Any) -> bytes:
    """`value` (parsed JSON) as the bytes to hash; the one rule for that is `trace_bench.identity.canonical_json`."""
    return canonical_json(value)


def loads(data: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """Parse `data` strictly.

    Raises:
        JsonError: it is not UTF-8, not JSON, or has a constant, number, key, character or depth that is
        refused.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"it is not UTF-8 (byte {error.start})") from None
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_unique
        )
    except json.JSONDecodeError as error:
        raise JsonError(f"it is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise JsonError(f"it is nested deeper than {max_depth} levels") from None
    except JsonError:
        raise
    if text.count("{") + text.count("[") > max_depth:  # of fewer brackets no deeper nest is made
        _check_depth(value, max_depth)
    _check_characters(text, value)
    return value


def finite_number(value: object) -> int | float | None:
    """`value` if it is a finite number that JSON and a double can hold, else None; for values from a sandbox."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= sys.float_info.max and (isinstance(value, float) or abs(value) < 1 << 63) else None


def sound(value: Any) -> Any:
    """`value` (JSON data) as a file can hold it: U+FFFD for half of a surrogate pair, None for a number that is not
    finite. The two halves of a pair become its character.

    >>> sound({"a": ["\\ud800!", "\\ud83d\\ude00", float("nan")]}) == {"a": ["\\ufffd!", "\\U0001f600", None]}
    True
    """
    if isinstance(value, str):
        return value if _is_text(value) else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {sound(name): sound(item) for name, item in value.items()}
    return [sound(item) for item in value] if isinstance(value, list | tuple) else value


def json_objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects among `lines`. Other lines are left out, such as one that is being written."""
    for line in lines:
        try:
            value = loads(line)
        except JsonError:
            continue
        if isinstance(value, dict):
            yield value


def read_model(model: type[M], data: bytes, *, max_depth: int = MAX_DEPTH) -> M:
    """`data` as an instance of `model`, converting nothing.

    Raises:
        JsonError: as `loads`, or it breaks the model; the phrase names the first key that does.
    """
    loads(data, max_depth=max_depth)
    try:
        # Parsed a second time: only the JSON mode of the validator is strict and takes an array as a tuple.
        return model.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise JsonError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """The first problem of a validation error as a phrase: ``$.scores.best.train: Input should be …``."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{json_path(first['loc'])}: {first['msg']}{more}"


def json_path(location: Iterable[str | int]) -> str:
    """A JSON path such as ``$.jobs[3].seed``; long keys are cut, as they may be hostile."""
    path = "$"
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{quoted(part, 60)}"
    return path


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> float:
    raise JsonError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonError(f"{text[:30]} is beyond the range of a double")
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise JsonError(f"an integer of {len(text)} digits is beyond the range of a double")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"the key {key[:60]!r} occurs twice in one object")
            seen.add(key)
    return value


def _check_depth(value: Any, limit: int) -> None:
    layer = [value]
    for _ in range(limit):
        layer = [
            child
            for node in layer
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not layer:
            return
    raise JsonError(f"it is nested deeper than {limit} levels")


def _check_characters(text: str, value: Any) -> None:
    """Refuse lone surrogates, which no file can hold; only an escape can have made one."""
    if "\\ud" not in text and "\\uD" not in text and text.isascii():
        return
    try:
        dumps(value).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonError("it holds half of a surrogate pair, which is not a character") from None
