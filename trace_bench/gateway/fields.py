"""Which fields of a request's body are passed on, left out or refused, per endpoint.

Left out are fields that common clients send by default and that have no effect here (``user``, ``metadata``, ``store``
…). Refused are fields that could redirect the call, carry credentials, make the provider fetch or run something, or
refer to what a provider has stored. Unknown names are refused too, so that no field is silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trace_bench.gateway.base import Refusal

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
EMBEDDINGS = "/v1/embeddings"
POST_PATHS = (CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS)
MAX_CHOICES = 128
ANSWER_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
MAX_TOKENS = 1 << 31
"""Limits of an answer are below it."""


def names(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


PASSED: Mapping[str, frozenset[str]] = {
    CHAT: names(
        "model messages frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens "
        "modalities n parallel_tool_calls prediction presence_penalty reasoning_effort response_format seed stop "
        "temperature tool_choice tools top_logprobs top_p verbosity"
    ),
    COMPLETIONS: names(
        "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop "
        "suffix temperature top_p"
    ),
    RESPONSES: names(
        "model input include instructions max_output_tokens parallel_tool_calls reasoning store temperature text "
        "tool_choice tools top_logprobs top_p truncation"
    ),
    EMBEDDINGS: names("model input dimensions encoding_format"),
}
STREAM = ("stream", "stream_options")
"""How the answer is delivered; not part of the canonical request."""
LEFT_OUT = names("user metadata store safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options")
_ELSEWHERE = names(
    "api_base api_key api_type api_version authorization aws_access_key_id aws_secret_access_key azure_ad_token "
    "base_url custom_llm_provider deployment_id extra_body extra_headers extra_query fallbacks headers host "
    "litellm_params mock_response model_list models organization plugins project provider proxies proxy route timeout "
    "url vertex_credentials vertex_project"
)
_STORED = names("background conversation context_management previous_response_id prompt thread_id")
_HOSTED = names("audio data_sources moderation search_parameters tool_resources web_search web_search_options")
_INCLUDE = frozenset(["message.output_text.logprobs", "reasoning.encrypted_content"])
_TOOLS = ("function", "custom")
_TOOL_FIELDS = names("type function custom name description parameters strict format")
"""litellm takes any other name as that of a provider's own tool, whatever the type says."""
_ADDRESSES = names("url uri image_url file_url video_url audio_url file_uri file_id")
"""Fields of a message's content that name what a provider fetches, or has stored."""
_WORDS = names("text content input output arguments prompt refusal reasoning reasoning_content thinking summary title "
               "description context")  # fmt: skip
