"""Systems 1 to 16 of ODEBench (d'Ascoli et al., arXiv:2310.05573): differential equations of one variable.

Equations and nominal constants are those of the benchmark; starts and durations are chosen here, such that trajectories
stay finite and tell the law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy import cos, exp, log, sin

Rate = Callable[..., Any]


@dataclass(frozen=True)
class System:
    """One equation ``dx/dt = rate(x, *constants)``.

    Attributes:
        state: what x is, in words.
        near: range of the starts of training.
        far: range of starts beyond it.
        duration: of a trajectory.
    """

    state: str
    rate: Rate
    constants: tuple[float, ...]
    near: tuple[float, float]
    far: tuple[float, float]
    duration: float


SYSTEMS = (
    System("the charge of a capacitor in an RC circuit with a source", lambda x, v, c, r: (v - x / c) / r,
           (0.7, 1.2, 2.31), (0, 6), (6, 12), 10),
    System("the size of a population", lambda x, r: r * x, (0.23,), (0.5, 3), (3, 6), 10),
    System("the size of a population in a place that carries only so many", lambda x, r, k: r * x * (1 - x / k),
           (0.79, 74.3), (5, 55), (100, 150), 8),
    System("the charge of a capacitor in an RC circuit with a nonlinear resistor",
           lambda x, a, b: 1 / (1 + exp(a - x / b)) - 0.5, (0.5, 0.96), (0, 1.5), (1.5, 3), 10),
    System("the velocity of a body that falls through air", lambda x, g, d: g - d * x**2,
           (9.81, 0.0021175), (0, 50), (80, 120), 10),
    System("the concentration of a chemical that catalyses its own production", lambda x, a, b: a * x - b * x**2,
           (2.1, 0.5), (0.1, 3), (5, 8), 4),
    System("the size of a tumour", lambda x, a, b: a * x * log(b * x), (0.032, 2.29), (1, 6), (6, 10), 10),
    System("the size of a population that needs to be large enough to grow",
           lambda x, r, k, a: r * x * (x / a - 1) * (1 - x / k), (0.14, 130.0, 4.4), (2, 40), (40, 180), 5),
    System("the share of a country's people who speak one of two languages", lambda x, a, b: a * (1 - x) - b * x,
           (0.32, 0.28), (0, 0.5), (0.5, 1), 5),
    System("the share of a country's people who speak one of two languages of unequal standing",
           lambda x, s, a: s * (1 - x) * x**a - (1 - s) * x * (1 - x) ** a, (0.2, 1.2), (0.1, 0.6), (0.6, 0.95), 10),
    System("an order parameter that relaxes at a critical point", lambda x, a: -a * x**3, (1.0,), (0.5, 2), (2, 3), 4),
    System("the number of photons in a laser", lambda x, a, b: a * x - b * x**2, (1.8, 0.1107), (0.5, 12), (20, 30), 4),
    System("the angle of a bead on a rotating hoop, overdamped", lambda x, a, b: a * sin(x) * (b * cos(x) - 1),
           (0.0981, 9.7), (0.2, 2), (2, 3.1), 8),
    System("the number of budworms in a forest with birds",
           lambda x, r, k, p, a: r * x * (1 - x / k) - p * x**2 / (a**2 + x**2), (0.78, 81.0, 0.9, 21.2),
           (2, 50), (100, 150), 8),
    System("the number of budworms in a forest with birds, scaled",
           lambda x, r, k: r * x * (1 - x / k) - x**2 / (1 + x**2), (0.4, 95.0), (1, 50), (110, 160), 10),
    System("the amplitude of an instability, after Landau", lambda x, a, b, c: a * x + b * x**3 - c * x**5,
           (0.1, 0.04, 0.001), (0.5, 4), (4, 8), 8),
)  # fmt: skip
"""System number ``test_id`` is ``SYSTEMS[test_id - 1]``."""
