"""Whether a search in stub mode is told apart from random choice on the tasks of llm4ad.

    python -m benchmarks.trainers.ladder --seeds 5          # all tasks, at size small
    python -m benchmarks.trainers.ladder optimization/tsp_construct

On each task and seed, PrioritySearch and RandomProposals make the same number of proposals with the stub model's draws:
steps on the ladder of programs. Both are judged by the score of the best state on the validation instances of the seed,
which are the same for both. A task separates them if the 95 % interval of the paired differences (Student's t) is above
0. Programs run in this process: they are the tasks' own.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

from benchmarks.trainers.arena import Arena, build
from trace_bench.gateway.draws import Draws
from trace_bench.gateway.stub import propose
from trace_bench.gateway.variables import Variable, answer_text
from trace_bench.suites.registry import discover
from trace_bench.suites.registry import resolve as find_task
from trace_bench.suites.spec import load_task_spec
from trace_bench.trainers.base import Budget
from trace_bench.trainers.registry import load_trainers
from trace_bench.worker.problem import CandidateError, Guide

INSTANCES = 4
PROPOSALS = 16


def stub(chance: random.Random, variables: Sequence[Mapping[str, Any]], arena: Arena) -> str:
    """The answer of the stub model."""
    known = [Variable(**{**v, "ladder": tuple(v.get("ladder", ()))}) for v in variables]
    return answer_text(known, propose(known, Draws(chance.randrange(2**62))), "")


def outcome(task: str, seed: int) -> tuple[float, float]:
    """What PrioritySearch and RandomProposals end with, turned so that higher is better."""
    found = find_task(f"llm4ad:{task}")
    count = 1 if "single-instance" in load_task_spec(found.folder).tags else INSTANCES
    problem = build(found.id, seed, size="small", num_train=count, num_validate=count)
    problem = replace(problem, guide=_remembering(problem.guide))
    ends = []
    for name, steps in (("PrioritySearch", 0), ("RandomProposals", PROPOSALS)):
        arena = Arena(problem, stub, seed, Budget(calls=PROPOSALS))
        score = arena.run(load_trainers()[name], num_steps=steps)
        ends.append(score if problem.direction == "maximize" else -score)
    return ends[0], ends[1]


def _remembering(guide: Guide) -> Guide:
    """`guide`, which judges each program on each instance once."""
    known: dict[tuple[str, int], Any] = {}

    def judge(query: Any, response: Any, reference: Any) -> Any:
        key = (response, id(reference))
        if key not in known:
            try:
                known[key] = guide(query, response, reference)
            except CandidateError as error:
                known[key] = error
        if isinstance(known[key], CandidateError):
            raise known[key]
        return known[key]

    return judge


def separated(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, bool]:
    """Mean and half interval of the differences, and whether the interval is above 0."""
    differences = [a - b for a, b in pairs]
    mean = fmean(differences)
    half = student.ppf(0.975, len(pairs) - 1) * stdev(differences) / math.sqrt(len(pairs)) if len(pairs) > 1 else 0.0
    return mean, half, mean - half > 0


def main(arguments: list[str]) -> int:
    """Print a line for each task, and how many separate the two."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trainers.ladder")
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    tasks = options.tasks or [entry.id.partition(":")[2] for entry in discover(["llm4ad"])]
    seeds = range(1, options.seeds + 1)
    apart = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = [(task, seed) for task in tasks for seed in seeds]
        ends = dict(zip(cells, pool.map(outcome, *zip(*cells, strict=True)), strict=True))
    for task in tasks:
        mean, half, above = separated([ends[task, seed] for seed in seeds])
        apart += above
        print(f"{'apart' if above else '-':6s} {mean:12.6g} ± {half:<10.4g} {task}", flush=True)
    print(f"{apart} of {len(tasks)} tasks tell PrioritySearch from random proposals ({options.seeds} seeds)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
