"""Tests of differences against published examples, by hand where that can be done, and over simulated experiments."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics.false_positives import p_values
from benchmarks.statistics.improvement import coverage as coverage_of_improvement
from trace_bench.analysis import testing
from trace_bench.analysis.paired import paired_effects
from trace_bench.analysis.statistics import mean_intervals

SLEEP = (
    np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]),
    np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]),
)
"""Student 1908, as R's ``sleep`` has it."""
DARWIN = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]) / 8
"""Crossed against self-fertilised maize, inches: R. A. Fisher, The Design of Experiments, §17-21."""
EXPERIMENTS = 2_000
Draw = Callable[[np.random.Generator, tuple[int, ...]], testing.Array]
SHAPES: dict[str, Draw] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: rng.lognormal(sigma=1.5, size=size),
    "tied": lambda rng, size: rng.poisson(0.7, size=size).astype(float),
    "binary": lambda rng, size: rng.integers(0, 2, size=size).astype(float),
}


def differences(shape: str, rng: np.random.Generator, *size: int) -> testing.Array:
    """Without a difference: a pair's two scores are from one distribution."""
    return SHAPES[shape](rng, size) - SHAPES[shape](rng, size)


# ------------------------------------------------------------------------------------------------------ published


def test_a_paired_interval_is_that_of_r() -> None:
    effect = paired_effects([testing.differences(*SLEEP)], 0.95)[0]
    assert (effect.mean, effect.low, effect.high) == pytest.approx((1.58, 0.7001142, 2.4598858), abs=1e-7)
    assert effect.p == pytest.approx(0.00283289, abs=1e-8)


def test_without_pairs_p_and_interval_are_near_those_of_welch() -> None:
    """Labels are drawn, as there are 184,756 of them."""
    effect = testing.unpaired_effects([SLEEP[0]], [SLEEP[1]], [0.95])[0]
    assert (effect.low, effect.high) == pytest.approx((-0.2054832, 3.3654832), abs=0.1)
    assert effect.p == pytest.approx(0.0794, abs=0.01) and effect.df == pytest.approx(17.776, abs=1e-3)


def test_fishers_count_of_darwins_maize() -> None:
    p, exact = testing.sign_flip(DARWIN[None, :], exact_up_to=2**15)
    assert exact and p[0] * 2**15 == 1726  # 863 of 32,768 in each tail
    drawn, exact = testing.sign_flip(DARWIN[None, :])
    assert not exact and drawn[0] == pytest.approx(1726 / 2**15, abs=0.01)


def test_holms_example() -> None:
    assert testing.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert testing.holm([]) == [] and testing.holm([0.6, 0.7]) == [1.0, 1.0]


def test_holm_decides_at_the_level_of_its_step() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert testing.holm_alphas(p, 0.05) == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])
    assert testing.holm_alphas([0.02, 0.01], 0.05) == pytest.approx([0.05, 0.025]) and not testing.holm_alphas([], 0.1)
    rng = np.random.default_rng(4)
    for size in (1, 2, 7):
        values = list(rng.random(size) ** 4)
        levels = testing.holm_alphas(values, 0.05)
        decided = [one <= level for one, level in zip(values, levels, strict=True)]
        assert decided == [one <= 0.05 for one in testing.holm(values)]


def test_power_of_a_t_test_is_cohens() -> None:
    """34 pairs find a difference of half a standard deviation with a power of 80 %, 33 do not (Cohen 1988)."""
    needed = {pairs: testing.detectable(1 / math.sqrt(pairs), pairs - 1, 0.05) for pairs in (33, 34)}
    assert needed[34] < 0.5 < needed[33]


# --------------------------------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 5), (4, 1)])
def test_a_single_score_on_a_side_has_a_difference_and_nothing_else(m: int, n: int) -> None:
    x, y = np.arange(float(m)), np.arange(float(n)) + 9
    effect = testing.unpaired_effects([x], [y], [0.95])[0]
    assert effect.mean == y.mean() - x.mean() and (effect.p, effect.smallest_p, effect.low) == (1.0, 1.0, None)
    p, _, smallest = testing.stratified_shuffle([x, x], [y, y], scaled=True)
    assert smallest - 0.02 <= p <= 1  # it is drawn
    share = testing.probability_of_improvement([x], [y], 0.95)
    assert (share.value, share.low) == (1.0, None)


@pytest.mark.parametrize(("m", "n"), [(4, 5), (12, 9)])
def test_without_pairs_the_interval_holds_the_differences_that_are_not_rejected(m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    x, y = rng.normal(size=m), rng.normal(1.2, 1.0, size=n)
    (effect,) = testing.unpaired_effects([x], [y], [0.9])
    assert effect.low is not None and effect.high is not None
    for place, inside in ((effect.low - 1e-6, -1), (effect.low + 1e-6, 1), (effect.high - 1e-6, 1)):
        p = testing.unpaired_effects([x], [y - place], [0.9])[0].p
        assert (p > 0.1) == (inside > 0), place
    few = testing.unpaired_effects([x[:3]], [y[:3]], [0.95])[0]
    assert few.smallest_p == 0.1 and few.low is None


def test_equal_up_to_rounding_is_equal() -> None:
    found = testing.differences(np.array([0.1 + 0.2, 1.0, 3.0]), np.array([0.3, 1.0 + 1e-6, 2.0]), sign=-1.0)
    assert found[0] == 0 and found[1] < 0 and found[2] == 1.0


def test_probability_of_improvement_counts_ties_half() -> None:
    share = testing.probability_of_improvement([np.array([0.0, 1.0])], [np.array([1.0, 2.0])], 0.95)
    assert share.value == (3 + 0.5) / 4 and share.low is not None and share.high is not None
    assert 0 <= share.low <= share.value <= share.high <= 1
    one_sided = testing.probability_of_improvement([np.zeros(4), np.zeros(4)], [np.ones(4), -np.ones(4)], 0.95)
    assert (one_sided.value, one_sided.low, one_sided.high) == (0.5, None, None)


def test_scaling_makes_units_irrelevant() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.normal(0.5, 1, 6), rng.normal(0.5, 1, 8)]
    blown = [groups[0], groups[1] * 1e6]
    scaled = testing.stratified_sign_flip(groups, scaled=True)
    assert testing.stratified_sign_flip(blown, scaled=True) == scaled
    assert testing.stratified_sign_flip(blown, scaled=False) != testing.stratified_sign_flip(groups, scaled=False)


