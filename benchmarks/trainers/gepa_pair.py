"""GEPA-Base against the GEPA of its authors' package, at equal budgets, on the problems and models of `compare`.

    python -m benchmarks.trainers.gepa_pair [--seeds 20] [--budgets 100,300]

It needs the package gepa, in the version of ``images/layers/gepa``. GEPA-Base makes no merges here, as the package
makes none by default. The model of a problem gets the same from both: one parameter to change, and its value.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.trainers.arena import Arena, build
from benchmarks.trainers.compare import TASKS, _interval, _verdict
from benchmarks.trainers.models import MODELS
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.registry import load_trainer

PAIR: Mapping[str, dict[str, Any]] = {"GEPA-Base": {"num_iters": 0, "merge_every": 0}, "GEPATrainer": {"num_iters": 0}}
Cell = tuple[str, str, str, int]
"""Trainer, model, problem, seed."""


class Table(Arena):
    """An arena whose model also understands the prompts of the package."""

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        slot: Slot,
        variables: Sequence[Mapping[str, Any]] = (),
        **request: Any,
    ) -> dict[str, Any]:
        if variables:
            return super().chat(messages, slot=slot, variables=variables, **request)
        text = messages[-1]["content"]
        name = re.findall(r"Find a better value for `(\w+)`", text)[-1]
        value = re.findall(r"Its current value is:\n```\n(.*?)\n```", text, re.DOTALL)[0]
        (parameter,) = (p for p in self.problem.trainable if p.name == name)
        shown = {
            "name": name,
            "kind": parameter.kind,
            "value": {"int": int, "float": float}.get(parameter.kind, str)(value),
            "bounds": parameter.bounds,
            "alternatives": list(parameter.alternatives),
        }
        reply = super().chat(messages, slot=slot, variables=[shown], **request)
        message = reply["choices"][0]["message"]
        with contextlib.suppress(ValueError, KeyError):  # an answer without a value stays one
            message["content"] = f"```\n{json.loads(message['content'])['suggestion'][name]}\n```"
        return reply


def run_cell(cell: Cell, budgets: Sequence[int]) -> list[float]:
    """One search: the part of the way to the best known that it came with each of `budgets`, its evaluations, those
    that were known, and its model calls."""
    name, model, task, seed = cell
    problem = build(task, seed)
    arena = Table(problem, MODELS[model], seed, Budget(evaluations=max(budgets), calls=max(budgets)))
    arena.run(load_trainer(name), **PAIR[name])
    start = arena.truth(problem.initial_state())
    reached = [(arena.best_at(budget) - start) / (0.0 - start) for budget in budgets]
    return [*reached, arena.evaluations, arena.saved, arena.calls]


def main() -> None:
    """Run all cells, and print the means with their intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", default="100,300")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    budgets = sorted(int(budget) for budget in given.budgets.split(","))
    seeds = range(1, given.seeds + 1)
    cells: list[Cell] = list(itertools.product(PAIR, MODELS, TASKS, seeds))
    with ProcessPoolExecutor(given.processes) as pool:
        found = dict(zip(cells, pool.map(run_cell, cells, itertools.repeat(budgets), chunksize=8), strict=True))

    def mean(name: str, seed: int, place: int) -> float:
        return statistics.fmean(found[name, model, task, seed][place] for model in MODELS for task in TASKS)

    print(f"| trainer | {' | '.join(f'{b} evaluations' for b in budgets)} | evaluations | known | calls |")
    print("|---|" + "---|" * (len(budgets) + 3))
    for name in PAIR:
        reached = [_interval([mean(name, seed, place) for seed in seeds]) for place in range(len(budgets))]
        spent = [f"{statistics.fmean(mean(name, s, len(budgets) + i) for s in seeds):.0f}" for i in range(3)]
        print(f"| {name} | {' | '.join([*reached, *spent])} |")
    ours, theirs = PAIR
    for place, budget in enumerate(budgets):
        print(f"{budget}: {_verdict([mean(ours, s, place) - mean(theirs, s, place) for s in seeds])} (paired by seed)")


if __name__ == "__main__":
    main()
