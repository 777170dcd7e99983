"""The connection to a Docker engine: its address, one client per thread, and one sentence for each error."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import requests
import urllib3
from docker.constants import DEFAULT_UNIX_SOCKET
from docker.context import ContextAPI
from docker.errors import APIError, DockerException
from docker.tls import TLSConfig
from docker.transport import UnixHTTPAdapter
from docker.utils import kwargs_from_env, parse_host

from trace_bench.errors import EnvironmentUnavailable, SandboxError, TraceBenchError
from trace_bench.sandbox import podman
from trace_bench.sandbox.errors import (
    EngineGone,
    EngineRefused,
    EngineUnfit,
    GpusMissing,
    ImageMissing,
    NameConflict,
    OutOfDisk,
    RuntimeMissing,
    SandboxRemoved,
)
from trace_bench.sandbox.runtimes import missing_runtime
from trace_bench.sandbox.ssh import HANDSHAKES, PLACEHOLDER, SshAdapter

TIMEOUT = 120.0
"""Seconds for one call. An overloaded engine takes tens of seconds to start a container; it is not gone."""
OLDEST_API = (1, 41)
NEWEST_API = (1, 47)
"""Newest version of the API that this code was written for; a newer engine still speaks it."""
DEVICES_API = (1, 50)
"""The first one in which ``info`` names the devices that may be given."""
PROBE = 10.0
"""Seconds that an engine which has failed to answer has for a ping."""
REST = 5.0
"""Seconds during which an engine that let those pass too is not called."""


class Engine:
    """One engine. Clients are made on first use, one per thread: the SDK's is a `requests.Session`, not safe to share.

    After an engine has failed to answer, it is pinged before the next call. So an engine whose machine hangs costs the
    time of one long call, and not of every call.

    Args:
        host: its address as in ``DOCKER_HOST``. None, and no `context`, finds it as the docker client does:
            ``DOCKER_HOST`` and its companions, else the current context.
        context: one of the docker client's contexts, by name.
        tls: the folder with ``ca.pem``, ``cert.pem`` and ``key.pem`` for a ``tcp://`` address.
        called: its name as a `trace_bench.sandbox.base.Host`.

    Raises:
        EnvironmentUnavailable: that is no address, there is no such context, or its certificates cannot be read.
    """

    def __init__(
        self,
        host: str | None = None,
        timeout: float = TIMEOUT,
        *,
        context: str | None = None,
        tls: str | None = None,
        called: str = "",
    ) -> None:
        self.called = called
        url = host or context or os.environ.get("DOCKER_HOST")
        try:
            url, self._tls = _address(host, context, tls)
            parsed = str(parse_host(url, is_win32=os.name == "nt", tls=bool(self._tls)))
            # As people write it: it stands in every message.
            self.url = parsed.replace("http+unix:", "unix:", 1)
        except (DockerException, OSError, ValueError) as error:  # ValueError: of an address's port
            remedy = (
                "correct docker.hosts in the config"
                if host or context
                else "set DOCKER_HOST and its companions, such as DOCKER_HOST=unix:///var/run/docker.sock"
            )
            raise EnvironmentUnavailable(
                f"the Docker engine {url or ''!r} cannot be reached: {_short(error)}; {remedy}"
            ) from error
        self.timeout = timeout
        self._local = threading.local()
        self._lock = threading.Lock()
        self._handshakes = threading.Semaphore(HANDSHAKES)
        self._version: dict[str, Any] | None = None
        self._info: dict[str, Any] | None = None
        self._doubted = False
        self._hangs: tuple[float, str] | None = None

    def __str__(self) -> str:
        """The engine's name in messages."""
        return (
            f"the Docker engine of host {self.called} ({self.url})"
            if self.called
            else f"the Docker engine at {self.url}"
        )

    def probe(self) -> None:
        """Raise EngineGone if the engine does not answer a ping within `PROBE` seconds."""
        began = time.monotonic()
        try:
            if self._version is None:
                self._ask_version(PROBE)
            else:
                client = self._of_thread()
                with self.errors("answer"):
                    client.get(f"{client.base_url}/_ping", timeout=PROBE).raise_for_status()
        except EngineGone as error:
            now = time.monotonic()
            if now - began >= PROBE:
                self._hangs = (now + REST, str(error))
            raise
        self._doubted = False
        self._hangs = None

    def assure(self) -> None:
        """Ping the engine if it has failed to answer.

        Raises:
            EngineGone: it does not answer.
        """
        if (hangs := self._hangs) is not None and time.monotonic() < hangs[0]:
            raise EngineGone(hangs[1], host=self.called)
        if self._doubted:
            self.probe()

    def doubt(self) -> None:
        """Note that it has failed to answer."""
        self._doubted = True

    def sdk(self, timeout: float) -> docker.DockerClient:
        """A client of its own, as the SDK's more convenient class; to be closed.

        Args:
            timeout: seconds for one call.
        """
        found = docker.DockerClient.__new__(docker.DockerClient)
        found.api = self._connect(self.api_version, timeout)
        return found

    @property
    def client(self) -> docker.APIClient:
        """This thread's client."""
        self.assure()
        return self._of_thread()

    def _of_thread(self) -> docker.APIClient:
        found: docker.APIClient | None = getattr(self._local, "client", None)
        if found is None:
            found = self._connect(self.api_version)
            self._local.client = found
        return found

    @property
    def api_version(self) -> str:
        """The version of the API that is spoken, negotiated once."""
        theirs = _numbers(str(self.version.get("ApiVersion") or "1.41"))
        return ".".join(str(number) for number in min(theirs, NEWEST_API))

    @property
    def version(self) -> dict[str, Any]:
        """The engine's ``version``, asked once."""
        return self._ask_version(None) if self._version is None else self._version

    def _ask_version(self, timeout: float | None) -> dict[str, Any]:
        with self._lock:
            if self._version is None:
                with self.errors("say its version"), contextlib.closing(self._connect(None, timeout)) as client:
                    self._version = dict(client.version(api_version=False))
            return self._version

    @property
    def is_podman(self) -> bool:
        """Whether it is Podman, which speaks this API with differences (`trace_bench.sandbox.podman`)."""
        return podman.is_podman(self.version)

    def libpod(self, path: str) -> dict[str, Any]:
        """The answer of Podman's own API at `path`."""
        client = self.client
        found = client.get(f"{client.base_url}/{podman.API}/{path}", timeout=self.timeout)
        client._raise_for_status(found)  # type: ignore[attr-defined]
        return dict(found.json())

    @property
    def info(self) -> dict[str, Any]:
        """The engine's ``info``, asked once: what it says of its host does not change while it runs."""
        client = self.client
        with self._lock:
            if self._info is None:
                with self.errors("describe itself"):
                    self._info = dict(client.info())
            return self._info

    def discovered_devices(self) -> list[str]:
        """CDI names of the devices that an engine (28.2 or newer) knows; asked anew each time."""
        theirs = _numbers(str(self.version.get("ApiVersion") or "1.41"))
        if theirs < DEVICES_API:
            return []
        with self.errors("name its devices"):
            info = self._connect(".".join(map(str, DEVICES_API))).info()
        return [str(item.get("ID")) for item in info.get("DiscoveredDevices") or [] if item.get("Source") == "cdi"]

    @contextmanager
    def errors(
        self, action: str, *, image: str = "", name: str = "", runtime: str = "", impatient: bool = False
    ) -> Iterator[None]:
        """Raise one of `trace_bench.sandbox.errors` for what the SDK raises; `action` completes "refused to".

        Args:
            impatient: the time limit is short on purpose, so a timeout does not mean that the engine is gone.
        """
        try:
            yield
        except APIError as error:
            raise _translated(error, str(self), action, image, name, runtime) from error
        except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError) as error:
            self._doubted = self._doubted or not (impatient and isinstance(error, requests.Timeout))
            raise EngineGone(f"{self} did not {action}: {_short(error)}.", host=self.called) from error

    def _connect(self, api_version: str | None, timeout: float | None = None) -> docker.APIClient:
        ssh = self.url.startswith("ssh://")
        seconds = int(timeout or self.timeout)
        with self.errors("answer"):
            client = docker.APIClient(
                base_url=PLACEHOLDER if ssh else self.url,
                version=api_version or ".".join(map(str, OLDEST_API)),
                timeout=seconds,
                tls=self._tls or False,
            )
            if self._tls is not None:
                # REQUESTS_CA_BUNDLE, which is about other servers, would go before the engine's own authority.
                client.trust_env = False
            if ssh:
                client.mount(PLACEHOLDER, SshAdapter(self.url, self._handshakes))
            elif self.url.startswith("unix://"):
                # The SDK pools connections by URL, and every container has URLs of its own: each thread would come to
                # hold 25 that are never used again. (The SDK ignores its own `num_pools`.)
                path = "http+" + self.url
                client.mount("http+docker://", UnixHTTPAdapter(path, seconds, pool_connections=1))
            return client


