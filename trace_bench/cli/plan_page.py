"""The jobs of a plan, as ``run --dry-run`` and ``validate --strict`` print them, with the images, hosts and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.cli.json_events import job_fields
from trace_bench.cli.machine import host_sentence
from trace_bench.config.models import BudgetConfig, RunConfig
from trace_bench.display.console import emit, emit_block, emit_json, note
from trace_bench.display.table import Table, dollars
from trace_bench.display.terminal import plain_lines
from trace_bench.execution.events import JobView
from trace_bench.execution.plan_estimate import HostCapacity, PlanEstimate, SandboxBound, estimate_plan
from trace_bench.execution.start import dry_run
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import Decision
from trace_bench.planning.search_costs import SearchCost

DECISIONS: tuple[Decision, ...] = ("run", "adopt", "reuse", "skip")


def print_dry_run(
    config: RunConfig, *, roots: Sequence[Path], build: bool, say: Callable[[str], None], as_json: bool
) -> None:
    """Plan `config`, and print what a run would do; nothing is written.

    Args:
        roots: extra folders with task folders.
        build: take a missing image for one that is built first; False refuses.
    """
    plan = dry_run(config, roots=roots, build=build, say=say)
    estimate = estimate_plan(plan)
    layout = plan.layout
    has_name = plan.continued or config.run_id is not None  # the name of any other run is the time of its start
    if as_json:
        counts = Counter(job.decision for job in plan.jobs)
        emit_json({
            "run_id": layout.run_id if has_name else None,
            "folder": str(layout.root) if has_name else None,
            "manifest": str(layout.manifest) if plan.continued else None,
            "continued": plan.continued,
            "warnings": list(plan.warnings),
            "notes": list(plan.notes),
            "searches": [_cost_json(cost, plan.config.budget) for cost in plan.costs],
            "counts": {decision: counts[decision] for decision in DECISIONS},
            **_estimate_json(plan, estimate),
            "jobs": [job_fields(job) for job in plan.jobs],
        })  # fmt: skip
        return
    for warning in plan.warnings:
        if warning not in config.warnings:
            note(f"warning: {warning}")
    for text in plan.notes:
        note(f"budget: {text}")
    if plan.continued:
        print_plan(plan.jobs, {"run": layout.run_id, "folder": layout.root, "manifest": layout.manifest})
    else:
        print_plan(plan.jobs, {"run": f"{plan.run_id} (new)" if has_name else "a new one"})
    print_estimate(plan, estimate)


def print_plan(jobs: Sequence[JobView], paths: Mapping[str, str | Path]) -> None:
    """Print the jobs of a plan, one line each, in columns; then `paths` by their labels."""
    named = any(job.model != "stub" for job in jobs)
    first, *others = [
        (
            job.decision,
            job.job_id,
            job.task_id,
            job.trainer_id,
            job.variant,
            *([job.model] if named else []),
            f"seed {job.seed}",
            job.reason,
        )
        for job in jobs
    ]
    emit_block("\n".join(plain_lines(Table.of(first, others))) + "\n")
    counts = Counter(job.decision for job in jobs)
    emit(f"{len(jobs)} jobs: " + ", ".join(f"{counts[each]} to {each}" for each in DECISIONS if counts[each]))
    for label, path in paths.items():
        emit(f"{label:<11} {path}")


# ------------------------------------------------------------------------------------------ images, hosts and cost


def print_estimate(plan: RunPlan, estimate: PlanEstimate) -> None:
    """Print images, hosts and cost, each in a line with its name."""
    for name, text in _lines(plan, estimate):
        emit(f"{name:<11} {text}")


def _lines(plan: RunPlan, estimate: PlanEstimate) -> Iterator[tuple[str, str]]:
    for family, image in sorted(plan.lock.images.items()):
        yield "image", f"{family}  {image.ref or 'to be built'}"
    if estimate.problem:
        yield "hosts", f"unknown: {estimate.problem}"
    if len(estimate.hosts) > 1 or any(each.host.name or each.why_not for each in estimate.hosts):
        for each in estimate.hosts:
            yield "host", _host_line(each)
    if estimate.bound is not None:
        yield "sandboxes", bound_sentence(estimate.bound)
    for cost in plan.costs:
        if cost.proposals(plan.config.budget) is not None:
            yield "search", cost_sentence(cost, plan.config.budget)
    if estimate.model_usd is None:
        yield "models", "cost not estimated: no budget.usd and no budget.run.usd"
    elif estimate.model_usd:
        yield "models", f"at most about {dollars(estimate.model_usd)} USD, by the budgets"


def _host_line(each: HostCapacity) -> str:
    not_taken = [f"not {_counted(count, 'job')}: {why}" for why, count in each.why_not.items()]
    return "; ".join([host_sentence(each.host), f"takes {_counted(each.can_run, 'job')}", *not_taken])


def _counted(count: int | None, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def cost_sentence(cost: SearchCost, budget: BudgetConfig) -> str:
    """The least cost of a search, and the number of proposals that a budget has room for.

    >>> cost = SearchCost("a:b", "EoH", "all", (8, 0), (8, 1), (80, 10))
    >>> cost_sentence(cost, BudgetConfig(evaluations=60))
    'EoH  all  a:b: room for 6 proposals: 8 evaluations to start, 8 evaluations and 1 call each; a step is 10 of them'
    """
    spent = [_amounts(*cost.start), "to start,", _amounts(*cost.proposal), "each"]
    step = f"; a step is {cost.step[0] // cost.proposal[0]} of them" if cost.step is not None else ""
    proposals = f"room for {_counted(cost.proposals(budget), 'proposal')}"
    return f"{cost.trainer_id}  {cost.variant}  {cost.task_id}: {proposals}: {' '.join(spent)}{step}"


def _amounts(evaluations: int, calls: int) -> str:
    return _counted(evaluations, "evaluation") + (f" and {_counted(calls, 'call')}" if calls else "")


def bound_sentence(bound: SandboxBound) -> str:
    """The most that sandboxes cost, or why it is not known.

    >>> bound_sentence(SandboxBound(8, 3, core_hours=12.0, gib_hours=24.0, gpu_hours=0.0, usd=3.5))
    'at most 3.5000 USD by modal.prices, if all 8 jobs use up their time in 3 attempts: 12 core hours, 24 GiB hours'
    >>> bound_sentence(SandboxBound(8, 3, unlimited_jobs=2))
    'no bound, as 2 of 8 jobs have no limit of time; set job_timeout and score_timeout'
    """
    if bound.unlimited_jobs:
        endless = f"{bound.unlimited_jobs} of {bound.jobs} jobs have no limit of time"
        return f"no bound, as {endless}; set job_timeout and score_timeout"
    hours = f"{bound.core_hours:.4g} core hours, {bound.gib_hours:.4g} GiB hours"
    hours += f", {bound.gpu_hours:.4g} GPU hours" if bound.gpu_hours else ""
    tries = f"in {bound.attempts} attempts" if bound.attempts > 1 else "in their attempt"
    condition = f"if all {bound.jobs} jobs use up their time {tries}: {hours}"
    if bound.usd is None:
        return f"no price, as modal.prices lacks {', '.join(bound.missing_prices)}; {condition}"
    return f"at most {dollars(bound.usd)} USD by modal.prices, {condition}"


def _estimate_json(plan: RunPlan, estimate: PlanEstimate) -> dict[str, Any]:
    """``backend``, ``images``, ``hosts`` and ``cost``. The bound is None where sandboxes cost nothing."""
    bound = estimate.bound
    of_bound = {
        "sandboxes_usd_at_most": "usd",
        "attempts": "attempts",
        "jobs_without_a_limit_of_time": "unlimited_jobs",
        "core_hours": "core_hours",
        "memory_gib_hours": "gib_hours",
        "gpu_hours": "gpu_hours",
    }
    return {
        "backend": plan.backend.name,
        "images": {
            family: {"ref": image.ref or None, "key": image.key or None} for family, image in plan.lock.images.items()
        },
        "hosts": [_host_json(each) for each in estimate.hosts],
        "cost": {
            "models_usd_at_most": estimate.model_usd,
            **{key: getattr(bound, name, None) for key, name in of_bound.items()},
            "prices_lacking": [] if bound is None else list(bound.missing_prices),
        },
    }


def _cost_json(cost: SearchCost, budget: BudgetConfig) -> Mapping[str, Any]:
    def amounts(pair: tuple[int, int] | None) -> Mapping[str, int] | None:
        return None if pair is None else {"evaluations": pair[0], "calls": pair[1]}

    return {
        **{name: getattr(cost, name) for name in ("task_id", "trainer_id", "variant")},
        "start": amounts(cost.start),
        "proposal": amounts(cost.proposal),
        "first_step": amounts(cost.step),
        "room_for": cost.proposals(budget),
    }


def _host_json(each: HostCapacity) -> Mapping[str, Any]:
    host = each.host
    return {
        "name": host.name or None,
        **{name: getattr(host, name) for name in ("slots", "cpus", "memory_bytes")},
        "gpus": None if host.gpus is None else list(host.gpus),
        "labels": sorted(host.labels),
        "takes": each.can_run,
        "why_not": dict(each.why_not),
    }
