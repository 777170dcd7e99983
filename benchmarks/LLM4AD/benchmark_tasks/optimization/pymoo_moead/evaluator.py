"""MOEA/D: runs the algorithm with a program's decomposition on DTLZ4; a larger hypervolume is better."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import moead

RUNS = 3


def instance(rng: np.random.Generator, *, n_var: int, n_gen: int, n_partitions: int) -> dict[str, Any]:
    """Seeds, and the sizes of the runs."""
    seeds = rng.integers(2**63, size=RUNS).tolist()
    return {"seeds": seeds, "variables": n_var, "generations": n_gen, "partitions": n_partitions}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[np.ndarray]:
    """The non-dominated objectives of the last generation of each run, shape (k, 3)."""

    def decompose(objectives: np.ndarray, weights: np.ndarray, ideal: np.ndarray) -> np.ndarray:
        return checks.float_array(program(objectives, weights, ideal), "the values", shape=(len(objectives),))

    sizes = {key: instance[key] for key in ("variables", "generations", "partitions")}
    return [moead.front(moead.evolved(decompose, np.random.default_rng(seed), **sizes)) for seed in instance["seeds"]]


def score(instance: dict[str, Any], fronts: list[np.ndarray]) -> float:
    """Mean hypervolume of the runs."""
    return math.fsum(moead.hypervolume(front) for front in fronts) / len(fronts)


def worst(instance: dict[str, Any]) -> float:
    """Nothing dominates anything below the reference point."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """All that can be dominated: no solution lies inside the unit sphere."""
    return moead.best_hypervolume() * (1 + 1e-12)


def remark(instance: dict[str, Any], fronts: list[np.ndarray]) -> str:
    """Where the volume is lost: few solutions, far from the sphere, or at one end of it."""
    listed = ", ".join(f"{moead.hypervolume(front):.4f}" for front in fronts)
    counts = ", ".join(str(len(front)) for front in fronts)
    every = np.concatenate(fronts)
    off = float(np.sqrt(np.square(every).sum(axis=1)).mean() - 1)
    least = min(range(len(fronts)), key=lambda run: moead.hypervolume(fronts[run]))
    ends = "; ".join(
        f"f{k + 1} {low:.3f} to {high:.3f}"
        for k, (low, high) in enumerate(zip(fronts[least].min(axis=0), fronts[least].max(axis=0), strict=True))
    )
    return (
        f"Hypervolumes of the runs: {listed}, with {counts} different non-dominated solutions, on average {off:.4f} "
        f"beyond the unit sphere. The run with the least covers {ends}."
    )


def draw(instance: dict[str, Any], fronts: list[np.ndarray]) -> Drawing:
    """The fronts of all runs, seen along the diagonal, with the three edges of the sphere's octant."""
    drawing = Drawing(-1.0, 1.0, -0.8, 1.1, width=380)
    turn = np.linspace(0, np.pi / 2, 40)
    for first in range(3):
        arc = np.zeros((40, 3))
        arc[:, first], arc[:, (first + 1) % 3] = np.cos(turn), np.sin(turn)
        drawing.path(_flat(arc), line="#bbbbbb")
    for run, front in enumerate(fronts):
        drawing.dots(_flat(np.minimum(front, 1.3)), fill=colour(run))
    for axis, (x, y) in enumerate(_flat(1.08 * np.eye(3)).tolist()):
        drawing.text(x, y, f"f{axis + 1}")
    return drawing


def _flat(points: np.ndarray) -> np.ndarray:
    """Points of three dimensions as seen along (1, 1, 1)."""
    x = (points[:, 1] - points[:, 0]) * math.sqrt(0.5)
    y = points[:, 2] * math.sqrt(2 / 3) - (points[:, 0] + points[:, 1]) * math.sqrt(1 / 6)
    return np.stack([x, y], axis=1)
