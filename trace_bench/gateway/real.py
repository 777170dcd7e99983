"""What the gateway knows of a real model: all that a request to its provider takes, the key included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

GET_LITELLM = "pip install 'trace-bench[llm]' (as a container: the controller of scripts/build-controller --llm)"
"""What to do where it is missing."""

OnWait = Callable[[str, float, str], None]
"""Told, by job id, that a call waits for so many seconds, and why; from a thread that must not be held up."""


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens; `cached` is of prompt tokens that the provider had in its cache."""

    prompt: float
    completion: float = 0.0
    cached: float | None = None


@dataclass(frozen=True)
class HostLimit:
    """What all jobs of this host together ask of one provider at most; None is no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrent: int | None = None


@dataclass(frozen=True)
class RealModel:
    """One model behind the gateway.

    Attributes:
        id: what sandboxes and tables call it.
        provider, model: as litellm names them; together ``provider/model``.
        api_key: never shown, never written down; None for a server that takes none.
        api_key_env: the variable that holds it, for messages.
        temperature, top_p: sent where a request does not say.
        max_tokens: upper limit of one answer's tokens; sent where a request does not say.
        send_seed: send a seed derived from the job's.
        stream: take answers from the provider piece by piece.
        timeout: seconds for one try.
        retries: further tries after 429, 5xx, a time-out or a broken connection.
        options: further arguments of litellm.
        prices: None where nobody knows them.
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
    limits: HostLimit = HostLimit()
    api_key_env: str | None = None


def model_to(model: RealModel) -> dict[str, Any]:
    """`model` as JSON data, key included: for the pipe to the provider process alone."""
    plain = {f.name: getattr(model, f.name) for f in fields(model)}
    plain["options"] = dict(model.options)
    plain["prices"] = None if model.prices is None else asdict(model.prices)
    plain["limits"] = asdict(model.limits)
    return plain


def model_from(plain: Mapping[str, Any]) -> RealModel:
    prices = None if plain["prices"] is None else Prices(**plain["prices"])
    return RealModel(**{**plain, "prices": prices, "limits": HostLimit(**plain["limits"])})
