"""Discovering laws: the fit, its judgement on held-out data, and the tasks that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.feynman import LAWS
from trace_bench.suites.llm4ad.odes import SYSTEMS
from trace_bench.suites.llm4ad.srsd import laws
from trace_bench.worker.problem import CandidateError, ProblemError

GetTask = Callable[[str], Task]
PREFIX = "llm4ad:science_discovery/"
ARRAYS = {"oscillator1": 2, "oscillator2": 3, "bactgrow": 4, "stresstrain": 2}
ODE, FEYNMAN = PREFIX + "ode_1d", PREFIX + "feynman_srsd"
EVERY = [*(PREFIX + name for name in ARRAYS), FEYNMAN, ODE]


def linear(rng: np.random.Generator, noise: float = 0.0, scale: float = 1.0) -> dict[str, Any]:
    """Data of y = scale (2 x - 3)."""
    parts = [rng.uniform(0, 1, (1, 40)), rng.uniform(0, 1, (1, 20)), rng.uniform(1, 2, (1, 20))]
    return science.sampled(rng, lambda inputs: scale * (2 * inputs[0] - 3), *parts, noise)


def fit(instance: dict[str, Any], equation: Callable[..., Any]) -> science.Fit:
    return science.fitted(lambda inputs, params: science.arrays(equation, inputs, params), instance)


# -- the fit


def test_the_fit_of_a_linear_model_is_the_least_squares_solution() -> None:
    instance = linear(np.random.default_rng(1), noise=0.1)
    found = fit(instance, lambda x, p: p[0] * x + p[1])
    design = np.stack([instance["train"][0], np.ones(40)], axis=1)
    solved, residual, *_ = np.linalg.lstsq(design, instance["train_output"])
    assert found.params[:2] == pytest.approx(solved, abs=1e-6)
    assert found.train == pytest.approx(residual[0] / 40 / instance["train_output"].var())
    assert found.inside == pytest.approx(solved[0] * instance["inside"][0] + solved[1])


def test_no_parameters_fit_training_data_better_than_the_best_on_a_grid() -> None:
    x = np.linspace(0, 1, 30)
    output = 1.3 * np.exp(-0.7 * x) + 0.05 * np.cos(40 * x)
    _, error = science.least(lambda p: p[0] * np.exp(p[1] * x), output, 0.0)
    grid = np.linspace(-2, 2, 201)
    tried = grid[:, None, None] * np.exp(grid[None, :, None] * x)
    best = np.square(tried - output).mean(axis=2).min() / output.var()
    assert best * 0.9 < error <= best


def test_a_fit_starts_elsewhere_where_ones_do_not_give_numbers() -> None:
    instance = linear(np.random.default_rng(1))
    first: list[float] = []

    def equation(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        first.append(float(p[0]))
        return np.full(len(x), np.nan) if (p == 1).all() else p[0] * x + p[1]

    assert science.score(instance, fit(instance, equation)) == science.FLOOR
    assert first[:2] == [1.0, science.STARTS[1][0]]


def test_calls_are_bounded_whatever_is_predicted() -> None:
    calls = 0

    def wild(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return np.sin(1e4 * calls * x) * p[0] + calls

    fit(linear(np.random.default_rng(1), noise=0.1), wild)
    most = len(science.STARTS) * (science.EVALUATIONS + 1) * (science.PARAMETERS + 2)
    assert calls <= most + 2


@pytest.mark.parametrize("good", [1, 2, 12, 13])
def test_a_program_that_stops_giving_numbers_confuses_no_search(good: int) -> None:
    calls = 0

    def fickle(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return p[0] * x + p[1] if calls <= good else np.full(len(x), np.nan)

    instance = linear(np.random.default_rng(1))
    assert science.score(instance, fit(instance, fickle)) == science.WORST


def test_a_fit_has_no_use_for_slopes_that_are_huge() -> None:
    instance = linear(np.random.default_rng(1))
    jump = fit(instance, lambda x, p: 1e8 * np.sign(p[0] - 1) * x + p[1] * 1e8 * (x > 0.5) + p[2] * 1e-300)
    assert 0 <= science.score(instance, jump) <= science.WORST


def test_predictions_that_are_not_numbers_are_a_failure_only_where_they_are_fitted() -> None:
    instance = linear(np.random.default_rng(1))
    with pytest.raises(CandidateError, match=r"not finite, or huge, at any of the 5 starts .* is number \d"):
        fit(instance, lambda x, p: np.log(x - 0.5) * p[0])
    with pytest.raises(CandidateError, match="not finite, or huge"):
        fit(instance, lambda x, p: np.full(len(x), 1e300) * p[0])
    beyond = fit(instance, lambda x, p: p[0] * np.where(x > 1.5, np.nan, x) + p[1])
    inside, outside = science.errors(instance, beyond)
    assert inside == science.FLOOR and outside == science.WORST
    assert "predictions beyond the training data are not finite" in science.remark(instance, beyond)


# -- errors


def test_to_be_more_exact_than_noise_allows_gains_nothing() -> None:
    """A program may be able to tell the law's constants from the inputs alone."""
    instance = linear(np.random.default_rng(1), noise=0.01)
    near = [instance[f"{part}_output"] * (1 + 1e-5) for part in ("inside", "outside")]
    assert science.score(instance, science.Fit(np.ones(10), 0.0, near[0], near[1])) == science.FLOOR
    off = science.Fit(np.ones(10), 0.0, instance["inside_output"], near[1] + 1)
    assert science.errors(instance, off)[0] == science.FLOOR < science.errors(instance, off)[1]


