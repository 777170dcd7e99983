"""What jobs ask for that no machine could give: told before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.errors import ConfigError
from trace_bench.planning.places import backend_name
from trace_bench.sandbox.base import Host
from trace_bench.scheduling.placement import why_not

if TYPE_CHECKING:
    from trace_bench.planning.plan import PlannedJob

MOST_HOSTS = 8
"""That a message names."""


def check_demands(config: RunConfig) -> None:
    """
    Raises:
        ConfigError: a sandbox is to have part of a core for itself, or one of Modal's GPUs, and nobody said which.
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
    """
    Raises:
        ConfigError: a job that is to run asks for what none of `hosts` has.
    """
    problems = []
    places = {task.id: index for index, task in reversed(list(enumerate(config.tasks)))}
    asked: dict[int, tuple[str, SandboxConfig]] = {}
    for job in jobs:
        if job.decision == "run":
            asked.setdefault(id(job.job.sandbox), (job.task_id, job.job.sandbox))
    for task_id, sandbox in asked.values():
        lacking = {host.name: why_not(host, sandbox) for host in hosts}
        if not all(lacking.values()):
            continue
        said = [f"{name or 'this host'} {reason}" for name, reason in lacking.items()]
        more = f"; and {len(said) - MOST_HOSTS} more" if len(said) > MOST_HOSTS else ""
        where = _where(config, places.get(task_id, -1), "")
        problems.append(f"{where}: no host can run {task_id}: {'; '.join(said[:MOST_HOSTS])}{more}")
    if problems:
        raise ConfigError("\n".join(problems))


def _where(config: RunConfig, index: int, key: str) -> str:
    """Where the sandbox of a task is described; the run's is that of a task that has none, or lacks `key`."""
    own = config.tasks[index].sandbox if index >= 0 else None
    path: tuple[str | int, ...] = ("sandbox",)
    if own is not None and (not key or key in own.model_fields_set):
        path = ("tasks", index, "sandbox")
    return config.source.where((*path, key) if key else path)
