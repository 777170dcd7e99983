"""The metric of questions with options (ARC, QASC, QuALITY, AQuA-RAT): whether the right option was chosen.

The rules are tried in this order. The first one that finds an option decides.

1. The whole response is a label or the text of an option.
2. An explicit choice, such as "the answer is B", "I choose (B)" or "B is correct". The last one counts.
3. Lines that start with a label, such as "(B) blue" or "B.", or that are the text of an option. If they differ, a last
   line that is nothing else decides.
4. Labels within sentences: "(B)", "option B", "it must be B".

If a rule finds several options, none is chosen. The article "A" and the pronoun "I" are no labels, and neither is a
label that the response rejects ("not B", "(B) is wrong").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trace_bench.suites.hf.metrics.judgement import Judgement, right_or_wrong, unreadable
from trace_bench.suites.hf.metrics.labels import Options
from trace_bench.suites.hf.metrics.reading import MARKER, statements, tail

NO_CHOICE = 'No option was chosen: end the response with a line "Answer: " and the letter of one option.'
SEVERAL = 'Several options were chosen ({}): end the response with a line "Answer: " and the letter of one option.'
_MOST_LINES = 200
_CHOOSING = re.compile(
    rf"""{MARKER}
    | \b(?:choose|chose|pick|select|go[ ]with|going[ ]with)\b (?:[ ]is\b|[ ]?:)? [ \t*_`]{{0,8}}
    | \b(?:choice|option) (?:[ ]is\b|[*_]{{0,2}}[ ]?:) [ \t*_`]{{0,8}}
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


def judge(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge whether the response chooses the right option, and no other."""
    options = Options.of(gold["options"])
    chosen = chosen_by(response, options)
    if not chosen:
        return unreadable(NO_CHOICE)
    if len(chosen) > 1:
        return unreadable(SEVERAL.format(", ".join(sorted(chosen))))
    (label,) = chosen
    return right_or_wrong(label.upper() == str(gold["label"]).strip().upper(), label)


def chosen_by(response: str, options: Options) -> frozenset[str]:
    """The labels that `response` chooses: one, or none, or several if it contradicts itself."""
    text = tail(response)
    return options.alone(text) or _explicit(text, options) or _by_lines(text, options) or options.mentioned(text)


def _explicit(text: str, options: Options) -> frozenset[str]:
    """The options of the last explicit choice that names any."""
    found = [*_marked(text, options), *options.called_correct(text)]
    return max(found, key=lambda each: each[0], default=(0, frozenset[str]()))[1]


def _marked(text: str, options: Options) -> Iterator[tuple[int, frozenset[str]]]:
    for start, value in statements(text, _CHOOSING):
        if labels := options.at_start(value):
            yield start, labels
            return


def _by_lines(text: str, options: Options) -> frozenset[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 2 * _MOST_LINES:
        lines = lines[:_MOST_LINES] + lines[-_MOST_LINES:]
    found = _joined(options.of_line(line) for line in lines)
    if len(found) > 1 and len(last := options.alone(lines[-1])) == 1:
        return last
    return found


def _joined(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
