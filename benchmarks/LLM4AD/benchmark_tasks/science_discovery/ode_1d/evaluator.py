"""Differential equation: judges the right-hand side of dx/dt = f(x) by the trajectories that it gives from new starts.

Observed trajectories are fitted in integral form: a start plus the integral of the rates over the observed values, by
Simpson's rule, should be the value observed at each time. That takes one vectorised call for each set of parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing, chart
from trace_bench.suites.llm4ad import science
from trace_bench.suites.llm4ad.odes import SYSTEMS
from trace_bench.suites.llm4ad.science import bound, normalised, remark, score, worst  # noqa: F401

STEPS = 200
SPREAD = 0.2
TRUTH = 4
"""Steps of the true trajectories for one of those that judge a candidate."""


def instance(rng: np.random.Generator, *, test_id: int, n_trajectories: int, noise: float) -> dict[str, Any]:
    """Trajectories of system number `test_id`; states have shape (times, trajectories), times[0] is the start."""
    system = SYSTEMS[test_id - 1]
    constants = np.array(system.constants) * rng.uniform(1 - SPREAD, 1 + SPREAD, len(system.constants))
    times = np.linspace(0, system.duration, STEPS + 1)

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        return np.asarray(system.rate(state, *constants))

    starts = [spread(rng, n_trajectories, *ends) for ends in (system.near, system.near, system.far)]
    exact = science.integrated(rate, np.concatenate(starts), times, TRUTH)
    train, inside, outside = np.split(exact, 3, axis=1)
    observed = train + noise * train.std() * rng.standard_normal(train.shape)
    observed[0] = train[0]
    return {
        "times": times,
        "observed": observed,
        "train_output": observed.ravel(),
        "inside_output": inside.ravel(),
        "outside_output": outside.ravel(),
        "starts": exact[0, n_trajectories:],
        "noise": noise,
    }


def spread(rng: np.random.Generator, count: int, low: float, high: float) -> np.ndarray:
    """A start in each of `count` equal parts of a range."""
    return low + (high - low) * (np.arange(count) + rng.random(count)) / count


def described(*, test_id: int, n_trajectories: int, noise: float) -> str:
    """What the state is, and where trajectories start."""
    system = SYSTEMS[test_id - 1]
    near, far = (f"{low:g} .. {high:g}" for low, high in (system.near, system.far))
    return (
        f"The quantity x is {system.state}. Trajectories take {system.duration:g} time units; those observed start "
        f"within {near}, half of those held out within {far}."
    )


def summed(rates: np.ndarray, step: float) -> np.ndarray:
    """The integral of each column from the first row to each, by Simpson's rule (a parabola through three rows)."""
    before = (5 * rates[:-2] + 8 * rates[1:-1] - rates[2:]) * step / 12
    last = (5 * rates[-1] + 8 * rates[-2] - rates[-3]) * step / 12
    return np.concatenate([np.zeros((1, rates.shape[1])), np.cumsum([*before, last], axis=0)])


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> science.Fit:
    observed, times = instance["observed"], instance["times"]
    flat, step = observed.ravel(), float(times[1])

    def predict(params: np.ndarray) -> np.ndarray:
        rates = science.predictions(program(flat, params), flat.size).reshape(observed.shape)
        return (observed[0] + summed(rates, step)).ravel()

    params, train = science.least(predict, instance["train_output"], instance["noise"])
    limit = 1e6 * float(np.abs(observed).max())

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        lost = ~(np.abs(state) < limit)
        found = science.predictions(program(np.where(lost, 0.0, state), params), state.size)
        return np.where(lost, np.nan, found)

    with np.errstate(all="ignore"):
        states = science.integrated(rate, instance["starts"], times)
    inside, outside = (part.ravel() for part in np.split(states, 2, axis=1))
    return science.Fit(params, train, inside, outside)


def draw(instance: dict[str, Any], fit: science.Fit) -> Drawing:
    """The observed states as dots, the held-out trajectories, true and by the fitted equation, as lines."""
    times = instance["times"].tolist()
    lines = []
    for name in ("inside", "outside"):
        true = instance[f"{name}_output"].reshape(len(times), -1)
        low, high = float(true.min()), float(true.max())
        found = np.clip(np.nan_to_num(getattr(fit, name), nan=high), 2 * low - high, 2 * high - low).reshape(true.shape)
        for kind, states in (("true", true), ("fitted", found)):
            lines.append((f"{kind}, {name} the training range", list(zip(times, states[:, -1].tolist(), strict=True))))
    dots = [(t, x) for t, row in zip(times, instance["observed"].tolist(), strict=True) for x in row]
    return chart(lines, dots=dots)
