"""Several Docker engines as one backend: sandboxes are made on the host of the request, and found on all hosts.

An engine that does not answer is left out and reported (`DockerHosts.unreachable`) as long as another one answers. Each
engine has threads of its own for its calls, so that one that hangs delays no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from trace_bench.config.places import DockerHostConfig
from trace_bench.errors import EnvironmentUnavailable, SandboxError
from trace_bench.sandbox.base import (
    CONTROLS,
    FEATURES,
    Control,
    Host,
    ImageSupply,
    Integrity,
    Sandbox,
    SandboxRequest,
    Traits,
)
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.engine import Engine
from trace_bench.sandbox.errors import EngineGone, ImageMissing
from trace_bench.sandbox.leases import Taken
from trace_bench.sandbox.uids import MAPPED_BASE

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")
ASK = 30.0
"""Seconds that each engine has for an answer that jobs do not wait for."""
SOON = 10.0
"""Seconds that each engine has for an answer that jobs wait for."""
REST = 10.0
"""Seconds during which an engine that did not answer is left out of further questions to all."""
LONG_REST = 60.0
"""The same for an engine that let `ASK` or `SOON` pass. `DockerHosts.hosts` asks it earlier."""
PATIENT = 900.0
"""Seconds for one call that moves an image."""

_OF_THE_BACKEND = frozenset({"backend", "integrity"})
_OF_A_MACHINE = frozenset({"cpus", "memory_bytes"})
"""Facts that do not describe several machines together, even where they are equal."""


def docker_backend(host: str | None = None, *, hosts: Sequence[DockerHostConfig] = ()) -> DockerBackend | DockerHosts:
    """The backend ``docker``: of the engines in `hosts`, else of the one at `host` (see `DockerBackend`)."""
    return DockerHosts(hosts) if hosts else DockerBackend(host)


@dataclass
class _Member:
    """One engine, and what is known of it."""

    setting: DockerHostConfig
    engine: Engine
    backend: DockerBackend
    threads: ThreadPoolExecutor
    silent_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    images: dict[str, str] = field(default_factory=dict)
    """Names on this host of the images that are there, by the names that requests have for them."""
    image_locks: dict[str, threading.Lock] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.engine.called

    def image_lock(self, image: str) -> threading.Lock:
        with self.lock:
            return self.image_locks.setdefault(image, threading.Lock())

    def bring(self, image: str, supply: ImageSupply | None, stopped: Callable[[], bool]) -> str:
        """Bring `image` to this host unless it is there. Return its name on the host."""
        with self.image_lock(image):
            if image not in self.images:
                self.images[image] = image if supply is None else self._fetch(image, supply, stopped)
            return self.images[image]

    def forget(self, image: str, name: str) -> None:
        """Note that `image` is no longer on this host under `name`."""
        with self.image_lock(image):
            if self.images.get(image) == name:
                del self.images[image]

    def _fetch(self, image: str, supply: ImageSupply, stopped: Callable[[], bool]) -> str:
        client = self.engine.sdk(PATIENT)
        try:
            return supply(self.name, client, stopped)
        except EnvironmentUnavailable as error:
            self.engine.probe()  # raises if the host is gone; else only this host has the problem, and others may not
            raise SandboxError(f"host {self.name} was not given image {image}: {error}.") from error
        finally:
            client.close()


class DockerHosts:
    """Makes hardened containers on several engines. See `trace_bench.sandbox.base.Backend` for the methods.

    Args:
        hosts: the engines; their names are different.

    Raises:
        EnvironmentUnavailable: an address or a context is wrong.
    """

    name = "docker"
    traits = Traits()
    integrity: Integrity = "protected"

    def __init__(self, hosts: Sequence[DockerHostConfig]) -> None:
        self._members: dict[str, _Member] = {}
        for setting in hosts:
            called = setting.called
            engine = Engine(setting.url, context=setting.context, tls=setting.tls, called=called)
            pool = ThreadPoolExecutor(4, thread_name_prefix=f"ask-{called}")
            backend = DockerBackend(engine=engine, gpus=setting.gpus)
            self._members[called] = _Member(setting, engine, backend, pool)
        self._lock = threading.Lock()
        self._unreachable: dict[str, str] = {}
        self._supplies: dict[str, ImageSupply] = {}
        self._stopped: Callable[[], bool] = lambda: False

    # -- what they are -------------------------------------------------------------------------------------------

    def unreachable(self) -> Mapping[str, str]:
        """The hosts that did not answer the last question to them, by name, with the reasons."""
        with self._lock:
            return dict(self._unreachable)

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset(CONTROLS.keys() | FEATURES.keys()) - self.cannot.keys()

    @property
    def cannot(self) -> Mapping[str, str]:
        """The controls that any of the hosts lacks, with the reason."""
        found = self._ask(lambda member: member.backend.cannot)
        return {key: f"host {name}: {why}" for name, lost in found.items() for key, why in lost.items()}

    @property
    def default_uid_base(self) -> int:
        """Below 65536 if one of the engines maps uids."""
        bases = set(self._ask(lambda member: member.backend.default_uid_base).values())
        return MAPPED_BASE if MAPPED_BASE in bases else bases.pop()

    def hosts(self) -> Sequence[Host]:
        def host(member: _Member) -> Host:
            member.engine.probe()
            (found,) = member.backend.hosts()
            return replace(found, slots=member.setting.slots, labels=frozenset(member.setting.labels))

        return tuple(self._ask(host, anew=True).values())

    def check(self) -> None:
        """Passes if one host answers."""

        def checked(member: _Member) -> dict[str, Any]:
            member.engine.probe()
            info = member.engine.info
            member.backend.check()
            return info

        try:
            found = self._ask(checked, anew=True)
        except EngineGone as error:
            none = "none of the hosts in docker.hosts answers: " if len(self._members) > 1 else ""
            raise EnvironmentUnavailable(f"{none}{error} Start its engine, or correct docker.hosts.") from error
        _refuse_twins({name: str(info.get("ID") or name) for name, info in found.items()})
        machines = {str(info.get("Architecture")): name for name, info in found.items()}
        if len(machines) > 1:
            raise EnvironmentUnavailable(
                "the hosts in docker.hosts have different processors ("
                + ", ".join(f"{name}: {machine}" for machine, name in sorted(machines.items()))
                + "), and an image is for one of them; leave out those of the other kind."
            )

    def describe(self) -> dict[str, Any]:
        """The facts that all hosts have in common, and under ``hosts`` those of each one, or why it does not answer."""
        found = self._ask(lambda member: member.backend.describe())
        each = list(found.values())
        common = {key: value for key, value in each[0].items() if all(other.get(key) == value for other in each)}
        lost = {name: {"error": why} for name, why in self.unreachable().items()}
        common["runtimes"] = sorted(set.intersection(*(set(facts["runtimes"]) for facts in each)))
        of_each = {name: {k: v for k, v in facts.items() if k not in _OF_THE_BACKEND} for name, facts in found.items()}
        hosts = {name: {**of_each, **lost}[name] for name in self._members}
        return {**{key: value for key, value in common.items() if key not in _OF_A_MACHINE}, "hosts": hosts}

    # -- sandboxes -----------------------------------------------------------------------------------------------

    def create(self, request: SandboxRequest) -> Sandbox:
        """Brings the image to the host first, unless it is there."""
        backend = self._member(request.host).backend
        image = self.bring_image(request.image, request.host)
        try:
            return backend.create(replace(request, image=image))
        except ImageMissing:  # it has been removed since
            self._member(request.host).forget(request.image, image)
            image = self.bring_image(request.image, request.host)
            return backend.create(replace(request, image=image))

    def find(self, labels: Mapping[str, str]) -> list[Sandbox]:
        found = self._ask(lambda member: member.backend.find(labels))
        return [sandbox for here in found.values() for sandbox in here]

    def uid_bases_in_use(self) -> frozenset[int]:
        # Uids are each machine's own: a host that does not answer delays no job of another.
        found = self._ask(lambda member: member.backend.uid_bases_in_use(), patience=SOON)
        return frozenset[int]().union(*found.values())

    def taken(self, host: str) -> Taken:
        found = self._ask(lambda member: member.backend.taken(host), only=host, patience=SOON)
        return found[host]

    def try_start(self) -> list[Control]:
        """Start one sandbox on each host that answers. Return the controls of all."""
        found = self._ask(lambda member: member.backend.try_start(), anew=True, patience=PATIENT)
        return [control for controls in found.values() for control in controls]

    # -- images --------------------------------------------------------------------------------------------------

    def supply_image(self, image: str, supply: ImageSupply) -> None:
        self._supplies[image] = supply

    def bring_image(self, image: str, host: str) -> str:
        """Bring `image` to `host` unless it is there. Return its name on the host."""
        return self._member(host).bring(image, self._supplies.get(image), self._stopped)

    def stop_supplying_when(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped

    def first_engine(self) -> DockerClient:
        name = next(iter(self.hosts())).name
        return self._members[name].engine.sdk(PATIENT)

    def _member(self, host: str) -> _Member:
        member = self._members.get(host)
        if member is None:
            raise SandboxError(f"no host is called {host!r}; there are {', '.join(self._members)} in docker.hosts.")
        return member

    # -- asking --------------------------------------------------------------------------------------------------

    def _ask(
        self, call: Callable[[_Member], T], *, anew: bool = False, only: str = "", patience: float | None = None
    ) -> dict[str, T]:
        """The answers of the hosts, by name in the order of the config. Hosts that do not answer are left out.

        Args:
            anew: ask also those that did not answer a moment ago.
            only: ask this one and no other, in any case; empty is all.
            patience: seconds that each of them has; None is `ASK`.

        Raises:
            EngineGone: none answers.
            SandboxError: as `call`, of the first host that raises another one.
        """
        patience = ASK if patience is None else patience
        begun = time.monotonic()
        under_way = {
            name: member.threads.submit(call, member)
            for name, member in self._members.items()
            if (anew or only or member.silent_until <= begun) and only in ("", name)
        }
        found: dict[str, T] = {}
        gone: EngineGone | None = None
        for name, future in under_way.items():
            member = self._members[name]
            try:
                found[name] = future.result(max(0.1, begun + patience - time.monotonic()))
            except FutureTimeout:
                gone = EngineGone(f"{member.engine} did not answer within {patience:g} seconds.", host=name)
                member.engine.doubt()
                self._note(member, gone, LONG_REST)
            except EngineGone as error:
                gone = error
                self._note(member, error, REST)
            else:
                self._note(member, None, 0.0)
        if not found:
            reasons = "; ".join(self.unreachable().values()).rstrip(".")
            raise EngineGone(f"{reasons}.", host=gone.host if gone is not None else only)
        return found

    def _note(self, member: _Member, error: EngineGone | None, rest: float) -> None:
        """Note that a host did not answer, and leave it out for `rest` seconds; or, without an error, that it did."""
        member.silent_until = time.monotonic() + rest
        with self._lock:
            self._unreachable.pop(member.name, None)
            if error is not None:
                self._unreachable[member.name] = str(error)


def _refuse_twins(ids: Mapping[str, str]) -> None:
    """Raise EnvironmentUnavailable if two hosts are one engine."""
    seen: dict[str, str] = {}
    for name, engine in ids.items():
        if (twin := seen.setdefault(engine, name)) != name:
            raise EnvironmentUnavailable(
                f"hosts {twin} and {name} in docker.hosts are one engine (its ID is {engine}): leave one of them out; "
                "if one machine was cloned from the other, remove /etc/docker/key.json of one, and restart its engine."
            )
