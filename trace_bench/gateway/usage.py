"""How many tokens an answer took, as the provider reported it, if that can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Body = Mapping[str, Any]

RESPONSES_PATH = "/v1/responses"
EMBEDDINGS_PATH = "/v1/embeddings"


@dataclass(frozen=True)
class Counted:
    """Tokens of one answer. `cached` is part of `prompt`, `reasoning` part of `completion`."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0


NOTHING = Counted(0, 0)
MOST = 10**9
"""No single answer takes more tokens."""


def reported(path: str, body: Body) -> Counted | None:
    """The usage in the answer `body`, or None where there is none, or none that can be: every prompt has a token."""
    names = ("input_tokens", "output_tokens") if path == RESPONSES_PATH else ("prompt_tokens", "completion_tokens")
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return None
    prompt, completion = _count(usage.get(names[0])), _count(usage.get(names[1], 0))
    if not prompt or completion is None:
        return None
    if completion == 0 and path != EMBEDDINGS_PATH and said(path, body):
        return None
    short = (names[0].partition("_")[0], names[1].partition("_")[0])
    cached = _detail(usage, f"{short[0]}_tokens_details", "cached_tokens")
    reasoning = _detail(usage, f"{short[1]}_tokens_details", "reasoning_tokens")
    return Counted(prompt, completion, min(cached, prompt), min(reasoning, completion))


def with_usage(path: str, body: Body, counted: Counted) -> dict[str, Any]:
    """`body` with the gateway's own count in place of a usage that cannot be believed."""
    names = ("input_tokens", "output_tokens") if path == RESPONSES_PATH else ("prompt_tokens", "completion_tokens")
    usage = {names[0]: counted.prompt, names[1]: counted.completion}
    if path == EMBEDDINGS_PATH:
        del usage[names[1]]
    return {**body, "usage": {**usage, "total_tokens": counted.prompt + counted.completion}}


def said(path: str, body: Body) -> str:
    """All that the model said in an answer: texts, and names and arguments of tools that it calls."""
    parts: list[str] = []
    if path == RESPONSES_PATH:
        for item in _objects(body.get("output")):
            parts += [str(item[key]) for key in ("name", "arguments") if item.get(key)]
            parts += [str(piece["text"]) for piece in _objects(item.get("content")) if piece.get("text")]
        return "\n".join(parts)
    for choice in _objects(body.get("choices")):
        message = choice.get("message")
        message = message if isinstance(message, Mapping) else {}
        for text in (choice.get("text"), message.get("content"), message.get("reasoning_content")):
            parts += [str(text)] if text else []
        for call in _objects(message.get("tool_calls")):
            function = call.get("function")
            if isinstance(function, Mapping):
                parts += [str(function.get("name") or ""), str(function.get("arguments") or "")]
    return "\n".join(parts)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        return None
    return int(value) if value == int(value) else None


def _detail(usage: Body, group: str, name: str) -> int:
    details = usage.get(group)
    return (_count(details.get(name)) or 0) if isinstance(details, Mapping) else 0