def test_what_fits_the_training_data_alone_is_not_rewarded(task: GetTask) -> None:
    one = task(PREFIX + "oscillator2")
    instance = one.instance()

    def polynomial(t: np.ndarray, x: np.ndarray, v: np.ndarray, p: np.ndarray) -> np.ndarray:
        return x * (p[0] + p[1] * x + p[2] * x**2 + p[3] * x**7) + v * (p[4] + p[5] * x**6 + p[6] * v**2 + p[7] * v**8)

    found = one.module.answer(polynomial, instance)
    inside, outside = science.errors(instance, found)
    assert found.train < 0.1 and inside < 0.2 and outside > 5 * inside
    assert one.verdict(instance, found).score == pytest.approx((inside + outside) / 2)


def test_the_mean_of_the_training_data_has_error_one_inside_and_out_and_the_truth_none() -> None:
    instance = linear(np.random.default_rng(1), noise=0.2)
    constant = fit(instance, lambda x, p: np.full(len(x), p[0]))
    assert science.errors(instance, constant) == pytest.approx((1, 1), abs=1e-4)
    assert science.score(instance, constant) == pytest.approx(1, abs=1e-4)
    exact = science.Fit(np.ones(10), 0.0, instance["inside_output"], instance["outside_output"])
    assert science.score(instance, exact) == science.FLOOR == science.bound(instance)
    assert science.normalised(instance, science.FLOOR) == 1
    assert science.normalised(instance, science.worst(instance)) == 0


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 2**32), slope=st.floats(-3, 3))
def test_the_unit_of_the_output_and_the_order_of_the_data_do_not_matter(scale: float, seed: int, slope: float) -> None:
    one = linear(np.random.default_rng(seed), 0.1)
    other = linear(np.random.default_rng(seed), 0.1, scale)
    parts = ("inside", "outside")

    def judged(instance: dict[str, Any], factor: float, order: slice) -> float:
        mixed = instance | {f"{part}_output": instance[f"{part}_output"][order] for part in parts}
        predicted = [factor * slope * instance[part][0][order] for part in parts]
        return science.score(mixed, science.Fit(np.ones(10), 0.0, predicted[0], predicted[1]))

    plain = judged(one, 1.0, slice(None))
    assert science.FLOOR <= plain <= science.WORST
    assert judged(other, scale, slice(None)) == pytest.approx(plain, rel=1e-9)
    assert judged(one, 1.0, slice(None, None, -1)) == pytest.approx(plain, rel=1e-9)


@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=20, max_size=20))
def test_no_predictions_are_worse_than_a_failure(values: list[float]) -> None:
    instance = linear(np.random.default_rng(0))
    wild = science.Fit(np.ones(10), 0.0, np.array(values), np.array(values[::-1]))
    score = science.score(instance, wild)
    assert science.bound(instance) <= score <= science.worst(instance)
    assert 0 <= science.normalised(instance, score) <= 1


# -- data


