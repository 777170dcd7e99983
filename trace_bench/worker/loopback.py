"""Requests to a phase's port on loopback, behind which the host answers.

Standard library only: imported inside images that hold nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


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


def error_of(reply: Any) -> dict[str, Any]:
    """The ``error`` that an answer holds; empty if it holds none."""
    error = reply.get("error") if isinstance(reply, dict) else None
    return error if isinstance(error, dict) else {}
