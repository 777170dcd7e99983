"""Tests of the differences between two configurations on the same tasks, with the intervals that agree with them.

A *group* is one task. Paired: an array of differences, one for each pair (task and seed), better when larger. Unpaired:
two arrays. Tests of one task with pairs are in `trace_bench.analysis.paired`; here are permutation tests, without pairs
or over all tasks. They assume that under the null hypothesis labels are exchangeable, or a pair's two scores are (the
signs of differences). An interval holds the differences that its test does not reject.

Sources: E. Miller, *Adding error bars to evals*, arXiv:2411.00640 (paired differences §4.2, clusters §2.2); R. Agarwal
et al., *Deep RL at the edge of the statistical precipice*, arXiv:2108.13264 (probability of improvement, stratified
bootstrap, §4); S. Holm, Scand. J. Statist. 6 (1979) 65; B. Phipson and G. K. Smyth, arXiv:1603.05766 (why a sampled
permutation test counts the observed one).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special, stats

from trace_bench.analysis.paired import EQUAL, Array, Effect, finite, without_rounding

EXACT = 20_000
"""Largest number of permutations that are enumerated exactly."""
RESAMPLES = 9_999
"""Permutations drawn otherwise; for many tests more, as a small p must be possible …"""
MOST_RESAMPLES = 99_999
"""… up to so many."""
BOOTSTRAP = 2_000
POWER = 0.8
SEED = 20_108
"""Of all that is drawn: the same files give the same numbers."""
SHARE_COVERAGE: Mapping[int, tuple[float, float]] = {
    2: (0.37, 0.94), 3: (0.57, 0.97), 4: (0.71, 0.97), 5: (0.79, 0.97), 6: (0.88, 0.98), 7: (0.88, 0.97),
    8: (0.92, 0.97), 9: (0.92, 0.97),
}  # fmt: skip
"""By the fewest scores of a side, the worst and the best measured coverage of a 95 % interval of `Share`; by
``benchmarks/statistics/improvement.py``."""
_BATCH = 2_000_000
"""Numbers of permuted data held at once."""


@dataclass(frozen=True)
class Share:
    """A probability with its interval; None where resamples do not determine it: all are the same, or of single scores.

    Attributes:
        scores: the fewest that one side has of a task.
        coverage: as of `Effect`.
    """

    value: float
    low: float | None
    high: float | None
    scores: int
    coverage: tuple[float, float] | None = None


def differences(baseline: Array, other: Array, sign: float = 1.0) -> Array:
    """``sign * (other - baseline)``; exactly 0 where the two are equal up to rounding."""
    with np.errstate(over="ignore"):
        found: Array = sign * (other - baseline)
        found[np.abs(found) <= EQUAL * np.abs(baseline)] = 0.0
    return found


def levelled(found: Array, size: float) -> Array:
    """`found` itself, or its mean throughout where all differ by rounding only; `size` is that of the scores which they
    are differences of."""
    alike = len(found) > 1 and float(np.ptp(found / (size or 1.0))) <= EQUAL
    return np.full_like(found, np.mean(found / len(found)) * len(found)) if alike else found


# ---------------------------------------------------------------------------------------------------- sign flips


def sign_flip(values: Array, resamples: int = RESAMPLES, exact_up_to: int = EXACT) -> tuple[Array, bool]:
    """Two-sided p of the mean of each row of `values` (shape ``(tests, n)``) under random signs; whether it is exact.

    Exact where there are at most `exact_up_to` sign patterns; else `resamples` are drawn, and the observed one is
    counted among them, so that p is never 0 and the test never too liberal (arXiv:1603.05766).
    """
    n = values.shape[1]
    exact = is_exact(n, exact_up_to)
    if n == 1:
        return np.ones(len(values)), True
    values = values / _largest_of_rows(values)  # sums stay finite, and no flip changes it
    if not exact:
        return _drawn_signs(values, resamples), False
    done = stats.permutation_test(
        (values,),
        _mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**n,
        batch=max(1, _BATCH // max(1, values.size)),
        axis=-1,
        rng=np.random.default_rng(SEED),
    )
    return np.asarray(done.pvalue, dtype=np.float64), exact


def _drawn_signs(values: Array, resamples: int) -> Array:
    """The same p as ``scipy.stats.permutation_test`` of drawn signs, by products of matrices: that takes seconds for
    hundreds of pairs. Every row sees the same signs."""
    values = values[:, values.any(axis=0)]  # no sign matters where all are 0
    if not values.size:
        return np.ones(len(values))
    rng = np.random.default_rng(SEED)
    observed = values.sum(axis=1)
    slack = 1e-12 * np.abs(values).sum(axis=1)  # sums in another order
    below, above, left = np.ones(len(values)), np.ones(len(values)), resamples
    while left:
        batch = min(left, max(1, _BATCH // values.shape[1]))
        signs = 2.0 * rng.integers(0, 2, size=(batch, values.shape[1]), dtype=np.int8) - 1.0
        null = signs @ values.T
        below += (null <= observed + slack).sum(axis=0)
        above += (null >= observed - slack).sum(axis=0)
        left -= batch
    p: Array = np.minimum(1.0, 2 * np.minimum(below, above) / (resamples + 1))
    return p


def is_exact(pairs: int, exact_up_to: int = EXACT) -> bool:
    return pairs < 60 and 2**pairs <= exact_up_to


def drawn(tests: int, alpha: float) -> int:
    """How many permutations are drawn where `tests` are made at `alpha`: enough for the smallest p to survive Holm's
    first step."""
    return int(min(max(RESAMPLES, math.ceil(2 * tests / alpha)), MOST_RESAMPLES))


def stratified_sign_flip(
    groups: Sequence[Array], *, scaled: bool, together: Sequence[Sequence[Hashable]] | None = None
) -> tuple[float, bool, float]:
    """Two-sided p of the mean over groups of their mean difference, every pair's sign flipped by itself: about exactly
    these tasks. Then whether it is exact, and the smallest p that so many pairs allow.

    Args:
        scaled: divide each group's differences by their root mean square first, which no flip changes: for scores whose
            units differ between groups.
        together: a name for each difference; those of one name are flipped together, as they are not independent.
    """
    largest = max(_largest(group) for group in groups)
    weighted = []
    for group in groups:
        own = _largest(group)
        size = math.sqrt(float(np.mean(np.square(group / own)))) * own if scaled else largest
        weighted.append(group / (size or 1.0) / len(group))
    values = np.concatenate(weighted)
    if together is not None:
        places: dict[Hashable, int] = {}
        codes = [places.setdefault(name, len(places)) for names in together for name in names]
        values = np.asarray(np.bincount(codes, weights=values), dtype=np.float64)
    p, exact = sign_flip(values[None, :])
    return float(p[0]), exact, 2.0 ** (1 - len(values)) if exact else 2 / (RESAMPLES + 1)


# ------------------------------------------------------------------------------------------------------ unpaired


def unpaired_effects(
    baselines: Sequence[Array], others: Sequence[Array], levels: Sequence[float], resamples: int = RESAMPLES
) -> list[Effect]:
    """For each group the difference of the two means with a permutation test of the scores' labels, and the interval
    of the differences that it does not reject. Scores are better when larger.

    Args:
        levels: of the interval of each group.
        resamples: labellings drawn where there are more than `EXACT`.
    """
    found: dict[int, Effect] = {}
    sizes = _by((len(x), len(y)) for x, y in zip(baselines, others, strict=True))
    for (m, n), places in sizes.items():
        x, y = np.stack([baselines[place] for place in places]), np.stack([others[place] for place in places])
        scale = np.maximum(_largest_of_rows(x), _largest_of_rows(y))
        x, y = x / scale, y / scale
        alphas = [round(1 - levels[place], 12) for place in places]
        p, smallest, ends = _shuffled(x, y, alphas, resamples)
        spread = _welch(x, y)
        means = without_rounding(y.mean(axis=1) - x.mean(axis=1), np.ones(len(x))) * scale[:, 0]
        for row, place in enumerate(places):
            size = float(scale[row, 0])
            se, df = spread[row]
            found[place] = Effect(
                n=n,
                n_baseline=m,
                mean=float(means[row]),
                sd=None,
                se=None if se is None else se * size,
                df=df,
                low=finite(ends[row, 0] * size),
                high=finite(ends[row, 1] * size),
                p=float(p[row]),
                smallest_p=smallest,
            )
    return [found[place] for place in range(len(baselines))]


def _shuffled(x: Array, y: Array, alphas: Sequence[float], resamples: int) -> tuple[Array, float, Array]:
    """Two-sided p of the difference of the means of each row if labels are shuffled, the smallest p possible, and the
    ends of the interval. A single score is no sample: p is 1.

    A labelling swaps some scores of `y` for as many of `x`. It has a difference at least as large as the observed one,
    once a true difference is taken off `y`, if and only if that is at least the mean of the former less the mean of the
    latter. So these are counted for p, and are the ends of the interval.
    """
    ends = np.full((len(x), 2), np.nan)
    if min(x.shape[1], y.shape[1]) < 2:
        return np.ones(len(x)), 1.0, ends
    swapped, labellings = _swaps(y.shape[1], x.shape[1], resamples)
    signed = swapped * np.repeat([1.0, -1.0], [y.shape[1], x.shape[1]])
    p = np.ones(len(x))
    for row, scores in enumerate(np.concatenate([y, x], axis=1)):
        off = np.sort(signed @ scores / swapped[:, : y.shape[1]].sum(axis=1))
        off[np.abs(off) <= 1e-12] = 0.0  # sums in another order; scores are at most 1
        same = labellings - len(off)  # the observed one, and draws of it
        below, above = np.searchsorted(off, 0.0, side="right"), len(off) - np.searchsorted(off, 0.0, side="left")
        p[row] = min(1.0, 2 * (same + min(below, above)) / labellings)
        place = math.floor(alphas[row] * labellings / 2 * (1 + EQUAL)) - same
        if 0 <= place < len(off):
            ends[row] = off[place], off[-1 - place]
    return p, min(1.0, 2 / labellings), ends


@cache
def _swaps(n: int, m: int, resamples: int) -> tuple[Array, int]:
    """Which of `n` scores, and then of `m` others, change places, a row for each labelling that swaps any; the number
    of all labellings. All of them up to `EXACT`, else `resamples` drawn ones and the observed one."""
    if math.comb(n + m, n) <= EXACT:
        first = np.zeros((math.comb(n + m, n), n + m))
        for row, chosen in enumerate(combinations(range(n + m), n)):
            first[row, list(chosen)] = 1.0
    else:
        start = np.tile(np.repeat([1.0, 0.0], [n, m]), (resamples, 1))
        first = np.concatenate([start[:1], np.random.default_rng(SEED).permuted(start, axis=1)])
    moved = np.concatenate([1 - first[:, :n], first[:, n:]], axis=1)
    return moved[moved.any(axis=1)], len(first)


def _welch(x: Array, y: Array) -> list[tuple[float | None, float | None]]:
    """For each row standard error and degrees of freedom; None where a side has fewer than two."""
    m, n = x.shape[1], y.shape[1]
    if min(m, n) < 2:
        return [(None, None)] * len(x)
    flat = (np.ptp(x, axis=1) == 0) & (np.ptp(y, axis=1) == 0)
    with np.errstate(all="ignore"):
        df = stats.ttest_ind(y, x, axis=1, equal_var=False).df
    se = np.sqrt(x.var(axis=1, ddof=1) / m + y.var(axis=1, ddof=1) / n)
    return [
        (0.0, float(m + n - 2)) if same else (float(one), float(of)) for same, one, of in zip(flat, se, df, strict=True)
    ]


def stratified_shuffle(
    baselines: Sequence[Array], others: Sequence[Array], *, scaled: bool
) -> tuple[float, bool, float]:
    """As `stratified_sign_flip` without pairs: labels are shuffled within each group. Always drawn."""
    pooled = [np.concatenate([y, x]) for x, y in zip(baselines, others, strict=True)]
    largest = max(_largest(both) for both in pooled)
    pooled = [both / (_largest(both) if scaled else largest) for both in pooled]
    weights = []
    for x, y, both in zip(baselines, others, pooled, strict=True):
        size = float(np.std(both)) if scaled else 1.0
        signs = np.concatenate([np.full(len(y), 1 / len(y)), np.full(len(x), -1 / len(x))])
        weights.append(signs / (size or 1.0) / len(pooled))
    values, weight = np.concatenate(pooled), np.concatenate(weights)
    ends = np.cumsum([len(both) for both in pooled])
    rng = np.random.default_rng(SEED)

    def shuffled(size: tuple[int, ...]) -> Array:
        tiled = np.broadcast_to(values, size).copy()
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            tiled[..., start:end] = rng.permuted(tiled[..., start:end], axis=-1)
        return tiled

    def statistic(sample: Array, axis: int = -1) -> Array:
        return np.sum(sample * weight, axis=axis)  # type: ignore[no-any-return]

    done = stats.monte_carlo_test(
        values,
        shuffled,
        statistic,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, _BATCH // len(values)),
        axis=-1,
    )
    patterns = math.prod(math.comb(len(x) + len(y), len(x)) for x, y in zip(baselines, others, strict=True))
    return float(done.pvalue), False, min(1.0, max(2 / (RESAMPLES + 1), 2 / min(patterns, 10**9)))


# ------------------------------------------------------------------------------------------------ over all tasks


def probability_of_improvement(baselines: Sequence[Array], others: Sequence[Array], level: float) -> Share:
    """The mean over groups of P(other > baseline) + ½ P(equal), with a percentile interval over `BOOTSTRAP` stratified
    resamples: scores of each side are drawn anew within each group (arXiv:2108.13264 §4.3). Percentiles are expanded
    for few scores (T. Hesterberg, arXiv:1411.5279), without which the interval of 20 scores is too short, too."""
    rng = np.random.default_rng(SEED)
    value, resampled = 0.0, np.zeros(BOOTSTRAP)
    for (m, n), places in _by((len(x), len(y)) for x, y in zip(baselines, others, strict=True)).items():
        x, y = np.stack([baselines[place] for place in places]), np.stack([others[place] for place in places])
        for first, second in zip(x, y, strict=True):
            higher = np.sign(differences(first[None, :], second[:, None])) / 2 + 0.5
            value += float(higher.mean())
            if np.ptp(higher) == 0:  # whatever is drawn
                resampled += higher[0, 0]
                continue
            resampled += np.sum((_counts(rng, n) @ higher) * _counts(rng, m), axis=1) / (m * n)
    value /= len(baselines)
    fewest = min(min(len(x), len(y)) for x, y in zip(baselines, others, strict=True))
    df = sum(len(x) + len(y) - 2 for x, y in zip(baselines, others, strict=True))
    if fewest < 2 or np.ptp(resampled) < EQUAL:
        return Share(value, None, None, fewest)
    tail = float(stats.norm.sf(math.sqrt(fewest / (fewest - 1)) * stats.t.ppf((1 + level) / 2, df)))
    low, high = np.quantile(resampled / len(baselines), [tail, 1 - tail])
    return Share(value, float(low), float(high), fewest, SHARE_COVERAGE.get(fewest) if level == 0.95 else None)


def holm(p: Sequence[float]) -> list[float]:
    """`p` adjusted for their number (Holm 1979): a p below the level stays a discovery with a family-wise error rate of
    at most the level, whatever the tests' dependence."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = (len(values) - np.arange(len(values))) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if len(values) else steps
    return [float(one) for one in adjusted]


