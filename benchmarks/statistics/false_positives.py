"""How often `compare` calls two equal trainers different: simulated experiments of scores of several kinds.

    python benchmarks/statistics/false_positives.py           # prints the tables
    python benchmarks/statistics/false_positives.py --write   # and writes them into docs/design/comparison.md

Seeded: the same numbers every time. About four minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from trace_bench.analysis.paired import Array, paired_effects
from trace_bench.analysis.testing import holm, sign_flip

PAGE = Path(__file__).parents[2] / "docs/design/comparison.md"
BEGIN, END = "<!-- false positives: begin -->", "<!-- false positives: end -->"
SEED = 11
SIZES = (3, 4, 5, 6, 7, 8, 10, 12, 15, 20)
TASKS = 12
EXPERIMENTS = 20_000
FEWER = 5_000
"""Of many tasks each."""
POWER_EXPERIMENTS = 2_000
POWER_SIZES = (5, 6, 8, 10, 12)
EFFECTS = (1.0, 2.0)

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _solved(rng: np.random.Generator, size: tuple[int, ...], probability: float) -> Array:
    return (rng.random(size) < probability).astype(np.float64)


def _found(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    return 0.65 + 0.3 * _solved(rng, size, 0.5) + 0.02 * rng.normal(size=size)


KINDS: Mapping[str, Draw] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: rng.lognormal(sigma=1.5, size=size),
    "heavy-tailed": lambda rng, size: rng.standard_t(2, size=size),
    "bounded": lambda rng, size: rng.beta(5, 2, size=size),
    "at the bounds": lambda rng, size: rng.beta(0.3, 0.3, size=size),
    "share of ten": lambda rng, size: rng.binomial(10, 0.7, size=size) / 10,
    "found or not": _found,
    "all or nothing, ½": partial(_solved, probability=0.5),
    "all or nothing, 0.8": partial(_solved, probability=0.8),
}
"""What scores look like. ``found or not`` has two narrow clusters: an idea that half of the searches find."""


def p_values(values: Array) -> Array:
    """p of each row of differences."""
    return np.array([effect.p for effect in paired_effects(list(values), 0.95)])


def differences(kind: str, shape: tuple[int, ...]) -> Array:
    """Differences of the scores of two equal trainers."""
    rng = np.random.default_rng([SEED, *shape, list(KINDS).index(kind)])
    first = KINDS[kind](rng, shape)
    return KINDS[kind](rng, shape) - first


def single(kind: str, pairs: int, experiments: int, alpha: float = 0.05) -> float:
    """The share of experiments with a false verdict on one task."""
    return float(np.mean(p_values(differences(kind, (experiments, pairs))) <= alpha))


def of_many(kind: str, pairs: int, experiments: int, tasks: int = TASKS, alpha: float = 0.05) -> float:
    """The share of experiments with a false verdict on any of `tasks` tasks, after Holm's correction."""
    p = p_values(differences(kind, (experiments * tasks, pairs))).reshape(experiments, tasks)
    return float(np.mean([min(holm(list(row))) <= alpha for row in p]))


def power(pairs: int, effect: float, alpha: float, experiments: int) -> tuple[float, float]:
    """How often this test and a sign-flip test find a difference of `effect` standard deviations of normal
    differences."""
    values = np.random.default_rng([SEED, pairs]).normal(effect, 1.0, size=(experiments, pairs))
    return float(np.mean(p_values(values) <= alpha)), float(np.mean(sign_flip(values)[0] <= alpha))


def _table(title: str, measured: Callable[[str, int], float]) -> list[str]:
    lines = [f"| {title} | {' | '.join(KINDS)} |", "|---:|" + "---:|" * len(KINDS)]
    for pairs in SIZES:
        cells = [f"{100 * measured(kind, pairs):.1f}" for kind in KINDS]
        lines.append(f"| {pairs} | {' | '.join(cells)} |")
        print(title, lines[-1], file=sys.stderr, flush=True)
    return lines


def _powers() -> Sequence[str]:
    columns = [(effect, tests) for tests in (1, TASKS) for effect in EFFECTS]
    names = [f"{effect:g} sd, {tests} test{'s' * (tests > 1)}" for effect, tests in columns]
    lines = [f"| found, pairs | {' | '.join(names)} |", "|---:|" + "---:|" * len(names)]
    for pairs in POWER_SIZES:
        found = [power(pairs, effect, 0.05 / tests, POWER_EXPERIMENTS) for effect, tests in columns]
        lines.append(f"| {pairs} | {' | '.join(f'{100 * one:.0f} / {100 * other:.0f}' for one, other in found)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def page() -> str:
    """The tables, in per cent."""
    return "\n".join(
        [
            *_table("one task, pairs", lambda kind, pairs: single(kind, pairs, EXPERIMENTS)),
            "",
            *_table(f"any of {TASKS} tasks, pairs", lambda kind, pairs: of_many(kind, pairs, FEWER)),
            "",
            f"{EXPERIMENTS:,} experiments a cell of one task (standard error at 5 %: 0.15 points), {FEWER:,} of {TASKS}"
            " tasks (0.31 points).",
            "",
            *_powers(),
            "",
            f"Normal differences, this test / a sign-flip test; {POWER_EXPERIMENTS:,} experiments a cell.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into the docs")
    options = parser.parse_args()
    text = page()
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
