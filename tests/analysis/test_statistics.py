"""Estimators against published examples, scipy, and simulations with known truth."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics.coverage import DISTRIBUTIONS, PAGE, measure, page, table_cells
from trace_bench.analysis.statistics import (
    Estimate,
    coverage_of,
    coverage_table,
    estimate,
    estimates,
    expanded,
    iqm_of_rows,
    means,
    over_tasks,
    per_dollar,
)

SLEEP = ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
"""Extra hours of sleep under two drugs: Student 1908; the data set ``sleep`` of R."""


def test_the_mean_of_students_own_example_has_the_interval_that_r_prints() -> None:
    """``t.test(extra ~ group, data = sleep, paired = TRUE)``: -2.4598858 -0.7001142."""
    found = estimate([a - b for a, b in zip(*SLEEP, strict=True)])
    assert found.mean == pytest.approx(-1.58) and found.interval == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert found.n == 10 and found.coverage is None


def test_values_whose_squares_are_no_doubles_vary_nevertheless() -> None:
    small, large = (estimate([1 * unit, 2 * unit, 3 * unit]) for unit in (1e-200, 1e200))
    for found, unit in ((small, 1e-200), (large, 1e200)):
        assert not found.equal and found.se == pytest.approx(unit / math.sqrt(3), rel=1e-12, abs=0)
    assert small.interval is not None and small.interval[0] < 1e-200 < small.interval[1]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [2, 3, 7, 20])
def test_means_and_iqms_are_those_of_scipy(n: int, level: float) -> None:
    values = np.random.default_rng(n).gamma(2.0, size=(5, n))
    for row, found in zip(values, estimates(list(values), level), strict=True):
        test = stats.ttest_1samp(row, 0).confidence_interval(level)
        assert found.interval == pytest.approx((test.low, test.high)) and found.mean == pytest.approx(row.mean())
        assert found.se == pytest.approx(stats.sem(row)) and found.iqm == pytest.approx(stats.trim_mean(row, 0.25))


def test_the_iqm_interval_is_the_percentile_bootstrap_at_the_expanded_level() -> None:
    values = np.random.default_rng(3).normal(size=15)
    found = stats.bootstrap(
        (values,), lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), n_resamples=1999, method="percentile",
        confidence_level=expanded(0.95, 15), rng=np.random.default_rng(20210830),
    ).confidence_interval  # fmt: skip
    assert estimate(values).iqm_interval == pytest.approx((found.low, found.high))
    plain = stats.bootstrap((values,), np.mean, method="percentile", confidence_level=expanded(0.95, 15),
                            n_resamples=20_000, rng=np.random.default_rng(1)).confidence_interval  # fmt: skip
    t = estimate(values).interval
    assert t is not None and plain.high - plain.low == pytest.approx(t[1] - t[0], rel=0.05), "as wide as t, of a mean"
    assert expanded(0.95, 100_000) == pytest.approx(0.95, abs=1e-4)


def test_below_four_values_the_iqm_is_the_mean() -> None:
    found = estimate([1.0, 2.0, 6.0])
    assert (found.iqm, found.iqm_interval, found.iqm_coverage) == (found.mean, found.interval, found.coverage)


def test_samples_of_any_sizes_are_estimated_at_once_as_if_each_were_alone() -> None:
    rng = np.random.default_rng(8)
    samples = [list(rng.normal(size=n)) for n in (5, 0, 1, 12, 5, 2, 12)]
    assert estimates(samples) == [estimate(sample) for sample in samples]
    assert [(e.mean, e.interval) for e in means(samples)] == [(e.mean, e.interval) for e in estimates(samples)]


def test_what_few_values_do_not_tell_is_none_and_never_nan() -> None:
    assert estimate([]) == Estimate()
    one = estimate([4.0])
    assert (one.n, one.mean, one.iqm) == (1, 4.0, 4.0)
    assert (one.se, one.interval, one.iqm_interval, one.coverage) == (None, None, None, None)
    for same in ([0.1] * 3, [0.1] * 7):
        found = estimate(same)
        assert found.equal and (found.mean, found.se, found.interval) == (0.1, 0.0, (0.1, 0.1))
        assert (found.iqm, found.iqm_interval) == (0.1, (0.1, 0.1))
    assert not estimate([0.1, 0.2]).equal and not one.equal
    assert math.copysign(1, estimate([-0.0, -0.0]).mean or 1.0) == 1
    huge = estimate([1e308, 1.5e308, -1e308, 1e308, 1.7e308])
    assert huge.mean is not None and huge.mean / 1e308 == pytest.approx(0.84)
    assert huge.iqm is not None and huge.iqm / 1e308 == pytest.approx(3.5 / 3)
    assert huge.interval is None, "its end is beyond a double"
    tiny = estimate([5e-324, 1e-323])
    assert tiny.mean is not None and math.isfinite(tiny.mean)


# ------------------------------------------------------------------------------------------------------- over tasks


def test_a_task_with_more_seeds_weighs_no_more() -> None:
    found = over_tasks(["a", "a", "a", "b"], [0.0, 0.0, 0.0, 1.0])
    assert found.estimate.mean == 0.5 and (found.tasks, found.values, found.estimate.n) == (2, 4, 2)
    assert found.estimate.unit == "tasks"


def test_one_task_is_over_its_seeds() -> None:
    found = over_tasks(["a"] * 3, [1.0, 2.0, 3.0])
    assert found.estimate == estimate([1.0, 2.0, 3.0]) and found.estimate.unit == "seeds" and found.tasks == 1


def test_the_standard_error_over_tasks_is_the_clustered_one() -> None:
    """Miller 2024, arXiv:2411.00640, §2.2, with the factor of small samples, C / (C - 1)."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(6, 1)) + 0.3 * rng.normal(size=(6, 4))
    off = scores - scores.mean()
    n = scores.size
    within = sum(off[c, i] * off[c, j] for c in range(6) for i in range(4) for j in range(4) if i != j)
    clustered = math.sqrt((off**2).sum() / n**2 + within / n**2)
    tasks = [str(c) for c in range(6) for _ in range(4)]
    found = over_tasks(tasks, list(scores.ravel())).estimate
    assert found.se == pytest.approx(clustered * math.sqrt(6 / 5))
    naive = estimate(scores.ravel()).se
    assert naive is not None and found.se is not None and found.se > 1.5 * naive


