"""Problems of the arena that drawing at random does not solve: what was drawn 300 times stays below 0.9 of the way.

All scores are at most 0, higher is better, and 0 is reached by one known answer, which comes from the seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from trace_bench.worker.problem import Example, Ops, Parameter, Problem

LOW, HIGH = -10.0, 10.0


def twelve_numbers(seed: int) -> Problem:
    """Choose twelve numbers, judged by the mean of their distances to hidden ones on one example."""
    names = tuple(f"x{i:02}" for i in range(12))
    chance = random.Random(f"arena/twelve numbers/{seed}")
    hidden = [chance.uniform(LOW, HIGH) for _ in names]

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return -math.fsum(map(_distance, response, hidden)) / len(hidden), "The numbers are off."

    numbers = tuple(Parameter(name, 0.0, "float", "one of twelve numbers", bounds=(LOW, HIGH)) for name in names)
    return _problem(numbers, guide, _gathered(names), "Choose twelve numbers.", (LOW - HIGH, 0.0))


def many_examples(seed: int) -> Problem:
    """Choose six numbers, judged on sixteen examples that weigh them differently: a whole judgement is dear."""
    names = tuple(f"x{i}" for i in range(6))
    chance = random.Random(f"arena/many examples/{seed}")
    hidden = [chance.uniform(LOW, HIGH) for _ in names]

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        off = [w * _distance(x, h) for w, x, h in zip(reference, response, hidden, strict=True)]
        return -math.fsum(off) / math.fsum(reference), "The numbers are off."

    numbers = tuple(Parameter(name, 0.0, "float", "one of six numbers", bounds=(LOW, HIGH)) for name in names)
    splits = {
        split: tuple(Example(f"{split}-{i}", reference=[chance.random() ** 2 for _ in names]) for i in range(16))
        for split in ("train", "validate")
    }
    return _problem(numbers, guide, _gathered(names), "Choose six numbers.", (LOW - HIGH, 0.0), **splits)


def one_program(seed: int) -> Problem:
    """Choose one of 16,384 programs: each returns seven digits, and the hidden digits are the best."""
    chance = random.Random(f"arena/one program/{seed}")
    hidden = [chance.randrange(4) for _ in range(7)]
    start = tuple(0 if digit > 1 else 3 for digit in hidden)
    parameter = _choice("digits", tuple(product(range(4), repeat=7)), start)
    worst = _off(start, hidden)

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return -_off(response, hidden) / worst, "The digits are off."

    return _problem((parameter,), guide, lambda ops, query: ops.call("digits"), "Return seven digits.", (-2.0, 0.0))


def several_programs(seed: int) -> Problem:
    """Choose six programs, each of sixteen: four modules have to be changed on their way from worst to best."""
    names = tuple(f"f{i}" for i in range(6))
    chance = random.Random(f"arena/several programs/{seed}")
    hidden = {name: [chance.randrange(4), chance.randrange(4)] for name in names}
    far = {name: tuple(0 if digit > 1 else 3 for digit in digits) for name, digits in hidden.items()}
    worst = sum(_off(far[name], hidden[name]) for name in names)

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return -sum(map(_off, response, hidden.values())) / worst, "The digits are off."

    parameters = tuple(_choice(name, tuple(product(range(4), repeat=2)), far[name]) for name in names)

    def agent(ops: Ops, query: Any) -> Any:
        return ops.apply(gather, *(ops.call(name) for name in names))

    return _problem(parameters, guide, agent, "Return two digits from each function.", (-2.0, 0.0))


PROBLEMS: Mapping[str, Callable[[int], Problem]] = {
    "arena:twelve_numbers": twelve_numbers,
    "arena:many_examples": many_examples,
    "arena:one_program": one_program,
    "arena:several_programs": several_programs,
}


def gather(*values: Any) -> list[Any]:
    """Put values into one list."""
    return list(values)


def _gathered(names: Sequence[str]) -> Callable[[Ops, Any], Any]:
    return lambda ops, query: ops.apply(gather, *(ops.param(name) for name in names))


def _distance(number: float, hidden: float) -> float:
    return abs(number - hidden)


def _off(digits: Sequence[int], hidden: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in zip(digits, hidden, strict=True))


def _choice(name: str, choices: Sequence[tuple[int, ...]], start: tuple[int, ...]) -> Parameter:
    programs = {digits: f"def {name}():\n    return {digits}\n" for digits in choices}
    others = tuple(program for digits, program in programs.items() if digits != start)
    return Parameter(name, programs[start], "code", "returns digits", alternatives=others, entry=name)


def _problem(
    parameters: tuple[Parameter, ...], guide: Any, agent: Any, objective: str, score_range: Any, **splits: Any
) -> Problem:
    return Problem(
        parameters=parameters,
        guide=guide,
        agent=agent,
        objective=objective,
        direction="maximize",
        failure_score=score_range[0],
        score_range=score_range,
        **(splits or {"train": (Example("only"),)}),
    )
