"""Tell the answer of a model from its reasoning, in a chat completion as providers send them. Standard library only.

Reasoning stands at the beginning: between tags, in a fence with such a name, in a field beside the content, or in parts
of the content. Whatever stands behind it is the answer. A tag within the answer (in a string of a program, in JSON, in
a value between tags) is part of the answer. See ``docs/design/answers.md``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trace_bench.worker.source_scan import parse

READER = 2
"""Version of the rules by which answers are read. A record names the version; one of before has none, which is 1."""
MOST_BLOCKS = 64
"""Pieces of reasoning at the beginning of one answer that are looked at."""
MOST_PARSED = 1_000_000
"""Characters of a text that is parsed to find out whether a tag is part of it."""
_PREAMBLE = 400
"""Characters before a reasoning tag that begins a line: "Sure, let me think.\""""
_NAMES = "thinking|think|reasoning"
_TAG = re.compile(rf"<(/?)({_NAMES})(?:\s[^<>\n]{{0,200}})?>|\[(/?)(THINK)\]", re.IGNORECASE)
_FENCE = re.compile(rf"[ \t]{{0,3}}(`{{3,}}|~{{3,}})[ \t]*(?:{_NAMES})[ \t]*>?[ \t]*\r?\n", re.IGNORECASE)
_PLAIN = re.compile(r"```|~~~|[{<]|^(?:async def|def|class|import|from|@)\b", re.MULTILINE)
"""What a preamble has none of."""
_VALUE = re.compile(r"<(/?)(value|IMPROVED_VARIABLE)>")
_BLANK = re.compile(r"\A\s*\n")


class Split(NamedTuple):
    """A text in two.

    Attributes:
        closed: False if the text ends within the reasoning.
    """

    answer: str
    reasoning: str = ""
    closed: bool = True


class Message(NamedTuple):
    """The first choice of a chat completion.

    Attributes:
        answer: its text without reasoning; empty if there is none.
        closed: see `Split`.
        finish: why the provider ended it, as it says; often ``stop`` or ``length``.
        refusal: the text by which the model refused; empty if it did not.
    """

    answer: str
    reasoning: str
    closed: bool
    finish: str
    refusal: str


class _Tag(NamedTuple):
    start: int
    end: int
    closes: bool
    name: str


def message_of(response: Mapping[str, Any]) -> Message | None:
    """The first message of `response`; None if there is none."""
    try:
        choice = response["choices"][0]
        message = choice["message"]
        content, finish, refusal = message.get("content"), choice.get("finish_reason"), message.get("refusal")
        beside = [message.get(field) for field in ("reasoning_content", "reasoning", "thinking")]
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    text, within = _content(content)
    split = split_reasoning(text)
    told = next((field for field in beside if isinstance(field, str) and field.strip()), "")
    reasoning = "\n".join(part for part in (told, within, split.reasoning) if part.strip())
    return Message(
        split.answer, reasoning, split.closed, finish if isinstance(finish, str) else "",
        refusal if isinstance(refusal, str) else "",
    )  # fmt: skip


