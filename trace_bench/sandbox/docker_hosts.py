"""Several Docker engines as one backend: sandboxes are made where the request says, and found wherever they are.

An engine that does not answer is left out, and said to be (`DockerHosts.unreachable`), as long as another one does.
Each engine is asked by threads of its own, so that one that hangs keeps nobody else waiting.
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
"""Seconds that one of several engines has for an answer that others do not wait for."""
SOON = 10.0
"""Likewise, where what it would say concerns others little: jobs start meanwhile."""
REST = 10.0
"""Seconds during which an engine that did not answer is not asked again by whoever can do without it."""
LONG_REST = 60.0
"""Likewise one that let `ASK` or `SOON` pass: whoever asks anew (`hosts`) finds it sooner."""
PATIENT = 900.0
"""Seconds for one call that moves an image."""

_OF_THE_BACKEND = frozenset({"backend", "integrity"})
_OF_A_MACHINE = frozenset({"cpus", "memory_bytes"})
"""Facts that say nothing of several machines together, even where they are equal."""


def docker_backend(host: str | None = None, *, hosts: Sequence[DockerHostConfig] = ()) -> DockerBackend | DockerHosts:
    """The backend ``docker``: of the engines in `hosts`, else of the one at `host` (see `DockerBackend`)."""
    return DockerHosts(hosts) if hosts else DockerBackend(host)


@dataclass
class _Member:
    """One engine, and what is known of it."""

    setting: DockerHostConfig
    engine: Engine
    backend: DockerBackend
    asking: ThreadPoolExecutor
    silent_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    images: dict[str, str] = field(default_factory=dict)
    """By the name that a request has for it, an image's name there, once it is there."""
    supplying: dict[str, threading.Lock] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.engine.called

    def of_image(self, image: str) -> threading.Lock:
        with self.lock:
            return self.supplying.setdefault(image, threading.Lock())


