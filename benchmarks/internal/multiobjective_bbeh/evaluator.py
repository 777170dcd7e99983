"""Boolean expressions: whether a program evaluates them rightly, and the CPU time that it takes."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass

from trace_bench.suites import checks
from trace_bench.worker.problem import Program

WEIGHT = 0.3
"""Of a CPU second in the task's own score."""
LEAVES = 4
"""Comparisons and Boolean values of an expression, for each unit of difficulty."""
LARGEST = 12
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
OR, AND, NOT, ATOM = range(4)
"""How tightly the last operator of an expression binds."""


@dataclass(frozen=True)
class Expression:
    """A Boolean expression whose value is known, as it was put together from parts of known value."""

    text: str
    value: bool
    binds: int

    def within(self, binds: int) -> str:
        """The text as an operand of an operator that binds so tightly."""
        return self.text if self.binds >= binds else f"( {self.text} )"


def instances(split: str, seed: int, count: int, *, difficulty: int) -> list[tuple[str, bool]]:
    """`count` expressions with their values, which are as likely true as false. They have `LEAVES` leaves for each unit
    of `difficulty`."""
    rng = random.Random(seed)
    made = [_balanced(rng, LEAVES * difficulty) for _ in range(count)]
    return [(each.text, each.value) for each in made]


def evaluate(program: Program, instance: tuple[str, bool], *, difficulty: int) -> tuple[float, str, dict[str, float]]:
    """Accuracy minus `WEIGHT` times CPU seconds, and both as metrics.

    Raises:
        CandidateError: the answer is neither True nor False.
    """
    text, value = instance
    answer, seconds = program.metered(text)
    if type(answer) is not bool:
        raise checks.refuse(f"the value must be True or False, not {checks.describe(answer)}")
    right = answer == value
    shown = text if len(text) <= 400 else f"{text[:400]} …"
    said = "Right" if right else f"Wrong: the value is {value}, not {answer}, of: {shown}\nIt came"
    metrics = {"accuracy": float(right), "cpu_seconds": seconds}
    return right - WEIGHT * seconds, f"{said} after {seconds:.6f} CPU seconds.", metrics


def _balanced(rng: random.Random, leaves: int) -> Expression:
    wanted = rng.random() < 0.5
    found = _expression(rng, leaves)
    return found if found.value == wanted else _negated(found)


def _expression(rng: random.Random, leaves: int) -> Expression:
    """An expression with `leaves` comparisons and Boolean values."""
    if leaves == 1:
        made = _leaf(rng)
    else:
        left = rng.randint(1, leaves - 1)
        made = _joined(rng.choice(("and", "or")), _expression(rng, left), _expression(rng, leaves - left))
    if rng.random() < 0.25:
        made = _negated(made)
    if rng.random() < 0.1:
        made = Expression(f"( {made.text} )", made.value, ATOM)
    return made


def _joined(word: str, left: Expression, right: Expression) -> Expression:
    binds = AND if word == "and" else OR
    value = left.value and right.value if word == "and" else left.value or right.value
    return Expression(f"{left.within(binds)} {word} {right.within(binds)}", value, binds)


def _negated(inner: Expression) -> Expression:
    return Expression(f"not {inner.within(NOT)}", not inner.value, NOT)


def _leaf(rng: random.Random) -> Expression:
    if rng.random() < 0.3:
        value = rng.random() < 0.5
        return Expression(str(value), value, ATOM)
    (left, a), (right, b) = _number(rng), _number(rng)
    sign = rng.choice(tuple(COMPARISONS))
    return Expression(f"{left} {sign} {right}", COMPARISONS[sign](a, b), ATOM)


def _number(rng: random.Random) -> tuple[str, int]:
    """A sum or product of small whole numbers as text, and its value."""
    a, b, c = (rng.randint(0, LARGEST) for _ in range(3))
    return rng.choice(
        (
            (f"{a}", a),
            (f"{a} + {b}", a + b),
            (f"{a} - {b}", a - b),
            (f"{a} * {b}", a * b),
            (f"{a} * {b} + {c}", a * b + c),
            (f"{a} - {b} * {c}", a - b * c),
            (f"( {a} + {b} ) * {c}", (a + b) * c),
            (f"{a} - {b} - {c}", a - b - c),
        )
    )