def test_the_same_data_give_the_same_numbers() -> None:
    rng = np.random.default_rng(6)
    x, y = [rng.normal(size=20)], [rng.normal(size=20)]
    for _ in range(2):
        assert testing.stratified_shuffle(x, y, scaled=True) == testing.stratified_shuffle(x, y, scaled=True)
        assert testing.sign_flip(x[0][None, :]) == testing.sign_flip(x[0][None, :])


# ------------------------------------------------------------------------------------------------------ simulated


def not_above(found: float, nominal: float) -> bool:
    """At most nominal, but for what chance allows over `EXPERIMENTS` experiments (three standard errors)."""
    return found <= nominal + 3 * math.sqrt(nominal * (1 - nominal) / EXPERIMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [4, 8, 20])
def test_false_positives_clustered_by_task_are_at_most_nominal(tasks: int) -> None:
    """Tasks differ in what the change does to them, and have five seeds each: pairs of a task are not independent."""
    rng = np.random.default_rng(tasks)
    own = rng.laplace(size=(EXPERIMENTS, tasks, 1))
    pairs = own + 0.3 * differences("skewed", rng, EXPERIMENTS, tasks, 5)
    assert not_above(float(np.mean(p_values(pairs.mean(axis=2)) <= 0.05)), 0.05)
    if tasks == 8:
        naive = p_values(pairs.reshape(EXPERIMENTS, -1)[:500])
        assert np.mean(naive <= 0.05) > 0.1  # what it would be if pairs of a task were taken for independent


@pytest.mark.slow
def test_false_positives_over_these_tasks_and_without_pairs_are_at_most_nominal() -> None:
    rng = np.random.default_rng(11)
    experiments = 200
    found = []
    for _ in range(experiments):
        x, y = ([SHAPES["skewed"](rng, (3,)) for _ in range(3)] for _ in range(2))
        p, exact, _ = testing.stratified_sign_flip([b - a for a, b in zip(x, y, strict=True)], scaled=True)
        assert exact
        found.append(p <= 0.1)
    assert np.mean(found) <= 0.1 + 3 * math.sqrt(0.09 / experiments)
    sides = [SHAPES["skewed"](rng, (EXPERIMENTS, 5)) for _ in range(2)]
    effects = testing.unpaired_effects(list(sides[0]), list(sides[1]), [0.95] * EXPERIMENTS)
    assert not_above(float(np.mean([effect.p <= 0.05 for effect in effects])), 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [20, 30, 50])
@pytest.mark.parametrize("shape", ["normal", "tied", "binary"])
def test_intervals_of_a_difference_cover_it(shape: str, pairs: int) -> None:
    rng = np.random.default_rng(pairs)
    values = differences(shape, rng, EXPERIMENTS, pairs) + 0.7
    effects = mean_intervals(values, 0.95)[2]
    covered = np.mean((effects[:, 0] <= 0.7) & (effects[:, 1] >= 0.7))
    assert covered == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_what_is_called_detectable_is_detected_with_that_power() -> None:
    pairs, alpha = 5, 0.01
    shift = testing.detectable(1 / math.sqrt(pairs), pairs - 1, alpha)
    rng = np.random.default_rng(3)
    p = p_values(rng.normal(shift, 1.0, size=(EXPERIMENTS, pairs)))
    assert np.mean(p <= alpha) == pytest.approx(testing.POWER, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [pytest.param(0.5, marks=pytest.mark.slow), 1.5])
def test_the_interval_of_the_probability_of_improvement_covers_it(
    shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 scores a side; Φ(shift / √2) is the truth."""
    monkeypatch.setattr(testing, "BOOTSTRAP", 400)
    assert coverage_of_improvement(20, 1, shift, EXPERIMENTS) == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_few_scores_have_the_coverage_that_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "BOOTSTRAP", 400)
    assert sorted(testing.SHARE_COVERAGE) == list(range(2, 10))
    worst, best = testing.SHARE_COVERAGE[3]
    assert coverage_of_improvement(3, 1, 1.5, 400) == pytest.approx(worst, abs=0.07)
    assert coverage_of_improvement(3, 5, 0.0, 200) == pytest.approx(best, abs=0.07)


def test_drawn_signs_find_what_scipy_finds() -> None:
    rng = np.random.default_rng(1)
    rows = np.stack([rng.normal(shift, 1, 40) for shift in (0.0, 0.2, 0.4, 1.5)] + [np.zeros(40), np.ones(40)])
    ours, exact = testing.sign_flip(rows, 9_999)
    settings = {"permutation_type": "samples", "vectorized": True, "n_resamples": 9_999, "rng": 2}
    theirs = [stats.permutation_test((row,), lambda x, axis: x.mean(axis=axis), **settings).pvalue for row in rows]
    assert not exact
    for one, other in zip(ours, theirs, strict=True):
        assert abs(one - other) < 0.07 * math.sqrt(max(other, 1e-3))  # five standard errors of two draws
    assert ours[3] == ours[5] == 2 / 10_000 and ours[4] == 1.0
