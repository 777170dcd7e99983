"""A gateway with the stub on a real cassette file, and requests as the relay sends them."""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.gateway.base import LlmRequest, LlmResponse, Provider
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.gateway.stub import StubProvider

STUB = ModelRef(id="stub")
X = {"name": "x", "kind": "float", "value": 1.0, "bounds": [0.0, 10.0]}
_numbers = itertools.count(1)


def encode_variables(variables: Sequence[Mapping[str, Any]]) -> str:
    """The value of the variables header, as the worker sends it."""
    return base64.b64encode(zlib.compress(json.dumps(list(variables)).encode())).decode()


def chat(
    slot: str | None = "step=0;candidate=c;proposal=0;attempt=0",
    variables: list[dict[str, Any]] | None = None,
    *,
    request_id: str | None = None,
    text: str = "improve x",
    **body: Any,
) -> LlmRequest:
    """A chat completion request; `variables` defaults to one number."""
    headers = {"Content-Type": "application/json"}
    if slot is not None:
        headers["X-Trace-Bench-Slot"] = slot
        headers["X-Trace-Bench-Variables"] = encode_variables([X] if variables is None else variables)
    payload = {"model": "stub", "messages": [{"role": "user", "content": text}], **body}
    number = request_id or f"train-{next(_numbers)}"
    return LlmRequest(number, "POST", "/v1/chat/completions", headers, json.dumps(payload).encode())


def suggestion(response: LlmResponse, choice: int = 0) -> dict[str, Any]:
    """What the answer wants to change."""
    assert response.status == 200, response.body
    content = json.loads(json.loads(response.body)["choices"][choice]["message"]["content"])
    assert set(content) == {"reasoning", "answer", "suggestion"}
    found: dict[str, Any] = content["suggestion"]
    return found


def error(response: LlmResponse) -> dict[str, Any]:
    """The error of a refusal, in OpenAI's shape."""
    assert response.status >= 400, response.body
    body = json.loads(response.body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    found: dict[str, Any] = body["error"]
    return found


OpenScope = Callable[..., Scope]


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    return tmp_path / "llm.jsonl"


@pytest.fixture
def open_scope(cassette: Path) -> Iterator[OpenScope]:
    """Opens scopes on one cassette, each through a gateway of its own, as a new controller would."""
    scopes: list[Scope] = []

    def open_one(
        *, budget: Budget | None = None, seed: int = 7, attempt: int = 1, provider: Provider | None = None
    ) -> Scope:
        gateway = Gateway({"stub": provider or StubProvider()})
        scope = gateway.open("0123456789ab", seed, STUB, cassette, budget, attempt=attempt)
        scopes.append(scope)
        return scope

    yield open_one
    for scope in scopes:
        scope.close()
