"""The Docker backend: one hardened container and one volume per sandbox.

Calls to the engine per sandbox: create, inspect (to read back what is in force), attach, start; at the end wait,
inspect, one archive call, and two to remove. The create call makes the volume. The volume is removed last: the engine
removes no volume that a container uses, and a container without its volume would look like one that never wrote.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from trace_bench.config.gpus import device_of
from trace_bench.errors import EnvironmentUnavailable, SandboxError
from trace_bench.sandbox import podman
from trace_bench.sandbox.base import (
    CONTROLS,
    FEATURES,
    Control,
    Host,
    Integrity,
    Sandbox,
    SandboxRequest,
    Traits,
)
from trace_bench.sandbox.container import LOG_BYTES, container_config
from trace_bench.sandbox.controls import security_options
from trace_bench.sandbox.docker_sandbox import HOST_DEPENDENT, DockerSandbox
from trace_bench.sandbox.engine import OLDEST_API, Engine, labels_filter
from trace_bench.sandbox.errors import EngineGone, LeaseLost
from trace_bench.sandbox.gpus import leasable
from trace_bench.sandbox.labels import OWNER, UID_BASE, VOLUME, owner, uid_bases
from trace_bench.sandbox.leases import Taken
from trace_bench.sandbox.podman_sandbox import PodmanSandbox
from trace_bench.sandbox.runtimes import NOT_UNDER_GVISOR, describe_runtimes, is_gvisor, runtime_of
from trace_bench.sandbox.trial import start_one
from trace_bench.sandbox.uids import DEFAULT_BASE, MAPPED_BASE

ALWAYS_REQUIRED = CONTROLS.keys() - HOST_DEPENDENT
_STARTED_BY = 600.0
"""Seconds from making a container to starting it. More than that ever takes, for the engine's clock may be off."""


