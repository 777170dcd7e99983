"""The metric of GSM8K (Cobbe et al., 2021): whether the number of a response equals the right one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from trace_bench.suites.hf.metrics.judgement import Judgement, right_or_wrong, unreadable
from trace_bench.suites.hf.metrics.reading import statements, tail

NO_NUMBER = 'No number was found in the response: end it with a line of "#### " and the number in digits.'
_LONGEST_NUMBER = 60
_NUMBER = re.compile(
    r"""
    (?<![A-Za-z0-9.^]) (?P<sign>[-−]?) [$€£]?                # no sign in "3-4"
    (?P<digits>
      (?: \d{1,3} (?:,\d{3}){1,6} (?!\d) | \d+ ) (?:\.\d+)?  # "1,800", "18", "18.5"
      | \.\d+
    )
    (?P<power>[eE][-+]?\d{1,2}(?!\d))?
    (?:[ ]?/[ ]?(?P<below>\d+))?                             # "3/4"
    """,
    re.VERBOSE,
)
_FRACTION = re.compile(r"\\[dt]?frac\{(\d{1,20})\}\{(\d{1,20})\}")
_CALCULATION = re.compile(r"(?=[^=\d]{0,10}\d)[\d\s+*/×÷x^().,$%−-]{1,200}=")
_OR = re.compile(r"[.,%]?[ ]*\bor[ ]+(?=[-−$€£.\d])")
_SENTENCE_END = re.compile(r"[.!?;]\s")
_BEFORE = re.compile(r"[\s\"'“(*~≈_:]{0,8}(?:(?:about|approximately|around|exactly|just|only|roughly)\s+)?")
"""What may stand before a number that starts an answer."""
_NEGATED = re.compile(r"not\b", re.IGNORECASE)


def number_of(response: str) -> Fraction | None:
    """The number that `response` gives as its answer, if there is one.

    It is the one after the last ``####``, else the one after the last "the answer is" or the like, else the last number
    of the response. What is after these words may start with the number. If it does not, the last number of its first
    sentence counts. Of "18 or 19" it is the last one, and of "5 + 13 = 18" what is after the equals sign.
    """
    text = _FRACTION.sub(r"\1/\2", tail(response)).replace("{,}", ",").replace("\\$", "$")
    for stated in _stated(text):
        value = _of_statement(stated)
        if value is not None:
            return value
    return _last(text)


def judge(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge whether the number of the response equals the right one.

    Raises:
        ValueError: the right answer has no number.
    """
    right = number_of(gold["answer"])
    if right is None:
        raise ValueError(f"gold answer: {gold['answer']!r} has no number")
    found = number_of(response)
    return unreadable(NO_NUMBER) if found is None else right_or_wrong(found == right, _shown(found))


def _stated(text: str) -> Iterator[str]:
    """What follows the last ``####``, then what follows each explicit answer, the last one first."""
    _, mark, rest = text.rpartition("####")
    if mark:
        yield rest.strip().partition("\n")[0][:1000]
    for _, value in statements(text):
        if not _NEGATED.match(value):
            yield value[:1000]


def _of_statement(text: str) -> Fraction | None:
    """The number that `text` starts with, after a calculation; else the last number of its first sentence."""
    start = 0
    while calculation := _CALCULATION.match(text, start):
        start = calculation.end()
    before = _BEFORE.match(text, start)
    match = _NUMBER.match(text, before.end() if before else start)
    if match is None:
        return _last(_SENTENCE_END.split(text[start:], maxsplit=1)[0])
    while (alternative := _OR.match(text, match.end())) and (other := _NUMBER.match(text, alternative.end())):
        match = other
    return _value(match)


def _last(text: str) -> Fraction | None:
    last = None
    for match in _NUMBER.finditer(text):
        last = match
    return None if last is None else _value(last)


def _value(match: re.Match[str]) -> Fraction | None:
    """The number of a match; none if it is too long, or divided by 0."""
    if len(match[0]) > _LONGEST_NUMBER:
        return None
    value = Fraction(match["digits"].replace(",", "") + (match["power"] or ""))
    if match["below"]:
        below = Fraction(match["below"])
        if not below:
            return None
        value /= below
    return -value if match["sign"] else value


def _shown(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.10g}"
