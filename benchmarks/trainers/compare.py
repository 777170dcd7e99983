"""Every search against no search, at equal budget: does it find more than its model finds without it?

    python -m benchmarks.trainers.compare [--seeds 20] [--evaluations 100] [--trainers A,B] [--json FILE] [--write]

For each trainer, model and task: ``(score of the best state - that of the start) / (best known - that of the start)``;
0 is the start, 1 the best known. Intervals are of 95 % (Student's t over seeds, of the mean over tasks and models);
differences to the baselines are paired by seed. Everything here is a function of the seeds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.trainers.arena import Arena, build
from benchmarks.trainers.baselines import BestOfN, RandomProposals
from benchmarks.trainers.models import MODELS
from trace_bench.trainers.base import Budget
from trace_bench.trainers.registry import load_trainers

TASKS: dict[str, tuple[float, dict[str, Any]]] = {
    "internal:numeric_param": (0.0, {"start": -10.0}),
    "internal:multiobjective_convex": (-0.5814369540319392, {}),
    "internal:code_param": (1.0, {}),
    "internal:many_param": (0.0, {}),
}
"""Tasks, with the best score that is known, and their arguments."""
ENDLESS = ("num_steps", "num_iters", "num_search_iterations", "max_depth")
"""Parameters that would end a search before its budget does; all others are left as they are."""
README = Path(__file__).with_name("README.md")
Cell = tuple[str, str, str, int]


def searches() -> dict[str, Any]:
    """The trainers that search by themselves, by name, and the baselines."""
    found = {n: t for n, t in load_trainers().items() if t.uses_graph and t.__module__.startswith("trace_bench.")}
    return {"NoOp": load_trainers()["NoOp"], RandomProposals.name: RandomProposals, BestOfN.name: BestOfN, **found}


def run_cell(cell: Cell, evaluations: int) -> float:
    """One search: the part of the way from the start to the best known that it came."""
    name, model, task, seed = cell
    trainer = searches()[name]
    known, kwargs = TASKS[task]
    problem = build(task, seed, **kwargs)
    arena = Arena(problem, MODELS[model], seed, Budget(evaluations=evaluations, calls=evaluations))
    endless = {p.name: 10**6 for p in trainer.params if p.name in ENDLESS}
    best = arena.run(trainer, **endless)
    start = arena.truth(problem.initial_state())
    return (best - start) / (known - start)


def main() -> None:
    """Run all cells on all processors, and print or write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--evaluations", type=int, default=100, help="of one search, and model calls too")
    parser.add_argument("--trainers", default="", help="names with commas; all without")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {README.name}")
    given = parser.parse_args()
    names = [name for name in searches() if not given.trainers or name in given.trainers.split(",")]
    names = list(dict.fromkeys(["NoOp", RandomProposals.name, BestOfN.name, *names]))
    cells: list[Cell] = list(itertools.product(names, MODELS, TASKS, range(1, given.seeds + 1)))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        values = list(pool.map(run_cell, cells, itertools.repeat(given.evaluations), chunksize=16))
    scores = dict(zip(cells, values, strict=True))
    text = tables(scores, names, given.seeds, given.evaluations)
    print(text)
    if given.json:
        rows = [{"trainer": n, "model": m, "task": t, "seed": s, "score": v} for (n, m, t, s), v in scores.items()]
        given.json.write_text(json.dumps(rows, indent=0) + "\n")
    if given.write:
        head, mark, _ = README.read_text().partition("<!-- tables -->\n")
        README.write_text(head + mark + text + "\n")


def tables(scores: dict[Cell, float], names: list[str], seeds: int, evaluations: int) -> str:
    """What the README shows."""
    lines = [
        f"{seeds} seeds, {evaluations} evaluations and as many model calls for each search.",
        "",
        "| trainer | mean [95 % interval] | over NoOp | over random proposals | over best of n |",
        "|---|---|---|---|---|",
    ]
    by_seed = {n: [_mean(scores, n, s) for s in range(1, seeds + 1)] for n in names}
    for name in sorted(names, key=lambda n: -statistics.fmean(by_seed[n])):
        cells = [_interval(by_seed[name])]
        for base in ("NoOp", RandomProposals.name, BestOfN.name):
            gaps = [a - b for a, b in zip(by_seed[name], by_seed[base], strict=True)]
            cells.append("" if base == name else _verdict(gaps))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", f"| trainer | {' | '.join(MODELS)} |", "|---|" + "---|" * len(MODELS)]
    for name in names:
        of = [statistics.fmean(v for c, v in scores.items() if c[:2] == (name, m)) for m in MODELS]
        lines.append(f"| {name} | {' | '.join(f'{v:.3f}' for v in of)} |")
    lines += ["", f"| trainer | {' | '.join(t.split(':')[1] for t in TASKS)} |", "|---|" + "---|" * len(TASKS)]
    for name in names:
        of = [statistics.fmean(v for c, v in scores.items() if (c[0], c[2]) == (name, t)) for t in TASKS]
        lines.append(f"| {name} | {' | '.join(f'{v:.3f}' for v in of)} |")
    return "\n".join(lines)


def _mean(scores: dict[Cell, float], name: str, seed: int) -> float:
    return statistics.fmean(scores[name, model, task, seed] for model in MODELS for task in TASKS)


def _half(values: list[float]) -> float:
    """Half the width of the 95 % interval of the mean."""
    if len(values) < 2 or not any(v != values[0] for v in values):
        return 0.0
    return float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))


def _interval(values: list[float]) -> str:
    return f"{statistics.fmean(values):.3f} [± {_half(values):.3f}]"


def _verdict(gaps: list[float]) -> str:
    gap, half = statistics.fmean(gaps), _half(gaps)
    word = "better" if gap > half else "worse" if gap < -half else "no difference seen"
    return f"{gap:+.3f} [± {half:.3f}] {word}"


if __name__ == "__main__":
    main()
