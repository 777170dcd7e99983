"""What equation-discovery tasks share: drawing data from a law, fitting the parameters of a program, judging the fit.

A program gives the form of an equation, ``equation(*inputs, params)``, vectorised over data points; its ten parameters
are fitted here on noisy training data, and the fitted equation is judged on data that the fit did not see: noise-free,
one half drawn like the training data (*inside*), the other beyond its range (*outside*).

The error of a part is its mean squared error over the mean squared distance of its true values from the mean of the
training outputs: 1 is what that mean itself scores, whatever the unit of the output. An error is at most `WORST`, which
is also what predictions that are not finite are worth, and at least `FLOOR`; the score is the mean of the two errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, chart

Floats = NDArray[np.float64]
Law = Callable[..., Floats]

PARAMETERS = 10
WORST = 10.0
FLOOR = 1e-6
"""The least error: about what noise of 1 % leaves of the right form. Below, it would be rounding that is compared."""
MOMENT = 0.1
"""Time between two states of a simulated motion that a data point may be taken from."""
EVALUATIONS = 40
"""Of one start of a fit, each with the ten calls of a Jacobian at most."""

_STEP = 1e-6
_HUGE = 1e9


def _starts() -> list[Floats]:
    rng = np.random.default_rng(0)
    drawn = [rng.uniform(0.2, 2.0, PARAMETERS) * rng.choice([-1.0, 1.0], PARAMETERS, p=[0.3, 0.7]) for _ in range(4)]
    return [np.ones(PARAMETERS), *drawn]


STARTS = _starts()
"""Parameters that a fit starts from, in this order: ones, then four that were drawn once and for all."""


@dataclass(frozen=True)
class Fit:
    """A fitted program.

    Attributes:
        params: the parameters of the best start, shape (10,).
        train: mean squared error of the training outputs over their variance.
        inside: predictions for the inputs inside the training range.
        outside: predictions for those beyond.
    """

    params: Floats
    train: float
    inside: Floats
    outside: Floats


def boxed(
    rng: np.random.Generator, inner: Sequence[tuple[float, float]], outer: Sequence[tuple[float, float]], count: int
) -> tuple[Floats, Floats]:
    """Points drawn uniformly from the box `inner`, and from `outer` without it; both of shape (variables, count)."""
    low, high = np.array(inner, dtype=float).T
    inside = rng.uniform(low[:, None], high[:, None], (len(low), count))
    far_low, far_high = np.array(outer, dtype=float).T
    found: list[Floats] = []
    while sum(part.shape[1] for part in found) < count:
        drawn = rng.uniform(far_low[:, None], far_high[:, None], (len(low), 4 * count))
        beyond = ((drawn < low[:, None]) | (drawn > high[:, None])).any(axis=0)
        found.append(drawn[:, beyond])
    return inside, np.concatenate(found, axis=1)[:, :count]


def sampled(
    rng: np.random.Generator,
    law: Callable[[Floats], Floats],
    train: Floats,
    inside: Floats,
    outside: Floats,
    noise: float,
) -> dict[str, Any]:
    """An instance: inputs of shape (variables, points), outputs of the law, those for training with noise.

    Args:
        law: the outputs of inputs.
        noise: standard deviation of the noise over that of the outputs.
    """
    exact = law(train)
    return {
        "train": train,
        "train_output": exact + noise * exact.std() * rng.standard_normal(len(exact)),
        "inside": inside,
        "inside_output": law(inside),
        "outside": outside,
        "outside_output": law(outside),
        "noise": noise,
    }


def integrated(rate: Callable[[float, Floats], Floats], start: Floats, times: Floats, substeps: int = 1) -> Floats:
    """States at `times` by the classical Runge-Kutta method: shape (times, *start.shape); times[0] is the start."""
    state, states = start, [start]
    for begin, end in pairwise(times.tolist()):
        step = (end - begin) / substeps
        for number in range(substeps):
            state = _stepped(rate, begin + number * step, step, state)
        states.append(state)
    return np.array(states)


def moments(
    rng: np.random.Generator, rate: Callable[[float, Floats], Floats], starts: Floats, begin: float, end: float
) -> tuple[Floats, Floats]:
    """A state of each motion at a random time within `begin` .. `end`; they start at time 0.

    One of each motion alone: of two close to each other, the rates could be told without fitting anything.

    Returns:
        States, of the shape of `starts` (variables, motions), and times, whole multiples of `MOMENT`.
    """
    last = round(end / MOMENT)
    clock = np.linspace(0, last * MOMENT, last + 1)
    states = integrated(rate, starts, clock)
    at = rng.integers(round(begin / MOMENT), last + 1, starts.shape[1])
    return states[at, :, np.arange(starts.shape[1])].T, clock[at]


def ring(rng: np.random.Generator, low: float, high: float, count: int) -> Floats:
    """Points of the plane, shape (2, count), whose distance from the origin is within `low` .. `high`."""
    angle = rng.uniform(0, 2 * np.pi, count)
    return np.asarray(rng.uniform(low, high, count) * np.array([np.cos(angle), np.sin(angle)]))


def _stepped(rate: Callable[[float, Floats], Floats], time: float, step: float, state: Floats) -> Floats:
    a = rate(time, state)
    b = rate(time + step / 2, state + step / 2 * a)
    c = rate(time + step / 2, state + step / 2 * b)
    d = rate(time + step, state + step * c)
    return state + step / 6 * (a + 2 * b + 2 * c + d)


def arrays(program: Callable[..., Any], inputs: Floats, params: Floats) -> Floats:
    """What ``equation(x, v, …, params)`` predicts, one array for each input variable; maybe not finite."""
    return predictions(program(*inputs, params), inputs.shape[1])


def matrix(program: Callable[..., Any], inputs: Floats, params: Floats) -> Floats:
    """What ``equation(x, params)`` predicts, where x has a row for each input variable; maybe not finite."""
    return predictions(program(inputs, params), inputs.shape[1])


def predictions(value: object, count: int) -> Floats:
    """A prediction for each of `count` data points; maybe not finite."""
    return checks.float_array(value, "the predictions", shape=(count,), nan=True)


def fitted(predict: Callable[[Floats, Floats], Floats], instance: Mapping[str, Any]) -> Fit:
    """Fit the parameters on the training data, then predict the rest.

    Args:
        predict: the predictions for inputs and parameters.

    Raises:
        CandidateError: predictions have another shape, or are not finite at any start.
    """
    inputs, output = instance["train"], instance["train_output"]
    params, train = least(lambda p: predict(inputs, p), output, instance["noise"])
    return Fit(params, train, predict(instance["inside"], params), predict(instance["outside"], params))


def least(predict: Callable[[Floats], Floats], output: Floats, noise: float) -> tuple[Floats, float]:
    """The parameters with the least squares found from any of `STARTS`, and their error on `output`.

    A trust-region least-squares search (SciPy) with forward differences runs from one start after the other until an
    error is no more than what the noise explains.

    Raises:
        CandidateError: predictions are not finite at any start.
    """
    from scipy.optimize import least_squares

    scale = float(output.std()) or 1.0
    known: dict[bytes, Floats] = {}

    def residuals(params: Floats) -> Floats:
        """Of the same parameters the same again, so that a program that changes its mind confuses no search."""
        key = params.tobytes()
        if key not in known:
            with np.errstate(all="ignore"):
                off = np.asarray((predict(params) - output) / scale)
            known.clear()
            known[key] = np.where(np.abs(off) < _HUGE, off, np.nan)
        return known[key]

    def jacobian(params: Floats) -> Floats:
        base, columns = residuals(params), []
        for number in range(PARAMETERS):
            moved = params.copy()
            moved[number] += _STEP * max(1.0, abs(params[number]))
            columns.append((residuals(moved) - base) / (moved[number] - params[number]))
        slopes: Floats = np.nan_to_num(np.array(columns).T, nan=0.0, posinf=0.0, neginf=0.0)
        return slopes

    best, error, bad = None, math.inf, 0
    for start in STARTS:
        first = residuals(start)
        if not np.isfinite(first).all():
            bad = bad or int(np.flatnonzero(~np.isfinite(first))[0]) + 1
            continue
        with np.errstate(all="ignore"):
            found = least_squares(residuals, start, jac=jacobian, method="trf", x_scale="jac", max_nfev=EVALUATIONS)
        if 2 * found.cost / len(output) < error:
            best, error = np.asarray(found.x, dtype=np.float64), float(2 * found.cost / len(output))
        if error <= max(1.1 * noise**2, 1e-14):
            break
    if best is None:
        raise checks.refuse(
            f"the predictions for the training data are not finite, or huge, at any of the {len(STARTS)} starts of the "
            f"fit; with all params 1 the first such data point is number {bad - 1}"
        )
    return best, error


def error_of(predicted: Floats, true: Floats, mean: float) -> float:
    """Mean squared error over the mean squared distance of `true` from `mean`; within `FLOOR` .. `WORST`."""
    if not np.isfinite(predicted).all():
        return WORST
    with np.errstate(over="ignore"):
        error = float(np.square(predicted - true).mean() / max(float(np.square(true - mean).mean()), 1e-300))
    return min(max(error, FLOOR), WORST)


def errors(instance: Mapping[str, Any], fit: Fit) -> tuple[float, float]:
    """The errors inside and outside the training range."""
    mean = float(instance["train_output"].mean())
    return (
        error_of(fit.inside, instance["inside_output"], mean),
        error_of(fit.outside, instance["outside_output"], mean),
    )


def score(instance: Mapping[str, Any], fit: Fit) -> float:
    """The mean of the two errors."""
    return math.fsum(errors(instance, fit)) / 2


def worst(instance: Mapping[str, Any]) -> float:
    """No error is larger."""
    return WORST


def normalised(instance: Mapping[str, Any], found: float) -> float:
    """Decades below `WORST` over the decades from there to `FLOOR`: 0 at the one, 1 at the other."""
    return math.log(WORST / found) / math.log(WORST / FLOOR)


def bound(instance: Mapping[str, Any]) -> float:
    """No error is smaller."""
    return FLOOR


def remark(instance: Mapping[str, Any], fit: Fit) -> str:
    """Errors of all parts, and the parameters."""
    inside, outside = errors(instance, fit)
    listed = ", ".join(f"{value:.4g}" for value in fit.params.tolist())
    lost = int((~np.isfinite(fit.inside)).sum() + (~np.isfinite(fit.outside)).sum())
    broken = f" {lost} predictions beyond the training data are not finite." if lost else ""
    noise = f"noise alone makes {instance['noise'] ** 2:.3g}"
    return (
        f"Normalised mean squared errors: {fit.train:.4g} on the training data ({noise}), "
        f"{inside:.4g} inside their range, {outside:.4g} outside.{broken} Fitted params: {listed}."
    )


def draw(instance: Mapping[str, Any], fit: Fit) -> Drawing:
    """True outputs in ascending order as a line, predictions as dots: inside on the left, outside on the right."""
    lines, dots, begin = [], [], 0
    for name in ("inside", "outside"):
        true = instance[f"{name}_output"]
        order = np.argsort(true, kind="stable")
        low, high = float(true.min()), float(true.max())
        room = (high - low) or 1.0
        predicted = np.clip(np.nan_to_num(getattr(fit, name), nan=high + room), low - room, high + room)
        lines.append((f"true, {name} the training range", [(begin + k, float(true[i])) for k, i in enumerate(order)]))
        dots += [(begin + k, float(predicted[i])) for k, i in enumerate(order)]
        begin += len(order)
    return chart(lines, dots=dots)
