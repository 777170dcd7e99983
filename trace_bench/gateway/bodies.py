"""What built-in models read in the bodies of OpenAI's requests, and the bodies of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.gateway.base import ProviderRequest, Refusal
from trace_bench.gateway.fields import COMPLETIONS, RESPONSES

MAX_ANSWERS = 2048


def count_tokens(text: str) -> int:
    """An estimate: one token per four characters, rounded up."""
    return -(-len(text) // 4)


def messages_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message; of the older kinds of request, the prompt or the input."""
    given: Any = next((body[key] for key in ("messages", "input", "prompt") if key in body), [])
    instructions = body.get("instructions")
    found = [("system", instructions)] if isinstance(instructions, str) else []
    for item in given if isinstance(given, list) else [given]:
        if isinstance(item, Mapping):
            found.append((str(item.get("role", "user")), _text(item.get("content", item.get("output", "")))))
        else:
            found.append(("user", item if isinstance(item, str) else jsonio.dumps(item)))
    return found


def choices_of(body: Mapping[str, Any]) -> int:
    """How many answers a request asks for: ``n``, of an older request for each of its prompts.

    Raises:
        Refusal: more than `MAX_ANSWERS`.
    """
    prompts = body.get("prompt")
    several = isinstance(prompts, list) and all(isinstance(prompt, str | list) for prompt in prompts)
    choices: int = (body.get("n") or 1) * (len(prompts) if several and prompts else 1)
    if choices > MAX_ANSWERS:
        raise Refusal(400, "bad_prompt", f"'prompt' and 'n' must come to at most {MAX_ANSWERS} answers", param="prompt")
    return choices


def answer_body(
    request: ProviderRequest,
    name: str,
    texts: Sequence[str],
    prompt_tokens: int,
    completion_tokens: int,
    calls: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The body of the answer to `request`.

    Args:
        name: of the answer; part of its id.
        texts: of the choices; only one for ``/v1/responses``.
        calls: of tools, as chat completions have them; the same in each choice.
    """
    if request.path == RESPONSES:
        return _response(request, name, texts[0], prompt_tokens, completion_tokens, calls)
    kind, prefix = ("text_completion", "cmpl") if request.path == COMPLETIONS else ("chat.completion", "chatcmpl")
    choices = []
    for index, text in enumerate(texts):
        said: dict[str, Any] = {"text": text}
        if request.path != COMPLETIONS:
            message = {"role": "assistant", "content": text or None, "refusal": None}
            said = {"message": {**message, "tool_calls": list(calls)} if calls else message}
        choices.append({
            "index": index, **said, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop",
        })  # fmt: skip
    return {
        "id": f"{prefix}-{name}",
        "object": kind,
        "created": 0,
        "model": request.model.id,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _response(
    request: ProviderRequest, name: str, text: str, prompt: int, completion: int, calls: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"type": "message", "id": f"msg-{name}", "status": "completed", "role": "assistant", "content": [part]}
    called = [
        {
            "type": "function_call",
            "id": f"fc_{call['id']}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for call in calls
    ]
    return {
        "id": f"resp-{name}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": request.body.get("instructions"),
        "model": request.model.id,
        "output": called or [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        },
    }


def _text(content: object) -> str:
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""
