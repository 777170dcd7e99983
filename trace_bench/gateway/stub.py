"""The stub model: free, offline, deterministic, and yet it changes parameters.

It lets a whole run be tried, tested and replayed without a provider. What it answers depends on the seed of
the job and on the *slot* of the call (its place in the search) and on nothing else: not on the order of
calls, nor on threads, time or the wording of the prompt. See ``docs/design/stub-model.md``.

Our own proposer tells it, in a private header, which variables may change. To anybody else it gives a
well-formed answer that changes nothing, and marks the call *inert*, so that a run whose optimizer never moved
is seen as such.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.gateway.base import ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.fields import COMPLETIONS, EMBEDDINGS, MAX_CHOICES, RESPONSES
from trace_bench.gateway.proposals import Variable, propose, written

MAX_VARIABLES_BYTES = 4 << 20
"""Of the variables header once unpacked."""
DEFAULT_DIMENSIONS = 64
MAX_DIMENSIONS = 4096
MAX_INPUTS = 2048
INERT = "The stub model was not told of a variable that it could change."


class StubProvider:
    """The provider behind the model ``stub``."""

    name = "stub"
    paid = False
    wants_hints = True
    quick = True

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """Answer in the shape of the endpoint. Only chat completions can change anything.

        Raises:
            Refusal: the request is malformed; the sentence says how.
        """
        return {EMBEDDINGS: _embed, COMPLETIONS: _complete, RESPONSES: _respond}.get(request.path, _chat)(request)


def encode_variables(variables: Sequence[Mapping[str, Any]]) -> str:
    """The value of the variables header: base64 of zlib of the JSON list."""
    return base64.b64encode(zlib.compress(jsonio.dumps(list(variables)).encode("utf-8"))).decode("ascii")


def decode_variables(text: str) -> tuple[Variable, ...]:
    """The variables in a header.

    Raises:
        Refusal: 400, it cannot be unpacked, is too large, or does not describe variables.
    """
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_VARIABLES_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"it unpacks to more than {MAX_VARIABLES_BYTES} bytes")
        if not unpacker.eof:
            raise ValueError("it is cut short")
        listed = jsonio.loads(data)
        if not isinstance(listed, list):
            raise ValueError("it is not a list")
        variables = tuple(Variable.parse(item) for item in listed)
        if len({v.name for v in variables}) != len(variables):
            raise ValueError("a name occurs twice")
        return variables
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Refusal(400, "bad_variables", f"the header X-Trace-Bench-Variables is unusable: {error}") from None


def count_tokens(text: str) -> int:
    """The stub's estimate: one token per four characters, rounded up."""
    return -(-len(text) // 4)


def _chat(request: ProviderRequest) -> ProviderReply:
    messages = request.body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "bad_messages", "'messages' must be a list with at least one message", param="messages")
    choices = request.body.get("n", 1)
    choices = 1 if choices is None else choices
    if isinstance(choices, bool) or not isinstance(choices, int) or not 1 <= choices <= MAX_CHOICES:
        raise Refusal(400, "bad_n", f"'n' must be a whole number from 1 to {MAX_CHOICES}", param="n")
    hints = request.hints
    variables = decode_variables(hints.variables) if hints and hints.variables is not None else ()
    place = _place(request)
    contents = []
    for choice in range(choices):
        suggestion = propose(variables, Draws(request.seed, place, choice))
        contents.append((written(variables, suggestion, _reasoning(suggestion)), bool(suggestion)))
    prompt_tokens = count_tokens("".join(_text(message) for message in messages))
    completion_tokens = sum(count_tokens(content) for content, _ in contents)
    body = {
        "id": f"chatcmpl-stub-{Draws(request.seed, place, 'id').hex(24)}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model.id,
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": content, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
            for index, (content, _) in enumerate(contents)
        ],
        "usage": _usage(prompt_tokens, completion_tokens),
    }
    inert = not any(moved for _, moved in contents)
    return ProviderReply(200, body, prompt_tokens, completion_tokens, inert=inert)


