"""Which fields a request's body may have, per endpoint, and what becomes of the others.

A field is passed on, left out, or refused with a sentence. Left out is what common clients send of themselves and what
has no meaning here (``user``, ``metadata``, ``store`` …). Refused is what could move the call elsewhere, carry
credentials, make the provider fetch or run something, or lean on what a provider has stored; and every name that is not
known, for a field that does nothing would be ignored in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trace_bench.artifacts import jsonio
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
"""How the answer is to be handed over: no part of the canonical request."""
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
"""litellm takes any other as the name of a tool that the provider has, whatever the type says."""
_ADDRESSES = names("url uri image_url file_url video_url audio_url file_uri file_id")
"""Of a part of a message's content: what a provider fetches, or has stored."""
_WORDS = names("text content input output arguments prompt refusal reasoning reasoning_content thinking summary title "
               "description context")  # fmt: skip
"""Fields whose text may name an address, since it is only read. Anywhere else an address is there to be fetched."""
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def checked(path: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The canonical body of a request to `path`, and the names of what was left out of it.

    Raises:
        Refusal: 400, it has a field that is refused, or one of the wrong form.
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
    _check_limits(body)
    if path == RESPONSES:
        # A provider would store it otherwise.
        body["store"] = False
    return body, tuple(left_out)


def wants_stream(path: str, given: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the answer is to come as events, and whether the last of them is to tell the usage.

    Raises:
        Refusal: 400 ``bad_stream``.
    """
    if path == EMBEDDINGS:
        return False, False
    stream, options = given.get("stream"), given.get("stream_options")
    if stream is not None and not isinstance(stream, bool):
        raise Refusal(400, "bad_stream", "'stream' must be true or false", param="stream")
    options = {} if options is None else options
    known = ("include_usage", "include_obfuscation")
    if not isinstance(options, dict) or any(k not in known or not isinstance(v, bool) for k, v in options.items()):
        raise Refusal(400, "bad_stream", f"'stream_options' takes true or false for {', '.join(known)}",
                      param="stream_options")  # fmt: skip
    return bool(stream), bool(options.get("include_usage"))


def _refusal(path: str, name: str) -> Refusal:
    shown = jsonio.printable(name, 60)
    if name in _ELSEWHERE:
        why = "where a call goes, and with which credentials and headers, is the gateway's business"
    elif name in _STORED and path == RESPONSES:
        why = "nothing is stored between calls; send all of the conversation as 'input'"
    elif name in _HOSTED:
        why = "a provider's own tools reach beyond the sandbox, and only text comes back"
    elif name == "service_tier":
        why = "the tier is the host's to choose"
    else:
        return Refusal(400, "unknown_field", f"{path} takes no field '{shown}'", param=shown)
    return Refusal(400, "refused_field", f"'{shown}' is refused: {why}", param=shown)


# -------------------------------------------------------------------------------------------------- the endpoints


def _check_chat(body: Mapping[str, Any]) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "bad_messages", "'messages' must be a list with at least one message", param="messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refusal(400, "bad_messages", "each of 'messages' must be an object with a 'role'", param="messages")
        _check_addresses(message, "messages")
    _check_choices(body)
    if body.get("modalities") not in (None, [], ["text"]):
        raise Refusal(400, "refused_field", "'modalities' is refused: only text comes back", param="modalities")
    _check_tools(body)


def _check_completions(body: Mapping[str, Any]) -> None:
    prompt = body.get("prompt")
    if not isinstance(prompt, str | list) or prompt == []:
        raise Refusal(400, "bad_prompt", "'prompt' must be a text, or a list of texts or tokens", param="prompt")
    _check_addresses(prompt, "prompt")
    _check_choices(body)


def _check_responses(body: Mapping[str, Any]) -> None:
    given = body.get("input")
    if not isinstance(given, str | list) or given in ("", []):
        raise Refusal(400, "bad_input", "'input' must be a text or a list of items", param="input")
    for item in given if isinstance(given, list) else []:
        if not isinstance(item, dict):
            raise Refusal(400, "bad_input", "each item of 'input' must be an object", param="input")
        if item.get("type") == "item_reference":
            raise Refusal(400, "refused_field", "'item_reference' is refused: nothing is stored between calls; send "
                          "the item itself", param="input")  # fmt: skip
        _check_addresses(item, "input")
    unknown = [name for name in _texts(body.get("include")) if name not in _INCLUDE]
    if unknown:
        raise Refusal(400, "refused_field", f"'include' takes {' and '.join(sorted(_INCLUDE))}, not "
                      f"{jsonio.printable(unknown[0], 60)!r}", param="include")  # fmt: skip
    _check_tools(body)


def _check_embeddings(body: Mapping[str, Any]) -> None:
    given = body.get("input")
    if not isinstance(given, str | list) or given == []:
        raise Refusal(400, "bad_input", "'input' must be a text, or a list of texts or tokens", param="input")
    _check_addresses(given, "input")


_CHECKS = {
    CHAT: _check_chat,
    COMPLETIONS: _check_completions,
    RESPONSES: _check_responses,
    EMBEDDINGS: _check_embeddings,
}


def _check_choices(body: Mapping[str, Any]) -> None:
    for name in ("n", "best_of"):
        value = body.get(name)
        if value is not None and (type(value) is not int or not 1 <= value <= MAX_CHOICES):
            raise Refusal(400, f"bad_{name}", f"'{name}' must be a whole number from 1 to {MAX_CHOICES}", param=name)


def _check_tools(body: Mapping[str, Any]) -> None:
    tools = body.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise Refusal(400, "bad_tools", "'tools' must be a list of objects", param="tools")
    choice = body.get("tool_choice")
    kinds = [tool.get("type") for tool in tools or []]
    if isinstance(choice, dict):
        kinds += [] if choice.get("type") == "allowed_tools" else [choice.get("type")]
    for kind in kinds:
        if kind not in _TOOLS:
            raise Refusal(400, "refused_tool", f"a tool of type {jsonio.printable(str(kind), 60)!r} is refused: a "
                          f"provider's own tools reach beyond the sandbox; there is {' and '.join(_TOOLS)}",
                          param="tools")  # fmt: skip
    for tool in tools or []:
        odd = next((name for name, value in tool.items() if name not in _TOOL_FIELDS and value is not None), None)
        if odd is not None:
            raise Refusal(400, "refused_tool", f"a tool with {jsonio.printable(odd, 60)!r} is refused: a tool has "
                          f"{', '.join(sorted(_TOOL_FIELDS))} and nothing else", param="tools")  # fmt: skip


def _check_limits(body: Mapping[str, Any]) -> None:
    """Some servers take a limit below zero for none."""
    for name in ANSWER_LIMITS:
        value = body.get(name)
        if value is not None and (type(value) is not int or not 0 <= value < MAX_TOKENS):
            raise Refusal(400, f"bad_{name}", f"'{name}' must be a whole number from 0 to {MAX_TOKENS - 1}", param=name)


def _check_addresses(part: object, param: str) -> None:
    """Nothing in `part` names what a provider would fetch, or has stored."""
    if any(_addresses(part, param)):
        raise Refusal(
            400,
            "refused_address",
            "an address that the provider would fetch is refused; send the content itself, as a data: URL",
            param=param,
        )


def _addresses(value: object, name: str) -> Iterator[bool]:
    """Of each value in `value`, which is called `name`, whether it is an address."""
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