def test_boxes_hold_their_points_and_the_outer_leaves_the_inner_out() -> None:
    inside, outside = science.boxed(np.random.default_rng(3), [(0, 1), (5, 6)], [(0, 2), (4, 6)], 200)
    within = [((part >= [[0], [5]]) & (part <= [[1], [6]])).all(axis=0) for part in (inside, outside)]
    assert within[0].all() and not within[1].any()
    assert inside.shape == outside.shape == (2, 200)
    assert ((outside >= [[0], [4]]) & (outside <= [[2], [6]])).all()


def test_integration_is_of_fourth_order() -> None:
    def error(substeps: int) -> float:
        states = science.integrated(lambda t, x: -2 * x + t, np.array([1.0]), np.linspace(0, 2, 11), substeps)
        exact = 1.25 * math.exp(-4) + 1 - 0.25
        return abs(float(states[-1, 0]) - exact)

    assert error(1) < 1e-3 and 14 < error(1) / error(2) < 20


def test_of_a_motion_no_two_points_are_told() -> None:
    """Of two, one soon after the other, the acceleration could be told without any fit."""
    starts = np.random.default_rng(2).uniform(-1, 1, (2, 50))
    states, times = science.moments(np.random.default_rng(1), lambda t, x: np.ones_like(x), starts, 2, 5)
    assert states == pytest.approx(starts + times) and times.shape == (50,)
    assert times.min() >= 2 and times.max() <= 5 and len(set(times.tolist())) > 15


