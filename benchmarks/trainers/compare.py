"""Every search against no search, at equal budget: does it find more than its model finds without it?

    python -m benchmarks.trainers.compare [--seeds 20] [--budgets 100,300,1000] [--trainers A,B] [--write]

For each trainer, model and problem: ``(score of the best state - that of the start) / (best known - that of the
start)``; 0 is the start, 1 the best known. Each search runs once, with the largest budget; what it had found at a
smaller one is read from its curve, as no trainer plans with its budget. Intervals are of 95 % (Student's t over seeds,
of the mean over problems and models); differences to the baselines are paired by seed. Everything here is a function of
the seeds. A trainer that takes programs alone is in the last table only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.trainers.arena import Arena, build
from benchmarks.trainers.models import MODELS
from benchmarks.trainers.problems import PROBLEMS
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Budget
from trace_bench.trainers.registry import load_trainers

TASKS = ("internal:many_param", *PROBLEMS)
"""Their best scores are 0."""
BASELINES = ("NoOp", "RandomProposals", "BestOfN")
README = Path(__file__).with_name("README.md")
Cell = tuple[str, str, str, int]
"""Trainer, model, problem, seed."""
Scores = Mapping[Cell, Sequence[float]]
"""A score for each budget."""


def searches() -> dict[str, Any]:
    """The trainers of this project that search by themselves, by name, the baselines first."""
    found = {n: t for n, t in load_trainers().items() if not hasattr(t, "layer")}
    ours = {n: t for n, t in found.items() if t.__module__.startswith("trace_bench.trainers.")}
    return {n: ours[n] for n in (*BASELINES, *sorted(set(ours) - {*BASELINES}))}


def run_cell(cell: Cell, budgets: Sequence[int]) -> list[float] | None:
    """One search: the part of the way from the start to the best known that it came with each of `budgets`. None for a
    problem that the trainer does not take."""
    name, model, task, seed = cell
    trainer = load_trainers()[name]
    problem = build(task, seed)
    arena = Arena(problem, MODELS[model], seed, Budget(evaluations=max(budgets), calls=max(budgets)))
    try:
        arena.run(trainer, **{p.name: p.endless for p in trainer.params if p.endless is not None})
    except TrainerError:
        return None
    start = arena.truth(problem.initial_state())
    return [(arena.best_at(budget) - start) / (0.0 - start) for budget in budgets]


def main() -> None:
    """Run all cells on all processors, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", default="100,300,1000", help="evaluations of one search, and model calls too")
    parser.add_argument("--trainers", default="", help="names with commas; all without")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write all scores to this file")
    parser.add_argument("--add", type=Path, help="put the scores of this file, of --json, into the tables too")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {README.name}")
    given = parser.parse_args()
    budgets = sorted(int(budget) for budget in given.budgets.split(","))
    wanted = given.trainers.split(",") if given.trainers else list(searches())
    names = [name for name in searches() if name in BASELINES or name in wanted]
    cells: list[Cell] = list(itertools.product(names, MODELS, TASKS, range(1, given.seeds + 1)))
    with ProcessPoolExecutor(given.processes) as pool:
        values = list(pool.map(run_cell, cells, itertools.repeat(budgets), chunksize=16))
    found = {cell: row for cell, row in zip(cells, values, strict=True) if row is not None}
    scores = {**(_read(given.add, budgets) if given.add else {}), **found}
    text = tables(scores, budgets)
    print(text)
    if given.json:
        rows = [
            {"trainer": n, "model": m, "task": t, "seed": s, "budget": budget, "score": score}
            for (n, m, t, s), row in scores.items()
            for budget, score in zip(budgets, row, strict=True)
        ]
        given.json.write_text(json.dumps(rows, indent=0) + "\n")
    if given.write:
        head, mark, _ = README.read_text().partition("<!-- tables -->\n")
        README.write_text(head + mark + text + "\n")


def _read(path: Path, budgets: Sequence[int]) -> Scores:
    found: dict[Cell, list[float]] = {}
    for row in json.loads(path.read_text()):
        if row["budget"] in budgets:
            found.setdefault((row["trainer"], row["model"], row["task"], row["seed"]), []).append(row["score"])
    return found


def tables(scores: Scores, budgets: Sequence[int]) -> str:
    """What the README shows: means with intervals, differences, and means by model and by problem."""
    everyone = sorted({cell[0] for cell in scores}, key=lambda n: (n not in BASELINES, n))
    names = [n for n in everyone if {cell[2] for cell in scores if cell[0] == n} == set(TASKS)]
    seeds = {n: sorted({cell[3] for cell in scores if cell[0] == n}) for n in names}
    last = len(budgets) - 1
    by_seed = {
        n: [{s: _mean(scores, budget, (n, None, None, s)) for s in seeds[n]} for budget in range(len(budgets))]
        for n in names
    }
    most = max(map(len, seeds.values()))
    fewer = "".join(f", {len(seeds[n])} for {n}" for n in names if len(seeds[n]) < most)
    shown = [f"{budget:,}" for budget in budgets]
    text = [
        f"{most} seeds{fewer}; each search has as many model calls as evaluations.",
        "",
        _row(
            "trainer",
            *(f"{b} evaluations" for b in shown),
            *(f"{n}, {shown[-1]}" for n in ("over RandomProposals", "over BestOfN")),
        ),
        "|---|" + "---|" * (len(budgets) + 2),
    ]
    for name in sorted(names, key=lambda n: -statistics.fmean(by_seed[n][last].values())):
        gaps = []
        for base in BASELINES[1:]:
            own, others = by_seed[name][last], by_seed[base][last]
            gaps.append("" if base == name else _verdict([own[s] - others[s] for s in own if s in others]))
        text.append(_row(name, *(_interval(list(values.values())) for values in by_seed[name]), *gaps))
    for title, axis in (("model", list(MODELS)), ("problem", list(TASKS))):
        text += [
            "",
            f"By {title}, after {' / '.join(shown)} evaluations:",
            "",
            _row("trainer", *(value.partition(":")[2] or value for value in axis)),
            "|---|" + "---|" * len(axis),
        ]
        for name in names if title == "model" else everyone:
            cells = []
            for value in axis:
                of = (name, value, None, None) if title == "model" else (name, None, value, None)
                means = [_mean(scores, budget, of) for budget in range(len(budgets))]
                cells.append("" if math.isnan(means[0]) else " / ".join(f"{mean:.2f}" for mean in means))
            text.append(_row(name, *cells))
    return "\n".join(text)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _mean(scores: Scores, budget: int, of: tuple[str, str | None, str | None, int | None]) -> float:
    """Mean of the cells that agree with `of` wherever it is not None; NaN if there are none."""
    values = [
        row[budget] for cell, row in scores.items() if all(w is None or c == w for c, w in zip(cell, of, strict=True))
    ]
    return statistics.fmean(values) if values else math.nan


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
