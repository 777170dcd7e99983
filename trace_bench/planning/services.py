"""Known LLM services: the variables that their clients read, and the names of their models.

Names are litellm's. A service that is not listed works too: its key is looked for in ``<NAME>_API_KEY``.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Service:
    """Attributes:
    keys: variables that may hold the key, the first one set is used.
    addresses: likewise, variables that may hold the base URL.
    keyless: a server of one's own that may take no key.
    addressed: it has no address of its own.
    """

    keys: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    keyless: bool = False
    addressed: bool = False


_OWN = {"keyless": True, "addressed": True}
SERVICES = {
    "openai": Service(("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "openrouter": Service(("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",)),
    "anthropic": Service(("ANTHROPIC_API_KEY",), ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
    "gemini": Service(("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "azure": Service(("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"), ("AZURE_API_BASE",), addressed=True),
    "azure_ai": Service(("AZURE_AI_API_KEY",), ("AZURE_AI_API_BASE",), addressed=True),
    "cerebras": Service(("CEREBRAS_API_KEY",)),
    "cohere": Service(("COHERE_API_KEY", "CO_API_KEY")),
    "deepinfra": Service(("DEEPINFRA_API_KEY",)),
    "deepseek": Service(("DEEPSEEK_API_KEY",)),
    "fireworks_ai": Service(("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY")),
    "groq": Service(("GROQ_API_KEY",)),
    "huggingface": Service(("HF_TOKEN", "HUGGINGFACE_API_KEY")),
    "mistral": Service(("MISTRAL_API_KEY",)),
    "nvidia_nim": Service(("NVIDIA_NIM_API_KEY", "NVIDIA_API_KEY")),
    "perplexity": Service(("PERPLEXITY_API_KEY", "PERPLEXITYAI_API_KEY")),
    "together_ai": Service(("TOGETHER_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY")),
    "xai": Service(("XAI_API_KEY",)),
    "hosted_vllm": Service(("HOSTED_VLLM_API_KEY",), ("HOSTED_VLLM_API_BASE",), **_OWN),
    "lm_studio": Service(("LM_STUDIO_API_KEY",), ("LM_STUDIO_API_BASE",), **_OWN),
    "llamafile": Service(("LLAMAFILE_API_KEY",), ("LLAMAFILE_API_BASE",), **_OWN),
    "ollama": Service(("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), keyless=True),
    "ollama_chat": Service(("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), keyless=True),
}
OTHER_NAMES = {
    "azure_openai": "azure",
    "google": "gemini",
    "google_ai_studio": "gemini",
    "hf": "huggingface",
    "together": "together_ai",
    "vllm": "hosted_vllm",
}
WITHOUT_ONE_KEY = frozenset({"bedrock", "sagemaker", "vertex_ai", "vertex_ai_beta", "watsonx"})
"""Services whose clients sign requests with credentials of the host, which the gateway's process does not have."""
_FAMILIES = (
    (("gpt-", "chatgpt-", "o1", "o3", "o4", "text-embedding-"), "openai"),
    (("claude",), "anthropic"),
    (("gemini",), "gemini"),
    (("grok",), "xai"),
    (("deepseek-chat", "deepseek-reasoner"), "deepseek"),
    (("mistral-", "codestral-", "magistral-", "ministral-"), "mistral"),
)
_HOSTS = (("openrouter.ai", "openrouter"), ("api.openai.com", "openai"), ("openai.azure.com", "azure"))


def service_of(provider: str) -> Service:
    return SERVICES.get(provider) or Service((f"{provider.upper().replace('-', '_')}_API_KEY",))


def canonical(provider: str) -> str:
    """A service's name as litellm has it, for one of the ways to write it.

    >>> canonical("Google"), canonical("openai")
    ('gemini', 'openai')
    """
    name = provider.strip().lower().replace("-", "_")
    return OTHER_NAMES.get(name, name)


def named(model: str) -> str | None:
    """The service in front of the first slash of `model`, if one is named there."""
    before, slash, _ = model.partition("/")
    name = canonical(before)
    return name if slash and (name in SERVICES or name in WITHOUT_ONE_KEY) else None


def family(model: str) -> str | None:
    """The service that makes models of that name."""
    return next((service for begins, service in _FAMILIES if model.lower().startswith(begins)), None)


def at_host(base_url: str) -> str | None:
    """The known service at `base_url`, if there is one."""
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