"""Fields whose text may contain an address, since the model only reads it. Any other address would be fetched."""
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def checked(path: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The canonical body of a request to `path`, and the names of the fields that were left out.

    Raises:
        Refusal: 400, a field is refused, or has the wrong form.
    """
    body: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in given.items():
        if name in STREAM and path != EMBEDDINGS:
            continue
        if name in LEFT_OUT or (name == "service_tier" and value in (None, "auto", "default")):
            left_out.append(name)
        elif name in PASSED[path]:
            body[name] = value
        elif value is not None and value is not False and value != [] and value != {}:
            raise _refusal(path, name)
        else:
            left_out.append(name)
    _CHECKS[path](body)
    _check_numbers(body)
    if path == RESPONSES:
        body["store"] = False  # the provider would store it otherwise
    return body, tuple(left_out)


def stream_options(path: str, given: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the answer is sent as events, and whether the last event has the usage.

    Raises:
        Refusal: 400 ``bad_stream``.
    """
    if path == EMBEDDINGS:
        return False, False
    stream, options = given.get("stream"), given.get("stream_options")
    _need(stream is None or isinstance(stream, bool), "stream", "must be true or false")
    options = {} if options is None else options
    known = ("include_usage", "include_obfuscation")
    plain = isinstance(options, dict) and all(k in known and isinstance(v, bool) for k, v in options.items())
    _need(plain, "stream_options", f"takes true or false for {', '.join(known)}", code="bad_stream")
    return bool(stream), bool(options.get("include_usage"))


def _need(right: bool, param: str, message: str, *, code: str = "") -> None:
    """Raises Refusal unless the field `param` is `right`; `message` says how it must be."""
    if not right:
        raise Refusal(400, code or f"bad_{param}", f"'{param}' {message}", param=param)


def _refusal(path: str, name: str) -> Refusal:
    shown = name[:60]
    if name in _ELSEWHERE:
        why = "the gateway alone decides where a call goes, and with which credentials and headers"
    elif name in _STORED and path == RESPONSES:
        why = "nothing is stored between calls; send all of the conversation as 'input'"
    elif name in _HOSTED:
        why = "a provider's own tools reach beyond the sandbox, and only text comes back"
    elif name == "service_tier":
        why = "the host chooses the tier"
    else:
        return Refusal(400, "unknown_field", f"{path} has no field '{shown}'", param=shown)
    return Refusal(400, "refused_field", f"'{shown}' is refused: {why}", param=shown)


# -------------------------------------------------------------------------------------------------- the endpoints


def _check_chat(body: Mapping[str, Any]) -> None:
    messages = body.get("messages")
    _need(isinstance(messages, list) and bool(messages), "messages", "must be a list with at least one message")
    for message in messages or ():
        right = isinstance(message, dict) and isinstance(message.get("role"), str)
        _need(right, "messages", "must hold objects with a 'role'")
        _check_addresses(message, "messages")
    only_text = body.get("modalities") in (None, [], ["text"])
    _need(only_text, "modalities", "is refused: only text comes back", code="refused_field")
    _check_tools(body)


def _check_completions(body: Mapping[str, Any]) -> None:
    prompt = body.get("prompt")
    right = isinstance(prompt, str | list) and prompt != []
    _need(right, "prompt", "must be a text, or a list of texts or tokens")
    _check_addresses(prompt, "prompt")


def _check_responses(body: Mapping[str, Any]) -> None:
    given = body.get("input")
    right = isinstance(given, str | list) and given not in ("", [])
    _need(right, "input", "must be a text or a list of items")
    for item in given if isinstance(given, list) else []:
        _need(isinstance(item, dict), "input", "must hold objects")
        reference = item.get("type") == "item_reference"
        message = "takes no 'item_reference': nothing is stored between calls; send the item itself"
        _need(not reference, "input", message, code="refused_field")
        _check_addresses(item, "input")
    for name in _texts(body.get("include")):
        message = f"takes {' and '.join(sorted(_INCLUDE))}, not {name!r}"
        _need(name in _INCLUDE, "include", message, code="refused_field")
    _check_tools(body)


def _check_embeddings(body: Mapping[str, Any]) -> None:
    given = body.get("input")
    _need(isinstance(given, str | list) and given != [], "input", "must be a text, or a list of texts or tokens")
    _check_addresses(given, "input")


_CHECKS = {
    CHAT: _check_chat,
    COMPLETIONS: _check_completions,
    RESPONSES: _check_responses,
    EMBEDDINGS: _check_embeddings,
}


def _check_numbers(body: Mapping[str, Any]) -> None:
    """Some servers treat a limit below zero as no limit."""
    bounds = {"n": (1, MAX_CHOICES), "best_of": (1, MAX_CHOICES), **dict.fromkeys(ANSWER_LIMITS, (0, MAX_TOKENS - 1))}
    for name, (low, high) in bounds.items():
        value = body.get(name)
        right = value is None or (type(value) is int and low <= value <= high)
        _need(right, name, f"must be a whole number from {low} to {high}")


def _check_tools(body: Mapping[str, Any]) -> None:
    tools = body.get("tools")
    right = tools is None or (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools))
    _need(right, "tools", "must be a list of objects")
    choice = body.get("tool_choice")
    kinds = [tool.get("type") for tool in tools or []]
    if isinstance(choice, dict) and choice.get("type") != "allowed_tools":
        kinds.append(choice.get("type"))
    for kind in kinds:
        shown = str(kind)[:60]
        message = f"refuses type {shown!r}: a provider's own tools reach beyond the sandbox; use {' or '.join(_TOOLS)}"
        _need(kind in _TOOLS, "tools", message, code="refused_tool")
    for tool in tools or []:
        for name, value in tool.items():
            shown = name[:60]
            message = f"refuses the field {shown!r}: a tool has only {', '.join(sorted(_TOOL_FIELDS))}"
            _need(name in _TOOL_FIELDS or value is None, "tools", message, code="refused_tool")


def _check_addresses(part: object, param: str) -> None:
    """Refuse a part that names what a provider would fetch, or has stored."""
    message = "may hold no address that the provider would fetch; send the content itself, as a data: URL"
    _need(not any(_addresses(part, param)), param, message, code="refused_address")


def _addresses(value: object, name: str) -> Iterator[bool]:
    """Whether each value in `value`, which is called `name`, is an address."""
    if isinstance(value, list):
        for item in value:
            yield from _addresses(item, name)
    elif isinstance(value, dict):
        for inner, item in value.items():
            yield from _addresses(item, inner)
    elif name in _ADDRESSES:
        yield value is not None and not (isinstance(value, str) and value.startswith("data:"))
    elif isinstance(value, str) and name not in _WORDS:
        yield _ADDRESS.match(value) is not None


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [] if value is None else [str(value)]
