"""What calls cost, and where prices come from."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_bench.gateway import prices
from trace_bench.gateway.prices import by_litellm, cost, known_price
from trace_bench.gateway.real import Prices, RealModel
from trace_bench.gateway.usage import Counted, reported

TABLE = {
    "gpt-x": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1.5e-07,
        "output_cost_per_token": 6e-07,
        "cache_read_input_token_cost": 7.5e-08,
    },
    "azure/gpt-x": {"litellm_provider": "azure", "input_cost_per_token": 2e-07, "output_cost_per_token": 7e-07},
    "embed-x": {"litellm_provider": "openai", "input_cost_per_token": 2e-08},
    "gemini-x": {"litellm_provider": "vertex_ai-language-models", "input_cost_per_token": 1e-06},
    "odd": {"litellm_provider": "openai", "input_cost_per_token": "a lot"},
    "tiers-x": {
        "litellm_provider": "openai",
        "tiered_pricing": [
            {"input_cost_per_token": 5e-08, "output_cost_per_token": 4e-07, "range": [0, 256000]},
            {"input_cost_per_token": 2.5e-07, "output_cost_per_token": 2e-06, "range": [256000, 1000000]},
        ],
    },
    "image-x": {"litellm_provider": "openai", "output_cost_per_image": 0.04},
}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path = tmp_path / prices.TABLE
    path.write_text(json.dumps(TABLE))
    monkeypatch.setattr(prices, "_table_path", lambda: path)
    prices._table.cache_clear()
    yield
    prices._table.cache_clear()


def _model(provider: str, model: str, **more: Any) -> RealModel:
    return RealModel("m", provider, model, **more)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("model", "found"),
    [
        (_model("openai", "gpt-x"), Prices(0.15, 0.6, 0.075)),
        (_model("openai", "gpt-x", base_url="https://api.openai.com/v1"), Prices(0.15, 0.6, 0.075)),
        (_model("openai", "gpt-x", base_url="http://127.0.0.1:8000/v1"), None),
        (_model("openai", "gpt-x", prices=Prices(1.0)), Prices(1.0)),
        (_model("azure", "gpt-x", base_url="https://ours.openai.azure.com"), Prices(0.2, 0.7)),
        (_model("hosted_vllm", "gpt-x"), None),
        (_model("openai", "embed-x"), Prices(0.02, 0.0)),
        (_model("vertex_ai", "gemini-x"), Prices(1.0, 0.0)),
        (_model("openai", "tiers-x"), Prices(0.05, 0.4)),
        (_model("openai", "odd"), None),
        (_model("openai", "image-x"), None),
        (_model("openai", "unheard-of"), None),
    ],
)
def test_a_price_is_the_configs_or_the_providers_own_or_unknown(model: RealModel, found: Prices | None) -> None:
    assert known_price(model) == found


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_the_table_of_litellm_is_read_without_importing_it() -> None:
    script = (
        "import sys; from trace_bench.gateway.prices import known_price, RealModel;"
        "print(known_price(RealModel('m', 'openai', 'gpt-4o-mini')).prompt, 'litellm' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.split() == ["0.15", "False"]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (_model("openai", "gpt-x"), True),
        (_model("openai", "gpt-x", prices=Prices(0.15), table_prices=True), True),
        (_model("openai", "gpt-x", prices=Prices(1.0)), False),
        (_model("openai", "gpt-x", base_url="http://127.0.0.1:8000/v1"), False),
        (_model("openai", "unheard-of"), False),
    ],
)
def test_litellm_computes_costs_where_the_config_gives_no_prices_and_the_table_does(
    model: RealModel, expected: bool
) -> None:
    assert by_litellm(model) == expected


def test_cost_is_summed_with_cached_tokens_apart() -> None:
    counted = Counted(prompt=1000, completion=200, cached=400)
    assert cost(counted, Prices(2.0, 10.0, 0.5)) == pytest.approx(600 * 2e-6 + 400 * 0.5e-6 + 200 * 1e-5, rel=1e-12)
    assert cost(counted, Prices(2.0, 10.0)) == pytest.approx(1000 * 2e-6 + 200 * 1e-5, rel=1e-12)
    assert cost(counted, None) == 0.0


CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2}, Counted(3, 2)),
        ({"prompt_tokens": 3.0, "completion_tokens": 2}, Counted(3, 2)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": None}, Counted(3, 2)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}}, Counted(3, 2, 3)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": -9}}, Counted(3, 2)),
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 8}},
            Counted(3, 2, 0, 2),
        ),
        ({"prompt_tokens": "3", "completion_tokens": 2}, None),
        ({"prompt_tokens": True, "completion_tokens": 2}, None),
        ({"prompt_tokens": 3, "completion_tokens": -2}, None),
        ({"prompt_tokens": 3, "completion_tokens": float("nan")}, None),
        ({"prompt_tokens": float("inf"), "completion_tokens": 2}, None),
        ({"prompt_tokens": 0, "completion_tokens": 2}, None),
        ({"prompt_tokens": 3, "completion_tokens": 0}, None),
        ({"completion_tokens": 2}, None),
        ([3, 2], None),
        (None, None),
    ],
)
def test_a_usage_is_believed_only_if_it_can_be(usage: object, found: Counted | None) -> None:
    body = {"choices": [{"message": {"content": "pong"}}], "usage": usage}
    assert reported(CHAT, body) == found


def test_an_answer_that_says_nothing_may_have_taken_no_tokens() -> None:
    body = {"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    assert reported(CHAT, body) == Counted(3, 0)
