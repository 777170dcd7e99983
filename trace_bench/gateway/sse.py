"""Turns a whole answer into server-sent events, in the order that OpenAI's clients expect.

An answer is recorded before the sandbox gets its first byte. So a stream is a whole answer that is cut into pieces;
joined, they are the answer to the same request without streaming.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trace_bench.gateway.fields import CHAT, COMPLETIONS

CONTENT_TYPE = "text/event-stream"
MAX_PIECES = 64
"""Of one text, at most."""
MIN_PIECE = 24
"""Characters; a text that is no longer comes in one piece."""

Json = Mapping[str, Any]


def events(path: str, answer: Json, *, include_usage: bool = False) -> bytes:
    """`answer` to a request for `path` as the body of an event stream."""
    if path == CHAT:
        return _unnamed("chat.completion.chunk", _chat(answer), answer, include_usage)
    if path == COMPLETIONS:
        return _unnamed("text_completion", _completions(answer), answer, include_usage)
    return _named(_responses(answer))


def pieces(text: str) -> list[str]:
    """`text` in pieces.

    >>> "".join(pieces("x" * 1000)) == "x" * 1000, len(pieces("x" * 1000)) > 1, pieces("")
    (True, True, [])
    """
    size = max(MIN_PIECE, -(-len(text) // MAX_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _unnamed(kind: str, choices: Iterator[dict[str, Any]], answer: Json, include_usage: bool) -> bytes:
    """Chunks of one choice each, a chunk with the usage if it was asked for, and the end."""
    outside = {name: answer[name] for name in ("id", "created", "model", "system_fingerprint") if name in answer}
    chunks: list[dict[str, Any]] = [{**outside, "object": kind, "choices": [choice]} for choice in choices]
    if include_usage:
        chunks = [{**chunk, "usage": None} for chunk in chunks]
        chunks.append({**outside, "object": kind, "choices": [], "usage": answer.get("usage")})
    return b"".join(b"data: %s\n\n" % _encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def _named(events: Iterator[tuple[str, dict[str, Any]]]) -> bytes:
    out = []
    for number, (kind, fields) in enumerate(events):
        data = _encode({"type": kind, "sequence_number": number, **fields})
        out.append(b"event: %s\ndata: %s\n\n" % (kind.encode(), data))
    return b"".join(out)


def _encode(data: Json) -> bytes:
    # Only ASCII: clients that split a stream into lines also split it at some other characters.
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def _list(value: object) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# ------------------------------------------------------------------------------------------------ chat completions


def _chat(answer: Json) -> Iterator[dict[str, Any]]:
    def chunk(index: object, delta: Json, finish: object = None, logprobs: object = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    for position, choice in enumerate(_list(answer.get("choices"))):
        index = choice.get("index", position)
        found = choice.get("message")
        message: Json = found if isinstance(found, dict) else {}
        logprobs = choice.get("logprobs")
        content = message.get("content")
        first = {"role": message.get("role", "assistant"), "content": "" if isinstance(content, str) else None}
        yield chunk(index, first)
        for name in ("reasoning_content", "content", "refusal"):
            text = _text(message.get(name))
            # With probabilities of its tokens a text stays in one piece: only the provider knows the tokens' texts.
            whole = name == "content" and logprobs is not None
            for piece in [text] if whole else pieces(text):
                yield chunk(index, {name: piece}, logprobs=logprobs if whole else None)
        for number, call in enumerate(_list(message.get("tool_calls"))):
            yield from (chunk(index, {"tool_calls": [delta]}) for delta in _tool_call(number, call))
        if isinstance(message.get("function_call"), dict):
            yield chunk(index, {"function_call": message["function_call"]})
        yield chunk(index, {}, choice.get("finish_reason") or "stop")


def _tool_call(number: int, call: Json) -> Iterator[dict[str, Any]]:
    """One call in pieces: its name first, then its arguments."""
    kind = str(call.get("type") or "function")
    field = "arguments" if kind == "function" else "input"
    inner = call[kind] if isinstance(call.get(kind), dict) else {}
    yield {"index": number, "id": call.get("id"), "type": kind, kind: {**inner, field: ""}}
    for piece in pieces(_text(inner.get(field))):
        yield {"index": number, kind: {field: piece}}


def _completions(answer: Json) -> Iterator[dict[str, Any]]:
    for position, choice in enumerate(_list(answer.get("choices"))):
        index, logprobs = choice.get("index", position), choice.get("logprobs")
        text = _text(choice.get("text"))
        for piece in pieces(text) if logprobs is None else [text]:
            yield {"index": index, "text": piece, "logprobs": logprobs, "finish_reason": None}
        yield {"index": index, "text": "", "logprobs": None, "finish_reason": choice.get("finish_reason") or "stop"}


# ------------------------------------------------------------------------------------------------------- responses

Event = tuple[str, dict[str, Any]]


def _responses(answer: Json) -> Iterator[Event]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_list(answer.get("output"))):
        place = {"item_id": item.get("id"), "output_index": index}
        yield "response.output_item.added", {"output_index": index, "item": _emptied(item)}
        if (events := _ITEMS.get(str(item.get("type")))) is not None:
            yield from events(place, item)
        yield "response.output_item.done", {"output_index": index, "item": item}
    status = answer.get("status")
    end = status if status in ("completed", "incomplete", "failed") else "completed"
    yield f"response.{end}", {"response": dict(answer)}


def _emptied(item: Json) -> dict[str, Any]:
    """An item as it is before its first piece."""
    empty: Json = {"content": [], "summary": [], "arguments": "", "input": ""}
    begun = {name: empty.get(name, value) for name, value in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


def _text_events(event: str, place: Json, text: str, done: Json, more: Json | None = None) -> Iterator[Event]:
    """The pieces of `text`, and the event that ends it, with the fields `done`."""
    more = more or {}
    for piece in pieces(text):
        yield f"{event}.delta", {**place, "delta": piece, **more}
    yield f"{event}.done", {**place, **done, **more}


def _message(place: Json, item: Json) -> Iterator[Event]:
    for index, part in enumerate(_list(item.get("content"))):
        at = {**place, "content_index": index}
        kind, field = ("refusal", "refusal") if part.get("type") == "refusal" else ("output_text", "text")
        more: Json = {} if kind == "refusal" else {"logprobs": []}
        text = _text(part.get(field))
        yield "response.content_part.added", {**at, "part": {**part, field: "", **more}}
        yield from _text_events(f"response.{kind}", at, text, {field: text}, more)
        yield "response.content_part.done", {**at, "part": part}


def _function_call(place: Json, item: Json) -> Iterator[Event]:
    text = _text(item.get("arguments"))
    done = {"name": item.get("name"), "arguments": text}
    yield from _text_events("response.function_call_arguments", place, text, done)


def _custom_call(place: Json, item: Json) -> Iterator[Event]:
    text = _text(item.get("input"))
    yield from _text_events("response.custom_tool_call_input", place, text, {"input": text})


def _reasoning(place: Json, item: Json) -> Iterator[Event]:
    for index, part in enumerate(_list(item.get("summary"))):
        at = {**place, "summary_index": index}
        text = _text(part.get("text"))
        yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
        yield from _text_events("response.reasoning_summary_text", at, text, {"text": text})
        yield "response.reasoning_summary_part.done", {**at, "part": part}


_ITEMS: Mapping[str, Callable[[Json, Json], Iterator[Event]]] = {
    "message": _message,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "reasoning": _reasoning,
}