def test_dollars_that_were_not_spent_buy_nothing() -> None:
    assert per_dollar(0.5, 0.25) == 2.0 and per_dollar(-0.5, 0.25) == -2.0
    assert per_dollar(0.5, 0.0) is None and per_dollar(None, 1.0) is None and per_dollar(1.0, 5e-324) is None


# --------------------------------------------------------------------------------------------------------- coverage

LIKE_SCORES = [name for name in DISTRIBUTIONS if name != "strongly skewed"]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["mean", pytest.param("iqm", marks=pytest.mark.slow)])
def test_from_twenty_values_on_the_coverage_is_within_two_points_of_nominal(estimator: str) -> None:
    for name in LIKE_SCORES:
        assert measure(name, estimator, 20, 0.95, seed=1, experiments=2000) == pytest.approx(0.95, abs=0.02), name


@pytest.mark.parametrize(
    ("estimator", "n", "name", "experiments"),
    [
        ("mean", 2, "all or nothing", 20_000),
        pytest.param("mean", 3, "normal", 20_000, marks=pytest.mark.slow),
        pytest.param("mean", 5, "strongly skewed", 20_000, marks=pytest.mark.slow),
        pytest.param("mean", 9, "share of ten", 20_000, marks=pytest.mark.slow),
        pytest.param("iqm", 4, "bounded", 2000, marks=pytest.mark.slow),
        pytest.param("iqm", 6, "share of ten", 2000, marks=pytest.mark.slow),
        pytest.param("iqm", 9, "normal", 1500, marks=pytest.mark.slow),
    ],
)
def test_the_table_of_coverage_says_what_another_simulation_finds(
    estimator: str, n: int, name: str, experiments: int
) -> None:
    measured = coverage_of(estimator, n)
    assert measured is not None
    error = math.sqrt(measured[name] * (1 - measured[name]) * (1 / experiments + 1 / 20_000))
    assert measure(name, estimator, n, 0.95, seed=99, experiments=experiments) == pytest.approx(
        measured[name], abs=4 * error
    )


def test_every_size_below_ten_is_measured_and_shown_with_its_worst_and_best_case() -> None:
    for n in range(2, 10):
        shares = coverage_of("mean", n)
        assert shares is not None and set(shares) == set(DISTRIBUTIONS)
        found = estimate(np.arange(n))
        assert found.coverage == (min(shares.values()), max(shares.values())) and found.iqm_coverage is not None
    assert estimate(np.arange(10)).coverage is None
    assert estimate(np.arange(5), 0.9).coverage != estimate(np.arange(5)).coverage
    assert estimate(np.arange(5), 0.77).coverage is None, "not measured"


def test_the_docs_show_the_table_that_is_used() -> None:
    assert page(coverage_table()) in PAGE.read_text(encoding="utf-8")
    assert set(table_cells()) == {
        (estimator, level, int(n))
        for estimator, levels in coverage_table()["coverage"].items()
        for level, sizes in levels.items()
        for n in sizes
    }
    json.dumps(coverage_table(), allow_nan=False)


# ----------------------------------------------------------------------------------------------------------- speed


def test_means_do_not_wait_for_the_whole_of_scipy() -> None:
    code = (
        "import sys\n"
        "from trace_bench.analysis.statistics import means, estimates\n"
        "assert not any(m.startswith('scipy') for m in sys.modules)\n"
        "assert means([[1.0, 2.0]])[0].interval\n"
        "assert 'scipy.stats' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_resamples_are_the_same_every_time() -> None:
    values = np.random.default_rng(2).normal(size=(3, 8))
    np.testing.assert_array_equal(iqm_of_rows(values)[1], iqm_of_rows(values)[1])
    np.testing.assert_array_equal(iqm_of_rows(values)[1][1:2], iqm_of_rows(values[1:2])[1])
