"""Reads the errors of litellm and of the libraries below it, and words them for users."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trace_bench.gateway.real import RealModel

MAX_MESSAGE = 4000
"""Characters of a refusal that is passed on."""


def answered(error: BaseException) -> tuple[int | None, Mapping[str, str]]:
    """Status and headers of the HTTP answer that caused `error`; None and empty if there was none.

    litellm gives every error a status, which for some providers differs from the real one.
    """
    status = getattr(error, "status_code", None)
    headers = getattr(error, "litellm_response_headers", None)
    if not isinstance(status, int) or not 100 <= status <= 599 or (headers is None and status in (408, 500)):
        status = None  # litellm uses 408 for no answer, and 500 for an answer that it could not read
    for cause in _chain(error):
        response: Any = getattr(cause, "response", None)
        if _library(cause) in ("httpx", "openai") and isinstance(getattr(response, "status_code", None), int):
            return response.status_code, response.headers
    return status, headers or {}


def is_network(error: BaseException) -> bool:
    """True if a connection failed."""
    libraries = ("httpx", "httpcore", "aiohttp", "openai", "ssl")
    return any(isinstance(cause, OSError) or _library(cause) in libraries for cause in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def remedy(model: RealModel, status: int) -> str:
    """What the user can do about an answer with `status`."""
    variable = model.api_key_env or f"{model.provider.upper()}_API_KEY"
    if status == 401:
        refused = "refuses the key" if model.api_key else "asks for a key"
        return f"{model.provider} {refused} (401); set {variable} to a key that it takes."
    if status == 402:
        return f"the account of {model.provider} has no credit left; top it up, or set {variable} to another key."
    if status == 403:
        return f"{model.provider} does not let this key use {model.model!r} (403); set {variable} to one that may."
    if status == 404:
        return f"{model.provider} has no model {model.model!r} there (404); correct llm.model, or llm.base_url."
    return f"{model.provider} answered {status}; correct llm.base_url."


def word(value: object) -> str | int | None:
    """A part of an error, if it is a text or a number."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()[:MAX_MESSAGE]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def error_in(text: str) -> dict[str, Any]:
    """The JSON object in the text of an exception, which holds the provider's error; empty if there is none."""
    start = text.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start) if start >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def mentions(text: str, field_name: str) -> bool:
    """True if `text` has `field_name` as a word."""
    return re.search(rf"(?<!\w){re.escape(field_name)}(?!\w)", text) is not None
