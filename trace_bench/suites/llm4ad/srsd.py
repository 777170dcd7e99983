"""The Feynman laws in the three sets of SRSD: easy (30), medium (40) and hard (50), with its ranges of the variables.

Sets and ranges are those of Matsubara et al., Rethinking Symbolic Regression Datasets and Benchmarks for Scientific
Discovery (arXiv:2206.10540), as its repository omron-sinicx/srsd-benchmark gives them: variables have the sizes that
they have in nature, most are drawn uniformly in their logarithm, and physical constants are no variables. Five laws
differ there from the table of AI Feynman (`_CHANGED`). Here the units are powers of ten in which variables and outputs
are about 1, as parameters are that a program starts with; in SRSD they are those of the SI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from math import log10
from typing import Any

import numpy as np
from numpy import cos, pi, sin, sinc, sqrt

from trace_bench.suites.llm4ad.feynman import LAWS, Law, Variable

LARGEST = 1e100
"""Outputs beyond are not drawn: the square of one would not fit a float."""

CONSTANTS: Mapping[str, float] = {
    "c": 2.99792458e8,
    "G": 6.67430e-11,
    "g": 9.80665,
    "epsilon": 8.854e-12,
    "h": 6.626e-34,
    "hbar": 1.054571817e-34,
    "kb": 1.380649e-23,
    "alpha": 7.2973525693e-3,
    "m": 9.10938356e-31,
    "mom": 9.2740100783e-24,
}
"""SI values of what a law has as a variable and its set does not: the speed of light, gravitation and its acceleration
on Earth, the electric constant, those of Planck (both), Boltzmann and the fine structure, the mass of the electron and
Bohr's magneton."""

_CHANGED: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "I.26.2": ("n", lambda theta1, theta2: sin(theta1) / sin(theta2)),
    "I.29.16": ("x", lambda x1, x2, theta1, theta2: sqrt(x1**2 + x2**2 + 2 * x1 * x2 * cos(theta1 - theta2))),
    "I.30.5": ("d", lambda lambd, n, theta: lambd / (n * sin(theta))),
    "III.9.52": (
        "prob",
        lambda p_d, Ef, t, omega, omega_0: (
            (p_d * Ef * t * 2 * pi / CONSTANTS["h"]) ** 2 * sinc((omega - omega_0) * t / (2 * pi)) ** 2
        ),
    ),
    "Relativistic aberration": (
        "cos(theta1)",
        lambda v, theta2: (cos(theta2) - v / CONSTANTS["c"]) / (1 - v / CONSTANTS["c"] * cos(theta2)),
    ),
}
"""Output and formula where SRSD solves a law for another quantity, or corrects it."""

