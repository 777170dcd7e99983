"""Models that answer in whichever form a prompt asks for, for tests of what is alike for all optimizers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.trainers.memory_context import Model
from trace_bench.trainers.base import Slot

Suggest = Callable[[Slot, Mapping[str, Any]], Any]
"""``suggest(slot, variable)``: a new value of it."""

_PIECES = st.sampled_from(
    ["<variable>", "</variable>", "<name>", "</name>", "<value>", "</value>", "<reasoning>", '<variable name="x0">',
     "<IMPROVED_VARIABLE>", "</IMPROVED_VARIABLE>", "<![CDATA[", "]]>", "&lt;", "\n", " ", "{", "}", '"', ":", ",",
     "\\", '{"suggestion": {', '"x0": ', "1e999", "-", "9" * 5000, "\ud800", "\x00", "TERMINATE", "```", "x0", "é"]
)  # fmt: skip
ANSWERS = st.one_of(st.text(), st.lists(_PIECES, max_size=40).map("".join))
"""Texts of any kind, most of them made of what readers look for."""
CRITICISM = "It is off; move it."


def form_of(variables: Sequence[Mapping[str, Any]]) -> str:
    """``json``, ``tags``, ``improved``, ``choice`` (of OptoPrimeMulti) or ``text`` (a criticism of TextGrad)."""
    if not variables:
        return "text"
    if [v["name"] for v in variables] == ["choice"]:
        return "choice"
    return str(variables[0].get("format", "json"))


def written(form: str, values: Mapping[str, Any]) -> str:
    """An answer of that form that suggests `values`."""
    if form == "tags":
        return "<reasoning>because</reasoning>" + "".join(
            f"\n<variable>\n<name>{name}</name>\n<value>\n{value}\n</value>\n</variable>"
            for name, value in values.items()
        )
    if form == "improved":
        (value,) = values.values()
        return f"<IMPROVED_VARIABLE>{value}</IMPROVED_VARIABLE>"
    return json.dumps({"reasoning": "because", "answer": "", "suggestion": dict(values)})


def answering(suggest: Suggest) -> Model:
    """A model that gives each variable the value that `suggest` says, in the form that is asked for."""

    def model(messages: list[dict[str, str]], slot: Slot, variables: list[Mapping[str, Any]]) -> str:
        form = form_of(variables)
        if form == "text":
            return CRITICISM
        if form == "choice":
            return written("json", {"choice": variables[0]["value"]})
        return written(form, {v["name"]: suggest(slot, v) for v in variables})

    return model


def honest(messages: list[dict[str, str]], slot: Slot, variables: list[Mapping[str, Any]]) -> str:
    """Reads the feedback on a number in the prompt, as a model would, and moves it half of the way.

    Every form of prompt has to carry the feedback to where the new value is asked for; of TextGrad, criticism does.
    """
    text = "\n".join(m["content"] for m in messages)
    said = re.findall(r"(-?[0-9.e-]+) is too (low|high) by ([0-9.e-]+)", text)
    form = form_of(variables)
    if form == "text":
        value, side, distance = said[-1]
        return f"{value} is too {side} by {distance}"
    if form == "choice":
        return written("json", {"choice": 1})
    value, side, distance = said[-1]
    step = float(distance) / 2
    return written(form, {variables[0]["name"]: float(value) + (step if side == "low" else -step)})
