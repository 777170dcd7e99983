"""Requests to a phase's port on loopback, behind which the host answers.

Standard library only: imported inside images that hold nothing else.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

SLOT = "X-Trace-Bench-Slot"
"""Header with the place of a call in its search. Calls of a program that is evaluated have none, those of an agent one
that begins with `OF_AGENT`."""
OF_AGENT = "agent="
ONE_REQUEST = (400, 413, 422)
"""What a provider says of one request that it does not take, being too long, say, or filtered: others may do."""


def post(port: int, path: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, Any]:
    """Status and JSON of the answer to a POST of `request`; None in place of JSON if the answer is something else.

    Raises:
        OSError: the port does not answer.
    """
    import http.client  # with email and ssl it takes as long to import as all else in the process that forks

    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("POST", path, json.dumps(request).encode(), {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, None


def call_headers(slot: str, variables: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """The private headers of a model call (``docs/design/stub-model.md``): its place, and what a built-in model may
    change."""
    if not variables:
        return {SLOT: slot}
    packed = base64.b64encode(zlib.compress(json.dumps(list(variables)).encode()))
    return {SLOT: slot, "X-Trace-Bench-Variables": packed.decode()}


def error_of(reply: Any) -> dict[str, Any]:
    """The ``error`` that an answer holds; empty if it holds none."""
    error = reply.get("error") if isinstance(reply, dict) else None
    return error if isinstance(error, dict) else {}
