"""Checks a sandbox's request: path, method, sizes, names, headers, body, model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Json, ModelRef
from trace_bench.gateway import fields
from trace_bench.gateway.base import (
    PRIVATE_PREFIX,
    SLOT_HEADER,
    VARIABLES_HEADER,
    GatewayLimits,
    LlmRequest,
    Refusal,
)

MODELS_PATH = "/v1/models"
MAX_SLOT = 200
MAX_NAME = 200
"""Characters of a request's id, and of its phase."""


@dataclass(frozen=True)
class Call:
    """A request that has passed all checks.

    Attributes:
        body: of the canonical request: what is hashed, recorded, and given to a provider. How the answer is delivered
            (`stream`, `include_usage`) is not part of it.
        left_out: fields that the client sent and that are not passed on.
    """

    request: LlmRequest
    path: str
    body: dict[str, Any]
    slot: str | None
    request_hash: str
    variables: str | None
    stream: bool = False
    include_usage: bool = False
    left_out: tuple[str, ...] = ()


def check_names(request: LlmRequest) -> None:
    """Check the names that the cassette keeps, before any other part of the request.

    Raises:
        Refusal
    """
    for what, name in (("id", request.id), ("phase", request.phase)):
        if len(name) > MAX_NAME or any("\ud800" <= c <= "\udfff" for c in name):
            raise Refusal(400, f"bad_{what}", f"the {what} of a request has up to {MAX_NAME} characters of Unicode")


def models_answer(request: LlmRequest, model: ModelRef) -> dict[str, Any] | None:
    """The answer to a request for the list of models, or for the only one; None for any other request."""
    if request.method.upper() != "GET":
        return None
    path = path_of(request)
    entry = {"id": model.id, "object": "model", "created": 0, "owned_by": "trace-bench"}
    if path == MODELS_PATH:
        return {"object": "list", "data": [entry]}
    return entry if unquote(path) == f"{MODELS_PATH}/{model.id}" else None


def check(request: LlmRequest, model: ModelRef, limits: GatewayLimits) -> Call:
    """The call that `request` makes.

    Raises:
        Refusal: it cannot be served; the message says why.
    """
    path = path_of(request)
    if path not in fields.POST_PATHS:
        known = ", ".join((*fields.POST_PATHS, MODELS_PATH))
        raise Refusal(404, "unknown_path", f"there is no {path} here; there is {known}")
    if request.method.upper() != "POST":
        raise Refusal(405, "method_not_allowed", f"{path} takes POST, not {request.method}")
    headers = _headers(request, limits)
    given = _body(request, limits)
    asked = given.get("model")
    if asked not in (None, model.id, model.model):  # another model is not part of the job's identity
        message = f"this job's model is {model.id!r}; {str(asked)!r} is not available"
        raise Refusal(404, "model_not_found", message, param="model")
    slot = headers.get(SLOT_HEADER)
    if slot is not None and (len(slot) > MAX_SLOT or not slot.isprintable() or not slot):
        raise Refusal(400, "bad_slot", f"a slot has 1 to {MAX_SLOT} printable characters")
    stream, include_usage = fields.stream_options(path, given)
    body, left_out = fields.checked(path, given)
    hashed, variables = request_hash("POST", path, body), headers.get(VARIABLES_HEADER)
    return Call(request, path, body, slot, hashed, variables, stream, include_usage, left_out)


def request_hash(method: Literal["POST"], path: str, body: Json | dict[str, Any]) -> str:
    """SHA-256 (hex) of the canonical request: method, path and body with sorted keys, without headers."""
    return hashlib.sha256(jsonio.canonical([method, path, body])).hexdigest()


def path_of(request: LlmRequest) -> str:
    """The path without its query."""
    return request.path.partition("?")[0]


def _headers(request: LlmRequest, limits: GatewayLimits) -> dict[str, str]:
    headers = {name.lower(): value for name, value in request.headers.items()}
    if sum(len(name) + len(value) for name, value in headers.items()) > limits.header_bytes:
        raise Refusal(431, "headers_too_large", f"the headers exceed {limits.header_bytes} bytes")
    for name in headers:
        if name.startswith(PRIVATE_PREFIX) and name not in (SLOT_HEADER, VARIABLES_HEADER):
            raise Refusal(400, "unknown_header", f"unknown private header {name}")
    return headers


def _body(request: LlmRequest, limits: GatewayLimits) -> dict[str, Any]:
    size = len(request.body)
    if size > limits.body_bytes:
        raise Refusal(413, "body_too_large", f"the body has {size} bytes; {limits.body_bytes} is the limit")
    try:
        body = jsonio.loads(request.body, max_depth=jsonio.MAX_DEPTH_INSIDE)
    except jsonio.JsonError as error:
        raise Refusal(400, "malformed_json", f"the body is unusable: {error}") from None
    if not isinstance(body, dict):
        raise Refusal(400, "malformed_json", "the body must be a JSON object")
    return body