_RANGES: Mapping[str, Mapping[str, str]] = {
    "easy": {
        "I.12.1": "mu,Nn:log:1e-2:1",
        "I.12.4": "q1:±log:0.1:10 r:log:0.1:10",
        "I.12.5": "q2,Ef:±log:0.1:10",
        "I.14.3": "m:log:1e-2:1 z:±log:1e-2:1",
        "I.14.4": "k_spring:log:1e2:1e4 x:±log:1e-2:1",
        "I.18.12": "r,F:log:0.1:10 theta:uni:0:2pi",
        "I.18.14": "m,r,v:log:0.1:10 theta:uni:0:2pi",
        "I.25.13": "q:±log:1e-5:1e-3 C:log:1e-5:1e-3",
        "I.26.2": "theta1,theta2:uni:0:pi/2",
        "I.27.6": "d1,d2:log:1e-3:0.1 n:log:0.1:10",
        "I.30.5": "lambd:log:1e-11:1e-9 n:int:1:1e2 theta:uni:0:pi/2",
        "I.43.16": "mu_drift:±log:1e-6:1e-4 q:±log:1e-11:1e-9 Volt:±log:0.1:10 d:log:1e-3:0.1",
        "I.47.23": "gamma,rho:uni:1:2 pr:uni:5e-6:1.5e-5",
        "II.2.42": "kappa:log:0.1:10 T2,T1:log:10:1e3 A:log:1e-4:1e-2 d:log:1e-2:1",
        "II.3.24": "Pwr:±log:1:1e2 r:log:1e-2:1",
        "II.4.23": "q:±log:1e-3:0.1 r:log:1e-2:1",
        "II.8.31": "Ef:log:10:1e3",
        "II.10.9": "sigma_den:±log:1e-3:0.1 chi:log:1:1e2",
        "II.13.17": "I:±log:1e-3:0.1 r:log:1e-3:0.1",
        "II.15.4": "mom:±log:1e-25:1e-23 B:±log:1e-3:0.1 theta:uni:0:2pi",
        "II.15.5": "p_d:±log:1e-22:1e-20 Ef:±log:10:1e3 theta:uni:0:2pi",
        "II.27.16": "Ef:log:0.1:10",
        "II.27.18": "Ef:log:0.1:10",
        "II.34.11": "g_:uni:-1:1 q:±log:1e-11:1e-9 B:±log:1e-9:1e-7 m:log:1e-30:1e-28",
        "II.34.29b": "g_:uni:-1:1 B:±log:1e-3:0.1 Jz:±log:1e-26:1e-22",
        "II.38.3": "Y:log:0.1:10 A:log:1e-4:1e-2 x:±log:1e-3:0.1 d:log:1e-2:1",
        "II.38.14": "Y:log:0.1:10 sigma:log:1e-2:1",
        "III.7.38": "mom:±log:1e-11:1e-9 B:±log:1e-3:0.1",
        "III.12.43": "n:int:1:1e2",
        "III.15.27": "alpha:±int:1:1e2 n:int:1:1e2 d:log:1e-10:1e-8",
    },
    "medium": {
        "I.8.14": "x2,x1,y2,y1:±log:0.1:10",
        "I.10.7": "m_0:log:0.1:10 v:log:1e5:1e8",
        "I.11.19": "x1,y1,x2,y2,x3,y3:±log:0.1:10",
        "I.12.2": "q1,q2:±log:0.1:10 r:log:0.1:10",
        "I.12.11": "q:±log:0.1:10 Ef,B,v:log:0.1:10 theta:uni:0:pi/2",
        "I.13.4": "m:log:0.1:10 v,u,w:±log:0.1:10",
        "I.13.12": "m1,m2,r2,r1:log:1e-2:1",
        "I.15.10": "m_0:log:1e-2:1 v:±log:1e5:1e7",
        "I.16.6": "u,v:±log:1e6:1e8",
        "I.18.4": "m1,m2:log:0.1:10 r1,r2:±log:0.1:10",
        "I.24.6": "m:log:0.1:10 omega,omega_0,x:±log:0.1:10",
        "I.29.4": "omega:log:1e9:1e11",
        "I.32.5": "q:±log:1e-3:0.1 a:log:1e5:1e7",
        "I.34.8": "q:±log:1e-11:1e-9 v:±log:1e5:1e7 B:±log:10:1e3 p:±log:1e9:1e11",
        "I.34.10": "omega_0:log:1e9:1e11 v:±log:1e5:1e7",
        "I.34.27": "omega:log:1e9:1e11",
        "I.38.12": "m:log:1e-28:1e-26 q:log:1e-11:1e-9",
        "I.39.10": "pr:log:1e4:1e6 V:log:1e-5:1e-3",
        "I.39.11": "gamma:uni:1:2 pr:log:1e4:1e6 V:log:1e-5:1e-3",
        "I.43.31": "mob:log:1e13:1e15 T:log:10:1e3",
        "I.43.43": "gamma:uni:1:2 v:log:1e2:1e4 A:log:1e-21:1e-19",
        "I.48.20": "m:log:1e-29:1e-27 v:log:1e6:1e8",
        "II.6.11": "p_d:±log:1e-22:1e-20 theta:uni:0:2pi r:log:1e-10:1e-8",
        "II.8.7": "q:±log:1e-11:1e-9 d:log:1e-12:1e-10",
        "II.11.3": "q:±log:1e-11:1e-9 Ef:log:1e-9:1e-7 m:log:1e-28:1e-26 omega_0,omega:±log:1e9:1e11",
        "II.21.32": "q:±log:1e-3:0.1 r:log:1:1e2 v:log:1e6:1e8",
        "II.34.2a": "q:±log:1e-11:1e-9 v:±log:1e5:1e7 r:log:1e-11:1e-9",
        "II.34.2": "q:±log:1e-11:1e-9 v:±log:1e5:1e7 r:log:1e-11:1e-9",
        "II.34.29a": "q:±log:1e-11:1e-9 m:log:1e-30:1e-28",
        "II.37.1": "mom:±log:1e-25:1e-23 chi:±log:1e4:1e6 B:±log:1e-3:0.1",
        "III.4.32": "omega:log:1e8:1e10 T:log:10:1e3",
        "III.8.54": "E_n:±log:1e-18:1e-16 t:log:1e-18:1e-16",
        "III.13.18": "E_n:±log:1e-18:1e-16 d:log:1e-10:1e-8 k:log:0.1:10",
        "III.14.14": "I_0:±log:1e-3:0.1 q:log:1e-22:1e-20 Volt:±log:0.1:10 T:log:10:1e3",
        "III.15.12": "U:log:1e-18:1e-16 k:log:0.1:10 d:log:1e-10:1e-8",
        "III.15.14": "E_n:log:1e-18:1e-16 d:log:1e-10:1e-8",
        "III.17.37": "beta:log:1e-18:1e-16 alpha:±log:1e-18:1e-16 theta:uni:0:2pi",
        "III.19.51": "m:log:1e-30:1e-28 q:±log:1e-11:1e-9 n:int:1:1e2",
        "Compton scattering": "E_n:log:1e-24:1e-22 theta:uni:-pi:pi",
        "Weinberg 15.2.1": "k_f:±log:10:1e3 r:log:1e8:1e10 H_G:±log:1:1e2",
    },
    "hard": {
        "I.6.20a": "theta:±log:0.1:10",
        "I.6.20": "theta:±log:0.1:10 sigma:log:0.1:10",
        "I.6.20b": "theta,theta1:±log:0.1:10 sigma:log:0.1:10",
        "I.9.18": "m1,m2:log:1:1e3 x2,x1,y2,y1,z2,z1:±log:1:10",
        "I.15.3x": "x:±log:1:1e2 u:±log:1e6:1e8 t:log:1e-6:1e-4",
        "I.15.3t": "t:log:1e-6:1e-4 u:±log:1e5:1e7 x:±log:1:1e2",
        "I.29.16": "x1,x2:log:0.1:10 theta1,theta2:uni:0:2pi",
        "I.30.3": "Int_0:log:10:1e3 n:int:10:1e3 theta:uni:-2pi:2pi",
        "I.32.17": "Ef:±log:10:1e3 r:log:1e-2:1 omega,omega_0:±log:1e9:1e11",
        "I.34.14": "v:±log:1e6:1e8 omega_0:log:1e9:1e11",
        "I.37.4": "I1,I2:log:1e-3:0.1 delta:uni:0:2pi",
        "I.39.22": "n:log:1e23:1e25 T:log:10:1e3 V:log:1e-5:1e-3",
        "I.40.1": "n_0:log:1e25:1e27 m:log:1e-24:1e-22 x:±log:1e-2:1 T:log:10:1e3",
        "I.41.16": "omega:log:0.1:10 T:log:10:1e3",
        "I.44.4": "n:log:1e25:1e27 T:log:10:1e3 V2,V1:log:1e-5:1e-3",
        "I.50.26": "x1:log:0.1:10 omega:±log:10:1e3 t:log:1e-3:0.1 alpha:±log:1e-3:0.1",
        "II.6.15a": "p_d:±log:1e-22:1e-20 z,x,y:±log:1e-10:1e-8 r:log:1e-10:1e-8",
        "II.6.15b": "p_d:±log:1e-22:1e-20 theta:uni:0:pi r:log:1e-10:1e-8",
        "II.11.17": "n_0:log:1e27:1e29 p_d:±log:1e-22:1e-20 Ef:±log:10:1e3 theta:uni:0:2pi T:log:10:1e3",
        "II.11.20": "n_rho:log:1e23:1e25 p_d:±log:1e-22:1e-20 Ef:±log:10:1e3 T:log:10:1e3",
        "II.11.27": "n:log:1e23:1e25 alpha:log:1e-33:1e-31 Ef:log:10:1e3",
        "II.11.28": "n:log:1e23:1e25 alpha:log:1e-33:1e-31",
        "II.13.23": "rho_c_0:log:1e27:1e29 v:log:1e6:1e8",
        "II.13.34": "rho_c_0:log:1e27:1e29 v:log:1e6:1e8",
        "II.24.17": "omega:±log:1e9:1e11 d:log:1e-3:0.1",
        "II.35.18": "n_0:log:1e23:1e25 mom:log:1e-25:1e-23 B:log:1e-3:0.1 T:log:10:1e3",
        "II.35.21": "n_rho:log:1e23:1e25 mom:log:1e-25:1e-23 B:log:1e-3:0.1 T:log:10:1e3",
        "II.36.38": "mom:±log:1e-25:1e-23 H:±log:1e-3:0.1 T:log:10:1e3 alpha:uni:0:1 M:log:1e23:1e25",
        "III.4.33": "omega:log:1e8:1e10 T:log:10:1e3",
        "III.9.52": "p_d:±log:1e-22:1e-20 Ef:±log:10:1e3 t:log:1e-18:1e-16 omega,omega_0:log:1e8:1e10",
        "III.10.19": "mom:±log:1e-25:1e-23 Bx,By,Bz:±log:1e-3:0.1",
        "III.21.20": "rho_c_0:-log:1e-29:1e-27 q:-log:1e-11:1e-9 A_vec:±log:1e-3:0.1 m:log:1e-30:1e-28",
        "Rutherford scattering": "Z_1,Z_2:int:1:10 E_n:log:1e-18:1e-16 theta:uni:0:2pi",
        "Goldstein 3.55": "m:log:1e23:1e25 k_G:log:1e9:1e11 L:log:1e8:1e10 E_n:log:1e25:1e27 theta1,theta2:uni:0:2pi",
        "Goldstein 3.64": "d:log:1e8:1e10 alpha:uni:0:1 theta1,theta2:uni:0:2pi",
        "Goldstein 3.16": "m:log:1e23:1e25 E_n,U:log:1e25:1e27 L:±log:1e8:1e10 r:log:1e8:1e10",
        "Goldstein 3.74": "d:log:1e8:1e10 m1,m2:log:1e23:1e25",
        "Goldstein 3.99": "epsilon:±log:1e-18:1e-16 E_n:log:1e-18:1e-16 L:log:1e-10:1e-8 m:log:1e-30:1e-28 "
        "Z_1,Z_2:int:1:10 q:±log:1e-11:1e-9",
        "Friedman equation": "rho:log:1e-28:1e-26 alpha:int:-1:2 d:log:1e25:1e27",
        "Gravitational wave power": "m1,m2:log:1e23:1e25 r:log:1e8:1e10",
        "Relativistic aberration": "theta2:uni:0:pi v:±log:1e6:1e8",
        "N-slit diffraction": "I_0:log:1e-3:0.1 alpha,delta:log:1e-11:1e-9 n:int:1:1e2",
        "Jackson 2.11": "q:±log:1e-3:0.1 epsilon:log:1e-12:1e-10 y,d:log:1e-2:1 Volt:±log:0.1:10",
        "Jackson 3.45": "epsilon:log:1e-12:1e-10 q:±log:1e-3:0.1 r,d:log:1e-2:1 alpha:uni:0:pi",
        "Jackson 4.60'": "Ef:±log:10:1e3 theta:uni:0:pi r,d:log:1e-2:1 alpha:log:0.1:10",
        "Jackson 11.38": "v:log:1e5:1e7 omega:log:1e9:1e11 theta:uni:0:2pi",
        "Goldstein 8.56": "p:±log:1e-9:1e-7 q:±log:1e-11:1e-9 A_vec:±log:10:1e3 m:log:1e-30:1e-28 Volt:±log:0.1:10",
        "Goldstein 12.80'": "m:log:1e-30:1e-28 p:±log:1e-9:1e-7 omega:±log:1e9:1e11 x:±log:1e-11:1e-9"
        " alpha:±log:0.1:10 y:log:1e-11:1e-9",
        "Weinberg 15.2.2": "k_f:±log:10:1e3 r:log:1e8:1e10 H_G:log:1:1e2 alpha:uni:-10:10",
        "Klein-Nishina": "omega_0,omega:log:1e9:1e11 beta:uni:0:2pi",
    },
}
"""Of each law, by set: names of variables, how they are drawn, and from where to where. Signs are drawn where there is
a plus-minus; integers exclude the upper end."""

