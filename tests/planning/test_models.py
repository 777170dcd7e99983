"""The models of a config, completed from the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from trace_bench.config import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError
from trace_bench.gateway.real import HostLimit, Prices
from trace_bench.identity import config_hash
from trace_bench.matrix import models_of
from trace_bench.planning.models import mask_secrets, missing_keys, real_models, with_models
from trace_bench.secrets import known

KEY = "sk-planted-0123456789"
OPENAI = {"OPENAI_API_KEY": KEY}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    known.clear()


def config(**keys: Any) -> RunConfig:
    return parse_config({"tasks": ["internal:numeric_param"], "mode": "real", **keys}, file="c.yaml")


def one(environ: Mapping[str, str], **llm: Any) -> tuple[str, str, str | None, str | None]:
    """Provider, model, address and variable of the key."""
    whole = with_models(config(**({"llm": llm} if llm else {})), environ).llm
    assert whole is not None and whole.provider is not None and whole.model is not None
    return whole.provider, whole.model, whole.base_url, whole.api_key_env


NONE = (None, None)
URL = "http://10.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("environ", "llm", "expected"),
    [
        ({"TRACE_LITELLM_MODEL": "openai/gpt-x", **OPENAI}, {}, ("openai", "gpt-x", None, "OPENAI_API_KEY")),
        ({"TRACE_LITELLM_MODEL": "gpt-x", **OPENAI}, {}, ("openai", "gpt-x", None, "OPENAI_API_KEY")),
        ({"DEFAULT_LITELLM_MODEL": "gpt-x"}, {}, ("openai", "gpt-x", *NONE)),
        ({"TRACE_LITELLM_MODEL": "gpt-x", "DEFAULT_LITELLM_MODEL": "gpt-y"}, {}, ("openai", "gpt-x", *NONE)),
        (
            {"TRACE_LITELLM_MODEL": "claude-x", "ANTHROPIC_API_KEY": "k"},
            {},
            ("anthropic", "claude-x", None, "ANTHROPIC_API_KEY"),
        ),
        (
            {"TRACE_LITELLM_MODEL": "gemini/gemini-x", "GOOGLE_API_KEY": "k"},
            {},
            ("gemini", "gemini-x", None, "GOOGLE_API_KEY"),
        ),
        (
            {"TRACE_LITELLM_MODEL": "org/llama", "OPENROUTER_API_KEY": "k"},
            {},
            ("openrouter", "org/llama", None, "OPENROUTER_API_KEY"),
        ),
        ({"TRACE_LITELLM_MODEL": "llama", "OPENAI_API_BASE": URL}, {}, ("openai", "llama", URL, None)),
        (
            {"TRACE_LITELLM_MODEL": "claude-x", "OPENAI_BASE_URL": URL, **OPENAI},
            {},
            ("openai", "claude-x", URL, "OPENAI_API_KEY"),
        ),
        (
            {"OPENAI_BASE_URL": URL, "OPENAI_API_BASE": "http://other/v1"},
            {"model": "gpt-x"},
            ("openai", "gpt-x", URL, None),
        ),
        (
            {"OPENAI_BASE_URL": URL},
            {"model": "gpt-x", "base_url": "http://mine/v1"},
            ("openai", "gpt-x", "http://mine/v1", None),
        ),
        ({"OPENAI_BASE_URL": URL}, {"model": "groq/m"}, ("groq", "m", *NONE)),
        (
            {
                "TRACE_DEFAULT_LLM_BACKEND": "CustomLLM",
                "TRACE_CUSTOMLLM_MODEL": "org/m",
                "TRACE_CUSTOMLLM_URL": URL,
                "TRACE_CUSTOMLLM_API_KEY": "k",
                "TRACE_LITELLM_MODEL": "gpt-x",
                **OPENAI,
            },
            {},
            ("openai", "org/m", URL, "TRACE_CUSTOMLLM_API_KEY"),
        ),
        (
            {"TRACE_DEFAULT_LLM_BACKEND": "LiteLLM", "TRACE_CUSTOMLLM_MODEL": "m", "TRACE_LITELLM_MODEL": "gpt-x"},
            {},
            ("openai", "gpt-x", *NONE),
        ),
        ({"TRACE_LITELLM_MODEL": "gpt-y"}, {"model": "gpt-x", "temperature": 0.5}, ("openai", "gpt-x", *NONE)),
        ({}, {"model": "openai/gpt-x", "provider": "openai"}, ("openai", "gpt-x", *NONE)),
        (
            {},
            {"model": "openai/gpt-oss", "provider": "openai", "base_url": URL},
            ("openai", "openai/gpt-oss", URL, None),
        ),
        ({}, {"model": "anthropic/claude", "provider": "openrouter"}, ("openrouter", "anthropic/claude", *NONE)),
        ({}, {"model": "openrouter/anthropic/claude"}, ("openrouter", "anthropic/claude", *NONE)),
        ({}, {"model": "openrouter/auto"}, ("openrouter", "openrouter/auto", *NONE)),
        (
            {},
            {"model": "openai/gpt-x", "base_url": "https://openrouter.ai/api/v1"},
            ("openrouter", "openai/gpt-x", "https://openrouter.ai/api/v1", None),
        ),
        (
            {"TOGETHERAI_API_KEY": "k"},
            {"model": "m", "provider": "together"},
            ("together_ai", "m", None, "TOGETHERAI_API_KEY"),
        ),
        (
            {"NEW_SERVICE_API_KEY": "k"},
            {"model": "m", "provider": "new_service"},
            ("new_service", "m", None, "NEW_SERVICE_API_KEY"),
        ),
        (
            {"HOSTED_VLLM_API_BASE": URL},
            {
                "model": "vllm/org/m",
            },
            ("hosted_vllm", "org/m", URL, None),
        ),
        ({"MY_KEY": "k", **OPENAI}, {"model": "gpt-x", "api_key_env": "MY_KEY"}, ("openai", "gpt-x", None, "MY_KEY")),
    ],
)
def test_what_is_not_given_is_taken_from_the_environment(
    environ: dict[str, str], llm: dict[str, Any], expected: tuple[str, str, str | None, str | None]
) -> None:
    assert one(environ, **llm) == expected


def test_completing_twice_changes_nothing_and_says_it_once() -> None:
    environ = {"TRACE_LITELLM_MODEL": "gpt-x", **OPENAI}
    first = with_models(config(), environ)
    again = with_models(first, environ)
    assert again == first and again.warnings == first.warnings
    assert first.warnings == (
        "c.yaml: mode real: model gpt-x of openai, from TRACE_LITELLM_MODEL, key from OPENAI_API_KEY",
    )
    assert KEY not in repr(first) + str(first.to_snapshot())
    assert parse_config(first.to_snapshot()) == first


def test_a_model_that_needs_no_key_is_told_once_too() -> None:
    first = with_models(
        config(), {"TRACE_LITELLM_MODEL": "openai/gpt-x", "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}
    )
    (told,) = first.warnings
    assert told.endswith(", no key")
    assert with_models(first, {}).warnings == first.warnings


def test_what_is_given_in_full_is_not_remarked_on() -> None:
    alone = {"provider": "openai", "model": "gpt-x", "base_url": "http://127.0.0.1:8000/v1"}
    assert with_models(config(llm=alone), {}).warnings == ()
    given = {"provider": "openai", "model": "gpt-x", "api_key_env": "OPENAI_API_KEY"}
    assert with_models(config(llm=given), OPENAI).warnings == ()


def test_where_the_key_lies_is_no_part_of_the_identity() -> None:
    one = with_models(config(llm={"model": "gpt-x"}), OPENAI)
    other = with_models(config(llm={"model": "gpt-x", "api_key_env": "MY_KEY"}), {"MY_KEY": KEY})
    both = [with_models(config(llms=[{"model": "gpt-x", "api_key_env": name}]), {}) for name in ("A", "B")]
    assert models_of(one) == models_of(other)
    for a, b in ((one, other), both):
        assert config_hash(a.to_snapshot(), {}) == config_hash(b.to_snapshot(), {})


@pytest.mark.parametrize(
    ("environ", "llm", "says"),
    [
        ({}, {}, "mode real: names no model; give one with -m, write llm.model, or set TRACE_LITELLM_MODEL"),
        ({"TRACE_DEFAULT_LLM_BACKEND": "CustomLLM", "TRACE_CUSTOMLLM_MODEL": "m"}, {}, "TRACE_CUSTOMLLM_URL"),
        ({}, {"model": "llama"}, "is not known; write it as PROVIDER"),
        (OPENAI, {"model": "org/llama"}, "is not known; write it as PROVIDER"),
        ({}, {"model": "bedrock/m"}, "bedrock takes more than one key"),
        ({}, {"model": "m", "provider": "azure"}, "write llm.base_url, or set AZURE_API_BASE"),
        ({"OPENAI_BASE_URL": "nowhere"}, {"model": "gpt-x"}, "must begin with http:// or https://"),
        ({"OPENAI_BASE_URL": "http://u:pw12345678@h/v1"}, {"model": "gpt-x"}, "must hold no user, password"),
    ],
)
def test_what_cannot_be_completed_is_one_sentence(environ: dict[str, str], llm: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_models(config(**({"llm": llm} if llm else {})), environ)
    text = str(caught.value)
    assert says in text and "\n" not in text and text.startswith("c.yaml: ")
    assert "pw12345678" not in text and KEY not in text


def test_two_models_that_come_to_one_id_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"llms\[1\] and llms\[0\] are both called 'gpt-x'; give each an id"):
        with_models(config(llms=["openai/gpt-x", "gpt-x"]), OPENAI)
    two = with_models(config(llms=["openai/gpt-x", {"model": "gpt-x", "id": "again"}]), OPENAI)
    assert [identity["id"] for identity in models_of(two)] == ["gpt-x", "again"]


@pytest.mark.parametrize("mode", ["stub", "replay"])
def test_other_modes_are_left_alone(mode: str) -> None:
    given = parse_config({"tasks": ["internal:numeric_param"], "mode": mode})
    assert with_models(given, {"TRACE_LITELLM_MODEL": "gpt-x"}) is given
    assert missing_keys(given, {}) == {} and real_models(given, OPENAI) == ()


@pytest.mark.parametrize(
    ("llm", "environ", "says"),
    [
        ({"model": "gpt-x"}, {}, "OPENAI_API_KEY is set neither in the environment nor in .env"),
        ({"model": "gpt-x"}, {"OPENAI_API_KEY": " "}, "OPENAI_API_KEY is set neither"),
        ({"model": "gemini-x"}, OPENAI, "GEMINI_API_KEY or GOOGLE_API_KEY is set neither"),
        ({"model": "gpt-x", "api_key_env": "MINE"}, OPENAI, "MINE is set neither"),
        ({"model": "gpt-x", "api_key_env": "MINE"}, OPENAI, "current folder; set it"),
        ({"model": "m", "provider": "opnai"}, OPENAI, "if the provider is openai, correct llm.provider"),
        ({"model": "gpt-x", "api_key_env": "MINE", "base_url": "http://localhost/v1"}, {}, "MINE is set neither"),
        ({"model": "m", "base_url": "http://192.168.1.5/v1"}, {}, "OPENAI_API_KEY is set neither"),
        ({"model": "gpt-x"}, OPENAI, None),
        ({"model": "m", "base_url": "http://127.0.0.1:8000/v1"}, {}, None),
        ({"model": "m", "base_url": "http://[::1]:8000/v1"}, {}, None),
        ({"model": "m", "base_url": "http://192.168.1.5/v1", "provider": "hosted_vllm"}, {}, None),
        ({"model": "ollama/m"}, {}, None),
    ],
)  # fmt: skip
def test_a_key_that_is_missing_is_named_with_where_it_was_looked_for(
    llm: dict[str, Any], environ: dict[str, str], says: str | None
) -> None:
    errors = missing_keys(with_models(config(llm=llm), environ), environ)
    if says is None:
        assert errors == {}
    else:
        ((model, error),) = errors.items()
        assert model == llm["model"] and says in str(error)


def test_the_key_of_a_dotenv_reaches_the_gateway_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY='{KEY}'\n")
    whole = with_models(config(llm={"model": "gpt-x"}), {})
    (model,) = real_models(whole, {})
    assert model.api_key == KEY and model.api_key_env == "OPENAI_API_KEY" and KEY not in repr(model)
    assert whole.warnings == ("c.yaml: llm: model gpt-x of openai, key from OPENAI_API_KEY in .env",)
    mask_secrets(whole, {})
    assert known.text(f"<{KEY}>") == "<***>"


def test_a_key_that_stands_in_the_config_is_refused_by_its_value() -> None:
    secret = "no-prefix-that-one-knows"
    whole = with_models(config(llm={"model": "gpt-x"}, tags=["a", f"x{secret}"]), {"OPENAI_API_KEY": secret})
    with pytest.raises(ConfigError, match=r"tags\[1\]: holds the key of a model") as caught:
        mask_secrets(whole, {"OPENAI_API_KEY": secret})
    assert secret not in str(caught.value)


def test_frozen_prices_are_litellms_where_the_block_has_none() -> None:
    llm = {"id": "m", "provider": "openai", "model": "gpt-x", "api_key_env": "OPENAI_API_KEY"}
    frozen = {"m": Prices(5, 6)}
    (model,) = real_models(with_models(config(llm=llm), OPENAI), OPENAI, frozen)
    assert model.prices == Prices(5, 6) and model.table_prices
    (model,) = real_models(with_models(config(llm={**llm, "prices": {"prompt": 1}}), OPENAI), OPENAI, frozen)
    assert model.prices == Prices(1) and not model.table_prices


def test_all_of_a_block_reaches_the_gateway() -> None:
    llm = {
        "id": "m", "provider": "openai", "model": "gpt-x", "base_url": URL, "api_key_env": "OPENAI_API_KEY",
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "seed": False, "stream": True, "timeout": 3, "retries": 1,
        "options": {"a": [1]}, "prices": {"prompt": 1, "completion": 2},
        "limits": {"requests_per_minute": 3, "tokens_per_minute": 4, "concurrent": 5},
    }  # fmt: skip
    (model,) = real_models(with_models(config(llm=llm), OPENAI), OPENAI)
    assert (model.id, model.provider, model.model, model.base_url, model.api_key) == ("m", "openai", "gpt-x", URL, KEY)
    assert (model.temperature, model.top_p, model.max_tokens, model.send_seed, model.stream) == (
        0.5,
        0.9,
        7,
        False,
        True,
    )
    assert (model.timeout, model.retries, model.options) == (3, 1, {"a": [1]})
    assert model.prices == Prices(1, 2, None) and not model.table_prices
    assert model.limits == HostLimit(3, 4, 5)