@pytest.mark.parametrize(("name", "motions"), [("oscillator1", 600), ("oscillator2", 600)])
def test_each_point_of_an_oscillator_is_of_its_own_motion(
    name: str, motions: int, task: GetTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    integrated = science.integrated

    def counted(rate: Any, start: Any, *given: Any) -> Any:
        started.append(start.shape[1])
        return integrated(rate, start, *given)

    monkeypatch.setattr(science, "integrated", counted)
    instance = task(PREFIX + name).instance()
    points = [instance[part].shape[1] for part in ("train", "inside", "outside")]
    assert sum(started) == sum(points) == motions
    assert len(np.unique(np.concatenate([instance[part] for part in ("train", "inside", "outside")], axis=1))) > motions


@pytest.mark.parametrize("name", EVERY)
def test_held_out_data_are_not_the_training_data_and_carry_no_noise(name: str, task: GetTask) -> None:
    one = task(name)
    quiet, noisy = one.instance(3, noise=0.0), one.instance(3, noise=0.5)
    for key in ("inside_output", "outside_output"):
        assert np.array_equal(quiet[key], noisy[key])
        assert not np.isin(quiet[key], quiet["train_output"]).all()
        assert np.isfinite(quiet[key]).all() and quiet[key].std() > 0
    off = (noisy["train_output"] - quiet["train_output"]).std() / quiet["train_output"].std()
    assert 0.4 < off < 0.6


@pytest.mark.parametrize("name", EVERY)
def test_the_reference_has_the_form_of_the_law(name: str, task: GetTask) -> None:
    one = task(name)
    assert one.play(one.program("reference"), one.instance(5, noise=0.0)) < 1.01e-6


@pytest.mark.parametrize("name", EVERY)
def test_a_prediction_for_each_data_point_is_asked_for(name: str, task: GetTask) -> None:
    one = task(name)
    instance = one.instance()
    count = len(instance["train_output"])
    refused = [
        (lambda *given: None, f"must have shape ({count},), not be None"),
        (lambda *given: 1.0, f"must have shape ({count},), not be the number 1.0"),
        (lambda *given: np.ones((count, 1)), f"not ({count}, 1)"),
        (lambda *given: np.ones(count - 1), f"not ({count - 1},)"),
        (lambda *given: np.ones(count, dtype=bool), "must hold real numbers"),
        (lambda *given: np.ones(count, dtype=complex), "must hold real numbers"),
        (lambda *given: ["1"] * count, "must be a number, not the text '1'"),
        (lambda *given: [True] * count, "must be a number, not True"),
        (lambda *given: [10**400] * count, "must be a number that fits a float"),
        (lambda *given: np.full(count, np.inf), "not finite, or huge"),
    ]
    for function, says in refused:
        assert says in one.refusal(instance, function)


@pytest.mark.parametrize(("name", "inputs"), ARRAYS.items())
def test_programs_get_an_array_for_each_variable_and_ten_parameters(name: str, inputs: int, task: GetTask) -> None:
    one = task(PREFIX + name)
    shapes = set()

    def equation(*given: np.ndarray) -> np.ndarray:
        shapes.add((len(given), given[-1].shape, len({len(g) for g in given[:-1]})))
        return np.full(len(given[0]), given[-1][0])

    assert one.play(equation, one.instance()) == pytest.approx(1, abs=0.05)
    assert shapes == {(inputs + 1, (10,), 1)}


# -- the laws of Feynman


def test_there_are_120_laws_and_each_is_exact_in_its_own_form(task: GetTask) -> None:
    assert len(LAWS) == 120 and len({law.source for law in LAWS}) == 120
    one = task(FEYNMAN)
    off = {}
    for number, law in enumerate(LAWS, 1):
        instance = one.instance(7, test_id=number, noise=0.0)
        assert instance["train"].shape == (len(law.variables), 200) and len(law.variables) <= 9
        score = one.play(lambda x, p, law=law: p[0] * law.formula(*x), instance)
        if score > science.FLOOR:
            off[number] = score
    assert off == {}


@pytest.mark.parametrize(
    ("number", "values", "gives"),
    [
        (1, [0], 0.3989422804),  # the bell curve at its centre
        (4, [0, 3, 0, 4], 5),
        (6, [2, 0.6, 1], 2.5),
        (13, [2, 1, 2, 2], 9),
        (20, [1, 1, 1], 1),  # the speed of light plus the speed of light
        (29, [3, 4, math.pi / 2, 0], 5),
        (35, [2, 1, 3], 6),
        (48, [2, 3, 5, 1, math.e], 30),
        (75, [2 * math.pi, 3, 1], 3),
        (91, [2, 1, 2, 2], 6),
        (100, [1, 2, 3, 6], -1),
        (103, [3, 0, 1, 1], 3),  # a circular orbit
        (108, [2, 1, 1, math.pi], 0.4),  # straight back
        (118, [1, 0, 1, 1, 1], 3 / (8 * math.pi)),
    ],
)
def test_laws_have_the_number_of_the_published_table(number: int, values: list[float], gives: float) -> None:
    law = LAWS[number - 1]
    assert float(law.formula(*np.array(values, dtype=float))) == pytest.approx(gives)


def test_the_statement_ends_with_the_variables_of_the_law(build_task: Callable[..., Any]) -> None:
    problem = build_task(FEYNMAN, test_id=6, num_train=1, num_validate=0)
    assert "The law gives m as a function of 3 variables: x[0] is m_0 (1 .. 5), x[1] is v (1 .. 2)" in problem.objective
    problem = build_task(ODE, test_id=11, num_train=1, num_validate=0)
    assert "The quantity x is an order parameter" in problem.objective and "within 2 .. 3." in problem.objective


@pytest.mark.parametrize(("name", "count"), [("easy", 30), ("medium", 40), ("hard", 50)])
def test_each_law_of_a_set_of_srsd_is_exact_in_its_own_form(name: str, count: int, task: GetTask) -> None:
    one = task(FEYNMAN)
    assert len(laws(name)) == count
    off = {}
    for number, law in enumerate(laws(name), 1):
        instance = one.instance(7, set=name, test_id=number, noise=0.0, n_points=60)
        sizes = [np.abs(instance["train"][k]) for k, v in enumerate(law.variables) if "log" in v.scale]
        assert all(0.05 < np.median(size) < 20 for size in sizes), law.source
        score = one.play(lambda x, p, law=law: p[0] * law.formula(*x), instance)
        if score > science.FLOOR:
            off[law.source] = score
    assert off == {}


def test_the_sets_of_srsd_share_no_law_and_have_all() -> None:
    sources = [law.source for name in ("easy", "medium", "hard") for law in laws(name)]
    assert sorted(sources) == sorted(law.source for law in LAWS)


@pytest.mark.parametrize(
    ("name", "source", "values", "gives"),
    [
        ("easy", "I.14.3", [0.2, -0.5], -0.980665),
        ("easy", "I.26.2", [math.pi / 2, math.pi / 6], 2),
        ("easy", "III.12.43", [3], 3 * 6.626e-34 / (2 * math.pi)),
        ("medium", "I.48.20", [1e-28, 1.8e8], 1e-28 * 2.99792458e8**2 / math.sqrt(1 - (1.8 / 2.99792458) ** 2)),
        ("hard", "I.9.18", [10, 20, 3, 1, 5, 4, 7, 5], 6.6743e-11 * 200 / 9),
        ("hard", "I.29.16", [3, 4, 0, math.pi], 1),
    ],
)
def test_laws_of_srsd_have_their_constants_and_units(name: str, source: str, values: list[float], gives: float) -> None:
    (law,) = [law for law in laws(name) if law.source == source]
    unit = float(law.output.rpartition(" ")[2])
    inputs = [value / v.unit for value, v in zip(values, law.variables, strict=True)]
    assert float(law.formula(*inputs)) * unit == pytest.approx(gives)


def test_variables_of_a_set_are_drawn_in_their_logarithm_with_signs_and_as_whole_numbers(task: GetTask) -> None:
    one = task(FEYNMAN)
    number = [law.source for law in laws("easy")].index("III.15.27") + 1
    instance = one.instance(3, set="easy", test_id=number, n_points=4000)
    alpha, n, d = instance["train"]
    assert (alpha == np.round(alpha)).all() and (n == np.round(n)).all() and n.min() >= 1 and n.max() <= 99
    assert 0.45 < (alpha < 0).mean() < 0.55 and (n > 0).all() and (d > 0).all()
    assert np.log10(d).mean() == pytest.approx(0, abs=0.05) and np.log10(d).max() <= 0.7
    assert np.log10(instance["outside"][2]).max() > 0.7
    assert "x[2] is d (0.1 .. 10 times 1e-09, in its logarithm)" in one.module.described(**one.settings(
        set="easy", test_id=number
    ))  # fmt: skip


def test_a_number_that_a_set_has_not_is_refused_with_those_it_has(task: GetTask) -> None:
    with pytest.raises(ProblemError, match=r"the set easy has 30 laws; give 1 \.\. 30"):
        task(FEYNMAN).instance(set="easy", test_id=31)


# -- differential equations


@pytest.mark.parametrize("number", range(1, 17))
def test_each_system_is_found_from_its_own_form(number: int, task: GetTask) -> None:
    system, one = SYSTEMS[number - 1], task(ODE)
    instance = one.instance(11, test_id=number)
    nominal = np.array(system.constants)

    def form(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        kept = np.clip(x, 1e-9, 1 - 1e-9) if number == 10 else x
        return np.asarray(system.rate(kept, *(nominal * p[: len(nominal)])))

    assert one.judge.normalised(instance, one.play(form, instance)) > 0.9


def test_sums_of_rates_are_exact_for_parabolas_and_of_high_order_for_others() -> None:
    summed = task_of(ODE).module.summed
    times = np.linspace(0, 2, 21)
    found = summed(np.stack([3 * times**2, np.ones(21)], axis=1), 0.1)
    assert found[:, 0] == pytest.approx(times**3, abs=1e-12) and found[:, 1] == pytest.approx(times)
    assert summed(np.exp(times)[:, None], 0.1)[:, 0] == pytest.approx(np.exp(times) - 1, rel=1e-4)


def test_a_trajectory_that_leaves_all_bounds_is_worth_a_failure_not_an_error(task: GetTask) -> None:
    one = task(ODE)
    instance = one.instance()
    reach = np.abs(instance["observed"]).max()

    def explodes(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) > 1.05 * reach, 1e200 * x, p[0] * x + p[1])

    verdict = one.verdict(instance, one.module.answer(explodes, instance))
    assert 5 <= verdict.score <= 10 and "are not finite" in verdict.remark


@given(scale=st.floats(0.01, 100), seed=st.integers(0, 2**32))
def test_another_unit_of_the_state_changes_no_error(scale: float, seed: int) -> None:
    one = task_of(ODE)
    instance = one.instance(seed, test_id=9)
    plain = one.module.answer(one.program("template"), instance)
    keys = ("observed", "train_output", "inside_output", "outside_output", "starts")
    scaled = instance | {key: instance[key] * scale for key in keys}
    other = one.module.answer(lambda x, p: scale * (p[0] * x / scale + p[1]), scaled)
    assert other.inside == pytest.approx(plain.inside * scale, rel=1e-6, abs=1e-6 * scale)
    assert science.errors(scaled, other) == pytest.approx(science.errors(instance, plain), rel=1e-3, abs=1e-9)
