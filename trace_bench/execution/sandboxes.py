"""The sandbox of an attempt: made or adopted, and removed once the attempt is recorded."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from trace_bench.display.log import entry
from trace_bench.errors import EnvironmentUnavailable, SandboxError
from trace_bench.planning.prepare import PreparedJob, most_seconds
from trace_bench.sandbox.base import Backend, Sandbox, SandboxRequest, SeveralEngines
from trace_bench.sandbox.errors import LeaseLost, NameConflict, RateLimited
from trace_bench.sandbox.labels import JOB, job_labels, sandbox_name, uid_base
from trace_bench.sandbox.leases import Lease
from trace_bench.sandbox.uids import UidBlock, UidBlocks
from trace_bench.scheduling.allocation import Allocation
from trace_bench.scheduling.starting import StartGate, Startup

_LOG = logging.getLogger(__name__)

WORKER_COMMAND = ("python3", "-sP", "-m", "trace_bench.worker")


class NotStarted(Exception):
    """The job was stopped before the attempt had started."""


class CreationRefused(Exception):
    """The backend makes no further sandbox now. The attempt counts as not started."""

    def __init__(self, error: RateLimited) -> None:
        super().__init__(str(error))
        self.error = error


class SandboxKept(Exception):
    """`error` came before the attempt was recorded. Its sandbox is kept: it holds the only copy of the results."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Sandboxes:
    """Makes, adopts and removes the sandboxes of one run. May be used by many threads.

    Attributes:
        taken: returns the uid blocks that sandboxes of dead controllers still use.
        lease: seconds that a sandbox lives without a controller.
        is_stopped: whether a job, by its id, is to stop.
        unremoved: sandboxes whose attempt is recorded and that could not be removed.
    """

    backend: Backend
    uids: UidBlocks
    taken: Callable[[], frozenset[int]]
    lease: float
    is_stopped: Callable[[str], bool]
    unremoved: list[Sandbox] = field(default_factory=list)

    @contextmanager
    def new(
        self, prepared: PreparedJob, allocation: Allocation | None, gate: StartGate, startup: Startup
    ) -> Iterator[Sandbox]:
        """A new sandbox for `prepared`, created but not started.

        Raises:
            NotStarted, CreationRefused: there is no sandbox. SandboxKept: the block raised.
            LeaseLost: another controller has part of `allocation`. SandboxError, EnvironmentUnavailable: none was made.
        """
        lease = allocation.lease if allocation is not None else Lease()
        if not lease.whole:
            raise LeaseLost(
                f"job {prepared.spec.job_id} went on in a sandbox with GPUs or cores that another controller has "
                "leased meanwhile; it needs an allocation of its own."
            )
        host = allocation.host.name if allocation is not None else ""
        if allocation is not None and isinstance(self.backend, SeveralEngines):
            began = time.monotonic()
            try:
                self.backend.bring_image(prepared.image_ref, host)
            finally:
                startup.waited += time.monotonic() - began  # which job is the first that needs the image is chance
        with self.uids.acquire(self.taken()) as block:
            request = self._request(prepared, lease, host, block)
            if not gate.wait_to_create(startup, lambda: self.is_stopped(prepared.spec.job_id)):
                raise NotStarted
            try:
                made = self._create(request)
            except RateLimited as error:
                if gate.gives_up():
                    raise
                raise CreationRefused(error) from error
            gate.accepted()
            _LOG.info(entry("sandbox.created", job_id=prepared.spec.job_id, sandbox=made.name, host=host or None,
                            image=prepared.image_ref, uid_base=block.base, gpus=lease.devices or None,
                            cores=lease.cpuset or None, waited=round(startup.waited, 3)))  # fmt: skip
            with self._removed(made) as sandbox:
                yield sandbox

    @contextmanager
    def adopted(self, sandbox: Sandbox) -> Iterator[Sandbox]:
        """`sandbox` of a dead controller, with its uid block.

        Raises:
            SandboxKept: the block raised.
        """
        base = uid_base(sandbox.labels)
        block: UidBlock | None = None
        if base is not None:
            # Another run may use the block by now. No controller of this run does: its folder is locked.
            with contextlib.suppress(EnvironmentUnavailable):
                block = self.uids.adopt(base)
        try:
            with self._removed(sandbox):
                yield sandbox
        finally:
            if block is not None:
                block.release()

    def _request(self, prepared: PreparedJob, lease: Lease, host: str, block: UidBlock) -> SandboxRequest:
        run_id, job_id = prepared.spec.run_id, prepared.spec.job_id
        return SandboxRequest(
            name=sandbox_name(run_id, job_id),
            image=prepared.image_ref,
            command=(*WORKER_COMMAND, "--uid-base", str(block.base), "--lease", f"{self.lease:g}"),
            labels=job_labels(run_id, job_id, self.lease, exclusive=lease.exclusive),
            uid_base=block.base,
            resources=prepared.resources,
            runtime=prepared.runtime,
            require_controls=prepared.require_controls,
            allow_weaker=prepared.allow_weaker,
            host=host,
            gpu_names=lease.devices,
            cpuset=lease.cpuset,
            most_seconds=most_seconds(prepared.spec.limits, self.lease),
        )

    def _create(self, request: SandboxRequest) -> Sandbox:
        try:
            return self.backend.create(request)
        except NameConflict:
            # A sandbox of this run, whose attempt is recorded, that could not be removed then.
            # Found by its job: some backends shorten names.
            wanted = (request.labels.get(JOB), request.host)
            left = [s for s in self.unremoved if (s.labels.get(JOB), s.host) == wanted]
            if not left:
                raise
            for sandbox in left:
                sandbox.remove()
            return self.backend.create(request)

    @contextmanager
    def _removed(self, sandbox: Sandbox) -> Iterator[Sandbox]:
        """Remove `sandbox` after the block, unless the block raised."""
        try:
            yield sandbox
        except BaseException as error:
            raise SandboxKept(error) from error
        try:
            sandbox.remove()
        except SandboxError:
            self.unremoved.append(sandbox)