_NO_GPU = (
    "could not select device driver", "nvidia-container-", "gpu vendor from cdi", "unresolvable cdi devices",
    "error gathering device information",
)  # fmt: skip
"""Parts of engines' messages that they have no such GPU: without the toolkit, with it, for CDI devices, for nodes."""

_UNFIT = ("executable file not found", "profile could not be loaded", "container-init binary not found")
"""Parts of engines' messages that they lack a program of their own: ``apparmor_parser``, ``docker-init``, catatonit. A
command that an image lacks gives no such message: ``docker-init`` starts it, inside."""


_PASSING = frozenset({408, 409, 423, 425, 429})
"""Statuses below 500 that another moment can change: a time limit, a conflict with another call, too many calls."""


def _translated(error: APIError, engine: str, action: str, image: str, name: str, runtime: str) -> TraceBenchError:
    text = " ".join(str(error.explanation or error).split())
    lower = text.lower()
    status = error.status_code
    if "no space left on device" in lower:
        return OutOfDisk(f"the engine's disk is full ({text}); free some, for instance with docker image prune.")
    if status == 404 and "no such image" in lower:
        return ImageMissing(f"image {image} is not on this engine; build it with trace-bench images build, or pull it.")
    if status == 404 and ("no such container" in lower or "could not find" in lower):
        return SandboxRemoved(f"sandbox {name} was removed.")
    if status in (409, 500) and "name" in lower and "already in use" in lower:
        return NameConflict(f"a sandbox called {name} is there already; remove it, or adopt it by its labels.")
    if "unknown runtime" in lower or "unknown or invalid runtime" in lower:
        return RuntimeMissing(missing_runtime(runtime))
    if any(words in lower for words in _NO_GPU):
        return GpusMissing(
            f"the engine cannot give the GPUs that sandbox.gpus asks for ({text}); install NVIDIA's driver and "
            "container toolkit on its host, or ask for as many as it has."
        )
    if any(words in lower for words in _UNFIT):
        return EngineUnfit(
            f"this engine can start no sandbox, of any image: {text.rstrip('.')}. Install the program that its host "
            "lacks (it is in the package apparmor, or catatonit for Podman), then check with trace-bench doctor."
        )
    if status is not None and 400 <= status < 500 and status not in _PASSING and not lower.startswith("no such"):
        return EngineRefused(f"{engine} refused to {action}: {text.rstrip('.')}. {_remedy(status)}")
    return SandboxError(f"the engine refused to {action}: {text}.")


