"""What the holder says, checked: should anybody inside have come to its rights, it is not the holder that speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trace_bench.sandbox.modal.holder import STDERR_BYTES

STATES = ("created", "running", "exited")
LONGEST = 1000
"""Letters of any text but stderr."""
MOST = 100
"""Entries of a list."""
FACTS: Mapping[str, type] = {
    "capabilities": list, "usable": list, "interfaces": list, "no_new_privs": bool, "uid": int, "nofile": int,
    "fsize": int, "core": int, "kernel": str, "python": str,
}  # fmt: skip
"""What is in force there, of `trace_bench.sandbox.modal.holder.facts`."""


class NotSaid(ValueError):
    """No holder says that."""


def said(payload: bytes) -> dict[str, Any]:
    """One frame of kind ``SAY``. What it says of the command is whole (``state``, ``ended``, ``stderr``, ``facts``) or
    not there at all.

    Raises:
        NotSaid.
    """
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise NotSaid("the sandbox sent what is no JSON") from error
    if not isinstance(found, dict):
        raise NotSaid("the sandbox sent what is no JSON object")
    told: dict[str, Any] = {"eof": found.get("eof") is True}
    if "credit" in found:
        told["credit"] = _number(found["credit"], "credit")
    if "state" in found:
        told |= _position(found)
    return told


def _position(found: Mapping[str, Any]) -> dict[str, Any]:
    ended, words, facts = found.get("ended"), found.get("stderr"), found.get("facts")
    if found["state"] not in STATES or not isinstance(words, str) or not isinstance(facts, dict):
        raise NotSaid("the sandbox sent a state that there is not")
    if ended is not None:
        if not isinstance(ended, dict):
            raise NotSaid("the sandbox sent an end that there is not")
        ended = {"code": _number(ended.get("code"), "code", 255), "error": _text(ended.get("error"))}
    if (found["state"] == "exited") != (ended is not None):
        raise NotSaid("the sandbox sent an end that is none")
    return {
        "state": found["state"],
        "ended": ended,
        "stderr": words[-STDERR_BYTES:],
        "facts": {name: _fact(name, facts.get(name)) for name in FACTS},
    }


def _fact(name: str, value: Any) -> Any:
    wanted = FACTS[name]
    if wanted is list and isinstance(value, list) and len(value) <= MOST:
        return [_text(item) for item in value]
    if wanted is bool and isinstance(value, bool):
        return value
    if wanted is int and isinstance(value, int):
        return value if value == -1 else _number(value, name)  # -1 is no limit
    if wanted is str:
        return _text(value)
    raise NotSaid(f"the sandbox sent no {name}")


def _number(value: Any, name: str, most: int = 2**63) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise NotSaid(f"the sandbox sent no number {name} that can be")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise NotSaid("the sandbox sent a text that is none, or too long")
    return value
