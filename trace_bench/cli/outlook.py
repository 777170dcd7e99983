"""What ``run --dry-run`` says of images, hosts and cost, beside the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit
from trace_bench.display.table import dollars
from trace_bench.execution.outlook import Bound, HostOutlook, Outlook
from trace_bench.planning.plan import RunPlan


def print_outlook(plan: RunPlan, outlook: Outlook) -> None:
    """Lines of a name and what it is, as `print_plan` has them."""
    for name, text in _lines(plan, outlook):
        emit(f"{name:<11} {text}")


def outlook_json(plan: RunPlan, outlook: Outlook) -> dict[str, Any]:
    """``backend``, ``images``, ``hosts`` and ``cost`` of ``run --dry-run --json``."""
    bound = outlook.bound
    return {
        "backend": plan.backend.name,
        "images": {
            family: {"ref": image.ref or None, "key": image.key or None} for family, image in plan.lock.images.items()
        },
        "hosts": [_host_json(each) for each in outlook.hosts],
        "cost": _cost_json(bound, outlook.model_usd),
    }


def _cost_json(bound: Bound | None, model_usd: float | None) -> dict[str, Any]:
    """`bound` is None where nobody charges for sandboxes."""
    return {
        "models_usd_at_most": model_usd,
        "sandboxes_usd_at_most": None if bound is None else bound.usd,
        "attempts": None if bound is None else bound.attempts,
        "jobs_without_a_limit_of_time": None if bound is None else bound.endless,
        "core_hours": None if bound is None else bound.core_hours,
        "memory_gib_hours": None if bound is None else bound.gib_hours,
        "gpu_hours": None if bound is None else bound.gpu_hours,
        "prices_lacking": [] if bound is None else list(bound.lacking),
    }


def bound_sentence(bound: Bound) -> str:
    """What sandboxes cost at most, or why it is not known.

    >>> bound_sentence(Bound(8, 3, core_hours=12.0, gib_hours=24.0, gpu_hours=0.0, usd=3.5))
    'at most 3.5000 USD by modal.prices, if all 8 jobs use up their time in 3 attempts: 12 core hours, 24 GiB hours'
    >>> bound_sentence(Bound(8, 3, endless=2))
    'no bound, as 2 of 8 jobs have no limit of time; set job_timeout and score_timeout'
    """
    if bound.endless:
        endless = f"{bound.endless} of {bound.jobs} jobs have no limit of time"
        return f"no bound, as {endless}; set job_timeout and score_timeout"
    hours = f"{bound.core_hours:.4g} core hours, {bound.gib_hours:.4g} GiB hours"
    hours += f", {bound.gpu_hours:.4g} GPU hours" if bound.gpu_hours else ""
    tries = f"in {bound.attempts} attempts" if bound.attempts > 1 else "in their attempt"
    told = f"if all {bound.jobs} jobs use up their time {tries}: {hours}"
    if bound.usd is None:
        return f"no price, as modal.prices lacks {', '.join(bound.lacking)}; {told}"
    return f"at most {dollars(bound.usd)} USD by modal.prices, {told}"


def _lines(plan: RunPlan, outlook: Outlook) -> Iterator[tuple[str, str]]:
    for family, image in sorted(plan.lock.images.items()):
        yield "image", f"{printable(family, 100)}  {printable(image.ref, 300) or 'to be built'}"
    if outlook.problem:
        yield "hosts", f"not known: {printable(outlook.problem, 400)}"
    if len(outlook.hosts) > 1 or any(each.host.name or each.why_not for each in outlook.hosts):
        for each in outlook.hosts:
            yield "host", _host_line(each)
    if outlook.bound is not None:
        yield "sandboxes", bound_sentence(outlook.bound)
    if outlook.model_usd is None:
        yield "models", "cost not estimated: no budget.usd and no budget.run.usd"
    elif outlook.model_usd:
        yield "models", f"at most about {dollars(outlook.model_usd)} USD, by the budgets"


def _host_line(each: HostOutlook) -> str:
    from trace_bench.cli.machine import host_sentence

    taken = f"takes {_jobs(each.takes)}"
    not_taken = "; ".join(f"not {_jobs(count)}: {printable(why, 200)}" for why, count in each.why_not.items())
    return f"{host_sentence(each.host)}; {taken}" + (f"; {not_taken}" if not_taken else "")


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _host_json(each: HostOutlook) -> Mapping[str, Any]:
    host = each.host
    return {
        "name": host.name or None,
        "slots": host.slots,
        "cpus": host.cpus,
        "memory_bytes": host.memory_bytes,
        "gpus": None if host.gpus is None else list(host.gpus),
        "labels": sorted(host.labels),
        "takes": each.takes,
        "why_not": dict(each.why_not),
    }
