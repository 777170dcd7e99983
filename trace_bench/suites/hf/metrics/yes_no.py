"""The metric of StrategyQA (Geva et al., 2021): whether the response says yes or no, as is right.

The last explicit answer ("the answer is yes", "Answer: no") decides. Without one, the last statement does: a "yes" or
"no" that stands at the start of the response, of a line or after punctuation, or after a word such as "so" or "say",
and before punctuation or the end of the line. "No doubt", "no one" and "know" are no statements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_bench.suites.hf.metrics.judgement import Judgement, right_or_wrong, unreadable
from trace_bench.suites.hf.metrics.reading import statements, tail

UNCLEAR = 'Neither yes nor no was found as a statement: end the response with a line "Answer: yes" or "Answer: no".'
_ENDS = r"""(?=["'”’*_)\]}]{0,3}(?:\s*(?:$|\n|[,;:!?—–(])|\.(?!\s?\d)|\s-\s))"""
_QUOTES = r"""["'“*_(]{0,3}"""
_SURE = r"(?:(?:an?|clear(?:ly)?|definite(?:ly)?|simply|most|likely|probably|almost|certainly)\s){0,3}"
_EXPLICIT = re.compile(
    rf"{_QUOTES}{_SURE}{_QUOTES}(?P<word>yes|no|true|false)\b(?!\s(?:doubt|question|one|longer|more)\b)(?!-\w)",
    re.IGNORECASE,
)
_BOTH = re.compile(r"""["'”’*_)]{0,3}[,.;]?\s?(?:\b(?:and|or)\b|/)?\s?(?:yes|no|true|false)\b""", re.IGNORECASE)
_STARTS = r"""(?:^|[.,;:!?—–("'“*_>#\]}-]|\b(?:so|thus|therefore|hence|is|be|say|then)\s)"""
_STATEMENT = re.compile(
    rf"""{_STARTS}[ \t"'“*_(]{{0,4}}\b(?P<word>yes|no)\b{_ENDS}""",
    re.IGNORECASE | re.MULTILINE,
)


def said_by(response: str) -> str | None:
    """Whether `response` says ``"yes"`` or ``"no"``; none if it says neither."""
    text = tail(response)
    for _, value in statements(text):
        if match := _EXPLICIT.match(value):
            return None if _BOTH.match(value, match.end()) else _word(match)
    if text.rstrip(".").lower() in ("true", "false"):
        return "yes" if text.lower().startswith("true") else "no"
    last = None
    for match in _STATEMENT.finditer(text):
        last = match
    return _word(last) if last else None


def judge(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge whether the response says yes or no, as is right."""
    said = said_by(response)
    return unreadable(UNCLEAR) if said is None else right_or_wrong(said == str(gold["answer"]).strip().lower(), said)


def _word(match: re.Match[str]) -> str:
    return "yes" if match["word"].lower() in ("yes", "true") else "no"
