"""How often the interval of the probability of improvement holds the truth: what `testing.SHARE_COVERAGE` says.

    python benchmarks/statistics/improvement.py

prints, for each number of scores a side has, coverage of a 95 % interval over 1 and 5 tasks and three differences
(none, half a standard deviation, one and a half), then the worst and the best of these.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from scipy import stats

from trace_bench.analysis import testing

SHIFTS = (0.0, 0.5, 1.5)
TASKS = (1, 5)


def coverage(scores: int, tasks: int, shift: float, experiments: int, level: float = 0.95) -> float:
    """The share of `experiments` whose interval holds P(Y > X), of normal scores that are `shift` apart. One without
    an interval does not."""
    rng = np.random.default_rng([scores, tasks, int(10 * shift)])
    truth = float(stats.norm.cdf(shift / np.sqrt(2)))
    held = 0
    for _ in range(experiments):
        x, y = rng.normal(size=(tasks, scores)), rng.normal(shift, 1.0, size=(tasks, scores))
        share = testing.probability_of_improvement(list(x), list(y), level)
        held += share.low is not None and share.high is not None and share.low <= truth <= share.high
    return held / experiments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scores", type=int, nargs="*", default=[*range(2, 10), 20])
    parser.add_argument("--experiments", type=int, default=1000)
    asked = parser.parse_args()
    for scores in asked.scores:
        found = {
            (tasks, shift): coverage(scores, tasks, shift, asked.experiments)
            for tasks, shift in itertools.product(TASKS, SHIFTS)
        }
        each = "  ".join(f"{tasks}×{shift:g}: {value:.3f}" for (tasks, shift), value in found.items())
        print(f"{scores}: ({min(found.values()):.2f}, {max(found.values()):.2f})    {each}", flush=True)


if __name__ == "__main__":
    main()
