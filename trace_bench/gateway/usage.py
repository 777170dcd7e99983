"""Tokens of an answer as the provider reported them, if the report is plausible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_bench.gateway.fields import EMBEDDINGS, RESPONSES

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Counted:
    """Tokens of one answer. `cached` is part of `prompt`, `reasoning` part of `completion`."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0


NOTHING = Counted(0, 0)
MOST = 10**9
"""Upper limit of plausible tokens."""


def reported(path: str, body: Body) -> Counted | None:
    """The usage in the answer `body`; None if there is none, or no plausible one: every prompt has a token."""
    first, second = _names(path)
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = _count(usage.get(f"{first}_tokens")), _count(usage.get(f"{second}_tokens", 0))
    if not prompt or completion is None:
        return None
    if completion == 0 and path != EMBEDDINGS and answer_text(path, body):
        return None
    cached = _detail(usage, f"{first}_tokens_details", "cached_tokens")
    reasoning = _detail(usage, f"{second}_tokens_details", "reasoning_tokens")
    return Counted(prompt, completion, min(cached, prompt), min(reasoning, completion))


def with_usage(path: str, body: Body, counted: Counted) -> dict[str, Any]:
    """`body` with the gateway's own count instead of an implausible usage."""
    first, second = _names(path)
    usage = {f"{first}_tokens": counted.prompt, f"{second}_tokens": counted.completion}
    if path == EMBEDDINGS:
        del usage[f"{second}_tokens"]
    return {**body, "usage": {**usage, "total_tokens": counted.prompt + counted.completion}}


def answer_text(path: str, body: Body) -> str:
    """All that the model wrote in an answer: texts, and names and arguments of tools that it calls."""
    parts: list[object] = []
    if path == RESPONSES:
        for item in _objects(body.get("output")):
            parts += [item.get("name"), item.get("arguments")]
            parts += [piece.get("text") for piece in _objects(item.get("content"))]
    for choice in _objects(body.get("choices")):
        message = choice.get("message")
        message = message if isinstance(message, Mapping) else {}
        parts += [choice.get("text"), message.get("content"), message.get("reasoning_content")]
        for call in _objects(message.get("tool_calls")):
            function = call.get("function")
            if isinstance(function, Mapping):
                parts += [function.get("name"), function.get("arguments")]
    return "\n".join(str(part) for part in parts if part)


def _names(path: str) -> tuple[str, str]:
    """How an endpoint names the tokens of prompt and answer."""
    return ("input", "output") if path == RESPONSES else ("prompt", "completion")


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        return None
    return int(value) if value == int(value) else None


def _detail(usage: Body, group: str, name: str) -> int:
    details = usage.get(group)
    return (_count(details.get(name)) or 0) if isinstance(details, Mapping) else 0
