"""What jobs require of hosts, checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.errors import ConfigError
from trace_bench.planning.backends import backend_name
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.sandbox.base import Host

MOST_HOSTS = 8
"""Hosts that one message names."""
MEMORY_SHARE = 0.9
"""Share of a host's memory that running jobs may declare together; the rest is for the host itself."""


def can_run(host: Host, sandbox: SandboxConfig) -> bool:
    """Whether an idle `host` meets the requirements of `sandbox`."""
    return unmet_requirement(host, sandbox) is None


def unmet_requirement(host: Host, sandbox: SandboxConfig) -> str | None:
    """Why `host` can never run `sandbox`; None if it can.

    A host with too little memory counts as able: there the sandbox runs alone.
    """
    if lacking := sorted(set(sandbox.labels) - host.labels):
        return f"has no label {lacking[0]!r}"
    if host.gpus is not None and sandbox.gpus > len(host.gpus):
        there = f"{len(host.gpus)} GPU{'s' if len(host.gpus) > 1 else ''}"
        return f"has {there}, not {sandbox.gpus}" if host.gpus else "has no GPUs"
    if (sandbox.pinned or sandbox.exclusive) and host.cpus is None:
        return f"is no machine that a job could have {'cores of' if sandbox.pinned else 'to itself'}"
    if sandbox.pinned and sandbox.cpus > (host.cpus or 0):
        return f"has {host.cpus:g} cores, of which {sandbox.cpus:g} cannot be pinned"
    return None


class MemoryPool:
    """Declared memory of running jobs, against the memory of their host. A job larger than the host runs alone.

    Args:
        total: bytes of the host; None if unknown, and then nothing waits.
    """

    def __init__(self, total: int | None) -> None:
        self._total = None if total is None else int(total * MEMORY_SHARE)
        self._used = 0

    def fits(self, memory: int, reserved: int = 0) -> bool:
        """Whether `memory` bytes more fit beside those in use and those `reserved` for other jobs."""
        used = self._used + reserved
        return self._total is None or used == 0 or used + memory <= self._total

    @property
    def used_share(self) -> float:
        """Share in use; 0 if the total is unknown."""
        return self._used / self._total if self._total else 0.0

    def jobs_at_a_time(self, memory: int) -> int | None:
        """How many jobs of `memory` bytes fit; None if there is no limit."""
        return None if self._total is None else max(1, self._total // memory)

    def take(self, memory: int) -> None:
        self._used += memory

    def release(self, memory: int) -> None:
        self._used -= memory


def check_sandboxes(config: RunConfig) -> None:
    """Check the cores and GPUs that sandboxes ask for, as far as no host is needed.

    Raises:
        ConfigError: part of a core is to be pinned, or the config does not name the GPU that Modal is to give.
    """
    problems = []
    for index, task in enumerate(config.tasks):
        sandbox = config.sandbox if task.sandbox is None else task.sandbox.over(config.sandbox)
        if sandbox.pinned and sandbox.cpus != int(sandbox.cpus):
            problems.append(
                f"{_where(config, index, 'cpus')} is {sandbox.cpus:g}, but pinned gives whole cores; make it a whole "
                "number, or leave pinned out"
            )
        if sandbox.gpus and config.modal.gpu is None and backend_name(config.backend) == "modal":
            where = _where(config, index, "gpus")
            problems.append(f"{where}: say which GPU Modal is to give, as in modal: {{gpu: H100}}")
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


def check_hosts(config: RunConfig, jobs: Iterable[PlannedJob], hosts: Sequence[Host]) -> None:
    """Check that each job that is to run has a host that can run it.

    Raises:
        ConfigError: none of `hosts` meets the requirements of a job.
    """
    problems = []
    positions = {task.id: index for index, task in reversed(list(enumerate(config.tasks)))}
    required: dict[int, tuple[str, SandboxConfig]] = {}
    for job in jobs:
        if job.decision == "run":
            required.setdefault(id(job.job.sandbox), (job.task_id, job.job.sandbox))
    for task_id, sandbox in required.values():
        unmet = {host.name: unmet_requirement(host, sandbox) for host in hosts}
        if not all(unmet.values()):
            continue
        reasons = [f"{name or 'this host'} {reason}" for name, reason in unmet.items()]
        more = f"; and {len(reasons) - MOST_HOSTS} more" if len(reasons) > MOST_HOSTS else ""
        where = _where(config, positions.get(task_id, -1), "")
        problems.append(f"{where}: no host can run {task_id}: {'; '.join(reasons[:MOST_HOSTS])}{more}")
    if problems:
        raise ConfigError("\n".join(problems))


def _where(config: RunConfig, index: int, key: str) -> str:
    """Position of `key` in the sandbox of a task, or in that of the run if the task does not give it."""
    own = config.tasks[index].sandbox if index >= 0 else None
    path: tuple[str | int, ...] = ("sandbox",)
    if own is not None and (not key or key in own.model_fields_set):
        path = ("tasks", index, "sandbox")
    return config.source.where((*path, key) if key else path)
