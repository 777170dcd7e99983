"""Find the answer in a response: what follows "the answer is" and the like, else the whole response."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_RESPONSE = 100_000
"""Characters of a response that are searched for an answer: the last ones."""
LONGEST_ANSWER = 10_000
"""Characters of an answer. A longer response without an explicit answer is not read."""
MOST_STATEMENTS = 20
"""Explicit answers that are looked at: the last ones."""
MARKER = r"""
      \banswer (?:[ ]to[ ](?:the|this)[ ]question)?
      (?: [*_]{0,2}[ ]?[:=] | [ ](?:is|was|would[ ]be|must[ ]be|should[ ]be)\b )   # "answer:", "the answer is"
      [ \t:=*_`]{0,8}
    | ^[ \t#*_]{0,8}(?:the[ ])?(?:final[ ]|correct[ ])?answer[*_ \t]{0,4}$          # a heading
    | <answer>
    | \\boxed(?=\{)
"""
"""What an explicit answer starts with: a verbose regular expression."""
_MARKER = re.compile(MARKER, re.VERBOSE | re.IGNORECASE | re.MULTILINE)
_WRAPPED = re.compile(r"\\(?:boxed|text|textbf|texttt|mathrm)\{(.*)\}", re.DOTALL)
_DECORATION = " \t\r\n*_`$"


def tail(response: str) -> str:
    """The part of `response` that is searched, without white space around it."""
    return response.strip()[-LONGEST_RESPONSE:]


def statements(text: str, marker: re.Pattern[str] = _MARKER) -> Iterator[tuple[int, str]]:
    """The explicit answers of `text`, the last one first: where each starts, and its text.

    An answer is the rest of the line after the marker. If that is empty, it is the next paragraph. ``\\boxed{…}`` has
    its answer in the braces, and ``<answer>`` before the closing tag.
    """
    found = list(marker.finditer(text))[-MOST_STATEMENTS:]
    for match in reversed(found):
        rest = text[match.end() : match.end() + LONGEST_ANSWER]
        if match[0].lower() == "\\boxed":
            value = _braced(rest)
        elif match[0].startswith("<"):
            value = rest.partition("</")[0]
        else:
            value = rest.partition("\n")[0]
            if not value.strip(_DECORATION + "."):
                value = rest.strip().partition("\n\n")[0]
        value = unwrapped(value)
        if value:
            yield match.start(), value


def answer_of(response: str) -> str | None:
    """The last explicit answer of `response`, else the whole response; none if that is too long for an answer."""
    for _, value in statements(tail(response)):
        return value
    whole = response.strip()
    return whole if len(whole) <= LONGEST_ANSWER else None


def unwrapped(text: str) -> str:
    """`text` without emphasis, a final full stop, and commands of LaTeX around it.

    >>> unwrapped("**$\\\\boxed{\\\\text{Paris}}$**.")
    'Paris'
    """
    for _ in range(4):
        text = text.strip(_DECORATION)
        text = text.removesuffix(".") if not text.endswith("..") else text
        text = text.strip(_DECORATION)
        if not (wrapped := _WRAPPED.fullmatch(text)):
            break
        text = wrapped[1]
    return text


def _braced(text: str) -> str:
    """What is between the brace at the start of `text` and the one that closes it; empty if none does."""
    depth = 0
    for brace in re.finditer(r"[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[1 : brace.start()]
    return ""