def _remedy(status: int) -> str:
    if status in (401, 403):
        return (
            "Allow the call in the authorization plugin of the engine or in the proxy in front of it, or use another "
            "engine (DOCKER_HOST), then check with trace-bench doctor."
        )
    return (
        "Correct what the engine names, in the config (sandbox) or in the settings of the engine, then check with "
        "trace-bench doctor."
    )


def _short(error: BaseException) -> str:
    """The innermost reason: the SDK wraps "permission denied" four times."""
    seen = error
    while True:
        inner = seen.__cause__ or seen.__context__
        if inner is None:
            inner = next((arg for arg in seen.args if isinstance(arg, BaseException)), None)
        if inner is None:
            return str(seen).strip(" .") or type(seen).__name__
        seen = inner


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)


def _address(host: str | None, context: str | None, tls: str | None) -> tuple[str | None, TLSConfig | None]:
    """Address and TLS settings of an engine; no address is the default socket.

    Raises:
        DockerException: there is no such context, or no such certificates.
    """
    if host:
        return host, _tls_of(Path(tls).expanduser()) if tls else None
    if context:
        return _of_context(context)
    settings = kwargs_from_env()
    if settings.get("base_url"):
        return settings["base_url"], settings.get("tls")
    try:
        # Docker Desktop, rootless and colima set one.
        current = ContextAPI.get_current_context()
    except (DockerException, OSError, ValueError, KeyError):
        return None, None  # an unreadable context file: use the default socket, which check() names
    return (None, None) if current is None else (current.Host, current.TLSConfig)


def _of_context(name: str) -> tuple[str, TLSConfig | None]:
    """Address and TLS settings of a context. `docker.context` finds none before there is a ``config.json``, which only
    logging in or choosing a default makes."""
    if name == "default":
        return DEFAULT_UNIX_SOCKET, None
    folder = Path(os.environ.get("DOCKER_CONFIG") or "~/.docker").expanduser() / "contexts"
    digest = hashlib.sha256(name.encode()).hexdigest()
    host, verify = "", True
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        meta = json.loads((folder / "meta" / digest / "meta.json").read_bytes())["Endpoints"]["docker"]
        host, verify = str(meta["Host"]), not meta.get("SkipTLSVerify")
    if not host:
        raise DockerException(f"the docker client has no context {name!r} (docker context ls)")
    files = folder / "tls" / digest / "docker"
    if not files.is_dir():
        return host, None
    cert, key = files / "cert.pem", files / "key.pem"
    return host, TLSConfig(
        client_cert=(str(cert), str(key)) if cert.is_file() else None,
        ca_cert=str(files / "ca.pem") if (files / "ca.pem").is_file() else None,
        verify=verify,
    )


def _tls_of(folder: Path) -> TLSConfig:
    """The TLS settings in `folder`. Raises DockerException if a file is missing."""
    files = [folder / name for name in ("ca.pem", "cert.pem", "key.pem")]
    for file in files:
        if not file.is_file():
            raise DockerException(f"the folder of tls has no file {file}")
    ca, cert, key = map(str, files)
    return TLSConfig(client_cert=(cert, key), ca_cert=ca, verify=True)


def labels_filter(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The engine's filter for things that carry all of `labels`."""
    return {"label": [f"{key}={value}" for key, value in sorted(labels.items())]}
