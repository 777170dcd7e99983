"""Responses to a sandbox: a recorded answer, cleaned, with the job's own name of its model, whole or as events.

The cassette keeps the provider's full answer. A sandbox gets only the fields of OpenAI's answers, and nothing that
names the server or the deployment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.gateway import sse
from trace_bench.gateway.base import LlmResponse, Refusal
from trace_bench.gateway.fields import names
from trace_bench.gateway.requests import Call

_TOP: Mapping[str, frozenset[str]] = {
    "chat.completion": names("id object created model choices usage system_fingerprint"),
    "text_completion": names("id object created model choices usage system_fingerprint"),
    "list": names("object data model usage"),
    "response": names(
        "id object created_at completed_at status error incomplete_details instructions max_output_tokens metadata "
        "model output parallel_tool_calls previous_response_id reasoning store temperature text tool_choice tools "
        "top_logprobs top_p truncation usage"
    ),
}
_MESSAGE = names("role content refusal tool_calls function_call reasoning_content annotations")
_USAGE = names(
    "prompt_tokens completion_tokens total_tokens prompt_tokens_details completion_tokens_details input_tokens "
    "output_tokens input_tokens_details output_tokens_details"
)
_NEVER = re.compile("_.*|provider_specific_fields|.*headers|api_base|base_url|api_key|citations", re.IGNORECASE)
"""Names of fields that litellm and servers add for their own use; removed at any depth, except inside `_ANY_NAME`."""
_ANY_NAME = ("logprobs", "tools", "text", "metadata")
"""Fields whose inner names are tokens, or a client's own."""
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)]+", re.IGNORECASE)
MAX_MESSAGE = 4000
"""Characters of a provider's error."""


def respond(call: Call, status: int, answer: object, model_id: str, **fields: Any) -> LlmResponse:
    """The response to `call` whose recorded answer is `answer`."""
    if status >= 400:
        return LlmResponse(status, encode(_error(status, answer)), **fields)
    shown = cleaned(answer, model_id)
    if not call.stream or not isinstance(shown, dict):
        return LlmResponse(status, encode(shown), **fields)
    body = sse.events(call.path, shown, include_usage=call.include_usage)
    return LlmResponse(status, body, content_type=sse.CONTENT_TYPE, **fields)


def refused(refusal: Refusal) -> LlmResponse:
    """The gateway's own refusal; JSON also for a request that asks for events."""
    return LlmResponse(refusal.status, encode(refusal.body()))


def cleaned(answer: object, model_id: str) -> object:
    """`answer` with only the fields that OpenAI's clients know."""
    shown = _scrubbed(answer)
    if not isinstance(shown, dict):
        return shown
    top = _TOP.get(str(shown.get("object")))
    if top is not None:
        shown = {name: value for name, value in shown.items() if name in top}
    if "model" in shown:
        shown["model"] = model_id
    if isinstance(shown.get("usage"), dict):
        shown["usage"] = {name: value for name, value in shown["usage"].items() if name in _USAGE}
    for choice in shown["choices"] if isinstance(shown.get("choices"), list) else []:
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
            choice["message"] = {name: value for name, value in choice["message"].items() if name in _MESSAGE}
    return shown


def encode(value: Any) -> bytes:
    return jsonio.dumps(value).encode("utf-8")


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: inner if name in _ANY_NAME else _scrubbed(inner)
            for name, inner in value.items()
            if not _NEVER.fullmatch(name)
        }
    return [_scrubbed(item) for item in value] if isinstance(value, list) else value


def _error(status: int, answer: object) -> dict[str, Any]:
    """A provider's refusal in OpenAI's shape, without addresses."""
    given = answer.get("error") if isinstance(answer, dict) else None
    given = given if isinstance(given, dict) else {"message": given}
    shown = {name: _word(given.get(name)) for name in ("message", "type", "param", "code")}
    shown["message"] = shown["message"] or f"the provider answered {status}"
    return {"error": shown}


def _word(value: object) -> str | int | None:
    if isinstance(value, str):
        return _ADDRESS.sub("…", value)[:MAX_MESSAGE]
    return value if isinstance(value, int) and not isinstance(value, bool) else None
