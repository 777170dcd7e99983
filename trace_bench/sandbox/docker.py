"""The Docker backend: one hardened container and one volume per sandbox.

Calls to the engine per sandbox: create, inspect (to read back what is in force), attach, start; at the end wait,
inspect, one archive call, and two to remove. The create call makes the volume. The volume is removed last: the engine
removes no volume that a container uses, and a container without its volume would look like one that never wrote.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import requests

from trace_bench.config.gpus import device_of
from trace_bench.errors import EnvironmentUnavailable, SandboxError
from trace_bench.sandbox import podman
from trace_bench.sandbox.base import (
    CONTROLS,
    FEATURES,
    Control,
    ExitStatus,
    Host,
    Integrity,
    Sandbox,
    SandboxRequest,
    SandboxState,
)
from trace_bench.sandbox.container import LOG_BYTES, OUT, container_config
from trace_bench.sandbox.controls import missing, read_back, security_options
from trace_bench.sandbox.docker_stream import DockerStream, attach
from trace_bench.sandbox.engine import OLDEST_API, Engine, labels_filter
from trace_bench.sandbox.errors import ControlMissing, EngineGone, LeaseLost, SandboxRemoved
from trace_bench.sandbox.gpus import leasable
from trace_bench.sandbox.labels import OWNER, UID_BASE, VOLUME, owner, uid_bases
from trace_bench.sandbox.leases import Taken
from trace_bench.sandbox.runtimes import NOT_UNDER_GVISOR, describe_runtimes, is_gvisor, runtime_of
from trace_bench.sandbox.streams import CHUNK, STDERR_BYTES
from trace_bench.sandbox.trial import start_one
from trace_bench.sandbox.uids import DEFAULT_BASE, MAPPED_BASE

HOST_DEPENDENT = frozenset({"apparmor"})
"""Controls that are required only on hosts that have them."""
ALWAYS_REQUIRED = CONTROLS.keys() - HOST_DEPENDENT
_STARTED_BY = 600.0
"""Seconds from making a container to starting it. More than that ever takes, for the engine's clock may be off."""
_STATES: Mapping[str, SandboxState] = {
    "created": "created",
    "exited": "exited",
    "dead": "exited",
    "removing": "removed",
}


class DockerBackend:
    """Makes hardened containers on a Docker engine (20.10 or newer, Linux containers).

    Args:
        host: the engine's address as in ``DOCKER_HOST``; None finds it as the docker client does.
        engine: the engine, instead of `host`.
        gpus: the GPUs that may be leased, as in ``gpus`` of ``docker.hosts``.
    """

    name = "docker"
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
        sandbox = DockerSandbox(self._engine, str(made["Id"]), request.name, config["Labels"], self._host)
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
            found.append(DockerSandbox(self._engine, str(item["Id"]), name, item.get("Labels") or {}, self._host))
        # Podman takes a part of a value for the value.
        found = [sandbox for sandbox in found if labels.items() <= sandbox.labels.items()]
        held = {sandbox.labels.get(VOLUME) for sandbox in found}
        for item in volumes:
            if item["Name"] not in held and labels.items() <= (item.get("Labels") or {}).items():
                found.append(DockerSandbox(self._engine, "", str(item["Name"]), item.get("Labels") or {}, self._host))
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
            "rootless": bool({"rootless"} & security_options(info).keys() or info.get("Rootless")),
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


