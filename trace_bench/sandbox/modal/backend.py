"""The Modal backend: one sandbox of the service per job, and in it a process that holds the job's command."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from trace_bench.config.places import ModalConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable, SandboxError
from trace_bench.sandbox.base import NEVER_WEAKER, Host, Integrity, Sandbox, SandboxRequest, Traits
from trace_bench.sandbox.controls import missing
from trace_bench.sandbox.errors import ControlMissing, EngineGone, NameConflict, RuntimeMissing
from trace_bench.sandbox.labels import PREFIX, UID_BASE, uid_bases
from trace_bench.sandbox.modal.client import TOKEN, Client
from trace_bench.sandbox.modal.controls import CAN, CANNOT, limits
from trace_bench.sandbox.modal.sandbox import ModalSandbox, program
from trace_bench.sandbox.uids import BLOCK, DEFAULT_BASE, SLOTS

if TYPE_CHECKING:
    import modal

NAME = PREFIX + "name"
"""Label with the name, which the service does not report."""
NONCE = PREFIX + "nonce"
"""Label that identifies the sandbox of a create call whose answer was lost."""
LONGEST_NAME = 63
LONGEST_LIFE = 86_400
"""Seconds: no sandbox of the service lives longer."""
LOOKS = (0.0, 1.0, 2.0)
"""Seconds before each look for a sandbox that may or may not have been made."""
UNSTARTED_SECONDS = 600
"""A sandbox that is not started ends by itself after that."""
MODAL_BASE = 0x7A000000
"""Sandboxes have uid spaces of their own. The locks of uid blocks only show which controller is alive, so they are in a
range apart from those of engines and folders."""
OPEN_TO_ALL = ("/var/tmp", "/run/lock", "/dev/shm", "/dev/mqueue")
"""Folders of images that any uid may write to. The worker closes /tmp and /run on every backend."""
MIB = 1 << 20


class ModalBackend:
    """Makes sandboxes with the service's own client, whose credentials it uses.

    Args:
        settings: section ``modal`` of a config.
        client: the service's client to use; None is that of this process.
    """

    name = "modal"
    traits = Traits(images="registry", is_service=True, ends_after_a_day=True)
    integrity: Integrity = "protected"
    capabilities: frozenset[str] = frozenset(CAN)
    cannot: Mapping[str, str] = CANNOT

    def __init__(self, settings: ModalConfig | None = None, *, client: modal.Client | None = None) -> None:
        self._settings = settings or ModalConfig()
        self._client = Client(
            self._settings.app, self._settings.environment, self._settings.creations_per_second, client
        )

    @property
    def default_uid_base(self) -> int:
        return MODAL_BASE

    def hosts(self) -> Sequence[Host]:
        settings = self._settings
        return (
            Host(
                slots=settings.max_sandboxes,
                gpus=() if settings.gpu is None else None,  # the service does not say which GPU it gives
                starting=settings.max_starting,
                creations_per_second=settings.creations_per_second,
                scope=f"modal-{settings.environment or ''}-{settings.app}",
            ),
        )

    def check(self) -> None:
        try:
            import modal  # noqa: F401
        except ImportError as error:
            raise EnvironmentUnavailable(
                "the package modal is not installed; install it with pip install 'trace-bench[modal]'."
            ) from error
        try:
            self._client.app  # noqa: B018 - looking it up is the check
        except SandboxError as error:
            raise EnvironmentUnavailable(f"{error} Check the network, and {TOKEN}.") from error

    def create(self, request: SandboxRequest) -> Sandbox:
        lacking = sorted(request.require_controls & self.cannot.keys())
        if lacking:
            listed = "; ".join(f"{name} ({self.cannot[name]})" for name in lacking)
            raise ControlMissing(f"the modal backend cannot put in force: {listed}. Use --backend docker.")
        if request.runtime not in (None, "runsc", "gvisor"):
            raise RuntimeMissing(
                f"the modal backend has no runtime {request.runtime}; it has gVisor alone: take sandbox.runtime out."
            )
        sandbox = self._make(request)
        try:
            required = (NEVER_WEAKER | request.require_controls) - request.allow_weaker
            if absent := missing(sandbox.controls(), required):
                listed = "; ".join(f"{control.name} ({control.detail})" for control in absent)
                raise ControlMissing(f"the sandbox that Modal has made lacks controls: {listed}. It was ended.")
        except BaseException:
            sandbox.remove()
            raise
        return sandbox

    def stop_supplying_when(self, stopped: Callable[[], bool]) -> None:
        self._client.stopped = stopped

    def find(self, labels: Mapping[str, str]) -> list[Sandbox]:
        return [
            ModalSandbox(self._client, handle, own_labels.get(NAME, handle.object_id), own_labels)
            for handle, own_labels in self._client.find(labels)
            if NONCE in own_labels
        ]

    def uid_bases_in_use(self) -> frozenset[int]:
        return uid_bases(sandbox.labels for sandbox in self.find({}))

    def describe(self) -> dict[str, Any]:
        import modal

        settings = self._settings
        return {
            "backend": self.name,
            "integrity": self.integrity,
            "client": modal.__version__,
            "app": settings.app,
            "environment": settings.environment,
            "region": settings.region,
            "image_registry": settings.image_registry,
            "gpu": settings.gpu,
            "disk_control": "watcher",
            "cannot": dict(self.cannot),
        }

    def _make(self, request: SandboxRequest) -> ModalSandbox:
        """The sandbox of `request`. If the answer to the create call was lost, the sandbox is found by its nonce, so
        there is never a second one."""
        name, nonce = short(request.name), secrets.token_hex(8)
        own_labels = {
            **request.labels,
            **limits(request),
            UID_BASE: str(request.uid_base),
            NAME: name,
            NONCE: nonce,
        }
        image = self._client.image(request.image, self._settings.registry_access)
        resources = request.resources
        spec = {
            "command": list(request.command),
            "unstarted": UNSTARTED_SECONDS,
            "linger": self._settings.idle_timeout,
            "nofile": resources.nofile,
            "fsize": max(resources.disk_bytes, resources.tmp_bytes),
            "closed": OPEN_TO_ALL,
        }
        arguments = _create_arguments(request, self._settings)
        try:
            handle = self._client.create(
                program("enter", json.dumps(spec)), name=name, labels=own_labels, image=image, **arguments
            )
        except (EngineGone, NameConflict) as error:
            found = self._find_own(name, nonce, LOOKS if isinstance(error, EngineGone) else LOOKS[:1])
            if found is None:
                raise
            handle = found
        return ModalSandbox(self._client, handle, name, own_labels, is_new=True)

    def _find_own(self, name: str, nonce: str, pauses: Sequence[float]) -> modal.Sandbox | None:
        """The sandbox called `name` if it carries `nonce`. Looks after each of `pauses`, seconds."""
        for seconds in pauses:
            time.sleep(seconds)
            for handle, own_labels in self._client.find({NAME: name}):
                if own_labels.get(NONCE) == nonce:
                    return handle
        return None


def short(name: str) -> str:
    """`name` as the service takes it.

    >>> short("a" * 100)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-2816597888e4a0d3'
    """
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _create_arguments(request: SandboxRequest, settings: ModalConfig) -> dict[str, Any]:
    """Arguments for the service. Request and limit are equal, so that a score does not depend on the neighbours."""
    resources = request.resources
    memory = -(-resources.memory_bytes // MIB)
    arguments: dict[str, Any] = {
        "cpu": (resources.cpus, resources.cpus),
        "memory": (memory, memory),
        "timeout": LONGEST_LIFE if request.most_seconds is None else min(LONGEST_LIFE, ceil(request.most_seconds)),
        "idle_timeout": int(settings.idle_timeout),
        "workdir": "/",
        "block_network": True,
    }
    if settings.region is not None:
        arguments["region"] = settings.region
    if resources.gpus:
        if settings.gpu is None:
            raise ConfigError("sandbox.gpus: say which GPU Modal is to give, as in modal: {gpu: H100}")
        arguments["gpu"] = f"{settings.gpu}:{resources.gpus}"
    return arguments


assert BLOCK * SLOTS + MODAL_BASE < 2**31 and MODAL_BASE > DEFAULT_BASE