class DockerHosts:
    """Makes hardened containers on several engines. See `trace_bench.sandbox.base.Backend` for the methods.

    Args:
        hosts: the engines; their names are different.

    Raises:
        EnvironmentUnavailable: an address or a context is wrong.
    """

    name = "docker"
    integrity: Integrity = "protected"

    def __init__(self, hosts: Sequence[DockerHostConfig]) -> None:
        self._members: dict[str, _Member] = {}
        for setting in hosts:
            called = setting.called
            engine = Engine(setting.url, context=setting.context, tls=setting.tls, called=called)
            pool = ThreadPoolExecutor(4, thread_name_prefix=f"ask-{called}")
            self._members[called] = _Member(setting, engine, DockerBackend(engine=engine, gpus=setting.gpus), pool)
        self._lock = threading.Lock()
        self._unreachable: dict[str, str] = {}
        self._supplies: dict[str, ImageSupply] = {}
        self._stopped: Callable[[], bool] = lambda: False

    # -- what they are -------------------------------------------------------------------------------------------

    def unreachable(self) -> Mapping[str, str]:
        """By name, the hosts that did not answer when they were last asked, and what was said."""
        with self._lock:
            return dict(self._unreachable)

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset(CONTROLS.keys() | FEATURES.keys()) - self.cannot.keys()

    @property
    def cannot(self) -> Mapping[str, str]:
        """What one of them cannot, none can be relied on for."""
        found = self._ask(lambda member: member.backend.cannot)
        return {key: f"host {name}: {why}" for name, lost in found.items() for key, why in lost.items()}

    @property
    def default_uid_base(self) -> int:
        """Below 65536 where one of them maps uids."""
        bases = set(self._ask(lambda member: member.backend.default_uid_base).values())
        return MAPPED_BASE if MAPPED_BASE in bases else bases.pop()

    def hosts(self) -> Sequence[Host]:
        def host(member: _Member) -> Host:
            member.engine.probe()
            (found,) = member.backend.hosts()
            return replace(found, slots=member.setting.slots, labels=frozenset(member.setting.labels))

        return tuple(self._ask(host, anew=True).values())

    def check(self) -> None:
        """One that does not answer is no reason not to work on the others."""

        def checked(member: _Member) -> dict[str, Any]:
            member.engine.probe()
            info = member.engine.info
            member.backend.check()
            return info

        try:
            found = self._ask(checked, anew=True)
        except EngineGone as error:
            none = "none of the hosts in docker.hosts answers: " if len(self._members) > 1 else ""
            raise EnvironmentUnavailable(f"{none}{error} Start its engine, or mend docker.hosts.") from error
        self._refuse_twins({name: str(info.get("ID") or name) for name, info in found.items()})
        machines = {str(info.get("Architecture")): name for name, info in found.items()}
        if len(machines) > 1:
            raise EnvironmentUnavailable(
                "the hosts in docker.hosts have different processors ("
                + ", ".join(f"{name}: {machine}" for machine, name in sorted(machines.items()))
                + "), and an image is for one of them; leave out those of the other kind."
            )

    def describe(self) -> dict[str, Any]:
        """What all hosts that answer have in common; under ``hosts`` what each of them is, or why it is not there."""
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
        """Its image is brought to the host first, where it is not there yet."""
        member = self._called(request.host)
        image = self._supplied(member, request.image)
        try:
            return member.backend.create(replace(request, image=image))
        except ImageMissing:
            with member.of_image(request.image):  # somebody removed it since
                if member.images.get(request.image) == image:
                    del member.images[request.image]
            return member.backend.create(replace(request, image=self._supplied(member, request.image)))

    def find(self, labels: Mapping[str, str]) -> list[Sandbox]:
        found = self._ask(lambda member: member.backend.find(labels))
        return [sandbox for here in found.values() for sandbox in here]

    def uid_bases_in_use(self) -> frozenset[int]:
        # Uids are each machine's own: one that says nothing keeps no job of another from starting.
        found = self._ask(lambda member: member.backend.uid_bases_in_use(), patience=SOON)
        return frozenset[int]().union(*found.values())

    def taken(self, host: str) -> Taken:
        found = self._ask(lambda member: member.backend.taken(host), only=host, patience=SOON)
        return found[host]

    def try_start(self) -> list[Control]:
        """One on each host that answers; returns the controls of all."""
        found = self._ask(lambda member: member.backend.try_start(), anew=True, patience=PATIENT)
        return [control for controls in found.values() for control in controls]

    # -- images --------------------------------------------------------------------------------------------------

    def supply_image(self, image: str, supply: ImageSupply) -> None:
        """From now on, `supply` brings `image` to a host before the first sandbox there with it."""
        self._supplies[image] = supply

    def bring_image(self, image: str, host: str) -> None:
        """See to it that `image` is on `host`, as `create` does."""
        self._supplied(self._called(host), image)

    def stop_supplying_when(self, stopped: Callable[[], bool]) -> None:
        """Images that are on their way then are given up."""
        self._stopped = stopped

    def first_engine(self) -> DockerClient:
        """A client of the first host that answers, for calls that take long.

        Raises:
            EngineGone: none does.
        """
        name = next(iter(self.hosts())).name
        return self._members[name].engine.sdk(PATIENT)

    def _called(self, host: str) -> _Member:
        member = self._members.get(host)
        if member is None:
            raise SandboxError(f"no host is called {host!r}; there are {', '.join(self._members)} in docker.hosts.")
        return member

    def _supplied(self, member: _Member, image: str) -> str:
        """The name of `image` on that host, where it is by now."""
        with member.of_image(image):
            if image not in member.images:
                member.images[image] = self._fetch(member, image)
            return member.images[image]

    def _fetch(self, member: _Member, image: str) -> str:
        supply = self._supplies.get(image)
        if supply is None:
            return image
        client = member.engine.sdk(PATIENT)
        try:
            return supply(member.name, client, self._stopped)
        except EnvironmentUnavailable as error:
            member.engine.probe()  # it is gone, or it is there and this is its own trouble: other hosts may do better
            raise SandboxError(f"host {member.name} was not given image {image}: {error}.") from error
        finally:
            client.close()

    # -- asking --------------------------------------------------------------------------------------------------

    def _ask(
        self, call: Callable[[_Member], T], *, anew: bool = False, only: str = "", patience: float | None = None
    ) -> dict[str, T]:
        """What each host says, by name in the order of the config; those that do not answer are left out.

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
            name: member.asking.submit(call, member)
            for name, member in self._members.items()
            if (anew or only or member.silent_until <= begun) and only in ("", name)
        }
        found: dict[str, T] = {}
        gone: EngineGone | None = None
        for name, future in under_way.items():
            member = self._members[name]
            try:
                found[name] = future.result(max(0.1, begun + patience - time.monotonic()))
                self._answered(member)
            except FutureTimeout:
                gone = EngineGone(f"{member.engine} did not answer within {patience:g} seconds.", host=name)
                member.engine.doubt()
                self._fell_silent(member, gone, LONG_REST)
            except EngineGone as error:
                gone = error
                self._fell_silent(member, error)
        if not found:
            said = "; ".join(self.unreachable().values()).rstrip(".")
            raise EngineGone(f"{said}.", host=gone.host if gone is not None else only)
        return found

    def _answered(self, member: _Member) -> None:
        member.silent_until = 0.0
        with self._lock:
            self._unreachable.pop(member.name, None)

    def _fell_silent(self, member: _Member, error: EngineGone, rest: float = REST) -> None:
        member.silent_until = time.monotonic() + rest
        with self._lock:
            self._unreachable[member.name] = str(error)

    def _refuse_twins(self, ids: Mapping[str, str]) -> None:
        seen: dict[str, str] = {}
        for name, engine in ids.items():
            if (twin := seen.setdefault(engine, name)) != name:
                raise EnvironmentUnavailable(
                    f"hosts {twin} and {name} in docker.hosts are one engine (its ID is {engine}): leave one of them "
                    "out; if one machine was cloned from the other, remove /etc/docker/key.json of one, and restart "
                    "its engine."
                )
