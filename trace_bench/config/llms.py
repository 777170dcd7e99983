"""The models behind the gateway: the sections ``llm`` and ``llms`` of a config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from trace_bench.config.frozen import FrozenDict, FrozenMap
from trace_bench.config.values import Seconds, Section, Text, UsdPerMillion, matching, measured

SCRIPTED = "scripted:"
"""Before the file of a built-in model that follows a script."""


_VARIABLE = matching(
    "[A-Za-z_][A-Za-z0-9_]{0,127}",
    "the name of an environment variable, such as OPENAI_API_KEY, and not its value",
)


def is_builtin(model: str | None) -> bool:
    """Return True if `model` is one of the gateway's own, which ask no provider."""
    return model is not None and (model == "stub" or model.startswith(SCRIPTED))


def base_url_problem(value: str) -> str | None:
    """What is wrong with the address of a provider, without the address; None if nothing is."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        return "must begin with http:// or https:// and a host"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return "must hold no user, password, query or fragment; a key belongs in an environment variable"
    return None


def _base_url(value: str) -> str:
    if (wrong := base_url_problem(value)) is not None:
        raise ValueError(wrong)
    return value


class PricesConfig(Section):
    """The prices of a model; they override litellm's table."""

    prompt: UsdPerMillion
    """Price of prompts."""
    completion: UsdPerMillion = 0.0
    """Price of answers, reasoning included."""
    cached: UsdPerMillion | None = None
    """Price of prompt tokens that the provider had in its cache; null is the price of `prompt`."""


class LlmLimitsConfig(Section):
    """Limits on requests to the provider from all jobs of this host together; null is no limit."""

    requests_per_minute: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Number of requests per minute, retries included."""
    tokens_per_minute: Annotated[float, Field(gt=0, le=1e12)] | None = None
    """Number of tokens per minute, prompts and answers together."""
    concurrent: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Number of calls at a time."""


class LlmConfig(Section):
    """The model behind the gateway. Keys are never in the config: ``api_key_env`` names a variable of the host."""

    id: Text | None = None
    """Name of the model in tables and in sandboxes; null is `model`."""
    provider: Text | None = None
    """Provider, as litellm names it: `openai`, `anthropic`, `azure` and so on. Null: from the environment."""
    base_url: Annotated[Text, AfterValidator(_base_url)] | None = None
    """Address of any OpenAI-compatible server, without user, password and query; null is the provider's own."""
    model: Text | None = None
    """Name of the model at its provider; `stub` and `scripted:FILE` are built in. Null: from the environment."""
    api_key_env: Annotated[Text, _VARIABLE] | None = None
    """Environment variable of the host that holds the key. The key itself never enters a config."""
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    """Number from 0 to 10: sampling temperature where the request names none; null is the model's default."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Number above 0, up to 1: nucleus sampling where the request names none; null is the model's default."""
    max_tokens: Annotated[int, Field(ge=1), measured("tokens")] | None = None
    """Limit on one answer: a request that asks for more, or names none, gets this. Null is the request's limit."""
    seed: bool = True
    """Send a seed derived from the job's, where the provider takes one."""
    stream: bool = False
    """Have the provider send long answers piece by piece. Sandboxes get them whole all the same."""
    timeout: Seconds = 600.0
    """Limit on one try of one call."""
    retries: Annotated[int, Field(ge=0, le=100)] = 5
    """Number of further tries of a call after status 429, 5xx, a time-out or a broken connection."""
    options: FrozenMap = Field(default_factory=FrozenDict)
    """Further arguments of litellm, such as `api_version` for Azure; part of the model's identity."""
    prices: PricesConfig | None = None
    """Prices of the model; null: litellm computes the cost."""
    limits: LlmLimitsConfig = LlmLimitsConfig()
    """Limits on requests to the provider."""

    @property
    def script(self) -> str | None:
        """The file of a built-in model ``scripted:FILE``; None for any other."""
        return self.model.removeprefix(SCRIPTED) if self.model and self.model.startswith(SCRIPTED) else None

    @property
    def name(self) -> str:
        """The name of the model in tables, and in sandboxes."""
        return self.id or (f"{SCRIPTED}{Path(self.script).stem}" if self.script else self.model or "")

    @field_validator("options")
    @classmethod
    def _are_further_ones(cls, options: FrozenDict) -> FrozenDict:
        taken = sorted(name for name in options if name in _NOT_AMONG_OPTIONS or name.startswith("mock_"))
        if taken:
            raise ValueError(f"must not hold {taken[0]}: it is a key of its own here, or the gateway's")
        return options


_NOT_AMONG_OPTIONS = frozenset(
    (
        *LlmConfig.model_fields,
        *("api_base", "api_key", "custom_llm_provider", "input", "max_completion_tokens", "max_output_tokens"),
        *("max_retries", "messages", "num_retries", "prompt", "request_timeout", "stream_options"),
    )
)
