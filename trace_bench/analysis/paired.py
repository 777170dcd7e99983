"""The difference on one task from its pairs: Student's t test with a guard, and the interval that agrees with it.

If a pair's two scores are independent draws of one distribution (which may be another for each seed), the distribution
of their difference is symmetric. Student's t test then keeps its level, or is too cautious, where tails are heavy. It
rejects too often only where differences take few values, as of scores that are all or nothing: for these there is a
guard. ``docs/design/comparison.md`` says how it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from trace_bench.analysis.statistics import Estimate, by_size, mean_intervals

Array = NDArray[np.float64]

EQUAL = 1e-9
"""Relative difference up to which two scores are the same, as for a task that declares no tolerance."""
MOST_GUARDED = 100
"""Pairs up to which all outcomes of all-or-nothing scores are enumerated. Beyond, Student's t needs no guard."""


@dataclass(frozen=True)
class Effect:
    """A difference, better when larger.

    Attributes:
        n: pairs, or tasks; `n_baseline` too where there are no pairs.
        sd: of the differences; None for fewer than two, and where there are no pairs.
        se: standard error of `mean`; None where it is not determined. `df` are its degrees of freedom.
        low, high: interval of `mean` at the level of the comparison; it excludes 0 if and only if `p` is at most
            1 - level. None where no interval of so few scores has that level.
        p: two-sided.
        smallest_p: that `n` allows, whatever the scores.
        all_or_nothing: the differences of pairs that are not 0 have one size.
        coverage: how often such an interval of fewer than 10 differences holds the truth, in the worst and the best
            case that was measured; None where it was not.
    """

    n: int
    n_baseline: int | None
    mean: float
    sd: float | None
    se: float | None
    df: float | None
    low: float | None
    high: float | None
    p: float
    smallest_p: float
    all_or_nothing: bool = False
    coverage: tuple[float, float] | None = None


def paired_effects(groups: Sequence[Array], level: float) -> list[Effect]:
    """For each group the mean of its differences with Student's t test and its interval.

    The test has a guard: differences of few pairs may vary little by chance, most of all where scores are all or
    nothing, and their t is large or infinite then. So p is at least `smallest_paired_p`, and where all differences that
    are not 0 have one size, at least the probability of such a t under `all_or_nothing`.
    """
    found: dict[int, Effect] = {}
    for places, values in by_size(groups):
        n = values.shape[1]
        mean, se, _ = mean_intervals(values, level)
        mean = without_rounding(mean, np.abs(values).max(axis=1))
        for row, place in enumerate(places):
            effect = Effect(
                n=n,
                n_baseline=None,
                mean=float(mean[row]),
                sd=finite(se[row] * math.sqrt(n)),
                se=finite(se[row]),
                df=n - 1 if n > 1 else None,
                low=None,
                high=None,
                p=1.0,
                smallest_p=smallest_paired_p(n),
                all_or_nothing=_of_one_size(values[row]),
                coverage=Estimate(n=n, interval=(0.0, 0.0), level=level).coverage,
            )
            low, high = paired_interval(effect, round(1 - level, 12))
            found[place] = replace(effect, p=_student_p(effect), low=low, high=high)
    return [found[place] for place in range(len(groups))]


def paired_interval(effect: Effect, alpha: float) -> tuple[float | None, float | None]:
    """The interval of a paired difference at level 1 - `alpha`: it excludes 0 if and only if p is at most `alpha`. None
    where no difference would have so small a p."""
    tail = student_alpha(effect, alpha)
    if tail is None or effect.se is None:
        return None, None
    half = float(special.stdtrit(effect.n - 1, 1 - tail / 2)) * effect.se if effect.se else 0.0
    return finite(effect.mean - half), finite(effect.mean + half)


def student_alpha(effect: Effect, alpha: float) -> float | None:
    """The p of Student's t up to which the guarded p is at most `alpha`; None if it never is."""
    if effect.smallest_p > alpha:
        return None
    if not effect.all_or_nothing or effect.n > MOST_GUARDED:
        return alpha
    plain, worst = all_or_nothing(effect.n)
    small = int(np.sum(worst <= alpha))
    return alpha if small == len(worst) else min(alpha, float(plain[small - 1] + plain[small]) / 2)


def _student_p(effect: Effect) -> float:
    if effect.se is None or not effect.mean:
        return 1.0
    t = abs(effect.mean) / effect.se if effect.se else math.inf
    p = 2 * float(special.stdtr(effect.n - 1, -t))
    if effect.all_or_nothing and effect.n <= MOST_GUARDED:
        plain, worst = all_or_nothing(effect.n)
        p = max(p, float(worst[np.searchsorted(plain, p * (1 + 1e-6), side="right") - 1]))
    return max(p, effect.smallest_p)


def _of_one_size(values: Array) -> bool:
    sizes = np.abs(values[values != 0])
    return len(values) > 1 and bool(sizes.size) and float(sizes.min()) >= float(sizes.max()) * (1 - EQUAL)


@cache
def all_or_nothing(pairs: int) -> tuple[Array, Array]:
    """Each p that Student's t can have if differences are -1, 0 or 1, ascending, and the highest probability of one
    that small, if the two scores of a pair are independent and solve its seed with one probability.

    A difference is not 0 with a probability of ½ at most. The probability of a set of outcomes is linear in that of
    each pair, so that it is highest where some pairs have ½ and the others 0: all such numbers of pairs are tried.
    """
    plus, minus = np.array([(a, b) for a in range(pairs + 1) for b in range(pairs + 1 - a)]).T
    unequal = plus + minus
    share = (plus - minus) ** 2 / (pairs * np.maximum(unequal, 1))  # of n Σd² that is (Σd)²
    fair = np.arange(pairs + 1)[:, None]
    ways = [special.gammaln(np.maximum(count, 0) + 1) for count in (fair, plus, minus, fair - unequal)]
    log = ways[0] - ways[1] - ways[2] - ways[3] - (fair + unequal) * math.log(2)
    chance = np.where(fair >= unequal, np.exp(log), 0.0)
    sizes, place = np.unique(-share, return_inverse=True)
    of_size = np.zeros((len(sizes), pairs + 1))
    np.add.at(of_size, place, chance.T)
    with np.errstate(divide="ignore"):
        t = np.sqrt((pairs - 1) * -sizes / (1 + sizes))
    return 2 * special.stdtr(pairs - 1, -t), of_size.cumsum(axis=0).max(axis=1) * (1 - 1e-12)  # free of rounding


def smallest_paired_p(pairs: int) -> float:
    """The smallest p that `pairs` pairs can have: the probability that scores which are all or nothing, each solved by
    half of the attempts, differ in every pair and in one direction. The scores of a pair are independent but for what
    the seed shares, so that any two differ by a given amount with a probability of at most ¼.

    >>> smallest_paired_p(3), smallest_paired_p(5)
    (0.03125, 0.001953125)
    """
    return 2 * 4.0**-pairs if pairs > 1 else 1.0


def without_rounding(mean: Array, largest: Array) -> Array:
    """Means that cancel but for rounding are 0."""
    return np.where(np.abs(mean) <= EQUAL * largest, 0.0, mean)


def finite(value: float) -> float | None:
    """None for a value that is not determined, or beyond a double."""
    return float(value) if math.isfinite(value) else None
