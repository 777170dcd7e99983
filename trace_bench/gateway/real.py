"""A real model as the gateway knows it: all that a request to its provider takes, the key included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

GET_LITELLM = "pip install 'trace-bench[llm]' (as a container: the controller of scripts/build-controller --llm)"
"""How to install litellm where it is missing."""
MAX_MESSAGE = 256 << 20
"""Bytes of one message between the controller and its provider process."""

Message = dict[str, Any]
"""A JSON object between the controller and its provider process."""
OnWait = Callable[[str, float, str], None]
"""Called with job id, seconds and reason when a call waits. It must return at once."""


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens; `cached` is of prompt tokens that the provider had in its cache."""

    prompt: float
    completion: float = 0.0
    cached: float | None = None


@dataclass(frozen=True)
class HostLimit:
    """What all jobs of this host together may send to one provider; None is no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrent: int | None = None


@dataclass(frozen=True)
class RealModel:
    """One model behind the gateway.

    Attributes:
        id: its name in sandboxes and tables.
        provider, model: as litellm names them; together ``provider/model``.
        api_key: never shown and never recorded; None for a server that takes none.
        api_key_env: the variable that holds it, for messages.
        temperature, top_p: sent where a request does not give them.
        max_tokens: upper limit of one answer's tokens; sent where a request does not give one.
        send_seed: send a seed derived from the job's.
        stream: receive answers from the provider piece by piece.
        timeout: seconds for one try.
        retries: further tries after 429, 5xx, a time-out or a broken connection.
        options: further arguments of litellm, as JSON data.
        prices: None where they are unknown.
        table_prices: `prices` are of litellm's table, and not of the config.
    """

    id: str
    provider: str
    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    send_seed: bool = True
    stream: bool = False
    timeout: float = 600.0
    retries: int = 5
    options: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices | None = None
    table_prices: bool = False
    limits: HostLimit = HostLimit()
    api_key_env: str | None = None


def model_from(plain: Mapping[str, Any]) -> RealModel:
    """The model of which `plain` holds ``dataclasses.asdict``."""
    prices = None if plain["prices"] is None else Prices(**plain["prices"])
    return RealModel(**{**plain, "prices": prices, "limits": HostLimit(**plain["limits"])})
