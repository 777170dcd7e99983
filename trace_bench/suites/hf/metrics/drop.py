"""The metric of DROP (Dua et al., 2019): exact match, and F1 of sets of words over aligned spans.

Numbers are normalised ("18" equals "18.0"), and a span whose numbers are all wrong counts nothing.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trace_bench.suites.hf.metrics.judgement import Judgement, was_read
from trace_bench.suites.hf.metrics.reading import answer_of
from trace_bench.suites.hf.metrics.spans import EMPTY, TOO_LONG, unreadable_span

MOST_SPANS = 100
"""Spans that a response may list. A response with more is read as one span."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WORDS = re.compile(r"[ -]")
_BULLET = re.compile(r"[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+")
_SEPARATOR = re.compile(r"\n|;|,(?!\d)|(?<!\d),|\band\b")
"""Between spans. A comma between digits belongs to a number."""


class Bag(NamedTuple):
    """A span as it is compared: its normalised text, its words, and those of them that are numbers."""

    text: str
    words: frozenset[str]
    numbers: frozenset[str]


def exact_and_f1(predicted: Sequence[str], right: Sequence[str]) -> tuple[float, float]:
    """Exact match, and F1 rounded to two digits, of predicted spans and the spans of one right answer.

    Spans are aligned one to one, in the way that the sum of their F1 is the largest. The mean is over the longer list.
    """
    first, second = [bag_of(span) for span in predicted], [bag_of(span) for span in right]
    texts, right_texts = {bag.text for bag in first}, {bag.text for bag in second}
    table = [[_f1(bag, other) for bag in first] for other in second]
    mean = _largest_sum(table) / max(len(first), len(second))
    # In two steps as NumPy rounds: the nearest multiple of 0.01 in decimal digits differs for some ties.
    return float(texts == right_texts and len(first) == len(second)), round(mean * 100) / 100


def normalised(text: str) -> str:
    """`text` word by word in lower case, without ASCII punctuation and articles; numbers as Python shows a float.

    >>> normalised("The 1,800-yard run")
    '1800.0 yard run'
    """
    parts = (" ".join(_ARTICLES.sub(" ", _word(word.lower())).split()) for word in _WORDS.split(text))
    return " ".join(part for part in parts if part)


def bag_of(span: str) -> Bag:
    """The span as it is compared."""
    text = normalised(span)
    words = frozenset(text.split())
    return Bag(text, words, frozenset(word for word in words if _number(word) is not None))


def readings(answer: str) -> Iterator[tuple[str, ...]]:
    """The lists of spans that `answer` may stand for: itself, its lines, and its parts.

    Commas, semicolons, line breaks and the word "and" stand between parts. Bullets and numbers of a list are left out.

    >>> list(readings("Bears, Lions and Packers"))
    [('Bears, Lions and Packers',), ('Bears', 'Lions', 'Packers')]
    """
    seen: dict[tuple[str, ...], None] = {(answer,): None}
    lines = [_BULLET.sub("", line, count=1) for line in answer.splitlines()]
    for parts in (lines, _SEPARATOR.split("\n".join(lines))):
        spans = tuple(stripped for part in parts if (stripped := part.strip()))
        if 0 < len(spans) <= MOST_SPANS:
            seen[spans] = None
    yield from seen


def judge(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge as DROP does, by the best annotated answer and the best reading of the response. The score is F1."""
    answer = answer_of(response)
    if answer is None:
        return unreadable_span(TOO_LONG)
    best, exact = 0.0, 0.0
    read: tuple[str, ...] = (answer,)
    for spans in readings(answer):
        for right in gold["answers"]:
            if right and right[0].strip():  # as in the original
                as_whole, f1 = exact_and_f1(spans, right)
                if (as_whole, f1) > (exact, best):
                    read = spans
                best, exact = max(best, f1), max(exact, as_whole)
    return Judgement(best, {"exact": exact, "f1": best}, was_read(" | ".join(read)) if answer else EMPTY)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _word(word: str) -> str:
    """A lower-case word without punctuation, unless it is a number. Numbers look alike afterwards."""
    plain = word if _number(word) is not None else word.translate(_PUNCTUATION)
    number = _number(plain)
    return plain if number is None else str(number)


def _f1(predicted: Bag, right: Bag) -> float:
    """F1 of two sets of words; 0 if the right one has numbers and the predicted one none of them."""
    if right.numbers and not right.numbers & predicted.numbers:
        return 0.0
    same = len(predicted.words & right.words)
    precision = same / len(predicted.words) if predicted.words else 1.0
    recall = same / len(right.words) if right.words else 1.0
    return 2 * precision * recall / (precision + recall) if precision or recall else 0.0


def _largest_sum(table: list[list[float]]) -> float:
    """The largest sum of entries of which no two are in one row or column: the assignment problem.

    The Hungarian method with shortest augmenting paths (Jonker and Volgenant, 1987): for each row, a path to a free
    column that costs least after prices were taken off. Time is rows² × columns, with rows the shorter side.
    """
    if len(table) > len(table[0]):
        table = [list(column) for column in zip(*table, strict=True)]
    rows, columns = len(table), len(table[0])
    # Rows and columns count from 1. Column 0 stands for the row that is being assigned.
    row_price, column_price = [0.0] * (rows + 1), [0.0] * (columns + 1)
    row_of = [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_of[0], column = row, 0
        least, before, done = [math.inf] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while row_of[column]:
            done[column] = True
            current = row_of[column]
            for other in range(1, columns + 1):
                if not done[other]:
                    cost = -table[current - 1][other - 1] - row_price[current] - column_price[other]
                    if cost < least[other]:
                        least[other], before[other] = cost, column
            nearest = min((other for other in range(1, columns + 1) if not done[other]), key=least.__getitem__)
            step = least[nearest]
            for other in range(columns + 1):
                if done[other]:
                    row_price[row_of[other]] += step
                    column_price[other] -= step
                else:
                    least[other] -= step
            column = nearest
        while column:
            row_of[column] = row_of[before[column]]
            column = before[column]
    return sum(table[row_of[column] - 1][column - 1] for column in range(1, columns + 1) if row_of[column])
