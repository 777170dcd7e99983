"""Finds the proposed values in an answer: in JSON, between tags, or alone in one pair of tags. Standard library only.

An answer is hostile input of any size: each reader passes over it once, and gives up after a bounded number of places.
Tags are looked for as they stand: there is no markup parser, no entity and no reference is ever resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.trainers.answers import Unusable, reader_of, suggestion
from trace_bench.worker.answer_text import READER

MAX_TAGGED = 1000
"""Values between tags that are read of one answer."""
MAX_CONSTRAINT = 4000
"""Characters of a constraint that an answer repeats behind a value."""
_OPEN = re.compile(r'<variable(?:\s{1,8}name\s{0,8}=\s{0,8}"([^"<>\n]{1,200})"[^<>]{0,200})?\s{0,8}>')
_NAME = re.compile(r"\s{0,64}<name>([^<]{1,400})</name>")
_VALUE = re.compile(r"\s{0,64}<value>")
_IMPROVED = ("<IMPROVED_VARIABLE>", "</IMPROVED_VARIABLE>")
_CDATA = ("<![CDATA[", "]]>")


@dataclass(frozen=True)
class Found:
    """What an answer proposes.

    Attributes:
        values: by the names that the answer uses.
        broken: by such names, why a value that was begun cannot be read.
        reader: version of the rules by which the answer was read.
        framed: whether the values stood between tags, which say nothing of the white space at their ends.
    """

    values: Mapping[str, Any]
    broken: Mapping[str, str] = field(default_factory=dict)
    framed: bool = False
    reader: int = READER


Reader = Callable[[str], Found | None]
"""What an answer proposes; None where it wants no change. Raises `Unusable` where it proposes nothing."""


def terminates(text: str) -> bool:
    """Whether the whole answer is TERMINATE ("nothing to change"). Inside an answer the word means nothing."""
    return text.strip().strip("\"'`.#* \n") == "TERMINATE"


def read_json(text: str) -> Found | None:
    """The ``suggestion`` of a JSON object. See `Reader`."""
    suggested = suggestion(text)
    if suggested is None:
        return None
    if not suggested:
        raise Unusable('the "suggestion" is empty', "no_suggestion")
    return Found(suggested, reader=reader_of(text))


def read_tags(text: str) -> Found | None:
    """Each ``<variable><name>…</name><value>…</value></variable>``, or with the name as an attribute. See `Reader`.

    A value ends where ``</value>`` is followed by ``</variable>``, so ``</value>`` alone may occur in it. Of two values
    of one name the last counts, as in JSON.
    """
    if terminates(text):
        return None
    values: dict[str, str] = {}
    broken: dict[str, str] = {}
    place = count = 0
    while (opened := _OPEN.search(text, place)) and count < MAX_TAGGED:
        count += 1
        place = opened.end()
        name = opened[1]
        if name is None:
            named = _NAME.match(text, place)
            if named is None:
                broken["?"] = "a <variable> does not begin with its <name>"
                continue
            name, place = named[1].strip(), named.end()
        begun = _VALUE.match(text, place)
        if begun is None:
            broken[name] = "its <name> is not followed by a <value>"
            continue
        end, after = _value_end(text, begun.end())
        if end < 0:
            broken[name] = "its <value> is not closed by </value> and </variable>"
            break  # whatever follows may belong to this value
        values[name] = _unwrapped(text[begun.end() : end])
        broken.pop(name, None)
        place = after
    if not values and not broken:
        raise Unusable("the answer holds no <variable>", "no_tags")
    if not values:
        name, why = next(iter(broken.items()))
        raise Unusable(why if name == "?" else f"of the only <variable> that is read, {why}", "no_tags")
    return Found(values, broken, framed=True, reader=reader_of(text))


def _without_space(text: str, start: int, end: int) -> int:
    """Where white space before `end` begins."""
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def _value_end(text: str, start: int) -> tuple[int, int]:
    """Where the value that begins at `start` ends, and where reading goes on; (-1, -1) if it does not end."""
    at = start
    while (at := text.find("</variable>", at)) >= 0:
        last = _without_space(text, start, at)
        if text.endswith("</constraint>", start, last):  # repeated as the prompt shows it; it is no part of the value
            begun = text.rfind("<constraint>", max(start, last - MAX_CONSTRAINT), last)
            last = _without_space(text, start, begun) if begun >= 0 else last
        if text.endswith("</value>", start, last):
            return last - len("</value>"), at + len("</variable>")
        at += 1
    return -1, -1


def read_improved(text: str) -> Found | None:
    """The text between the last ``<IMPROVED_VARIABLE>`` and its closing tag, under the name "". See `Reader`."""
    if terminates(text):
        return None
    start, end = _IMPROVED
    begin = text.find(start) if reader_of(text) == 1 else text.rfind(start)
    if begin < 0:
        raise Unusable(f"the answer holds no {start}", "no_tags")
    begin += len(start)
    close = text.find(end, begin)
    if close < 0:
        raise Unusable(f"{start} is not closed", "no_tags")
    value = _unwrapped(text[begin:close])
    if not value:
        raise Unusable(f"there is nothing between {start} and {end}", "empty")
    return Found({"": value}, framed=True, reader=reader_of(text))


def _unwrapped(value: str) -> str:
    """A value without what sets it off from its tags: spaces around one line, empty lines around several, CDATA."""
    value = value.strip() if "\n" not in value.strip() else value.strip("\r\n").rstrip()
    start, end = _CDATA
    if value.lstrip().startswith(start) and value.endswith(end):
        # The way to write "]]>" inside is to end one section there and to begin the next.
        value = value.lstrip()[len(start) : -len(end)].replace("]]" + end + start + ">", end).strip("\r\n")
    return value
