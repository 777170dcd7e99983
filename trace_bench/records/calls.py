"""Read the LLM calls of a job from its cassette, and the texts in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.jsonio import explain
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import HarnessError


def read_calls(cassette: Path) -> Iterator[LlmCall]:
    """The lines of `cassette` in order; none if it is not there. It may be written to meanwhile.

    Raises:
        HarnessError: it is damaged.
    """
    for number, line in enumerate(read_journal(cassette).lines, start=1):
        try:
            yield LlmCall.model_validate(line)
        except ValidationError as error:
            raise HarnessError(f"{cassette}, line {number}: {explain(error)}") from None


@dataclass(frozen=True)
class Part:
    """One text of a call, and its role (``system``, ``user``, ``assistant``, ``error`` …)."""

    who: str
    text: str


def asked(body: Mapping[str, Any]) -> list[Part]:
    """The texts of a request to any path of the gateway, in order. All are untrusted."""
    parts = []
    if isinstance(body.get("instructions"), str):
        parts.append(Part("system", body["instructions"]))
    messages = body.get("messages")
    given = body.get("input") if messages is None else messages
    if isinstance(given, list) and all(isinstance(item, dict) for item in given):
        for item in given:
            parts += _said(item, "user")
    elif given is not None:
        parts.append(Part("user", _text(given)))
    if "prompt" in body:
        parts.append(Part("user", _text(body["prompt"])))
    tools = body.get("tools")
    if isinstance(tools, list) and tools:
        parts.append(Part("tools", ", ".join(_name(tool) for tool in tools)))
    return parts


def answered(response: JsonValue) -> list[Part]:
    """The texts of an answer. All are untrusted."""
    if not isinstance(response, dict):
        return [Part("answer", _text(response))]
    if "error" in response:
        error = response["error"]
        return [Part("error", _text(error.get("message", error) if isinstance(error, dict) else error))]
    parts: list[Part] = []
    for key, found in (("choices", response.get("choices")), ("output", response.get("output"))):
        for item in found if isinstance(found, list) else ():
            message = item.get("message", item) if isinstance(item, dict) and key == "choices" else item
            parts += _said(message, "assistant") if isinstance(message, dict) else [Part("assistant", _text(message))]
    data = response.get("data")
    if not parts and isinstance(data, list):
        parts.append(Part("embeddings", str(len(data))))
    return parts or [Part("answer", _text(response))]


def _said(message: Mapping[str, Any], otherwise: str) -> list[Part]:
    """A message of a chat, or an item of the responses API: its thoughts, its text, its calls of tools."""
    who = message.get("role") if isinstance(message.get("role"), str) else otherwise
    kind = message.get("type")
    if kind == "function_call":
        return [Part("tool call", f"{message.get('name')}({_text(message.get('arguments'))})")]
    if kind == "function_call_output":
        return [Part("tool", _text(message.get("output")))]
    parts = []
    if thoughts := message.get("reasoning_content") or message.get("reasoning") or message.get("summary"):
        parts.append(Part("reasoning", _text(thoughts)))
    content = next((message[key] for key in ("content", "text", "refusal") if message.get(key)), None)
    calls = message.get("tool_calls")
    calls = calls if isinstance(calls, list) else []
    if content is not None or not (calls or parts):
        parts.append(Part(str(who), _text(content) if content is not None else ""))
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        named = function if isinstance(function, dict) else {}
        parts.append(Part("tool call", f"{named.get('name')}({_text(named.get('arguments'))})"))
    return parts


def _text(value: Any) -> str:
    """A text as it is, the texts of a list of parts one below the other, and anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, dict | str) for item in value):
        return "\n".join(item if isinstance(item, str) else _part(item) for item in value)
    return jsonio.dumps(value)


def _part(item: Mapping[str, Any]) -> str:
    if isinstance(item.get("text"), str):
        text: str = item["text"]
        return text
    kind = item.get("type")
    return (
        f"({kind}, {len(jsonio.dumps(dict(item)))} characters)" if isinstance(kind, str) else jsonio.dumps(dict(item))
    )


def _name(tool: Any) -> str:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return str(function.get("name")) if isinstance(function, dict) else _text(tool)
