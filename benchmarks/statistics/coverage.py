"""How often the intervals of `trace_bench.analysis.statistics` hold the truth: simulated experiments, known answers.

    python benchmarks/statistics/coverage.py           # prints the table
    python benchmarks/statistics/coverage.py --write   # and writes coverage.json of the package, and the docs' table

Seeded: the same numbers every time. About ten minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from trace_bench.analysis.statistics import FEW, iqm_of_rows, mean_intervals

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "trace_bench/analysis/coverage.json"
PAGE = ROOT / "docs/design/statistics.md"
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"

SEED = 7
EXPERIMENTS = 20_000
FEWER = 4_000
"""From ten values on, where the table is there to be read only."""
SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 50)
LEVELS: Mapping[str, tuple[float, ...]] = {"mean": (0.9, 0.95, 0.99), "iqm": (0.95,)}
DISTRIBUTIONS: Mapping[str, Any] = {
    "normal": stats.norm(),
    "skewed": stats.gamma(4),
    "strongly skewed": stats.expon(),
    "bounded": stats.beta(5, 2),
    "share of ten": stats.binom(10, 0.7),
    "all or nothing": stats.bernoulli(0.7),
}
"""What scores look like: ``skewed`` has skewness 1, ``strongly skewed`` (exponential) 2; ``share of ten`` is the number
of ten examples that are solved, ``all or nothing`` a task that a seed solves or does not."""


def truth(name: str, estimator: str) -> float:
    """The mean, or the mean between the quartiles, of a distribution."""
    distribution = DISTRIBUTIONS[name]
    if estimator == "mean":
        return float(distribution.mean())
    places = 0.25 + 0.5 * (np.arange(1_000_000) + 0.5) / 1_000_000
    return float(distribution.ppf(places).mean())


def measure(name: str, estimator: str, n: int, level: float, *, seed: int = SEED, experiments: int) -> float:
    """The share of `experiments` samples of `n` values whose interval at `level` holds the truth."""
    key = [seed, n, list(DISTRIBUTIONS).index(name)]
    values = DISTRIBUTIONS[name].rvs((experiments, n), random_state=np.random.default_rng(key)).astype(float)
    true = truth(name, estimator)
    ends = mean_intervals(values, level)[2] if estimator == "mean" else iqm_of_rows(values, level)[1]
    slack = 1e-9 * max(1.0, abs(true))
    return float(np.mean((ends[:, 0] - slack <= true) & (true <= ends[:, 1] + slack)))


def table_cells() -> list[tuple[str, str, int]]:
    """Estimator, level and size of each line of the table."""
    return [
        (estimator, f"{level:g}", n)
        for estimator, levels in LEVELS.items()
        for n in SIZES
        if estimator == "mean" or n >= 4  # below it the IQM is the mean
        for level in levels
    ]


def table() -> dict[str, Any]:
    """All cells: by estimator, level, size and distribution."""
    coverage: dict[str, Any] = {}
    for estimator, level, n in table_cells():
        experiments = EXPERIMENTS if n < FEW else FEWER
        shares = {name: measure(name, estimator, n, float(level), experiments=experiments) for name in DISTRIBUTIONS}
        cells = {name: round(share, 4) for name, share in shares.items()}
        coverage.setdefault(estimator, {}).setdefault(level, {})[str(n)] = cells
        print(estimator, level, n, cells, file=sys.stderr, flush=True)
    return {"experiments": {"below_10": EXPERIMENTS, "from_10": FEWER}, "seed": SEED, "coverage": coverage}


def page(found: Mapping[str, Any], level: float = 0.95) -> str:
    """The table at `level` for people, in per cent."""
    lines = []
    for estimator, title in (("mean", "Mean, t interval"), ("iqm", "IQM, expanded percentile bootstrap")):
        cells = found["coverage"][estimator][f"{level:g}"]
        lines += [f"| {title}, n | {' | '.join(DISTRIBUTIONS)} |", "|---:|" + "---:|" * len(DISTRIBUTIONS)]
        lines += [
            f"| {n} | {' | '.join(f'{100 * of[name]:.1f}' for name in DISTRIBUTIONS)} |" for n, of in cells.items()
        ]
        lines.append("")
    told = [
        f"{count:,} experiments a cell {where} (standard error at {100 * level:g} %: "
        f"{100 * math.sqrt(level * (1 - level) / count):.2f} points)"
        for where, count in (("below n = 10", EXPERIMENTS), ("above", FEWER))
    ]
    lines.append(", ".join(told) + ".")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table and the docs' copy of it")
    parser.add_argument("--page", action="store_true", help="write only the docs' copy, from the table there is")
    options = parser.parse_args()
    found = json.loads(TARGET.read_text(encoding="utf-8")) if options.page else table()
    if options.write:
        TARGET.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if (options.write or options.page) and PAGE.exists():
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{page(found)}\n{END}{after}", encoding="utf-8")
    print(page(found))


if __name__ == "__main__":
    main()