def holm_alphas(p: Sequence[float], alpha: float) -> list[float]:
    """The level at which Holm's procedure decides on each p: it rejects if and only if p is at most that."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    tests = len(values) - np.arange(len(values))
    kept = np.flatnonzero(tests * values[order] > alpha)
    tests[kept[0] if len(kept) else len(tests) :] = tests[kept[0]] if len(kept) else 1
    found = np.empty_like(values)
    found[order] = alpha / tests
    return [float(one) for one in found]


def detectable(se: float, df: float, alpha: float, power: float = POWER) -> float:
    """The smallest true difference that a two-sided t test at `alpha` would find with probability `power`, if the
    spread is what was seen: standard error `se`, `df` degrees of freedom. By the noncentral t distribution."""
    return _shift(df, alpha, power) * se


@cache
def _shift(df: float, alpha: float, power: float) -> float:
    """The noncentrality with which t exceeds its critical value so often; what lies beyond the other one is nothing."""
    return float(special.nctdtrinc(df, 1 - power, stats.t.ppf(1 - alpha / 2, df)))


def _counts(rng: np.random.Generator, n: int) -> Array:
    """How often each of `n` is in each of `BOOTSTRAP` resamples: shape ``(BOOTSTRAP, n)``."""
    places = rng.integers(0, n, size=(BOOTSTRAP, n)) + np.arange(0, BOOTSTRAP * n, n)[:, None]
    return np.bincount(places.ravel(), minlength=BOOTSTRAP * n).reshape(BOOTSTRAP, n).astype(np.float64)


def _mean(values: Array, axis: int = -1) -> Any:
    return np.mean(values, axis=axis)


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values))) or 1.0


def _largest_of_rows(values: Array) -> Array:
    """A column, without zeros."""
    largest: Array = np.abs(values).max(axis=1, keepdims=True)
    return np.where(largest > 0, largest, 1.0)


def _by(keys: Any) -> dict[Any, list[int]]:
    """Places by key, in the order of their first."""
    found: dict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        found[key].append(place)
    return found
