"""The known providers of models: the variables that their clients read, and the names of their models.

Names are litellm's. A provider that is not listed works too: its key is looked for in ``<NAME>_API_KEY``.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class KnownProvider:
    """The settings of one provider.

    Attributes:
        keys: variables that may hold the key. The first one that is set is used.
        addresses: likewise, variables that may hold the base URL.
        keyless: a server of one's own that may take no key.
        needs_address: the base URL must be given.
    """

    keys: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    keyless: bool = False
    needs_address: bool = False


_OWN = {"keyless": True, "needs_address": True}
KNOWN_PROVIDERS = {
    "openai": KnownProvider(("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "openrouter": KnownProvider(("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",)),
    "anthropic": KnownProvider(("ANTHROPIC_API_KEY",), ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
    "gemini": KnownProvider(("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "azure": KnownProvider(("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"), ("AZURE_API_BASE",), needs_address=True),
    "azure_ai": KnownProvider(("AZURE_AI_API_KEY",), ("AZURE_AI_API_BASE",), needs_address=True),
    "cerebras": KnownProvider(("CEREBRAS_API_KEY",)),
    "cohere": KnownProvider(("COHERE_API_KEY", "CO_API_KEY")),
    "deepinfra": KnownProvider(("DEEPINFRA_API_KEY",)),
    "deepseek": KnownProvider(("DEEPSEEK_API_KEY",)),
    "fireworks_ai": KnownProvider(("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY")),
    "groq": KnownProvider(("GROQ_API_KEY",)),
    "huggingface": KnownProvider(("HF_TOKEN", "HUGGINGFACE_API_KEY")),
    "mistral": KnownProvider(("MISTRAL_API_KEY",)),
    "nvidia_nim": KnownProvider(("NVIDIA_NIM_API_KEY", "NVIDIA_API_KEY")),
    "perplexity": KnownProvider(("PERPLEXITY_API_KEY", "PERPLEXITYAI_API_KEY")),
    "together_ai": KnownProvider(("TOGETHER_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY")),
    "xai": KnownProvider(("XAI_API_KEY",)),
    "hosted_vllm": KnownProvider(("HOSTED_VLLM_API_KEY",), ("HOSTED_VLLM_API_BASE",), **_OWN),
    "lm_studio": KnownProvider(("LM_STUDIO_API_KEY",), ("LM_STUDIO_API_BASE",), **_OWN),
    "llamafile": KnownProvider(("LLAMAFILE_API_KEY",), ("LLAMAFILE_API_BASE",), **_OWN),
    "ollama": KnownProvider(("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), keyless=True),
    "ollama_chat": KnownProvider(("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), keyless=True),
}
SYNONYMS = {
    "azure_openai": "azure",
    "google": "gemini",
    "google_ai_studio": "gemini",
    "hf": "huggingface",
    "together": "together_ai",
    "vllm": "hosted_vllm",
}
SIGNED_PROVIDERS = frozenset({"bedrock", "sagemaker", "vertex_ai", "vertex_ai_beta", "watsonx"})
"""Providers whose clients sign requests with credentials of the host, which the gateway's process does not have."""
_FAMILIES = (
    (("gpt-", "chatgpt-", "o1", "o3", "o4", "text-embedding-"), "openai"),
    (("claude",), "anthropic"),
    (("gemini",), "gemini"),
    (("grok",), "xai"),
    (("deepseek-chat", "deepseek-reasoner"), "deepseek"),
    (("mistral-", "codestral-", "magistral-", "ministral-"), "mistral"),
)
_HOSTS = (("openrouter.ai", "openrouter"), ("api.openai.com", "openai"), ("openai.azure.com", "azure"))


def known_provider(provider: str) -> KnownProvider:
    """The settings of `provider`; of one that is not listed, those that its name suggests."""
    return KNOWN_PROVIDERS.get(provider) or KnownProvider((f"{provider.upper().replace('-', '_')}_API_KEY",))


def canonical_name(provider: str) -> str:
    """The name that litellm has for `provider`, which may be a synonym.

    >>> canonical_name("Google"), canonical_name("openai")
    ('gemini', 'openai')
    """
    name = provider.strip().lower().replace("-", "_")
    return SYNONYMS.get(name, name)


def provider_in(model: str) -> str | None:
    """The provider in front of the first slash of `model`, if one is named there."""
    before, slash, _ = model.partition("/")
    name = canonical_name(before)
    return name if slash and (name in KNOWN_PROVIDERS or name in SIGNED_PROVIDERS) else None


def maker_of(model: str) -> str | None:
    """The provider that makes models of that name."""
    return next((provider for begins, provider in _FAMILIES if model.lower().startswith(begins)), None)


def provider_at(base_url: str) -> str | None:
    """The known provider at `base_url`, if there is one."""
    host = urlsplit(base_url).hostname or ""
    return next((name for known, name in _HOSTS if host == known or host.endswith(f".{known}")), None)


def is_loopback(base_url: str) -> bool:
    """Whether `base_url` is on this machine.

    >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("https://api.openai.com/v1")
    (True, False)
    """
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