class DockerBackend:
    """Makes hardened containers on a Docker engine (20.10 or newer, Linux containers).

    Args:
        host: the engine's address as in ``DOCKER_HOST``; None finds it as the docker client does.
        engine: the engine, instead of `host`.
        gpus: the GPUs that may be leased, as in ``gpus`` of ``docker.hosts``.
    """

    name = "docker"
    traits = Traits()
    integrity: Integrity = "protected"

    def __init__(
        self, host: str | None = None, *, engine: Engine | None = None, gpus: str | int | Sequence[str] = "auto"
    ) -> None:
        self._engine = engine or Engine(host)
        self._host = self._engine.called
        self._wanted_gpus = gpus
        self._gpus: tuple[tuple[str, ...] | None] | None = None
        self._quota: bool | None = None
        self._runtimes: list[str] | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset(CONTROLS.keys() | FEATURES.keys()) - self.cannot.keys()

    @property
    def cannot(self) -> Mapping[str, str]:
        lost = {}
        if "apparmor" not in security_options(self._engine.info):
            lost["apparmor"] = "the host has no AppArmor"
        if is_gvisor(runtime_of(None, self._engine.info), self._engine.info):
            lost.update(NOT_UNDER_GVISOR)
        if self._engine.is_podman:
            lost.update(podman.LACKS)
        if not self._has_quota():
            lost["quota"] = (
                "the engine's volumes lie on no xfs with project quotas; a watcher in the supervisor stands in"
            )
        return lost

    @property
    def default_uid_base(self) -> int:
        """Below 65536 if the engine maps uids: no more of them exist inside."""
        mapped = {"rootless", "userns"} & security_options(self._engine.info).keys()
        return MAPPED_BASE if mapped else DEFAULT_BASE

    def hosts(self) -> Sequence[Host]:
        info = self._engine.info
        return (
            Host(
                name=self._host,
                cpus=info.get("NCPU"),
                memory_bytes=info.get("MemTotal"),
                gpus=self._leasable(),
                scope=f"engine-{info.get('ID')}",
            ),
        )

    def check(self) -> None:
        try:
            info, version = self._engine.info, self._engine.version
        except EngineGone as error:
            raise EnvironmentUnavailable(
                f"{error} Start the engine, set DOCKER_HOST, or get the right to use its socket (docker group)."
            ) from error
        if info.get("OSType") != "linux":
            raise EnvironmentUnavailable(
                f"{self._engine} runs {info.get('OSType')} containers; switch it to Linux containers."
            )
        api = tuple(int(part) for part in str(version.get("ApiVersion", "0.0")).split("."))
        if api < OLDEST_API:
            raise EnvironmentUnavailable(
                f"{self._engine} is version {version.get('Version')}, which is too old; install 20.10 or newer."
            )

    def create(self, request: SandboxRequest) -> Sandbox:
        # A name of its own each time: a volume that outlived an earlier sandbox of that name must never be mounted.
        volume = f"{request.name}-out-{secrets.token_hex(4)}"
        runtime = runtime_of(request.runtime, self._engine.info)
        gvisor = is_gvisor(runtime, self._engine.info)
        config = container_config(request, volume=volume, quota=self._has_quota(), gvisor=gvisor)
        if self._engine.is_podman:
            with self._engine.errors("create a volume"):
                self._engine.client.create_volume(volume, labels=config["Labels"])
            config = podman.asked(config, LOG_BYTES)
        errors = self._engine.errors("create a sandbox", image=request.image, name=request.name, runtime=runtime)
        try:
            with errors:
                made = self._engine.client.create_container_from_config(config, request.name)  # type: ignore[no-untyped-call]
        except BaseException:
            self._drop_volume(volume)
            raise
        sandbox = self._sandbox(self._engine, str(made["Id"]), request.name, config["Labels"], self._host)
        try:
            always = ALWAYS_REQUIRED - NOT_UNDER_GVISOR.keys() if gvisor else ALWAYS_REQUIRED
            sandbox.check(frozenset((always | request.require_controls) - request.allow_weaker))
            self._check_lease(sandbox, request)
        except BaseException:
            sandbox.remove()
            raise
        return sandbox

    def find(self, labels: Mapping[str, str]) -> list[Sandbox]:
        """Volumes whose container is gone are found too, as sandboxes in state ``removed``."""
        filters = labels_filter(labels)
        with self._engine.errors("list sandboxes"):
            containers = self._engine.client.containers(all=True, filters=filters)
            volumes = self._engine.client.volumes(filters=filters).get("Volumes") or []
        found: list[Sandbox] = []
        for item in containers:
            name = str((item.get("Names") or [item["Id"]])[0]).lstrip("/")
            found.append(self._sandbox(self._engine, str(item["Id"]), name, item.get("Labels") or {}, self._host))
        # Podman takes a part of a value for the value.
        found = [sandbox for sandbox in found if labels.items() <= sandbox.labels.items()]
        held = {sandbox.labels.get(VOLUME) for sandbox in found}
        for item in volumes:
            if item["Name"] not in held and labels.items() <= (item.get("Labels") or {}).items():
                found.append(self._sandbox(self._engine, "", str(item["Name"]), item.get("Labels") or {}, self._host))
        return found

    def uid_bases_in_use(self) -> frozenset[int]:
        return uid_bases(item.get("Labels") or {} for item in self._living())

    def taken(self, host: str) -> Taken:
        """The resources of containers on this engine that run, or that another machine's controller has just made.
        Controllers of this machine hold locks in between."""
        return self._taken()

    def _taken(self, besides: str = "") -> Taken:
        made_since, own = time.time() - _STARTED_BY, owner()
        found = []
        for item in self._living():
            labels = item.get("Labels") or {}
            to_start = labels.get(OWNER) != own and int(item.get("Created") or 0) > made_since
            if item["Id"] != besides and (item.get("State") != "created" or to_start):
                found.append(labels)
        return Taken.by(found)

    def _living(self) -> list[dict[str, Any]]:
        """The sandboxes of this engine that have not ended, as the engine lists them."""
        # None is ever restarting: their restart policy is no. Podman does not know that status.
        filters = {"label": [UID_BASE], "status": ["created", "running", "paused"]}
        with self._engine.errors("list sandboxes"):
            return list(self._engine.client.containers(all=True, filters=filters))

    def _check_lease(self, sandbox: DockerSandbox, request: SandboxRequest) -> None:
        """Locks are those of this machine. A controller of another machine can choose the same devices at the same
        moment. The one that looks after both containers are made sees the container of the other.

        Raises:
            LeaseLost: another controller has chosen the same.
        """
        if not request.gpu_names and not request.cpuset:
            return
        found = self._taken(besides=sandbox.id)
        mine = {device_of(name) for name in request.gpu_names} & {device_of(name) for name in found.devices}
        if mine or found.cores & set(request.cpuset):
            raise LeaseLost(
                f"a controller of another machine has leased the same GPUs or cores of {self._engine} at the same "
                "moment; the job needs others."
            )

    def describe(self) -> dict[str, Any]:
        info, version = self._engine.info, self._engine.version
        if self._runtimes is None:
            self._runtimes = describe_runtimes(info, here=self._engine.url.startswith("unix:"))
        return {
            "backend": self.name,
            "integrity": self.integrity,
            "engine": version.get("Version"),
            "kind": "podman" if self._engine.is_podman else "docker",
            "rootless": "rootless" in security_options(info),
            "api": self._engine.api_version,
            "kernel": info.get("KernelVersion"),
            "operating_system": info.get("OperatingSystem"),
            "architecture": info.get("Architecture"),
            "storage_driver": info.get("Driver"),
            "backing_filesystem": dict(info.get("DriverStatus") or []).get("Backing Filesystem"),
            "disk_control": "quota" if self._has_quota() else "watcher",
            "cgroup_version": str(info.get("CgroupVersion") or "1"),
            "default_runtime": info.get("DefaultRuntime"),
            "runtimes": sorted(info.get("Runtimes") or {}),
            "runtime_details": list(self._runtimes),
            "security_options": sorted(security_options(info)),
            "cpus": info.get("NCPU"),
            "memory_bytes": info.get("MemTotal"),
        }

    def try_start(self) -> list[Control]:
        return start_one(self, self._engine)

    @property
    def _sandbox(self) -> type[DockerSandbox]:
        return PodmanSandbox if self._engine.is_podman else DockerSandbox

    def _leasable(self) -> tuple[str, ...] | None:
        if self._gpus is None:
            here = self._engine.url.startswith("unix:")
            self._gpus = (leasable(self._wanted_gpus, self._engine.discovered_devices, here=here),)
        return self._gpus[0]

    def _has_quota(self) -> bool:
        """Whether the volume driver takes a size. Only xfs with project quotas does, which only a trial shows."""
        if self._quota is None:
            status = dict(self._engine.info.get("DriverStatus") or [])
            self._quota = status.get("Backing Filesystem") == "xfs" and self._try_quota()
        return self._quota

    def _try_quota(self) -> bool:
        probe = f"trace-bench-probe-{secrets.token_hex(4)}"
        try:
            with self._engine.errors("try a quota"):
                self._engine.client.create_volume(
                    probe, driver="local", driver_opts={"size": str(1 << 20)}, labels={OWNER: owner()}
                )
        except SandboxError:
            return False  # describe() and the disk control then report the watcher
        self._drop_volume(probe)
        return True

    def _drop_volume(self, volume: str) -> None:
        with contextlib.suppress(SandboxError), self._engine.errors("remove a volume"):
            # The error under way matters more, and find() finds a volume that is left.
            self._engine.client.remove_volume(volume)
