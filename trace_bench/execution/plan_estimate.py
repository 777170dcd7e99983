"""Estimate a plan before it starts: how many of its jobs each host can run, and the most that they may cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from trace_bench.artifacts.contract import JobLimits
from trace_bench.config.models import RunConfig, SandboxConfig
from trace_bench.config.places import ModalPricesConfig
from trace_bench.errors import SandboxError
from trace_bench.execution.attempt import RunResources
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import most_seconds
from trace_bench.planning.requirements import unmet_requirement
from trace_bench.sandbox.base import Host

_GIB = 1 << 30
_HOUR = 3600


@dataclass(frozen=True)
class HostCapacity:
    """The number of jobs that one host can run, and the number that it cannot run by reason."""

    host: Host
    can_run: int
    why_not: Mapping[str, int]


@dataclass(frozen=True)
class SandboxBound:
    """An upper bound on the time of sandboxes and its price: every attempt lasts as long as its limits allow
    (`prepare.most_seconds`, from ``job_timeout`` and ``score_timeout``). Most jobs take far less.

    Attributes:
        unlimited_jobs: those without a limit of time; then no sum is known, and all of them are None.
        usd: None where no sum is known, or a price is lacking.
        missing_prices: keys of ``modal.prices`` that would be needed and are not given.
    """

    jobs: int
    attempts: int
    unlimited_jobs: int = 0
    core_hours: float | None = None
    gib_hours: float | None = None
    gpu_hours: float | None = None
    usd: float | None = None
    missing_prices: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanEstimate:
    """The hosts and the cost of the jobs that a plan runs or continues.

    Attributes:
        hosts: empty if none answers; `problem` says why.
        bound: for a service, which charges by the second; None for other backends.
        model_usd: the most that models may cost within the budgets of the config; None without such a budget.
    """

    hosts: tuple[HostCapacity, ...]
    bound: SandboxBound | None
    model_usd: float | None
    problem: str = ""


def estimate_plan(plan: RunPlan) -> PlanEstimate:
    """Estimate the jobs of `plan` that it runs or continues."""
    jobs = [job for job in plan.jobs if job.decision in ("run", "adopt")]
    hosts: Sequence[Host] = ()
    problem = ""
    try:
        hosts = plan.backend.hosts()
    except SandboxError as error:
        problem = str(error)
    config = plan.config
    bound = None
    if plan.backend.traits.is_service:
        bound = bound_of(
            [(job.job.sandbox, _seconds(job)) for job in jobs],
            config.modal.prices,
            gpu=config.modal.gpu,
            attempts=1 + config.retries,
        )
    return PlanEstimate(_hosts(hosts, jobs), bound, _models(config, len(jobs)), problem)


def bound_of(
    jobs: Iterable[tuple[SandboxConfig, float | None]], prices: ModalPricesConfig, *, gpu: str | None, attempts: int
) -> SandboxBound:
    """The upper bound for the sandboxes of `jobs`.

    Args:
        jobs: the sandbox of each, and the most seconds of one attempt; None is no limit.
        gpu: the name of the GPUs in the prices.

    Sums are exact, rounded once:

    >>> prices = ModalPricesConfig(cpu_core_hour=0.1, memory_gib_hour=0.02)
    >>> bound = bound_of([(SandboxConfig(cpus=2.0, memory=4 << 30), 1800.0)] * 10, prices, gpu=None, attempts=1)
    >>> bound.core_hours, bound.gib_hours, bound.usd
    (10.0, 20.0, 1.4)
    """
    jobs = list(jobs)
    endless = sum(seconds is None for _, seconds in jobs)
    if endless:
        return SandboxBound(len(jobs), attempts, endless)
    cores = gib = gpus = Fraction(0)
    for sandbox, seconds in jobs:
        hours = Fraction(seconds or 0) * attempts / _HOUR
        cores += Fraction(sandbox.cpus) * hours
        gib += Fraction(sandbox.memory, _GIB) * hours
        gpus += sandbox.gpus * hours
    gpu_price = prices.gpu_hour.get(gpu) if gpu is not None else None
    parts = (
        ("cpu_core_hour", cores, prices.cpu_core_hour),
        ("memory_gib_hour", gib, prices.memory_gib_hour),
        (f"gpu_hour.{gpu}", gpus, gpu_price),
    )
    lacking = tuple(name for name, amount, price in parts if amount and price is None)
    usd = None if lacking else float(sum(amount * _exact(price) for _, amount, price in parts if price is not None))
    return SandboxBound(len(jobs), attempts, 0, float(cores), float(gib), float(gpus), usd, lacking)


def _exact(price: float) -> Fraction:
    """The decimal number as it was written."""
    return Fraction(repr(float(price)))


def _seconds(planned: PlannedJob) -> float | None:
    """Seconds after which the service itself ends the sandbox of one attempt."""
    limits = planned.job.limits
    return most_seconds(
        JobLimits(job_timeout=limits["job_timeout"], score_timeout=limits["score_timeout"]), RunResources.lease
    )


def _hosts(hosts: Sequence[Host], jobs: Sequence[PlannedJob]) -> tuple[HostCapacity, ...]:
    alike = Counter(id(job.job.sandbox) for job in jobs)
    sandboxes = {id(job.job.sandbox): job.job.sandbox for job in jobs}
    found = []
    for host in hosts:
        reasons: Counter[str] = Counter()
        for key, sandbox in sandboxes.items():
            reason = unmet_requirement(host, sandbox)
            if reason is not None:
                reasons[reason] += alike[key]
        found.append(HostCapacity(host, len(jobs) - reasons.total(), dict(reasons)))
    return tuple(found)


def _models(config: RunConfig, jobs: int) -> float | None:
    """US dollars that budgets let models cost; the last answers may pass a budget a little."""
    if config.mode != "real":
        return 0.0
    limits = [config.budget.run.usd, None if config.budget.usd is None else config.budget.usd * jobs]
    least = min((limit for limit in limits if limit is not None), default=math.inf)
    return None if math.isinf(least) else least
