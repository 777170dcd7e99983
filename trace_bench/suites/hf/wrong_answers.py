"""Makes wrong answers that are plausible, from the texts and the right answers of a row.

The same row gets the same answers each time. In the sandbox: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation

MOST = 3
_NAMES = re.compile(r"\b[A-Z][\w'’-]*(?: (?:of |the )?[A-Z][\w'’-]*)*")
_FIXED = ("yes", "no", "unknown", "ambiguous", "proved", "disproved", "unanswerable")
_INSTEAD = {
    "yes": "no", "no": "yes", "unknown": "yes", "ambiguous": "Yes", "proved": "disproved", "disproved": "proved",
    "unanswerable": "[]",
}  # fmt: skip


def wrong_spans(answers: Iterable[str], paragraphs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Up to three titles and names of the paragraphs that share no word with `answers`."""
    rights = [answer.strip() for answer in answers]
    for right in rights:
        if right.lower() in ("yes", "no"):
            return (_INSTEAD[right.lower()],)
    if all(number_of(right) is not None for right in rights):
        return wrong_numbers(rights)
    words = set().union(*map(_words, rights))
    found = dict.fromkeys(name for name in _names(paragraphs) if not _words(name) & words)
    return tuple(found)[:MOST] or ("no such thing" if "thing" not in words else "unknown",)


def wrong_numbers(answers: Sequence[str]) -> tuple[str, ...]:
    """The first number of `answers` and one more, and one less, where that is no answer."""
    numbers = {number_of(answer) for answer in answers}
    first = next(number for number in map(number_of, answers) if number is not None)
    near = [first + 1, first - 1, first + 2]
    return tuple(f"{number:f}" for number in near if number not in numbers)[:2]


def number_of(text: str) -> Decimal | None:
    """The number that `text` is, with or without a currency sign, separators of thousands and a percent sign."""
    plain = text.strip().removeprefix("$").removesuffix("%").replace(",", "").strip()
    try:
        number = Decimal(plain)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def wrong_target(target: str) -> tuple[str, ...]:
    """A wrong answer of the same shape as `target`, an answer of BIG-Bench Extra Hard."""
    if target.lower() in _FIXED:
        return (_like(_INSTEAD[target.lower()], target),)
    if re.fullmatch(r"[01](,[01])+", target):
        return (f"{1 - int(target[0])}{target[1:]}",)
    if re.fullmatch(r"\(?[A-Z]+\)?(, [A-Z]+)*", target):
        letter = re.search("[A-Z]", target)
        assert letter is not None
        return (target[: letter.start()] + ("A" if letter[0] != "A" else "B") + target[letter.end() :],)
    number = number_of(target)
    if number is not None:
        return (f"{number + 1:f}",)
    if found := re.fullmatch(r"(.*?)([0-9]+)([^0-9]*)", target, re.DOTALL):
        return (f"{found[1]}{int(found[2]) + 1:0{len(found[2])}}{found[3]}",)
    first, *others = target.strip("[]").split(", ")
    if first.lower() in _FIXED and others:
        return (", ".join([_INSTEAD[first.lower()], *others]),)
    if target.startswith("["):
        return ("[]" if first else "[unknown]",)
    if others and others[0] != first:
        return (", ".join([others[0], first, *others[1:]]),)
    return ("unknown",)


def _like(word: str, other: str) -> str:
    return word.capitalize() if other[:1].isupper() else word


def _names(paragraphs: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield from (title for title, _ in paragraphs if title)
    for _, text in paragraphs:
        yield from (found[0] for found in _NAMES.finditer(text) if " " in found[0])
    for _, text in paragraphs:
        yield from (found[0] for found in _NAMES.finditer(text) if len(found[0]) > 3)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - {"a", "an", "the"}
