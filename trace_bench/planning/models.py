"""Complete the models of a config from the environment, before anything is planned.

So snapshot, hash and job ids hold the models that are really used. A key is not copied; the config names at most the
variable that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from trace_bench.config.frozen import FrozenDict, thaw
from trace_bench.config.llms import LlmConfig, base_url_problem, is_builtin
from trace_bench.config.models import RunConfig
from trace_bench.config.source import Path_
from trace_bench.errors import ConfigError
from trace_bench.gateway.real import HostLimit, Prices, RealModel
from trace_bench.planning.environment import Variables, variables_of
from trace_bench.planning.known_providers import (
    KNOWN_PROVIDERS,
    SIGNED_PROVIDERS,
    canonical_name,
    is_loopback,
    known_provider,
    maker_of,
    provider_at,
    provider_in,
)
from trace_bench.secrets import known, secrets_in

MODEL_VARIABLES = ("TRACE_LITELLM_MODEL", "DEFAULT_LITELLM_MODEL")
BACKEND_VARIABLE = "TRACE_DEFAULT_LLM_BACKEND"
CUSTOM = ("TRACE_CUSTOMLLM_MODEL", "TRACE_CUSTOMLLM_URL", "TRACE_CUSTOMLLM_API_KEY")


def with_models(config: RunConfig, environ: Mapping[str, str]) -> RunConfig:
    """`config` with everything about its models that it leaves to the environment. Each addition is a warning of the
    returned config, without any key. A second call changes nothing. In other modes than real, nothing is added.

    Args:
        environ: variables of this process. ``.env`` files are read too (see `variables_of`).

    Raises:
        ConfigError: a model is missing, its provider is not known, or two models have one id; one line each.
    """
    if config.mode != "real":
        if same := [*_same_ids(config, list(config.llms))]:
            raise ConfigError("\n".join(same))
        return config
    variables = variables_of(config, environ)
    problems: list[str] = []
    notes: list[str] = []
    completed = [_completed(config, place, llm, variables, problems, notes) for place, llm in _blocks(config)]
    if not problems:
        problems += _same_ids(config, completed)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    filled: dict[str, Any] = {"llms": tuple(completed)} if config.llms else {"llm": completed[0]}
    return config.changed(filled, warnings=notes)


def missing_keys(config: RunConfig, environ: Mapping[str, str]) -> dict[str, ConfigError]:
    """An error for each model of a completed `config` whose key is missing, by the model's id."""
    if config.mode != "real":
        return {}
    variables = variables_of(config, environ)
    found: dict[str, ConfigError] = {}
    for place, llm in _blocks(config):
        if not is_builtin(llm.model) and _key_variable(llm, variables) is None and _needs_key(llm):
            found[llm.name] = ConfigError(_no_key(config, place, llm))
    return found


def real_models(
    config: RunConfig, environ: Mapping[str, str], prices: Mapping[str, Prices | None] | None = None
) -> tuple[RealModel, ...]:
    """The real models of a completed `config` as the gateway needs them, with keys.

    Args:
        prices: by the model's id, where the config itself says none.
    """
    if config.mode != "real":
        return ()
    variables = variables_of(config, environ)
    return tuple(
        _real_model(llm, variables, (prices or {}).get(llm.name))
        for _, llm in _blocks(config)
        if not is_builtin(llm.model)
    )


def mask_secrets(config: RunConfig, environ: Mapping[str, str]) -> None:
    """Mask the secrets of the environment, and the keys of the models of `config`, from now on.

    Raises:
        ConfigError: a key stands in the config itself.
    """
    known.add(secrets_in(environ))
    if config.mode != "real":
        return
    known.add(secrets_in(variables_of(config, environ).values))
    keys = {model.api_key for model in real_models(config, environ) if model.api_key}
    known.add(keys)
    for path, text in _texts(config.to_snapshot(), ()):
        if any(len(key) >= 8 and key in text for key in keys):
            raise ConfigError(
                f"{config.source.where(path)}: holds the key of a model; take it out: a config is copied into every run"
            )


