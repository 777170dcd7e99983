"""The result of a metric."""

from __future__ import annotations

from typing import NamedTuple

_QUOTED = 80
"""Characters of a response that a remark quotes."""


class Judgement(NamedTuple):
    """How right a response is.

    Attributes:
        score: the main metric of the data set, from 0 to 1; higher is better.
        metrics: the named numbers, each from 0 to 1: ``exact`` always, ``f1`` where words are counted.
        remark: what was read from the response, or what is wrong with its format. It never has the right answer in it,
            unless the response has.
    """

    score: float
    metrics: dict[str, float]
    remark: str


def right_or_wrong(right: bool, read: str) -> Judgement:
    """The judgement of an answer that was read as `read`, and is right or wrong as a whole."""
    return Judgement(float(right), {"exact": float(right)}, was_read(read))


def unreadable(remark: str) -> Judgement:
    """The judgement of a response that has no answer in the format of the metric."""
    return Judgement(0.0, {"exact": 0.0}, remark)


def was_read(answer: str) -> str:
    """The remark that quotes the start of `answer`."""
    shown = " ".join(answer[: 4 * _QUOTED].split())
    return f'The answer was read as "{shown if len(shown) <= _QUOTED else shown[:_QUOTED] + "…"}".'
