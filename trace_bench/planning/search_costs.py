"""Estimate what searches can do with a budget, and say where trainers could spend differently, before a run starts.

An estimate is a lower bound of the cost: the start is scored on the whole selection split, as in every search; then
each proposal takes the evaluations and calls that its trainer declares (`trace_bench.trainers.base.Costs`). Calls of
programs under improvement count for tasks that are known to ask a model for each example.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.artifacts.records import ModelPrices
from trace_bench.config.models import BudgetConfig, RunConfig
from trace_bench.errors import ConfigError
from trace_bench.matrix import Job
from trace_bench.suites.spec import Task
from trace_bench.trainers.base import Costs, Trainer, is_endless

ENOUGH = 3
"""Proposals with which a search can be called one."""
DEFAULT_CALLS = 60
"""Model calls of a job, where a command names several trainers and no budget."""
_MOST = 4
"""Sentences about budgets that are too small."""
_NAMED = 3
_JUDGED = "judged"
"""Kind of question whose answers a model judges."""
Amounts = tuple[int, int]
"""Evaluations and model calls."""


@dataclass(frozen=True)
class SearchCost:
    """The estimate for one trainer with its parameters on one task: evaluations and model calls.

    Attributes:
        start: of scoring the initial state.
        proposal: of one proposal, until it is judged.
        step: of the first step; None if the trainer does not say how many proposals that is.
    """

    task_id: str
    trainer_id: str
    variant: str
    start: Amounts
    proposal: Amounts
    step: Amounts | None

    def proposals(self, budget: BudgetConfig) -> int | None:
        """How many proposals `budget` has room for; None without a limit of evaluations or calls."""
        limits = (budget.evaluations, budget.calls)
        room = [
            max(0, limit - start) // each
            for limit, start, each in zip(limits, self.start, self.proposal, strict=True)
            if limit is not None and each
        ]
        return min(room, default=None)

    def needed(self, number: int) -> Amounts:
        """Evaluations and calls of `number` proposals."""
        evaluations, calls = (start + number * each for start, each in zip(self.start, self.proposal, strict=True))
        return evaluations, calls


def search_costs(
    jobs: Iterable[Job], tasks: Mapping[str, Task], trainers: Mapping[str, type[Trainer]]
) -> list[SearchCost]:
    """The estimates for `jobs`, one for each task, trainer and parameters, in order; without trainers that do not
    search, and those whose package decides what it asks for."""
    found: dict[tuple[object, ...], SearchCost] = {}
    for job in jobs:
        trainer = trainers.get(job.trainer_id)
        costs = costs_of(trainer) if trainer is not None else None
        # Jobs of a task, and of a variant, share the very objects.
        key = (job.task_id, id(job.eval_kwargs), job.trainer_id, id(job.params))
        if costs is not None and key not in found:
            found[key] = _estimated(job, costs, tasks[job.task_id])
    return list(found.values())


def costs_of(trainer: type[Trainer]) -> Costs | None:
    """What `trainer` declares that a proposal costs; None for one that does not search, or cannot say.

    Without a declaration a proposal takes one call, and is judged on the whole selection split.
    """
    if not searches(trainer):
        return None
    given: Costs | None = getattr(trainer, "costs", Costs())
    return given


def searches(trainer: type[Trainer]) -> bool:
    """Whether `trainer` changes the start: it asks a model, or has a parameter that says how long it goes on."""
    return trainer.uses_llm or any(param.endless is not None for param in trainer.params)


def _estimated(job: Job, costs: Costs, task: Task) -> SearchCost:
    train, validate = _size(job, "train"), _size(job, "validate")
    amounts = amounts_of(costs, job.params, train, validate, _calls_of_an_evaluation(task, job))
    return SearchCost(job.task_id, job.trainer_id, job.variant.label, *amounts)


def amounts_of(
    costs: Costs, params: Mapping[str, Any], train: int, validate: int, asked: int = 0
) -> tuple[Amounts, Amounts, Amounts | None]:
    """`SearchCost.start`, `proposal` and `step` of a search with `params`.

    Args:
        train, validate: examples of these splits.
        asked: calls that a program under improvement makes for an example.
    """
    selection = validate or train
    judged = int(params.get(costs.judged_on, 0) or 0) or selection
    evaluations = costs.runs * min(int(params.get(costs.batch, 0) or 0), train) + min(judged, selection)
    proposal = (evaluations, costs.calls + asked * evaluations)
    sizes = [params.get(name, 1) for name in costs.first_step]
    number = math.prod(len(size) if isinstance(size, Sequence) else int(size) for size in sizes)
    step = (proposal[0] * number, proposal[1] * number) if sizes else None
    return (selection, asked * selection), proposal, step


def _size(job: Job, split: str) -> int:
    """Examples of `split` as far as they are known before the task is built: at least one to train on."""
    given = job.eval_kwargs.get(f"num_{split}", job.splits.get(split))
    repeats = int(job.eval_kwargs.get("num_eval_repeats", 1)) if split != "train" else 1
    return int(given) * repeats if given is not None else int(split == "train")


def _calls_of_an_evaluation(task: Task, job: Job) -> int:
    """Calls to the model for an example, of the agent and of what judges its answer, if that is known."""
    if task.spec.qa is None:
        return 0
    return 1 + (job.eval_kwargs.get("agent") == "chain") + (task.spec.qa.task_type == _JUDGED)


# ------------------------------------------------------------------------------------------------------ sentences


def budget_sentences(
    config: RunConfig, jobs: Sequence[Job], costs: Iterable[SearchCost], trainers: Mapping[str, type[Trainer]]
) -> list[str]:
    """What is to be known of budgets before the run: who could spend differently, and for whom they are too small.

    Args:
        costs: of `jobs`.
    """
    found = [text] if (text := _unequal(config.budget, jobs, trainers)) else []
    small = [
        _too_small(cost, room, config.budget)
        for cost in costs
        if (room := cost.proposals(config.budget)) is not None and room < ENOUGH
    ]
    more = [f"and {len(small) - _MOST} more; --dry-run has all estimates"] if len(small) > _MOST else []
    return [*found, *small[:_MOST], *more]


def check_an_end(
    config: RunConfig,
    jobs: Iterable[Job],
    trainers: Mapping[str, type[Trainer]],
    prices: Mapping[str, ModelPrices],
) -> None:
    """Raise ConfigError if only a limit in US dollars could end a search, and its model costs nothing.

    Args:
        prices: of real models, by id, as far as they are known.
    """
    budget = config.budget
    others = (
        budget.evaluations,
        *(getattr(b, n) for b in (budget, budget.run) for n in ("calls", "tokens", "seconds")),
    )
    if budget.usd is None or any(limit is not None for limit in others):
        return
    for job in jobs:
        trainer, model = trainers.get(job.trainer_id), str(job.model["id"])
        price = prices.get(model)
        # A stub has no provider, whatever a config calls it.
        free = "provider" not in job.model or (price is not None and not (price.prompt or price.completion))
        if free and trainer is not None and is_endless(trainer.params, job.params):
            raise ConfigError(
                f"{config.source.where(('budget', 'usd'))}: calls of {model} cost nothing, so that {job.trainer_id} "
                "would never end; add a budget of calls, evaluations or seconds"
            )


def has_budget(budget: BudgetConfig) -> bool:
    """Whether `budget` limits what a job spends."""
    return any(value is not None for value in budget.model_dump(exclude={"run"}).values())


def _unequal(budget: BudgetConfig, jobs: Sequence[Job], trainers: Mapping[str, type[Trainer]]) -> str:
    """The sentence where configurations could spend differently; empty where a budget ends them all."""
    configurations: dict[tuple[str, int], bool] = {}
    for job in jobs:
        trainer = trainers.get(job.trainer_id)
        if trainer is not None and searches(trainer):
            configurations[job.trainer_id, id(job.params)] = is_endless(trainer.params, job.params)
    if len(configurations) < 2:
        return ""
    if not has_budget(budget):
        names = list(dict.fromkeys(name for name, _ in configurations))
        who = _listed(names) if len(names) > 1 else f"the variants of {names[0]}"
        return (
            f"no budget limits what a job spends, so that {who} can spend differently; "
            f"--budget calls={DEFAULT_CALLS} (or budget in the config) compares on equal terms"
        )
    short = list(dict.fromkeys(name for (name, _), endless in configurations.items() if not endless))
    if not short:
        return ""
    return (
        f"{_listed(short)} may end before the budget, by a parameter that limits the steps: on equal terms the budget "
        "alone ends a search"
    )


def _too_small(cost: SearchCost, room: int, budget: BudgetConfig) -> str:
    limits: dict[str, Any] = {"evaluations": budget.evaluations, "calls": budget.calls}
    needed = dict(zip(limits, cost.needed(ENOUGH), strict=True))
    wanted = ",".join(
        f"{name}={needed[name]}" for name, limit in limits.items() if limit is not None and limit < needed[name]
    )
    given = ",".join(f"{name}={limit}" for name, limit in limits.items() if limit is not None)
    proposals = "no proposal" if not room else "1 proposal" if room == 1 else f"{room} proposals"
    return (
        f"{cost.trainer_id} on {cost.task_id}: {given} has room for {proposals} after the start, and "
        f"{wanted} for {ENOUGH}"
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
