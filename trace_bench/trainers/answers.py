"""Reads a model's answer to an optimizer's prompt, and checks it against the parameters.

Reasoning is told from the answer by `trace_bench.worker.answer_text`, Markdown is read by
`trace_bench.worker.fences`, JSON by `answer_json`.

An answer is hostile input. Whatever it holds, reading it ends in values that the parameters admit, or in
`Unusable` with one sentence about why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.trainers import answers_v1
from trace_bench.trainers.answer_json import objects
from trace_bench.worker.answer_text import READER, message_of
from trace_bench.worker.fences import unfenced
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


class Answer(str):
    """What a model answered, without its reasoning.

    Attributes:
        reasoning: it stays in the record of the call, and is never read as an answer.
        reader: version of the rules by which the answer is read.
    """

    reasoning: str = ""
    reader: int = READER

    @classmethod
    def of(cls, text: str, reasoning: str, reader: int) -> Answer:
        made = cls(text)
        made.reasoning, made.reader = reasoning, reader
        return made


def reader_of(text: str) -> int:
    """The version of the rules by which `text` is read."""
    return text.reader if isinstance(text, Answer) else READER


def content(response: Mapping[str, Any], *, partial: bool = False) -> Answer:
    """The answer in a chat completion.

    Args:
        partial: take the beginning of an answer that was cut off: for prose, which says something without its end.

    Raises:
        Unusable: there is none, or it was cut off.
    """
    if isinstance(refused := response.get("refused"), str):
        raise Unusable(f"the provider refused the request: {refused}", "refused")
    message = message_of(response)
    if message is None:
        raise Unusable("the response holds no message", "empty")
    if (reader := response.get("reader", READER)) == 1:
        text = response["choices"][0]["message"]["content"] if message.answer or message.reasoning else ""
        if not isinstance(text, str) or not text.strip():
            raise Unusable("the message is empty", "empty")
        return Answer.of(text, "", 1)
    if message.finish == "length" and not (partial and message.answer.strip()):
        raise Unusable("the answer was cut off at max_tokens", "cut_off")
    if message.answer.strip():
        return Answer.of(message.answer, message.reasoning, reader)
    if message.refusal.strip():
        raise Unusable(f"the model refused to answer: {message.refusal.strip()[:200]}", "refused")
    if message.finish == "content_filter":
        raise Unusable("the provider's filter held the answer back", "refused")
    if not message.closed:
        raise Unusable("the message is reasoning alone, which does not end", "reasoning_only")
    if message.reasoning.strip():
        raise Unusable("the message is reasoning alone, without an answer", "reasoning_only")
    raise Unusable("the message is empty", "empty")


def suggestion(text: str) -> dict[str, Any] | None:
    """The ``suggestion`` of an answer, or None where the whole answer is TERMINATE ("nothing to change").

    Takes JSON alone, in a code fence, or after other text, and JSON with the usual mistakes. Of several objects, the
    last one with a ``suggestion`` counts. The word TERMINATE inside an answer means nothing.

    Raises:
        Unusable: there is no JSON object with a ``suggestion`` that is an object.
    """
    if text.strip().strip("\"'`.#* \n") == "TERMINATE":
        return None
    if reader_of(text) == 1:
        found = answers_v1.first_object(text)
    else:
        known = list(objects(text))
        found = next((one for one in reversed(known) if isinstance(one.get("suggestion"), dict)), None)
        found = found or (known[-1] if known else None)
    if not isinstance(found, dict):
        raise Unusable("the answer holds no JSON object", "no_json")
    if not isinstance(found.get("suggestion"), dict):
        raise Unusable('the answer has no "suggestion" object', "no_suggestion")
    suggested: dict[str, Any] = found["suggestion"]
    return suggested


def pick(suggested: Mapping[str, Any], variables: Sequence[Variable]) -> tuple[dict[str, Any], list[str]]:
    """``{parameter name: suggested value}`` of the known variables, and the names that no variable has."""
    by_name = {v.parameter.name: v.parameter.name for v in variables}
    by_name.update({v.prompt_name: v.parameter.name for v in variables})
    known = {by_name[name]: value for name, value in suggested.items() if name in by_name}
    return known, [name for name in suggested if name not in by_name]


def cast(parameter: Parameter, value: Any, reader: int = READER) -> Value:
    """`value` as a value of `parameter`. Nothing is rounded or clipped. Source loses a fence around it.

    Args:
        reader: version of the rules by which the answer was read.

    Raises:
        Unusable: it is of another type, not finite, out of bounds, or empty source.
    """
    if parameter.kind == "code":
        return _code(value, parameter.entry or "", reader)
    if parameter.kind == "text":
        return _text(value)
    number = _number(parameter.kind, value)
    if parameter.bounds is not None and not parameter.bounds[0] <= number <= parameter.bounds[1]:
        low, high = parameter.bounds
        raise Unusable(f"{number!r} is not in the bounds from {low:.10g} to {high:.10g}", "invalid_value")
    return number


def _code(value: Any, entry: str, reader: int) -> str:
    if not isinstance(value, str):
        raise Unusable(f"source is due, and the answer gives {_kind(value)}", "invalid_value")
    source = answers_v1.unfenced(value) if reader == 1 else unfenced(value, entry)
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