def _complete(request: ProviderRequest) -> ProviderReply:
    """One inert text for each prompt and choice."""
    given = request.body.get("prompt")
    several = isinstance(given, list) and all(isinstance(item, str | list) for item in given)
    prompts = given if several and isinstance(given, list) else [given]
    choices = len(prompts) * (request.body.get("n") or 1)
    if choices > MAX_INPUTS:
        raise Refusal(400, "bad_prompt", f"'prompt' and 'n' must come to at most {MAX_INPUTS} answers", param="prompt")
    prompt_tokens = sum(count_tokens(p) if isinstance(p, str) else len(p or ()) for p in prompts)
    completion_tokens = choices * count_tokens(INERT)
    body = {
        "id": f"cmpl-stub-{Draws(request.seed, _place(request), 'id').hex(24)}",
        "object": "text_completion",
        "created": 0,
        "model": request.model.id,
        "choices": [
            {"index": index, "text": INERT, "logprobs": None, "finish_reason": "stop"} for index in range(choices)
        ],
        "usage": _usage(prompt_tokens, completion_tokens),
    }
    return ProviderReply(200, body, prompt_tokens, completion_tokens, inert=True)


def _respond(request: ProviderRequest) -> ProviderReply:
    """One message with an inert text; JSON if that is asked for."""
    given = request.body.get("input")
    items = given if isinstance(given, list) else [{"content": given}]
    asked = request.body.get("text")
    form = asked.get("format") if isinstance(asked, dict) else None
    plain = not isinstance(form, dict) or form.get("type") == "text"
    text = INERT if plain else jsonio.dumps({"reasoning": INERT, "answer": "", "suggestion": {}})
    instructions = request.body.get("instructions")
    prompt_tokens = count_tokens("".join(map(_text, items)) + (instructions if isinstance(instructions, str) else ""))
    completion_tokens = count_tokens(text)
    name = Draws(request.seed, _place(request), "id").hex(24)
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {
        "type": "message",
        "id": f"msg-stub-{name}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    body = {
        "id": f"resp-stub-{name}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": instructions,
        "model": request.model.id,
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    return ProviderReply(200, body, prompt_tokens, completion_tokens, inert=True)


def _reasoning(suggestion: Mapping[str, Any]) -> str:
    if not suggestion:
        return INERT
    return f"The stub model changes {', '.join(suggestion)} by a seeded draw."


def _place(request: ProviderRequest) -> str:
    """The call's slot, or what stands for one where a client sends none."""
    return (request.hints.slot if request.hints else None) or request.request_hash


def _text(message: object) -> str:
    """The text of one message; content may be a string or a list of parts."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _embed(request: ProviderRequest) -> ProviderReply:
    body = request.body
    given = body.get("input")
    tokens = isinstance(given, list) and bool(given) and all(isinstance(item, int) for item in given)
    inputs = given if isinstance(given, list) and not tokens else [given]
    if not inputs or len(inputs) > MAX_INPUTS or not all(isinstance(item, str | list) for item in inputs):
        raise Refusal(400, "bad_input", f"'input' must be a text or a list of 1 to {MAX_INPUTS} texts", param="input")
    size = body.get("dimensions", DEFAULT_DIMENSIONS)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_DIMENSIONS:
        raise Refusal(400, "bad_dimensions", f"'dimensions' must be from 1 to {MAX_DIMENSIONS}", param="dimensions")
    form = body.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise Refusal(400, "bad_format", "'encoding_format' must be 'float' or 'base64'", param="encoding_format")
    texts = [item if isinstance(item, str) else jsonio.dumps(item) for item in inputs]
    prompt_tokens = sum(count_tokens(text) for text in texts)
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _vector(text, size, form)}
            for index, text in enumerate(texts)
        ],
        "model": request.model.id,
        "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
    }
    return ProviderReply(200, answer, prompt_tokens, 0)


def _vector(text: str, size: int, form: str) -> list[float] | str:
    """A unit vector that depends on `text` alone: equal texts are equal, others nearly orthogonal."""
    draws = Draws(0, text, "embedding")
    raw = [2.0 * draws.unit() - 1.0 for _ in range(size)]
    norm = sum(x * x for x in raw) ** 0.5 or 1.0
    vector = [x / norm for x in raw]
    if form == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{size}f", *vector)).decode("ascii")
