"""The cost of an answer is the one that litellm computes, for all kinds of tokens that have a price."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.openai_server import Asked, Behaviour, OpenAIServer

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")

MODELS = (
    "openai/gpt-4o-mini", "openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro",
    "deepseek/deepseek-chat", "dashscope/qwen-flash",
)  # fmt: skip


class Shape(NamedTuple):
    """Tokens of one answer: `cached` and `written` are parts of `prompt`, `reasoning` of `completion`."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0
    tier: str | None = None


SHAPES = {
    "plain": Shape(1000, 100),
    "cached": Shape(1000, 100, cached=400),
    "written to a cache": Shape(1000, 100, written=300),
    "cached and written": Shape(1000, 100, cached=400, written=300),
    "reasoning": Shape(1000, 100, reasoning=60),
    "long": Shape(300_000, 5000),
    "long, of everything": Shape(300_000, 5000, cached=100_000, written=50_000, reasoning=2000),
    "flex": Shape(1000, 100, tier="flex"),
}
SCRIPT = """
import asyncio, json, sys
import litellm

url, models, shapes = sys.argv[1], *map(json.loads, sys.argv[2:])
litellm.suppress_debug_info = True
ping = [{"role": "user", "content": "ping"}]
pairs = [(model, shape) for model in models for shape in shapes]
expected = [
    litellm.completion(model=model, messages=ping, api_base=f"{url}/{shape}", api_key="k", max_tokens=9)
    ._hidden_params["response_cost"]
    for model, shape in pairs
]

from trace_bench.gateway.litellm_calls import CHAT, Call, Caller
from trace_bench.gateway.real import Prices, RealModel

def model_of(name, shape):
    provider, _, model = name.partition("/")
    table = {"prices": Prices(777.0, 777.0), "table_prices": True}
    return RealModel(f"{name} {shape}", provider, model, f"{url}/{shape}", "k", max_tokens=9, **table)

# The cost and the log that litellm would work out for itself, at every call.
IDLE = {
    litellm.cost_calculator.completion_cost.__code__,
    litellm.litellm_core_utils.litellm_logging.get_standard_logging_object_payload.__code__,
}
seen = set()

async def ask():
    sys.setprofile(lambda frame, event, argument: event == "call" and frame.f_code in IDLE and seen.add(str(frame)))
    found = [model_of(*pair) for pair in pairs]
    caller = Caller(found)
    return [(await caller.ask(Call(model, CHAT, {"messages": ping, "max_tokens": 9}))).cost for model in found]

print(json.dumps([expected, asyncio.run(ask()), sorted(seen)]))
"""


def _usage(path: str, shape: Shape) -> tuple[str, dict[str, Any]]:
    """The usage of `shape` in the API that `path` belongs to, and its name there."""
    if "generateContent" in path:
        thoughts = {"thoughtsTokenCount": shape.reasoning} if shape.reasoning else {}
        return "usageMetadata", {
            "promptTokenCount": shape.prompt,
            "candidatesTokenCount": shape.completion - shape.reasoning,
            "cachedContentTokenCount": shape.cached,
            "totalTokenCount": shape.prompt + shape.completion,
            **thoughts,
        }
    if path.endswith("/messages"):
        return "usage", {
            "input_tokens": shape.prompt - shape.cached - shape.written,
            "output_tokens": shape.completion,
            "cache_read_input_tokens": shape.cached,
            "cache_creation_input_tokens": shape.written,
        }
    return "usage", {
        "prompt_tokens": shape.prompt,
        "completion_tokens": shape.completion,
        "total_tokens": shape.prompt + shape.completion,
        "prompt_tokens_details": {"cached_tokens": shape.cached, "cache_creation_tokens": shape.written},
        "completion_tokens_details": {"reasoning_tokens": shape.reasoning},
    }


def _answer(asked: Asked) -> Behaviour:
    number = next(part for part in asked.path.split("/") if part.isdigit())
    shape = list(SHAPES.values())[int(number)]
    name, usage = _usage(asked.path, shape)
    body: Mapping[str, Any]
    if name == "usageMetadata":
        parts = {"role": "model", "parts": [{"text": "pong"}]}
        body = {"candidates": [{"content": parts, "finishReason": "STOP", "index": 0}]}
    elif asked.path.endswith("/messages"):
        body = {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "pong"}]}  # fmt: skip
    else:
        message = {"role": "assistant", "content": "pong"}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": asked.body.get("model"),
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip
        body = {**body, "service_tier": shape.tier} if shape.tier else body
    return Behaviour(body={**body, name: usage})


def test_models_and_shapes_of_usage_cost_what_litellm_computes() -> None:
    with OpenAIServer() as server:
        server.choose = _answer
        arguments = [server.url, json.dumps(MODELS), json.dumps(list(range(len(SHAPES))))]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *arguments],
            capture_output=True, text=True, cwd=Path(__file__).parents[2],
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
    expected, found, idle = json.loads(done.stdout.splitlines()[-1])
    pairs = [(model, shape) for model in MODELS for shape in SHAPES]
    table = dict(zip(pairs, found, strict=True))
    assert table == pytest.approx(dict(zip(pairs, expected, strict=True)), rel=1e-12)
    assert all(cost > 0 for cost in found)
    assert idle == [], "litellm works out a cost or a log of its own"
    long, plain = SHAPES["long"], SHAPES["plain"]
    longer = (long.prompt * 1.25 + long.completion * 10) / 1e6
    assert table["gemini/gemini-2.5-pro", "long"] > 1.4 * longer, "a long prompt has prices of its own"
    assert table["anthropic/claude-sonnet-4-5", "written to a cache"] > table["anthropic/claude-sonnet-4-5", "plain"]
    assert table["openai/gpt-5", "flex"] == pytest.approx((plain.prompt * 1.25 + plain.completion * 10) / 2e6)
