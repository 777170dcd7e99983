"""The way to the engine, and its errors in one sentence. The engine's library is imported on first use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trace_bench.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.tls import TLSConfig

_ANY_VERSION = "1.41"
"""Of the API: every engine from 20.10 on says its own version, whichever it is asked in."""
_REMEDY = "start one with scripts/ensure-engine, or use the local backend (backend: local)"


def connect(engine: DockerClient | None = None, *, timeout: float = 600) -> DockerClient:
    """`engine` itself, or a client for the engine that ``docker`` on this machine's command line would talk
    to.

    That is ``DOCKER_HOST``, else the current context, else the default socket.

    Args:
        timeout: seconds until one call of the engine counts as failed.

    Raises:
        EnvironmentUnavailable: no engine answers there.
    """
    if engine is not None:
        return engine
    import requests
    from docker.errors import DockerException

    place = os.environ.get("DOCKER_HOST") or ""
    try:
        if place:
            from docker.utils import kwargs_from_env

            address: Mapping[str, Any] = kwargs_from_env()
        else:
            place, tls = _context()
            address = {"base_url": place or None, "tls": tls}
        with contextlib.closing(_client(address, timeout, _ANY_VERSION)) as asking:
            version = str(asking.version(api_version=False)["ApiVersion"])
        client = _client(address, timeout, version)
        client.ping()
    except (DockerException, requests.exceptions.RequestException) as error:
        where = place or "the default socket"
        raise EnvironmentUnavailable(f"no Docker engine answers at {where} ({reason(error)}); {_REMEDY}") from error
    return client


def _client(address: Mapping[str, Any], timeout: float, version: str) -> DockerClient:
    import docker

    client = docker.DockerClient(version=version, timeout=int(timeout), **address)  # asks nothing yet
    if address.get("tls"):
        # REQUESTS_CA_BUNDLE, which is about other servers, would go before the engine's own authority.
        client.api.trust_env = False
    return client


def _context() -> tuple[str, TLSConfig | bool]:
    """Address and TLS settings of the current Docker context; an empty address is the default socket."""
    from docker.context import ContextAPI

    context = ContextAPI.get_current_context()
    if context is None or context.Name == "default":
        return "", False
    return context.Host or "", context.TLSConfig or False


def reason(error: BaseException) -> str:
    """The engine's message on one line."""
    text = getattr(error, "explanation", None) or str(error) or type(error).__name__
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return " ".join(str(text).split())[:500]


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turns what the engine's library raises into `EnvironmentUnavailable`: ``cannot <doing>: <reason>``."""
    import requests
    from docker.errors import DockerException

    try:
        yield
    except (DockerException, requests.exceptions.RequestException) as error:
        raise EnvironmentUnavailable(f"cannot {doing}: {reason(error)}") from error


def inspect_image(engine: DockerClient, ref: str) -> dict[str, Any]:
    """The engine's record of the image `ref`, as its API has it. Raises what the engine's library raises."""
    attributes: dict[str, Any] = engine.images.get(ref).attrs
    return attributes


def few_limits() -> list[Any]:
    """Limits that every host lets an engine set; the defaults of Podman are more than some do."""
    from docker.types import Ulimit

    return [Ulimit(name=name, soft=1024, hard=1024) for name in ("nofile", "nproc")]