def _content(content: Any, depth: int = 0) -> tuple[str, str]:
    """(text, reasoning) of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content, ""
    if isinstance(content, Mapping):
        kind = str(content.get("type") or "text")
        if kind in ("thinking", "reasoning"):
            held = content.get("thinking") or content.get("reasoning") or content.get("text") or content.get("summary")
            return "", "".join(_content(held, depth + 1)) if depth < 3 else ""
        text = content.get("text") if kind in ("text", "output_text") else None
        return (text, "") if isinstance(text, str) else ("", "")
    if isinstance(content, list) and depth < 3:
        parts = [_content(part, depth + 1) for part in content]
        return "".join(text for text, _ in parts), "".join(reasoning for _, reasoning in parts)
    return "", ""


def split_reasoning(text: str) -> Split:
    """`text` in reasoning and answer."""
    rest, reasoning = text, ""
    for _ in range(MOST_BLOCKS):
        end = _leading(rest)
        if end is None:
            end = _unopened(rest)
        if end is None:
            break
        if end < 0:
            return Split("", text, closed=False)
        rest, reasoning = rest[end:], reasoning + rest[:end]
    return Split(_BLANK.sub("", rest) if reasoning else text, reasoning)


def _leading(text: str) -> int | None:
    """Where the reasoning ends with which `text` begins: -1 if it does not end, None if there is none."""
    start = len(text) - len(text.lstrip())
    if fence := _FENCE.match(text, text.rfind("\n", 0, start) + 1):
        return _fence_end(text, fence)
    tag = _TAG.match(text, start) or _after_preamble(text)
    if tag is None:
        return None
    return tag.end() if _is_closing(tag) else _block_end(text, tag)


def _after_preamble(text: str) -> re.Match[str] | None:
    """An opening tag that begins a line behind some prose."""
    tag = _TAG.search(text, 0, _PREAMBLE)
    if tag is None or _is_closing(tag) or _PLAIN.search(text[: tag.start()]):
        return None
    return tag if text[text.rfind("\n", 0, tag.start()) + 1 : tag.start()].strip() == "" else None


def _fence_end(text: str, fence: re.Match[str]) -> int:
    """Where a fence of reasoning ends: at its closing line, or at a closing tag that stands for it; else -1."""
    mark = fence[1]
    closing = re.compile(rf"^[ \t]{{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\r?$\n?", re.MULTILINE)
    ends = [found.end()] if (found := closing.search(text, fence.end())) else []
    if (tag := next((tag for tag in _tags(text, fence.end()) if tag.closes), None)) is not None:
        ends.append(tag.end)
    return min(ends, default=-1)


def _block_end(text: str, opened: re.Match[str]) -> int:
    """Where the reasoning ends that the tag `opened` begins; -1 if it does not end. Tags nest.

    A tag that is only mentioned may leave the depth above zero. Then the first place of least depth counts.
    """
    name = (opened[2] or opened[4]).lower()
    depth, least, end, other = 1, 1 << 60, -1, -1
    for tag in _tags(text, opened.end()):
        if tag.name != name:
            other = tag.end if tag.closes and other < 0 else other
            continue
        depth += -1 if tag.closes else 1
        if tag.closes and depth < least:
            least, end = depth, tag.end
        if depth == 0:
            break
    return end if end >= 0 else other


def _unopened(text: str) -> int | None:
    """The end of the last closing tag that has no opening one: chat templates open the reasoning in the prompt."""
    opened: list[_Tag] = []
    closing: list[_Tag] = []
    for tag in _tags(text, 0):
        if not tag.closes:
            opened.append(tag)
        elif opened and (_begins_line(text, opened[-1]) or "\n" not in text[opened[-1].end : tag.start]):
            opened.pop()
        else:
            opened.clear()  # mentions within lines
            closing.append(tag)
    if not closing or _is_whole(text):
        return None
    spans = list(_spans(text, closing[-1].end))
    free = (tag for tag in reversed(closing[-MOST_BLOCKS:]) if not any(a <= tag.start < b for a, b in spans))
    return next((tag.end for tag in free), None)


def _tags(text: str, start: int) -> Iterator[_Tag]:
    """The tags of reasoning from `start` on, without those in quotes."""
    for tag in _TAG.finditer(text, start):
        before, after = text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1]
        quotes = "\"'`"
        fence = text.startswith("```", tag.end())
        if (after and after in quotes and not fence) or (before and before in quotes and after == "\\"):
            continue
        yield _Tag(tag.start(), tag.end(), _is_closing(tag), (tag[2] or tag[4]).lower())


def _is_closing(tag: re.Match[str]) -> bool:
    return bool(tag[1] or tag[3])


def _begins_line(text: str, tag: _Tag) -> bool:
    return not text[text.rfind("\n", 0, tag.start) + 1 : tag.start].strip()


def _is_whole(text: str) -> bool:
    """Return True if all of `text` is JSON or Python."""
    if len(text) > MOST_PARSED:
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return parse(text) is not None
    return True


def _spans(text: str, before: int) -> Iterator[tuple[int, int]]:
    """Places of JSON objects, blocks of Python, and values between tags: tags in them are theirs. At most 64 objects
    are tried; they begin before the place `before`."""
    place = 0
    for _ in range(MOST_BLOCKS):
        place = text.find("{", place, before)
        if place < 0:
            break
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        yield place, end
        place = end
    opened: re.Match[str] | None = None
    for tag in _VALUE.finditer(text):
        if tag[1] and opened is not None and opened[2] == tag[2]:
            yield opened.end(), tag.start()
        opened = None if tag[1] else tag
    if len(text) <= MOST_PARSED and ("```" in text or "~~~" in text):
        from trace_bench.worker.fences import blocks  # here: a parser of Markdown that few answers need

        yield from ((block.start, block.end) for block in blocks(text) if parse(block.source) is not None)