class DockerSandbox:
    """A container with its volume, created or found."""

    def __init__(
        self, engine: Engine, container: str, name: str, own_labels: Mapping[str, str], host: str = ""
    ) -> None:
        self._engine = engine
        self.host = host
        self.id = container
        self.name = name
        self.labels: Mapping[str, str] = dict(own_labels)
        self._controls: list[Control] | None = None
        self._unproven: frozenset[str] = frozenset()
        self._streams: weakref.WeakSet[DockerStream] = weakref.WeakSet()

    def attach(self) -> DockerStream:
        with self._errors("attach to a sandbox"):
            connection = attach(self._engine.client, self._there(), self._engine.timeout)
        stream = DockerStream(connection, self.host)
        self._streams.add(stream)
        return stream

    def start(self) -> None:
        with self._errors("start a sandbox"):
            self._engine.client.start(self._there())
        if self._unproven:
            self.check(self._unproven, started=True)

    def check(self, required: frozenset[str], *, started: bool = False) -> None:
        """Check that the controls `required` are in force. Those that are not known yet are checked after the start.

        Args:
            started: what is not known now never will be, and is not in force.

        Raises:
            ControlMissing: one is not.
        """
        found = self.controls()
        known = [replace(control, known=True) for control in found] if started else found
        if lacking := missing(known, required):
            raise ControlMissing(
                f"{self._engine} cannot put in force: "
                + "; ".join(f"{control.name} ({control.detail})" for control in lacking)
                + ". Repair the host, or name the controls in allow_weaker."
            )
        # Whoever requires what depends on the host looks after the start, too.
        self._unproven = (required & {control.name for control in found if not control.known}) - HOST_DEPENDENT

    def controls(self) -> list[Control]:
        if self._controls is not None:
            return self._controls
        facts = self._inspect()
        if self._engine.is_podman:
            with self._errors("inspect a sandbox"):
                facts = podman.in_dockers_words(facts, self._engine.libpod(f"containers/{self._there()}/json"))
        found = read_back(facts, self._engine.info)
        if all(control.known for control in found):
            self._controls = found
        return found

    def status(self) -> SandboxState:
        if not self.id:
            return "removed"
        try:
            state = str(self._inspect()["State"]["Status"])
        except SandboxRemoved:
            return "removed"
        return _STATES.get(state, "running")

    def wait(self, timeout: float) -> ExitStatus | None:
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            if left > 0:
                self._wait_once(left)
            state = self._inspect()["State"]
            if state["Status"] in ("exited", "dead"):
                code = int(state["ExitCode"])
                if code == 1 and self._engine.is_podman and podman.NO_COMMAND in self.last_words():
                    code = 127
                return ExitStatus(code, bool(state["OOMKilled"]), str(state.get("Error") or ""))
            if left <= 0:
                return None
            if state["Status"] == "created":  # the engine's wait returns at once for what has not started
                time.sleep(min(left, 0.05))

    def kill(self) -> None:
        try:
            with self._errors("kill a sandbox"), self._drained():
                self._engine.client.kill(self._there())
        except SandboxRemoved:
            return
        except SandboxError as error:
            if not any(words in str(error) for words in ("is not running", "can only kill running")):
                raise

    @contextlib.contextmanager
    def _drained(self) -> Iterator[None]:
        """Read our streams during the block. The engine reports the end of a container only after its last output was
        read, so `kill` of one whose output is not read would never return."""
        streams = [stream for stream in self._streams if not stream.closed]
        if not streams:
            yield
            return
        done = threading.Event()

        def drain() -> None:
            while not done.wait(0.002):
                for stream in streams:
                    stream.drain()

        thread = threading.Thread(target=drain, name="drain", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def last_words(self) -> str:
        with self._errors("show the log of a sandbox"):
            # Podman takes a long line in several pieces, and loses it where its last lines are asked for.
            last: Any = "all" if self._engine.is_podman else 200
            log = self._engine.client.logs(self._there(), stdout=False, stderr=True, tail=last)
        said = bytes(log)[-STDERR_BYTES:].decode("utf-8", errors="replace")
        if podman.NO_COMMAND in said and self._engine.is_podman:
            said += f"{' '.join(self._inspect()['Config'].get('Entrypoint') or [])}\n"
        return said

    def collect(self) -> Iterator[bytes]:
        with self._errors("archive /out"):
            if self._engine.is_podman:
                yield from podman.archive(OUT.strip("/"), self._archive)
                self._inspect()  # Podman leaves out what is removed meanwhile, and says nothing
            else:
                yield from self._archive()

    def _archive(self) -> Iterator[bytes]:
        chunks, _ = self._engine.client.get_archive(self._there(), OUT, chunk_size=CHUNK)
        return iter(chunks)

    def remove(self) -> None:
        if self.id:
            for stream in list(self._streams):
                stream.close()
            with contextlib.suppress(SandboxRemoved), self._errors("remove a sandbox"):
                self._engine.client.remove_container(self.id, v=True, force=True)
        volume = self.labels.get(VOLUME)
        if volume:
            self._remove_volume(volume)

    def _remove_volume(self, volume: str) -> None:
        try:
            with self._errors("remove a volume"):
                self._engine.client.remove_volume(volume)
        except SandboxError as error:
            if "no such volume" not in str(error).lower():
                raise

    def _wait_once(self, seconds: float) -> None:
        """Block until the container has ended, at most `seconds`."""
        try:
            with self._engine.errors("wait for a sandbox", name=self.name, impatient=True):
                self._engine.client.wait(self._there(), timeout=cast(int, seconds))
        except EngineGone as error:
            if not isinstance(error.__cause__, requests.Timeout) and "timed out" not in str(error).lower():
                raise

    def _inspect(self) -> dict[str, Any]:
        with self._errors("inspect a sandbox"):
            return dict(self._engine.client.inspect_container(self._there()))

    def _there(self) -> str:
        if not self.id:
            raise SandboxRemoved(f"sandbox {self.name} has no container any more, only its volume; remove it.")
        return self.id

    def _errors(self, action: str) -> contextlib.AbstractContextManager[None]:
        return self._engine.errors(action, name=self.name)