def _blocks(config: RunConfig) -> list[tuple[Path_, LlmConfig]]:
    if config.llms:
        return [(("llms", n), llm) for n, llm in enumerate(config.llms)]
    return [(("llm",), config.llm or LlmConfig())]


# ------------------------------------------------------------------------------------------------- filling in


@dataclass(frozen=True)
class _Given:
    """A model that the environment names, and the variables that name it."""

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    origins: tuple[str, ...] = ()


def _completed(
    config: RunConfig,
    place: Path_,
    llm: LlmConfig,
    variables: Variables,
    problems: list[str],
    notes: list[str],
) -> LlmConfig:
    """`llm` in full. Problems are added to `problems`, additions to `notes`."""
    if is_builtin(llm.model):
        return llm
    given = _Given() if llm.model else _given(variables)
    model = llm.model or given.model
    where = config.source.where(place) if config.llm or config.llms else f"{config.source.where(('mode',))} real"
    if model is None:
        problems.append(
            f"{where}: names no model; give one with -m, write llm.model, or set {MODEL_VARIABLES[0]} "
            f"(or {BACKEND_VARIABLE}=CustomLLM with {CUSTOM[0]} and {CUSTOM[1]})"
        )
        return llm
    base_url, origins = llm.base_url or given.base_url, [*given.origins]
    provider, model = _provider(llm, model, base_url, variables)
    if provider is None:
        problems.append(
            f"{where}: the provider of the model {model!r} is not known; write it as PROVIDER/MODEL, such as "
            "openai/gpt-4o-mini, or give llm.provider or llm.base_url"
        )
        return llm
    if provider in SIGNED_PROVIDERS:
        problems.append(
            f"{where}: {provider} takes more than one key to reach, which the gateway does not have; put an "
            "OpenAI-compatible server in front of it and name that under base_url"
        )
        return llm
    defaults = known_provider(provider)
    if base_url is None and (name := variables.first(defaults.addresses)) is not None:
        base_url = variables.get(name)
        origins.append(f"address from {variables.origin(name)}")
    if base_url is None and defaults.needs_address:
        names = f", or set {defaults.addresses[0]}" if defaults.addresses else ""
        problems.append(f"{where}: {provider} has no address of its own; write llm.base_url{names}")
    if base_url is not None and base_url != llm.base_url and (wrong := base_url_problem(base_url)):
        problems.append(f"{where}: the address that the environment gives {wrong}")
        return llm
    options = llm.options
    if provider == "azure" and "api_version" not in options and variables.get("AZURE_API_VERSION"):
        options = FrozenDict({**thaw(options), "api_version": variables.get("AZURE_API_VERSION")})
        origins.append(f"api_version from {variables.origin('AZURE_API_VERSION')}")
    changes = {"provider": provider, "model": model, "base_url": base_url, "options": options}
    whole = llm.model_copy(update=changes)
    if llm.api_key_env is None:
        whole = whole.model_copy(update={"api_key_env": given.api_key_env or _key_variable(whole, variables)})
        if whole.api_key_env is not None:
            origins.append(f"key from {variables.origin(whole.api_key_env)}")
    if origins or (llm.provider, llm.model) != (provider, model):
        if whole.api_key_env is None and not _needs_key(whole):
            origins.append("no key")
        at = f" at {_host(base_url)}" if base_url else ""
        notes.append(f"{where}: model {model} of {provider}{at}" + "".join(f", {origin}" for origin in origins))
    return whole


def _given(variables: Variables) -> _Given:
    """The model that the environment names, for a block that names none."""
    if (variables.get(BACKEND_VARIABLE) or "").lower() == "customllm":
        model, url = variables.get(CUSTOM[0]), variables.get(CUSTOM[1])
        if model and url:
            origins = (f"from {variables.origin(CUSTOM[0])} and {variables.origin(CUSTOM[1])}",)
            return _Given(model, url, CUSTOM[2] if variables.get(CUSTOM[2]) else None, origins)
        return _Given()
    name = variables.first(MODEL_VARIABLES)
    return _Given() if name is None else _Given(variables.get(name), origins=(f"from {variables.origin(name)}",))


