"""Models of known quality: each draws two random steps and gives the truly better one with a known probability.

A random step moves each number by a normal draw (a tenth of its range wide), and for source takes the most similar of
eight other known programs. So quality 0.5 is a random walk, 1 never gives the worse of two, and 0 never the better.

Which of two steps is better is judged with the start's values for parameters that the prompt does not show.
"""

from __future__ import annotations

import json
import operator
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.trainers.arena import Arena


def of_quality(quality: float) -> Any:
    """A model that gives the better of two random steps with probability `quality`."""

    def answer(chance: random.Random, variables: Sequence[Mapping[str, Any]], arena: Arena) -> str:
        drawn = [{v["name"]: _step(chance, v) for v in variables} for _ in range(2)]
        scores = [arena.truth(_state(values, variables, arena)) for values in drawn]
        better = 1 if arena.problem.better(scores[1], scores[0]) else 0
        return _answer(drawn[better if chance.random() < quality else 1 - better])

    return answer


def lazy(chance: random.Random, variables: Sequence[Mapping[str, Any]], arena: Arena) -> str:
    """Restates the values in three of ten answers, gives nothing usable in three, and walks at random in four."""
    match chance.randrange(10):
        case 0 | 1 | 2:
            return _answer({v["name"]: _restated(chance, v) for v in variables})
        case 3:
            return "I have thought about it for a while, and it looks fine to me."
        case 4:
            return '{"reasoning": "cut off", "suggestion": {"'
        case 5:
            return _answer({"somebody_else": 1})
    return _answer({v["name"]: _step(chance, v) for v in variables})


MODELS: Mapping[str, Any] = {
    "hill climbing": of_quality(0.9),
    "random walk": of_quality(0.5),
    "adversarial": of_quality(0.1),
    "lazy": lazy,
}


def _step(chance: random.Random, variable: Mapping[str, Any]) -> Any:
    if variable["kind"] in ("int", "float"):
        low, high = variable["bounds"]
        moved = min(max(variable["value"] + chance.gauss(0, (high - low) / 10), low), high)
        return round(moved) if variable["kind"] == "int" else moved
    value, others = variable["value"], variable["alternatives"]
    drawn = [other for other in chance.sample(others, min(len(others), 8)) if other != value]
    return max(drawn, key=lambda other: sum(map(operator.eq, value, other)))


def _restated(chance: random.Random, variable: Mapping[str, Any]) -> Any:
    """Another value that does the same: source with another comment, or a number moved by a millionth of its range."""
    value = variable["value"]
    if variable["kind"] == "float":
        low, high = variable["bounds"]
        return min(max(value + (high - low) * chance.uniform(-1e-6, 1e-6), low), high)
    if variable["kind"] == "code":
        return f"{value.partition('  # ')[0].rstrip()}  # version {chance.randrange(10**6)}\n"
    return value


def _state(values: Mapping[str, Any], variables: Sequence[Mapping[str, Any]], arena: Arena) -> dict[str, Any]:
    """The state that `values` would lead to, as far as the prompt shows it."""
    state = arena.problem.initial_state()
    for variable in variables:
        state[parameter_of(variable["name"], state)] = values[variable["name"]]
    return state


def parameter_of(shown: str, names: Iterable[str]) -> str:
    """The one of `names` that a prompt calls `shown`: itself, or itself with a counter behind it.

    Of several that fit the longest is meant: ``p00`` is the first node called ``p0`` only if there is no ``p00``.

    Raises:
        KeyError: none fits.
    """
    if fitting := [name for name in names if re.fullmatch(rf"{re.escape(name)}(0|[1-9]\d*)?", shown)]:
        return max(fitting, key=len)
    raise KeyError(f"a prompt shows the variable {shown!r}, which is no parameter of the problem")


def _answer(suggestion: Mapping[str, Any]) -> str:
    return json.dumps({"reasoning": "", "answer": "", "suggestion": suggestion})