_SAMPLED = 1000
_ENDS = {"pi/2": pi / 2, "pi": pi, "2pi": 2 * pi, "-pi": -pi, "-2pi": -2 * pi}


def _si(law: Law, words: str) -> Law:
    """`law` in SI units, with the variables that `words` name; its other arguments are constants."""
    ranges = {}
    for word in words.split():
        names, scale, *ends = word.split(":")
        low, high = (_ENDS.get(end) or float(end) for end in ends)
        ranges.update({name: Variable(name, low, high, scale) for name in names.split(",")})
    if law.source in _CHANGED:
        output, formula = _CHANGED[law.source]
        arguments = list(formula.__code__.co_varnames[: formula.__code__.co_argcount])
    else:
        output, formula, arguments = law.output, law.formula, [variable.name for variable in law.variables]
    variables = [name for name in arguments if name in ranges]

    def of_variables(*given: Any) -> Any:
        values = {**CONSTANTS, **dict(zip(variables, given, strict=True))}
        return formula(*(values[name] for name in arguments))

    return Law(law.source, output, tuple(ranges[name] for name in variables), of_variables)


def _scaled(law: Law) -> Law:
    """`law` in units, powers of ten, in which variables and outputs are about 1."""
    units = [10.0 ** round((log10(v.low) + log10(v.high)) / 2) if "log" in v.scale else 1.0 for v in law.variables]
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        found = np.abs(law.formula(*(v.at(rng.random(_SAMPLED), rng) for v in law.variables)))
    unit = 10.0 ** round(log10(float(np.median(found[(found > 0) & (found < LARGEST)]))))

    def in_units(*given: Any) -> Any:
        return law.formula(*(value * one for value, one in zip(given, units, strict=True))) / unit

    variables = [
        replace(v, low=v.low / one, high=v.high / one, unit=one) for v, one in zip(law.variables, units, strict=True)
    ]
    return Law(law.source, f"{law.output} in units of {unit:g}", tuple(variables), in_units)


@cache
def laws(name: str) -> tuple[Law, ...]:
    """The laws of a set, in the order of AI Feynman's table; ``ai_feynman`` is that table itself."""
    if name == "ai_feynman":
        return LAWS
    return tuple(_scaled(_si(law, _RANGES[name][law.source])) for law in LAWS if law.source in _RANGES[name])
