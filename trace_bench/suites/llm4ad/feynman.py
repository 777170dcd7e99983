"""Laws of the Feynman symbolic-regression database: 100 of the lectures and 20 of further books, by number.

Numbers 1 to 100 follow the table of Udrescu and Tegmark (AI Feynman, arXiv:1905.11481), 101 to 120 their bonus
equations 1 to 20; variables are drawn from the ranges given there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import arccos, arcsin, cos, exp, log, pi, sin, sqrt, tanh
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LOW, _HIGH = 1.0, 5.0


@dataclass(frozen=True)
class Variable:
    """An input, drawn from ``low .. high``.

    Attributes:
        scale: ``uni`` where it is uniform, ``log`` where its logarithm is, ``int`` for whole numbers below `high`; with
            ``±`` before it where it has either sign, with ``-`` where it is negative.
        unit: of what it is given in.
    """

    name: str
    low: float
    high: float
    scale: str = "uni"
    unit: float = 1.0

    def at(self, shares: Floats, rng: np.random.Generator) -> Floats:
        """Values at shares (0 .. 1) of the range, or of the logarithms in it; signs are drawn."""
        if self.scale.endswith("log"):
            size = self.low * (self.high / self.low) ** shares
        else:
            size = self.low + shares * (self.high - self.low)
            size = np.floor(size) if self.scale.endswith("int") else size
        sign = rng.choice([-1.0, 1.0], len(shares)) if self.scale[0] == "±" else -1.0 if self.scale[0] == "-" else 1.0
        return np.asarray(sign * size)

    def described(self) -> str:
        """The range in words."""
        way = {"uni": "", "log": ", in its logarithm", "int": ", whole numbers"}[self.scale[-3:]]
        sign = {"±": ", of either sign", "-": ", negative"}.get(self.scale[0], "")
        unit = f" times {self.unit:g}" if self.unit != 1 else ""
        return f"{self.low:g} .. {self.high:g}{unit}{way}{sign}"


@dataclass(frozen=True)
class Law:
    """One equation.

    Attributes:
        source: where it stands: volume, chapter and equation of the lectures, or the name of the bonus equation.
        output: the symbol of what it gives.
        variables: its inputs, in the order of the arguments of `formula`.
        formula: the outputs for an array of each input.
    """

    source: str
    output: str
    variables: tuple[Variable, ...]
    formula: Callable[..., Any]


def _law(source: str, output: str, inputs: str, formula: Callable[..., Any]) -> Law:
    """`inputs` are names, each with its range behind it if that is not 1 .. 5: ``"m v:1:2 c:3:10"``."""
    found = []
    for word in inputs.split():
        name, *ends = word.split(":")
        low, high = (float(ends[0]), float(ends[1])) if ends else (_LOW, _HIGH)
        found.append(Variable(name, low, high))
    return Law(source, output, tuple(found), formula)


_BASE = (
    _law("I.6.20a", "f", "theta:1:3", lambda a: exp(-(a**2) / 2) / sqrt(2 * pi)),
    _law("I.6.20", "f", "sigma:1:3 theta:1:3", lambda s, a: exp(-((a / s) ** 2) / 2) / (sqrt(2 * pi) * s)),
    _law("I.6.20b", "f", "sigma:1:3 theta:1:3 theta1:1:3",
         lambda s, a, b: exp(-(((a - b) / s) ** 2) / 2) / (sqrt(2 * pi) * s)),
    _law("I.8.14", "d", "x1 x2 y1 y2", lambda x1, x2, y1, y2: sqrt((x2 - x1) ** 2 + (y2 - y1) ** 2)),
    _law("I.9.18", "F", "m1:1:2 m2:1:2 G:1:2 x1:3:4 x2:1:2 y1:3:4 y2:1:2 z1:3:4 z2:1:2",
         lambda m, n, g, x1, x2, y1, y2, z1, z2:
         g * m * n / ((x2 - x1) ** 2 + (y2 - y1) ** 2 + (z2 - z1) ** 2)),
    _law("I.10.7", "m", "m_0 v:1:2 c:3:10", lambda m, v, c: m / sqrt(1 - v**2 / c**2)),
    _law("I.11.19", "A", "x1 x2 x3 y1 y2 y3", lambda x1, x2, x3, y1, y2, y3: x1 * y1 + x2 * y2 + x3 * y3),
    _law("I.12.1", "F", "mu Nn", lambda mu, n: mu * n),
    _law("I.12.2", "F", "q1 q2 epsilon r", lambda q1, q2, e, r: q1 * q2 / (4 * pi * e * r**2)),
    _law("I.12.4", "Ef", "q1 epsilon r", lambda q, e, r: q / (4 * pi * e * r**2)),
    _law("I.12.5", "F", "q2 Ef", lambda q, e: q * e),
    _law("I.12.11", "F", "q Ef B v theta", lambda q, e, b, v, a: q * (e + b * v * sin(a))),
    _law("I.13.4", "K", "m v u w", lambda m, v, u, w: m * (v**2 + u**2 + w**2) / 2),
    _law("I.13.12", "U", "m1 m2 r1 r2 G", lambda m, n, r1, r2, g: g * m * n * (1 / r2 - 1 / r1)),
    _law("I.14.3", "U", "m g z", lambda m, g, z: m * g * z),
    _law("I.14.4", "U", "k_spring x", lambda k, x: k * x**2 / 2),
    _law("I.15.3x", "x1", "x:5:10 u:1:2 c:3:20 t:1:2", lambda x, u, c, t: (x - u * t) / sqrt(1 - u**2 / c**2)),
    _law("I.15.3t", "t1", "x c:3:10 u:1:2 t", lambda x, c, u, t: (t - u * x / c**2) / sqrt(1 - u**2 / c**2)),
    _law("I.15.10", "p", "m_0 v:1:2 c:3:10", lambda m, v, c: m * v / sqrt(1 - v**2 / c**2)),
    _law("I.16.6", "v1", "c v u", lambda c, v, u: (u + v) / (1 + u * v / c**2)),
    _law("I.18.4", "r", "m1 m2 r1 r2", lambda m, n, r1, r2: (m * r1 + n * r2) / (m + n)),
    _law("I.18.12", "tau", "r F theta:0:5", lambda r, f, a: r * f * sin(a)),
    _law("I.18.14", "L", "m r v theta", lambda m, r, v, a: m * r * v * sin(a)),
    _law("I.24.6", "E_n", "m:1:3 omega:1:3 omega_0:1:3 x:1:3", lambda m, w, w0, x: m * (w**2 + w0**2) * x**2 / 4),
    _law("I.25.13", "Volt", "q C", lambda q, c: q / c),
    _law("I.26.2", "theta1", "n:0:1 theta2", lambda n, a: arcsin(n * sin(a))),
    _law("I.27.6", "foc", "d1 d2 n", lambda d1, d2, n: 1 / (1 / d1 + n / d2)),
    _law("I.29.4", "k", "omega:1:10 c:1:10", lambda w, c: w / c),
    _law("I.29.16", "x", "x1 x2 theta1 theta2",
         lambda x1, x2, a, b: sqrt(x1**2 + x2**2 - 2 * x1 * x2 * cos(a - b))),
    _law("I.30.3", "Int", "Int_0 theta n", lambda i, a, n: i * sin(n * a / 2) ** 2 / sin(a / 2) ** 2),
    _law("I.30.5", "theta", "lambd:1:2 d:2:5 n", lambda wave, d, n: arcsin(wave / (n * d))),
    _law("I.32.5", "Pwr", "q a epsilon c", lambda q, a, e, c: q**2 * a**2 / (6 * pi * e * c**3)),
    _law("I.32.17", "Pwr", "epsilon:1:2 c:1:2 Ef:1:2 r:1:2 omega:1:2 omega_0:3:5",
         lambda e, c, f, r, w, w0: (e * c * f**2 / 2) * (8 * pi * r**2 / 3) * w**4 / (w**2 - w0**2) ** 2),
    _law("I.34.8", "omega", "q v B p", lambda q, v, b, p: q * v * b / p),
    _law("I.34.10", "omega", "c:3:10 v:1:2 omega_0", lambda c, v, w: w / (1 - v / c)),
    _law("I.34.14", "omega", "c:3:10 v:1:2 omega_0", lambda c, v, w: (1 + v / c) / sqrt(1 - v**2 / c**2) * w),
    _law("I.34.27", "E_n", "omega h", lambda w, h: h / (2 * pi) * w),
    _law("I.37.4", "Int", "I1 I2 delta", lambda i, j, d: i + j + 2 * sqrt(i * j) * cos(d)),
    _law("I.38.12", "r", "m q h epsilon", lambda m, q, h, e: 4 * pi * e * (h / (2 * pi)) ** 2 / (m * q**2)),
    _law("I.39.10", "E_n", "pr V", lambda p, v: 3 / 2 * p * v),
    _law("I.39.11", "E_n", "gamma:2:5 pr V", lambda g, p, v: p * v / (g - 1)),
    _law("I.39.22", "pr", "n T V kb", lambda n, t, v, k: n * k * t / v),
    _law("I.40.1", "n", "n_0 m x T g kb", lambda n, m, x, t, g, k: n * exp(-m * g * x / (k * t))),
    _law("I.41.16", "L_rad", "omega T h kb c",
         lambda w, t, h, k, c: h / (2 * pi) * w**3 / (pi**2 * c**2 * (exp(h / (2 * pi) * w / (k * t)) - 1))),
    _law("I.43.16", "v", "mu_drift q Volt d", lambda mu, q, v, d: mu * q * v / d),
    _law("I.43.31", "D", "mob T kb", lambda m, t, k: m * k * t),
    _law("I.43.43", "kappa", "gamma:2:5 kb A v", lambda g, k, a, v: k * v / (a * (g - 1))),
    _law("I.44.4", "E_n", "n kb T V1 V2", lambda n, k, t, v1, v2: n * k * t * log(v2 / v1)),
    _law("I.47.23", "c", "gamma pr rho", lambda g, p, r: sqrt(g * p / r)),
    _law("I.48.20", "E_n", "m v:1:2 c:3:10", lambda m, v, c: m * c**2 / sqrt(1 - v**2 / c**2)),
    _law("I.50.26", "x", "x1:1:3 omega:1:3 t:1:3 alpha:1:3",
         lambda x, w, t, a: x * (cos(w * t) + a * cos(w * t) ** 2)),
    _law("II.2.42", "Pwr", "kappa T1 T2 A d", lambda k, t1, t2, a, d: k * (t2 - t1) * a / d),
    _law("II.3.24", "flux", "Pwr r", lambda p, r: p / (4 * pi * r**2)),
    _law("II.4.23", "Volt", "q epsilon r", lambda q, e, r: q / (4 * pi * e * r)),
    _law("II.6.11", "Volt", "epsilon:1:3 p_d:1:3 theta:1:3 r:1:3", lambda e, p, a, r: p * cos(a) / (4 * pi * e * r**2)),
    _law("II.6.15a", "Ef", "epsilon:1:3 p_d:1:3 r:1:3 x:1:3 y:1:3 z:1:3",
         lambda e, p, r, x, y, z: 3 * p * z * sqrt(x**2 + y**2) / (4 * pi * e * r**5)),
    _law("II.6.15b", "Ef", "epsilon:1:3 p_d:1:3 theta:1:3 r:1:3",
         lambda e, p, a, r: 3 * p * cos(a) * sin(a) / (4 * pi * e * r**3)),
    _law("II.8.7", "E_n", "q epsilon d", lambda q, e, d: 3 / 5 * q**2 / (4 * pi * e * d)),
    _law("II.8.31", "E_den", "epsilon Ef", lambda e, f: e * f**2 / 2),
    _law("II.10.9", "Ef", "sigma_den epsilon chi", lambda s, e, x: s / (e * (1 + x))),
    _law("II.11.3", "x", "q:1:3 Ef:1:3 m:1:3 omega_0:3:5 omega:1:2",
         lambda q, f, m, w0, w: q * f / (m * (w0**2 - w**2))),
    _law("II.11.17", "n", "n_0:1:3 kb:1:3 T:1:3 theta:1:3 p_d:1:3 Ef:1:3",
         lambda n, k, t, a, p, f: n * (1 + p * f * cos(a) / (k * t))),
    _law("II.11.20", "Pol", "n_rho p_d Ef kb T", lambda n, p, f, k, t: n * p**2 * f / (3 * k * t)),
    _law("II.11.27", "Pol", "n:0:1 alpha:0:1 epsilon:1:2 Ef:1:2", lambda n, a, e, f: n * a / (1 - n * a / 3) * e * f),
    _law("II.11.28", "theta", "n:0:1 alpha:0:1", lambda n, a: 1 + n * a / (1 - n * a / 3)),
    _law("II.13.17", "B", "epsilon c I r", lambda e, c, i, r: 2 * i / (4 * pi * e * c**2 * r)),
    _law("II.13.23", "rho_c", "rho_c_0 v:1:2 c:3:10", lambda p, v, c: p / sqrt(1 - v**2 / c**2)),
    _law("II.13.34", "j", "rho_c_0 v:1:2 c:3:10", lambda p, v, c: p * v / sqrt(1 - v**2 / c**2)),
    _law("II.15.4", "E_n", "mom B theta", lambda m, b, a: -m * b * cos(a)),
    _law("II.15.5", "E_n", "p_d Ef theta", lambda p, f, a: -p * f * cos(a)),
    _law("II.21.32", "Volt", "q epsilon r v:1:2 c:3:10", lambda q, e, r, v, c: q / (4 * pi * e * r * (1 - v / c))),
    _law("II.24.17", "k", "omega:4:6 c:1:2 d:2:4", lambda w, c, d: sqrt(w**2 / c**2 - pi**2 / d**2)),
    _law("II.27.16", "flux", "epsilon c Ef", lambda e, c, f: e * c * f**2),
    _law("II.27.18", "E_den", "epsilon Ef", lambda e, f: e * f**2),
    _law("II.34.2a", "I", "q v r", lambda q, v, r: q * v / (2 * pi * r)),
    _law("II.34.2", "mom", "q v r", lambda q, v, r: q * v * r / 2),
    _law("II.34.11", "omega", "g_ q B m", lambda g, q, b, m: g * q * b / (2 * m)),
    _law("II.34.29a", "mom", "q h m", lambda q, h, m: q * h / (4 * pi * m)),
    _law("II.34.29b", "E_n", "g_ h Jz mom B", lambda g, h, j, m, b: g * m * b * j / (h / (2 * pi))),
    _law("II.35.18", "n", "n_0:1:3 kb:1:3 T:1:3 mom:1:3 B:1:3",
         lambda n, k, t, m, b: n / (exp(m * b / (k * t)) + exp(-m * b / (k * t)))),
    _law("II.35.21", "M", "n_rho mom B kb T", lambda n, m, b, k, t: n * m * tanh(m * b / (k * t))),
    _law("II.36.38", "f", "mom:1:3 H:1:3 kb:1:3 T:1:3 alpha:1:3 epsilon:1:3 c:1:3 M:1:3",
         lambda m, h, k, t, a, e, c, n: m * h / (k * t) + m * a * n / (e * c**2 * k * t)),
    _law("II.37.1", "E_n", "mom B chi", lambda m, b, x: m * (1 + x) * b),
    _law("II.38.3", "F", "Y A d x", lambda y, a, d, x: y * a * x / d),
    _law("II.38.14", "mu_S", "Y sigma", lambda y, s: y / (2 * (1 + s))),
    _law("III.4.32", "n", "h omega kb T", lambda h, w, k, t: 1 / (exp(h / (2 * pi) * w / (k * t)) - 1)),
    _law("III.4.33", "E_n", "h omega kb T",
         lambda h, w, k, t: h / (2 * pi) * w / (exp(h / (2 * pi) * w / (k * t)) - 1)),
    _law("III.7.38", "omega", "mom B h", lambda m, b, h: 2 * m * b / (h / (2 * pi))),
    _law("III.8.54", "prob", "E_n:1:2 t:1:2 h:1:4", lambda e, t, h: sin(e * t / (h / (2 * pi))) ** 2),
    _law("III.9.52", "prob", "p_d:1:3 Ef:1:3 t:1:3 h:1:3 omega omega_0",
         lambda p, f, t, h, w, w0: p * f * t / (h / (2 * pi)) * np.sinc((w - w0) * t / (2 * pi)) ** 2),
    _law("III.10.19", "E_n", "mom Bx By Bz", lambda m, x, y, z: m * sqrt(x**2 + y**2 + z**2)),
    _law("III.12.43", "L", "n h", lambda n, h: n * h / (2 * pi)),
    _law("III.13.18", "v", "E_n d k h", lambda e, d, k, h: 2 * e * d**2 * k / (h / (2 * pi))),
    _law("III.14.14", "I", "I_0 q:1:2 Volt:1:2 kb:1:2 T:1:2", lambda i, q, v, k, t: i * (exp(q * v / (k * t)) - 1)),
    _law("III.15.12", "E_n", "U k d", lambda u, k, d: 2 * u * (1 - cos(k * d))),
    _law("III.15.14", "m", "h E_n d", lambda h, e, d: (h / (2 * pi)) ** 2 / (2 * e * d**2)),
    _law("III.15.27", "k", "alpha n d", lambda a, n, d: 2 * pi * a / (n * d)),
    _law("III.17.37", "f", "beta alpha theta", lambda b, a, t: b * (1 + a * cos(t))),
    _law("III.19.51", "E_n", "m q h n epsilon",
         lambda m, q, h, n, e: -m * q**4 / (2 * (4 * pi * e) ** 2 * (h / (2 * pi)) ** 2 * n**2)),
    _law("III.21.20", "j", "rho_c_0 q A_vec m", lambda p, q, a, m: -p * q * a / m),
)  # fmt: skip

_BONUS = (
    _law("Rutherford scattering", "A", "Z_1:1:2 Z_2:1:2 alpha:1:2 hbar:1:2 c:1:2 E_n:1:3 theta:1:3",
         lambda z, y, a, h, c, e, t: (z * y * a * h * c / (4 * e * sin(t / 2) ** 2)) ** 2),
    _law("Goldstein 3.55", "k", "m:1:3 k_G:1:3 L:1:3 E_n:1:3 theta1:0:6 theta2:0:6",
         lambda m, k, j, e, a, b: m * k / j**2 * (1 + sqrt(1 + 2 * e * j**2 / (m * k**2)) * cos(a - b))),
    _law("Goldstein 3.64", "r", "d:1:3 alpha:2:4 theta1:4:5 theta2:4:5",
         lambda d, e, a, b: d * (1 - e**2) / (1 + e * cos(a - b))),
    _law("Goldstein 3.16", "v", "m:1:3 E_n:8:12 U:1:3 L:1:3 r:1:3",
         lambda m, e, u, j, r: sqrt(2 / m * (e - u - j**2 / (2 * m * r**2)))),
    _law("Goldstein 3.74", "t", "d:1:3 G:1:3 m1:1:3 m2:1:3", lambda d, g, m, n: 2 * pi * d**1.5 / sqrt(g * (m + n))),
    _law("Goldstein 3.99", "alpha", "epsilon:1:3 L:1:3 m:1:3 Z_1:1:3 Z_2:1:3 q:1:3 E_n:1:3",
         lambda p, j, m, z, y, q, e: sqrt(1 + 2 * p**2 * e * j**2 / (m * (z * y * q**2) ** 2))),
    _law("Friedman equation", "H_G", "G:1:3 rho:1:3 alpha:1:2 c:1:2 d:1:3",
         lambda g, p, a, c, d: sqrt(8 * pi * g * p / 3 - a * c**2 / d**2)),
    _law("Compton scattering", "K", "E_n:1:3 m:1:3 c:1:3 theta:1:3",
         lambda e, m, c, t: e / (1 + e / (m * c**2) * (1 - cos(t)))),
    _law("Gravitational wave power", "Pwr", "G:1:2 c:1:2 m1 m2 r:1:2",
         lambda g, c, m, n, r: -32 / 5 * g**4 / c**5 * (m * n) ** 2 * (m + n) / r**5),
    _law("Relativistic aberration", "theta1", "c:4:6 v:1:3 theta2:1:3",
         lambda c, v, t: arccos((cos(t) - v / c) / (1 - v / c * cos(t)))),
    _law("N-slit diffraction", "I", "I_0:1:3 alpha:1:3 delta:1:3 n:1:2",
         lambda i, a, d, n: i * (sin(a / 2) * sin(n * d / 2) / (a / 2 * sin(d / 2))) ** 2),
    _law("Jackson 2.11", "F", "q y:1:3 Volt d:4:6 epsilon",
         lambda q, y, v, d, e:
         q / (4 * pi * e * y**2) * (4 * pi * e * v * d - q * d * y**3 / (y**2 - d**2) ** 2)),
    _law("Jackson 3.45", "Volt", "q r:1:3 d:4:6 alpha:0:6 epsilon",
         lambda q, r, d, a, e: q / (4 * pi * e * sqrt(r**2 + d**2 - 2 * r * d * cos(a)))),
    _law("Jackson 4.60'", "Volt", "Ef theta:0:6 r d alpha",
         lambda f, t, r, d, a: f * cos(t) * (d**3 / r**2 * (a - 1) / (a + 2) - r)),
    _law("Jackson 11.38", "omega_0", "c:5:20 v:1:3 omega theta:0:6",
         lambda c, v, w, t: sqrt(1 - v**2 / c**2) * w / (1 + v / c * cos(t))),
    _law("Goldstein 8.56", "E_n", "m c p q A_vec Volt",
         lambda m, c, p, q, a, v: sqrt((p - q * a) ** 2 * c**2 + m**2 * c**4) + q * v),
    _law("Goldstein 12.80'", "E_n", "m omega p y x alpha",
         lambda m, w, p, y, x, a: (p**2 + m**2 * w**2 * x**2 * (1 + a * x / y)) / (2 * m)),
    _law("Weinberg 15.2.1", "rho_0", "G k_f r H_G c",
         lambda g, k, r, h, c: 3 / (8 * pi * g) * (c**2 * k / r**2 + h**2)),
    _law("Weinberg 15.2.2", "pr", "G k_f r H_G alpha c",
         lambda g, k, r, h, a, c: -(c**4 * k / r**2 + h**2 * c**2 * (1 - 2 * a)) / (8 * pi * g)),
    _law("Klein-Nishina", "A", "omega omega_0 alpha h m c beta:0:6",
         lambda w, w0, a, h, m, c, b:
         a**2 * h**2 / (4 * pi * m**2 * c**2) * (w0 / w) ** 2 * (w0 / w + w / w0 - sin(b) ** 2)),
)  # fmt: skip

LAWS = (*_BASE, *_BONUS)
"""Law number ``test_id`` is ``LAWS[test_id - 1]``."""
