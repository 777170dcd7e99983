"""A gateway with the stub on a real cassette file, and requests as the relay sends them."""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import OpenAIServer
from tests.gateway.raw_server import Raw
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.gateway.base import LlmRequest, LlmResponse, Provider
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.real import HostLimit, Prices, RealModel
from trace_bench.gateway.retries import Backoff
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


# ------------------------------------------------------------------------------------------- real models, of all tests

KEY = "sk-tests-0123456789abcdef"
QUICKLY = Backoff(first=0.01, cap=0.02)
WAITS: list[tuple[str, float, str]] = []
"""What the process has told of waits."""


def plain_model(url: str) -> RealModel:
    return RealModel("plain", "openai", "m", base_url=url, api_key=KEY, api_key_env="OUR_KEY", retries=2, timeout=60)


def _models(url: str) -> Iterator[RealModel]:
    plain = plain_model(url)
    prices = Prices(prompt=2.0, completion=10.0, cached=0.5)
    foreign = {"provider": "anthropic", "model": "claude-sonnet-4-5", "base_url": url.removesuffix("/v1")}
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "once": {"retries": 0},
        "sampled": {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100},
        "unseeded": {"send_seed": False},
        "streamed": {"stream": True},
        "priced": {"prices": prices},
        "twice": {"prices": prices, "retries": 1},
        "picky": {"model": "gpt-5", "temperature": 0.5},
        "hasty": {"timeout": 2},
        "impatient": {"timeout": 2.5, "retries": 0},
        "one-at-a-time": {"limits": HostLimit(concurrent=1)},
        "seedless": {},
        "foreign": {**foreign, "max_tokens": 100, "prices": Prices(prompt=3.0, completion=15.0, cached=0.3)},
        # What lacks a setting, and what needs no key.
        "keyless": {"base_url": None, "api_key": None, "api_key_env": None},
        "keyless-anthropic": {"provider": "anthropic", "base_url": None, "api_key": None, "api_key_env": None},
        "no-azure": {"provider": "azure", "base_url": None},
        "unknown": {"provider": "nonesuch", "base_url": None},
        "open": {"api_key": None},
        "absent": {"base_url": "http://127.0.0.1:9/v1", "retries": 1},
        **{name: {"provider": name, "retries": 1} for name in ("openai", "nvidia_nim", "deepinfra", "fireworks_ai")},
    }
    return (replace(plain, id=name, **fields) for name, fields in changes.items())


HOSTILE = {"openai": "m", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash", "azure": "m"}


def _hostile_models(url: str) -> Iterator[RealModel]:
    for provider, model in HOSTILE.items():
        address = f"{url}/v1" if provider == "openai" else url
        options = {"api_version": "2024-10-21"} if provider == "azure" else {}
        found = RealModel(f"raw-{provider}", provider, model, address, KEY, retries=1, timeout=60, options=options)
        yield found
        if provider == "openai":
            yield replace(found, id="raw-streamed", stream=True)


@pytest.fixture(scope="session")
def _provider() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def provider(_provider: OpenAIServer) -> OpenAIServer:
    """The server of all tests, as if new."""
    _provider.reset()
    return _provider


@pytest.fixture(scope="session")
def raw() -> Iterator[Raw]:
    server = Raw()
    yield server
    server.close()


@pytest.fixture(scope="session")
def process(_provider: OpenAIServer, raw: Raw, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """One for all tests that need none of their own: it imports litellm, which takes seconds."""
    models = [*_models(_provider.url), *_hostile_models(raw.url)]
    folder = tmp_path_factory.mktemp("limits")
    with ProviderProcess(models, folder, backoff=QUICKLY, on_wait=lambda *wait: WAITS.append(wait)) as started:
        yield started