def _provider(llm: LlmConfig, model: str, base_url: str | None, variables: Variables) -> tuple[str | None, str]:
    """The provider of `model`, and the name of the model there."""
    prefix = provider_in(model)
    rest = model.partition("/")[2]
    if llm.provider is not None:
        provider = canonical_name(llm.provider)
        # ``openrouter/auto`` is OpenRouter's own name; and a server of one's own may have any.
        whole = base_url is not None or prefix != provider or (provider == "openrouter" and "/" not in rest)
        return provider, model if whole else rest
    if base_url is not None and (there := provider_at(base_url)) is not None:
        return there, rest if prefix == there and ("/" in rest or there != "openrouter") else model
    if prefix is not None:
        return prefix, model if prefix == "openrouter" and "/" not in rest else rest
    if base_url is not None:
        return "openai", model
    elsewhere = variables.first(known_provider("openai").addresses) is not None
    maker = maker_of(model)
    if maker is not None and (not elsewhere or variables.first(known_provider(maker).keys)):
        return maker, model
    if elsewhere:
        return "openai", model
    if "/" in model and variables.first(known_provider("openrouter").keys):
        return "openrouter", model
    return None, model


def _same_ids(config: RunConfig, llms: list[LlmConfig]) -> Iterator[str]:
    first: dict[str, int] = {}
    for n, llm in enumerate(llms):
        earlier = first.setdefault(llm.name, n)
        if earlier != n:
            yield (
                f"{config.source.where(('llms', n))} and llms[{earlier}] are both called {llm.name!r}; "
                "give each an id of its own"
            )


# ------------------------------------------------------------------------------------------------------- keys


def _key_variable(llm: LlmConfig, variables: Variables) -> str | None:
    """The variable that holds the key of a completed block, if it is set."""
    if llm.api_key_env is not None:
        return llm.api_key_env if variables.get(llm.api_key_env) else None
    return variables.first(known_provider(llm.provider or "").keys)


def _needs_key(llm: LlmConfig) -> bool:
    if llm.api_key_env is not None:
        return True
    return not known_provider(llm.provider or "").keyless and not (llm.base_url and is_loopback(llm.base_url))


def _no_key(config: RunConfig, place: Path_, llm: LlmConfig) -> str:
    names = (llm.api_key_env,) if llm.api_key_env else known_provider(llm.provider or "").keys
    where = config.source.where((*place, "api_key_env") if llm.api_key_env else place)
    near = get_close_matches(llm.provider or "", KNOWN_PROVIDERS, 1, 0.7) if llm.provider not in KNOWN_PROVIDERS else []
    return (
        f"{where}: there is no key for model {llm.model} of {llm.provider}: {' or '.join(names)} is set neither in the "
        "environment nor in .env beside the config or in the current folder; set it"
        + ("" if llm.api_key_env else ", or name another variable under llm.api_key_env")
        + (f"; if the provider is {near[0]}, correct llm.provider" if near else "")
    )


def _real_model(llm: LlmConfig, variables: Variables, price: Prices | None) -> RealModel:
    name = _key_variable(llm, variables)
    if llm.prices is not None:
        price = Prices(llm.prices.prompt, llm.prices.completion, llm.prices.cached)
    limits = llm.limits
    return RealModel(
        id=llm.name,
        provider=llm.provider or "",
        model=llm.model or "",
        base_url=llm.base_url,
        api_key=None if name is None else variables.get(name),
        api_key_env=name or llm.api_key_env or known_provider(llm.provider or "").keys[0],
        temperature=llm.temperature,
        top_p=llm.top_p,
        max_tokens=llm.max_tokens,
        send_seed=llm.seed,
        stream=llm.stream,
        timeout=llm.timeout,
        retries=llm.retries,
        options=thaw(llm.options),
        prices=price,
        table_prices=llm.prices is None and price is not None,
        limits=HostLimit(limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent),
    )


def _texts(value: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
            yield (*path, key), str(key)
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _texts(item, (*path, n))
    elif isinstance(value, str):
        yield path, value


def _host(base_url: str) -> str:
    return urlsplit(base_url).netloc
