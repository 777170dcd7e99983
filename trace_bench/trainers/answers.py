"""Reads a model's answer to an optimizer's prompt, and checks it against the parameters. Standard library only.

An answer is hostile input. Whatever it holds, reading it ends in values that the parameters admit, or in
`Unusable` with one sentence about why.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.worker.problem import Parameter, Value
from trace_bench.worker.unusable import known_kind

MOST_CHARACTERS = 100_000
"""Of one value. Every later prompt holds it, and a model that has lost itself writes on until it is cut off."""


class Unusable(Exception):
    """An answer, or one value of it, cannot be used. The text is one sentence.

    Attributes:
        kind: one of `trace_bench.worker.unusable.KINDS`.
    """

    def __init__(self, reason: str, kind: str = "other") -> None:
        super().__init__(reason)
        self.kind = known_kind(kind)


@dataclass(frozen=True)
class Variable:
    """A parameter as the prompt shows it.

    Attributes:
        prompt_name: its name in the prompt and in the answer.
        value: its current value.
    """

    prompt_name: str
    parameter: Parameter
    value: Value

    def header(self, answer_format: str = "json") -> dict[str, Any]:
        """What the stub model is told, in a private header that no provider sees.

        Args:
            answer_format: how the prompt asks for new values: ``json``, ``tags`` or ``improved``.
        """
        form: dict[str, Any] = {"format": answer_format} if answer_format != "json" else {}
        if self.parameter.ladder:
            form["ladder"] = list(self.parameter.ladder)
        return {
            **form,
            "name": self.prompt_name,
            "kind": self.parameter.kind,
            "value": self.value,
            "bounds": list(self.parameter.bounds) if self.parameter.bounds is not None else None,
            "alternatives": list(self.parameter.alternatives),
        }


def content(response: Mapping[str, Any]) -> str:
    """The text of a chat completion.

    Raises:
        Unusable: there is none.
    """
    if isinstance(refused := response.get("refused"), str):
        raise Unusable(f"the provider refused the request: {refused}", "refused")
    try:
        text = response["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise Unusable("the response holds no message", "empty") from None
    if not isinstance(text, str) or not text.strip():
        raise Unusable("the message is empty", "empty")
    return text


def suggestion(text: str) -> dict[str, Any] | None:
    """The ``suggestion`` of an answer, or None where the whole answer is TERMINATE ("nothing to change").

    Takes JSON alone, in a code fence, or after other text. The word TERMINATE inside an answer means nothing.

    Raises:
        Unusable: there is no JSON object with a ``suggestion`` that is an object.
    """
    if text.strip().strip("\"'`.#* \n") == "TERMINATE":
        return None
    found: Any = None
    for start in _object_starts(text):
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "suggestion" in found:
            break
    if not isinstance(found, dict):
        raise Unusable("the answer holds no JSON object", "no_json")
    if not isinstance(found.get("suggestion"), dict):
        raise Unusable('the answer has no "suggestion" object', "no_suggestion")
    suggested: dict[str, Any] = found["suggestion"]
    return suggested


def _object_starts(text: str, limit: int = 64) -> list[int]:
    """Where the JSON object may start: the first `limit` places, and as many before the last "suggestion", so that
    reading ends soon, and braces in a long text before the object do no harm."""
    starts = [match.start() for match in re.finditer(r"\{", text)]
    before = bisect_left(starts, text.rfind('"suggestion"'))
    return [*starts[:limit], *starts[max(before - limit, limit) : before]]


def pick(suggested: Mapping[str, Any], variables: Sequence[Variable]) -> tuple[dict[str, Any], list[str]]:
    """``{parameter name: suggested value}`` of the known variables, and the names that no variable has."""
    by_name = {v.parameter.name: v.parameter.name for v in variables}
    by_name.update({v.prompt_name: v.parameter.name for v in variables})
    known = {by_name[name]: value for name, value in suggested.items() if name in by_name}
    return known, [name for name in suggested if name not in by_name]


def cast(parameter: Parameter, value: Any) -> Value:
    """`value` as a value of `parameter`. Nothing is rounded or clipped.

    Raises:
        Unusable: it is of another type, not finite, out of bounds, or empty source.
    """
    if parameter.kind == "code":
        return _code(value)
    if parameter.kind == "text":
        return _text(value)
    number = _number(parameter.kind, value)
    if parameter.bounds is not None and not parameter.bounds[0] <= number <= parameter.bounds[1]:
        low, high = parameter.bounds
        raise Unusable(f"{number!r} is not in the bounds from {low:.10g} to {high:.10g}", "invalid_value")
    return number


def _code(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable(f"source is due, and the answer gives {_kind(value)}", "invalid_value")
    fenced = re.fullmatch(r"\s*```[a-zA-Z0-9]*\n(.*?)\n?```\s*", value, re.DOTALL)
    source = fenced.group(1) if fenced else value
    if not source.strip():
        raise Unusable("the source is empty", "invalid_value")
    return _encodable(source)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    raise Unusable(f"text is due, and the answer gives {_kind(value)}", "invalid_value")


def _encodable(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise Unusable(f"the value has {len(text)} characters, and {MOST_CHARACTERS} is the most", "invalid_value")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unusable("the text holds half of a surrogate pair, which no file can hold", "invalid_value") from None
    return text


def _number(kind: str, value: Any) -> int | float:
    if isinstance(value, str):
        try:
            value = int(value) if kind == "int" else float(value)
        except ValueError:
            raise Unusable("a number is due, and the answer gives text that is none", "invalid_value") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unusable(f"a number is due, and the answer gives {_kind(value)}", "invalid_value")
    try:
        number = float(value)
    except OverflowError:
        raise Unusable("the number is too large", "invalid_value") from None
    if not math.isfinite(number):
        raise Unusable("the number is not finite", "invalid_value")
    if kind == "float":
        return number
    if number != int(value):
        raise Unusable(f"a whole number is due, and the answer gives {number!r}", "invalid_value")
    return int(value)


def _kind(value: Any) -> str:
    names = {bool: "true or false", type(None): "null", list: "a list", dict: "an object", int: "a number"}
    return names.get(type(value), "a number" if isinstance(value, float) else "text")
