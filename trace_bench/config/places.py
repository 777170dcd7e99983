"""The sections ``docker``, ``modal`` and ``scheduling`` of a config: places of jobs, and number of jobs at a time.

They describe the user's machines. They do not change a job's id, a fingerprint or the config's hash, and a replay does
not take them over from the recorded run.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from trace_bench.arguments import describe
from trace_bench.config.frozen import FrozenDict, freeze
from trace_bench.config.gpus import device_of, gpu_kind
from trace_bench.config.values import Names, Seconds, Section, Text, Usd, matching

_SCHEMES = ("ssh", "tcp", "unix")
_GPUS = 1024
"""Largest number of GPUs of a host."""


def _engine_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        host, path = parts.hostname or "", parts.path
        secret = parts.password is not None or bool(parts.query or parts.fragment)
        usable = not host and len(path) > 1 if parts.scheme == "unix" else bool(host) and path in ("", "/")
        usable = usable and parts.scheme in _SCHEMES and parts.port != 0  # `port` raises for what is none
    except ValueError:
        host, usable, secret = "", False, False
    if secret:
        raise ValueError("must hold no password and no query; ssh keys and tls files belong to the user")
    if not usable or any(part.startswith("-") for part in (host, parts.username or "")):  # which ssh takes for options
        raise ValueError("must be ssh://USER@HOST[:PORT], tcp://HOST:PORT or unix:///PATH")
    return value


_HOST_NAME = matching(
    r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}",
    "up to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit",
)
_APP = matching(r"[A-Za-z0-9._-]{1,63}", "up to 63 letters, digits, '.', '_' and '-', which is how Modal names apps")
_REGISTRY = matching(
    r"[a-z0-9]([a-z0-9.\-]*[a-z0-9])?(:\d+)?(/[a-z0-9._\-]+)*/?",
    "HOST[:PORT][/PATH] as images push takes it, without a scheme or a tag",
)
_KIND_OF_GPU = matching("[^:]*", "a name alone, such as H100; how many a job has is sandbox.gpus")

Slots = Annotated[int, Field(ge=1, le=4096)]


def _gpus(value: Any) -> Any:
    """Check GPUs of a host. One sentence replaces one of pydantic's for each kind of value."""
    if value in ("auto", "none") or (type(value) is int and 0 <= value <= _GPUS):
        return value
    if not isinstance(value, list | tuple):
        kinds = f"auto, none, a whole number from 0 to {_GPUS}, or a list of names"
        raise ValueError(f"must be {kinds}, not {describe(value)}")
    for name in value:
        if not isinstance(name, str):
            raise ValueError(f"must hold names of GPUs, not {describe(name)}; put it in quotes")
        try:
            gpu_kind(name)
        except ValueError as error:
            raise ValueError(f"holds {describe(name)}, and {error}") from None
    devices = [device_of(name) for name in value]
    if twice := [name for name, device in zip(value, devices, strict=True) if devices.count(device) > 1]:
        raise ValueError(f"names one device twice, {twice[0]!r} among others; name each GPU once")
    return value


GpuNames = Annotated[tuple[str, ...], Strict(False)]
Gpus = Annotated[Literal["auto", "none"] | Annotated[int, Field(ge=0, le=_GPUS)] | GpuNames, BeforeValidator(_gpus)]


class DockerHostConfig(Section):
    """One engine. Exactly one of `url` and `context` is its place."""

    url: Annotated[Text, AfterValidator(_engine_url)] | None = None
    """Address of the engine: `ssh://USER@HOST[:PORT]`, `tcp://HOST:PORT` or `unix:///PATH`."""
    context: Text | None = None
    """Context of the docker client (`docker context ls`), in place of `url`."""
    tls: Text | None = None
    """Folder with `ca.pem`, `cert.pem` and `key.pem` of an engine at `tcp://`."""
    name: Annotated[Text, _HOST_NAME] | None = None
    """Name of the host in tables and records; null is the host of its address, or the context."""
    slots: Slots | None = None
    """Number of jobs at a time; null is as many as its memory holds."""
    gpus: Gpus = "auto"
    """GPUs that may be leased: `auto` asks the engine, `none` leases none, a number is GPUs 0 and up, a list has names:
    an index, a UUID, a CDI device (`nvidia.com/gpu=0`), or a device node (`/dev/…`)."""
    labels: Names = ()
    """Labels that jobs may ask for in `sandbox.labels`."""

    @model_validator(mode="after")
    def _is_somewhere(self) -> DockerHostConfig:
        if (self.url is None) == (self.context is None):
            raise ValueError("needs either url or context, to say where the engine is")
        if self.tls is not None and not (self.url or "").startswith("tcp:"):
            raise ValueError("has tls, which is for an engine at tcp://HOST:PORT; take it out")
        return self

    @property
    def called(self) -> str:
        """The host's name."""
        if self.name:
            return self.name
        if self.context is not None:
            return self.context
        parts = urlsplit(self.url or "")
        return parts.hostname or parts.path.strip("/").replace("/", "-")


class DockerConfig(Section):
    """The engines of backend docker."""

    hosts: Annotated[tuple[DockerHostConfig, ...], Strict(False)] = ()
    """Engines; an empty list is the one engine that the docker client finds."""

    @model_validator(mode="after")
    def _have_names_of_their_own(self) -> DockerConfig:
        names = [host.called for host in self.hosts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"has two hosts called {twice[0]!r}; give each a name of its own")
        return self


class ModalPricesConfig(Section):
    """Modal's prices. A price that is not given is not counted."""

    cpu_core_hour: Usd | None = None
    """Price of a core for an hour."""
    memory_gib_hour: Usd | None = None
    """Price of a GiB of memory for an hour."""
    gpu_hour: Annotated[dict[str, Usd], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
    """Price of a GPU for an hour, by its name in `gpu`."""


class ModalConfig(Section):
    """Backend modal. Credentials are Modal's own: ``modal token set``, or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET."""

    app: Annotated[Text, _APP] = "trace-bench"
    """App of the sandboxes; it is made if it does not exist."""
    environment: Text | None = None
    """Modal's environment; null is the workspace's own."""
    region: Text | None = None
    """Region of the sandboxes; null is any."""
    image_registry: Annotated[Text, _REGISTRY] | None = None
    """Place where `images push` put the images, and from which Modal pulls them by digest: `HOST/REPOSITORY`."""
    registry_access: Text | None = None
    """Name of the Modal secret with the credentials of a private registry."""
    gpu: Annotated[Text, _KIND_OF_GPU] | None = None
    """GPU of a job with `sandbox.gpus`, such as `H100`."""
    max_sandboxes: Slots = 100
    """Number of sandboxes at a time."""
    max_starting: Slots = 20
    """Number of sandboxes that start at the same time."""
    creations_per_second: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """Number of sandboxes that all controllers of this user of this host create per second, at most."""
    idle_timeout: Annotated[Seconds, Field(ge=30, le=86400)] = 600.0
    """Longest wait of an ended sandbox for its collection."""
    prices: ModalPricesConfig = ModalPricesConfig()
    """Modal's prices."""


class SchedulingConfig(Section):
    """Limits and order of jobs, beside ``max_workers``."""

    suites: Annotated[dict[str, Slots], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
    """Number of jobs at a time, by suite."""
    max_starting: Slots | None = None
    """Number of sandboxes of a host that start at the same time; null is one per core."""
    longest_first: bool = True
    """Jobs that took longest in earlier runs go first; those that no run knows keep the order of the matrix."""
    within_budget: bool = True
    """Do not start a job that cannot finish in the rest of `budget.run.seconds`."""
