"""Tokens of an answer as the provider reported them, if the report is plausible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
_IS_COUNT = re.compile(r".*tokens?(_?count)?", re.IGNORECASE)
"""Names of counts in the usage of all providers: ``prompt_tokens``, ``promptTokenCount`` …"""
_PROMPT = ("prompt_tokens", "promptTokenCount", "input_tokens")
_COMPLETION = ("completion_tokens", "candidatesTokenCount", "output_tokens")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Prompt tokens that are not part of Anthropic's ``input_tokens``."""


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


def tidied(body: dict[str, Any]) -> tuple[dict[str, Any], list[Body]]:
    """`body` with a usage that every reader accepts, and that usage: a count that is not a plausible number is 0.

    Args:
        body: of an answer, or an event of a stream, in the API of any provider.
    """
    found: list[Body] = []
    for name in ("usage", "usageMetadata"):
        if body.get(name) is not None or (name == "usage" and body.get("type") == "message"):  # Anthropic's
            usage = body.get(name)
            body = {**body, name: _tidied(usage) if isinstance(usage, Mapping) else {}}
            found.append(body[name])
    for name in ("response", "message"):  # in the first and the last event of some streams
        if isinstance(inner := body.get(name), dict):
            inner, more = tidied(inner)
            body = {**body, name: inner}
            found += more
    return body, found


def counted_in(usages: Iterable[Body]) -> Counted:
    """The tokens in the usage of an answer that was discarded; of a stream, the largest of each kind."""
    prompt = completion = 0
    for usage in usages:
        beside = sum(_counts(usage, _BESIDE)) if "prompt_tokens" not in usage else 0
        prompt = max(prompt, *(beside + count for count in _counts(usage, _PROMPT)), 0)
        thoughts = sum(_counts(usage, ("thoughtsTokenCount",)))
        completion = max(completion, *(thoughts + count for count in _counts(usage, _COMPLETION)), 0)
    return Counted(prompt, completion)


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


def _tidied(usage: Body) -> dict[str, Any]:
    tidy: dict[str, Any] = {}
    for name, value in usage.items():
        if _IS_COUNT.fullmatch(name):
            number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value) else value
            tidy[name] = None if value is None else _count(number) or 0
        elif isinstance(value, Mapping):
            tidy[name] = _tidied(value)
        elif isinstance(value, list):
            tidy[name] = [_tidied(item) for item in value if isinstance(item, Mapping)]
        else:
            tidy[name] = None if "detail" in name.lower() else value
    return tidy


def _counts(usage: Body, names: Iterable[str]) -> Iterator[int]:
    return (count for name in names if (count := _count(usage.get(name))))


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
