"""The options of a question, and how a text names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trace_bench.suites.hf.metrics.reading import MOST_STATEMENTS, unwrapped
from trace_bench.suites.hf.metrics.spans import normalised

_OPEN, _CLOSE = r"[(\[]\s?", r"\s?[)\]]"
_QUOTES = r"[\"'“”*_]{0,3}"
_ENDS = re.compile(r"\s*(?:$|[.,;:!?)](?!\w)|[-–—](?!\w))")
_GOES_ON = re.compile(r"\s+(?:because|since|as|and|or|is|due|given|for|but|which|not|instead|over|rather)\b")
"""Words that follow a label and never the article of a noun."""
_JOINS = re.compile(r"\s*(?:[,/&]\s*)?(?:\b(?:and|or|nor)\b)?\s*")
_NAMED = re.compile(r"(?:the )?(?:correct |right )?(?:option|choice|letter|answer)\b[ :]{0,3}", re.IGNORECASE)
_REJECTED_AFTER = re.compile(
    r"\)?[ ](?:(?:is|was|are|seems|looks)[ ](?:clearly[ ]|also[ ])?"
    r"(?:wrong|incorrect|not|false|out|unlikely|impossible)\b|isn't|can't|cannot)",
    re.IGNORECASE,
)
_REJECTED_BEFORE = re.compile(
    r"(?:\b(?:not|isn't|than|exclude|reject|eliminate|unlike)|n't be)[ ](?:option[ ]|choice[ ])?$", re.IGNORECASE
)
_JUDGED = (
    r"(?:is|must be|would be|seems)\s(?:clearly\s|definitely\s)?(?:the\s)?(?:most\s\w{1,12}\s)?"
    r"(?:correct|right|best|true|answer)\b"
)
_LEADS = r"(?:is|be|it's|with|think|say|guess|but|so|therefore|thus|hence|option|choice|letter|answer)"
_BULLET = re.compile(r"[ \t>*#_•]{0,8}(?:-[ \t])?[ \t*_]{0,8}")


class Options(NamedTuple):
    """The options of a question.

    Attributes:
        texts: (label in upper case, text) of each option.
        label: a regular expression for a label.
    """

    texts: tuple[tuple[str, str], ...]
    label: str

    @classmethod
    def of(cls, options: Sequence[Sequence[str]]) -> Options:
        texts = tuple((str(label).strip().upper(), str(text)) for label, text in options)
        labels = sorted((re.escape(label) for label, _ in texts), key=len, reverse=True)
        return cls(texts, "|".join(labels))

    def with_text(self, text: str) -> frozenset[str]:
        """The labels whose option is `text`, without regard to case and white space. If there are none and `text` has
        no digits, without regard to punctuation and articles."""
        found = frozenset(label for label, option in self.texts if _plain(option) == _plain(text))
        words = normalised(text)
        if found or not words or any(character.isdigit() for character in text):
            return found
        return frozenset(label for label, option in self.texts if normalised(option) == words)

    def alone(self, text: str) -> frozenset[str]:
        """The option of a text that is a label or the text of an option, and nothing else."""
        if len(text) > 2000:
            return frozenset()
        text = unwrapped(_BULLET.sub("", text.strip(), count=1))
        found = re.fullmatch(rf"{_QUOTES}(?:{_OPEN})?({self.label}){_QUOTES}(?:{_CLOSE})?[.:]?", text, re.IGNORECASE)
        return frozenset({found[1].upper()}) if found else self.with_text(text)

    def at_start(self, text: str) -> frozenset[str]:
        """The options that `text`, which follows "the answer is" or the like, starts with."""
        if found := self.alone(text):
            return found
        named = _NAMED.match(text)
        if found := self._labels(text[named.end() :] if named else text, strict=False):
            return found
        head = re.split(r"[.,;:(\n]|\s(?:because|since|as)\s", text, maxsplit=1)[0]
        return self.with_text(head)

    def of_line(self, line: str) -> frozenset[str]:
        """The options of a line that starts with a label, or is the text of an option."""
        line = _BULLET.sub("", line.strip(), count=1)
        if found := self.alone(line):
            return found
        start = rf"{_QUOTES}(?:{_OPEN}({self.label}){_CLOSE}|({self.label})(?:[.):](?!\w)|\s?[-–—]\s))"
        if not (match := re.match(start, line, re.IGNORECASE)):
            return self._labels(line, strict=True)
        label, rest = (match[1] or match[2]).upper(), line[match.end() :]
        if re.match(r"\s*(?:(?:is|was|and|or|are|vs|seems|looks|isn't|can't|cannot)\b|[,/&])", rest):
            return frozenset()
        return frozenset({label}) | self._other(label, rest)

    def mentioned(self, text: str) -> frozenset[str]:
        """The options whose labels stand in sentences and are not rejected there."""
        within = re.compile(
            rf"(?<!\w){_OPEN}((?i:{self.label})){_CLOSE}"
            rf"|\b(?i:{_LEADS})\s+{_QUOTES}({self.label})(?![\w'’]){_QUOTES}"
            rf"(?=[.,;:!?]?\s*(?:$|\n)|[.,;!?]\s|\s+(?:because|since|as|over|rather)\b)"
            rf"|\b(?i:option|choice|letter)\s+({self.label})(?![\w'’])"
        )
        found = set[str]()
        for match in within.finditer(text):
            before = text[max(0, match.start(match.lastindex or 0) - 30) : match.start(match.lastindex or 0)]
            if not _REJECTED_BEFORE.search(before.rstrip("([")) and not _REJECTED_AFTER.match(text, match.end()):
                found.add(match[match.lastindex or 0].upper())
        return frozenset(found)

    def called_correct(self, text: str) -> Iterator[tuple[int, frozenset[str]]]:
        """The options that `text` calls correct, as in "(B) blue is the right answer": position and label."""
        pattern = rf"(?:{_OPEN}((?i:{self.label})){_CLOSE}(?:\s[^.\n()]{{0,40}}?)?|\b({self.label}))\s{_JUDGED}"
        for match in list(re.finditer(pattern, text))[-MOST_STATEMENTS:]:
            yield match.start(), frozenset({(match[1] or match[2]).upper()})

    def _labels(self, text: str, *, strict: bool) -> frozenset[str]:
        """The labels at the start of `text`: one, or several with commas, "and" or "or" between them."""
        found: set[str] = set()
        start = 0
        while len(found) < len(self.texts) and (match := self._label_at(text, start, strict or bool(found))):
            if not _REJECTED_AFTER.match(text, match.end()):
                label = (match[1] or match[2]).upper()
                found |= {label} | (self._other(label, text[match.end() :]) if not found else set())
            joins = _JOINS.match(text, match.end())
            start = joins.end() if joins else match.end()
            if start == match.end():
                break
        return frozenset(found)

    def _label_at(self, text: str, start: int, strict: bool) -> re.Match[str] | None:
        """The label at `start`, unless it is the article or the pronoun, or the first letter of a name."""
        label = rf"{_QUOTES}(?:{_OPEN}({self.label}){_CLOSE}|({self.label})([)\]])?){_QUOTES}"
        match = re.compile(label, re.IGNORECASE).match(text, start)
        if match is None or match[1] or match[3] or _ENDS.match(text, match.end()):
            return match
        if match[2] == match[2].upper() and _GOES_ON.match(text, match.end()):
            return match
        clear = match[2].isupper() and match[2] not in ("A", "I") and text[match.end() : match.end() + 1].isspace()
        return match if clear and not strict else None

    def _other(self, label: str, text: str) -> frozenset[str]:
        """The option whose text follows `label` where that is another one: a contradiction."""
        return self.with_text(unwrapped(text.strip().lstrip(".:)]-–— "))) - {label} if len(text) < 2000 else frozenset()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
