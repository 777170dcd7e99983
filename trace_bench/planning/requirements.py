"""What jobs require of a backend and its hosts, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_bench.arguments import hint
from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.config.sizes import format_size
from trace_bench.errors import ConfigError
from trace_bench.matrix import Job
from trace_bench.planning.backends import backend_name
from trace_bench.planning.preconditions import Check
from trace_bench.sandbox.backends import missing_gpu_setting
from trace_bench.sandbox.base import CONTROLS, NEVER_WEAKER, Backend, Host
from trace_bench.sandbox.errors import ControlMissing, RuntimeMissing
from trace_bench.sandbox.runtimes import missing_runtime

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
        if sandbox.gpus and (request := missing_gpu_setting(backend_name(config.backend), config.modal)):
            problems.append(f"{_where(config, index, 'gpus')}: {request}")
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


def host_check(config: RunConfig, hosts: Sequence[Host]) -> Check:
    """The check that one of `hosts` meets the requirements of a job."""
    positions = {task.id: index for index, task in reversed(list(enumerate(config.tasks)))}
    known: dict[int, ConfigError | None] = {}

    def error_of(job: Job) -> ConfigError | None:
        unmet = {host.name: unmet_requirement(host, job.sandbox) for host in hosts}
        if not all(unmet.values()):
            return None
        reasons = [f"{name or 'this host'} {reason}" for name, reason in unmet.items()]
        more = f"; and {len(reasons) - MOST_HOSTS} more" if len(reasons) > MOST_HOSTS else ""
        where = _where(config, positions.get(job.task_id, -1), "")
        return ConfigError(f"{where}: no host can run {job.task_id}: {'; '.join(reasons[:MOST_HOSTS])}{more}")

    def check(job: Job) -> ConfigError | None:
        key = id(job.sandbox)  # the jobs of a task share one
        if key not in known:
            known[key] = error_of(job)
        return known[key]

    return check


def check_runtimes(jobs: Sequence[Job], known: Any) -> None:
    """Check that the engine has the runtimes of all sandboxes.

    Args:
        known: names of the engine's runtimes; not a list where the backend has none.

    Raises:
        RuntimeMissing: the engine lacks one of them.
    """
    for runtime in sorted({sandbox.runtime or "" for sandbox in _sandboxes(jobs)}):
        if runtime and isinstance(known, list) and runtime not in known:
            raise RuntimeMissing(missing_runtime(runtime, known))


def check_required_controls(jobs: Sequence[Job], backend: Backend) -> None:
    """Check that the backend can put the required controls in force, before a sandbox is made.

    Raises:
        ControlMissing: the backend cannot put one of them in force.
    """
    # `cannot` does not include runtimes that a config names.
    required = {name for s in _sandboxes(jobs) if s.runtime is None for name in s.require_controls}
    if not required:
        return
    cannot = backend.cannot
    if lacking := sorted(required & cannot.keys()):
        names = "; ".join(f"{name} ({cannot[name]})" for name in lacking)
        own_engine = backend.traits.images == "engine"
        remedy = "Repair the host, or name it in allow_weaker" if own_engine else "Use --backend docker"
        raise ControlMissing(f"the {backend.name} backend cannot put in force: {names}. {remedy}.")


def memory_warnings(config: RunConfig, jobs: Sequence[Job], memory: Any) -> list[str]:
    """Warnings about how many jobs fit into the engine's memory."""
    if not isinstance(memory, int):
        return []
    pool = MemoryPool(memory)
    notes = []
    for declared in sorted({sandbox.memory for sandbox in _sandboxes(jobs)}):
        fit = pool.jobs_at_a_time(declared)
        if declared > memory:
            notes.append(
                f"sandbox.memory {format_size(declared)} is more than the engine has ({memory / 2**30:.1f} GiB): "
                "such jobs run one at a time, and may be killed for want of memory"
            )
        elif fit is not None and fit < min(config.max_workers, len(jobs)):
            notes.append(
                f"max_workers is {config.max_workers}, but the engine's memory ({memory / 2**30:.1f} GiB) holds "
                f"{fit} jobs of sandbox.memory {format_size(declared)} at a time"
            )
    return notes


def worker_warnings(config: RunConfig, backend: Backend, jobs: int) -> list[str]:
    """A warning if jobs run one at a time although there is room for many. The default is one: more may cost more."""
    several = backend.traits.images == "engine" and len(config.docker.hosts) > 1
    if jobs == 1 or "max_workers" in config.model_fields_set or not (several or backend.traits.is_service):
        return []
    place = "all hosts" if several else backend.name.capitalize()
    return [f"max_workers is not given: jobs run one at a time, on {place} too"]


def check_controls(config: RunConfig) -> None:
    """Check the names of controls, before any image is looked up.

    Raises:
        ConfigError: an unknown control, or one that cannot be given up.
    """
    problems = []
    sections: list[tuple[tuple[str | int, ...], SandboxConfig]] = [(("sandbox",), config.sandbox)]
    sections += [(("tasks", i, "sandbox"), task.sandbox) for i, task in enumerate(config.tasks) if task.sandbox]
    for path, section in sections:
        for key in ("require_controls", "allow_weaker"):
            for name in getattr(section, key):
                where = config.source.where((*path, key))
                if name not in CONTROLS:
                    problems.append(f"{where}: there is no control {name!r}{hint(name, CONTROLS)}")
                elif key == "allow_weaker" and name in NEVER_WEAKER:
                    problems.append(f"{where}: the control {name!r} cannot be given up; take it out")
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


def _sandboxes(jobs: Sequence[Job]) -> list[SandboxConfig]:
    """The sandboxes of `jobs`, each once: the jobs of a task share one."""
    return list({id(job.sandbox): job.sandbox for job in jobs}.values())


def _where(config: RunConfig, index: int, key: str) -> str:
    """Position of `key` in the sandbox of a task, or in that of the run if the task does not give it."""
    own = config.tasks[index].sandbox if index >= 0 else None
    path: tuple[str | int, ...] = ("sandbox",)
    if own is not None and (not key or key in own.model_fields_set):
        path = ("tasks", index, "sandbox")
    return config.source.where((*path, key) if key else path)
