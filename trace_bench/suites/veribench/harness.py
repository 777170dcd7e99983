"""What is appended to a candidate's text, and what Lean's messages about the whole say to the optimizer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trace_bench.suites.veribench.source import PREFIX

_MOST_MESSAGES = 8
_MOST_SAID = 1500
"""Characters of one message."""
_DECIDED = "by first | decide +kernel | native_decide | sorry"
_ORDER = {"error": 0, "warning": 1, "information": 2}


class HiddenTest(NamedTuple):
    """A call, and the value that it has to have: terms of Lean."""

    name: str
    call: str
    expected: str


class Appended(NamedTuple):
    """A candidate's text with its tests.

    Attributes:
        last_line: of the candidate's own, 1-based.
        stated: the test that a line states.
        shown: the test whose value a line prints.
    """

    text: str
    last_line: int
    stated: Mapping[int, HiddenTest]
    shown: Mapping[int, HiddenTest]


class Message(NamedTuple):
    """What Lean says about a place."""

    severity: str
    line: int
    column: int
    text: str


def theorem_of(test: HiddenTest) -> str:
    """Full name of the theorem that states `test`."""
    return f"{PREFIX}.{test.name}"


def appended(source: str, tests: Sequence[HiddenTest], shown: Sequence[HiddenTest]) -> Appended:
    """`source` followed by a theorem for each of `tests`, and by a command for each of `shown` that prints its value.

    A test that fails is proved by ``sorry``, so that the others are compiled all the same.
    """
    own = source.rstrip("\n")
    last = own.count("\n") + 1
    stated = [f"theorem _root_.{theorem_of(test)} : ({test.call}) = ({test.expected}) := {_DECIDED}" for test in tests]
    printed = [f"#guard_msgs (pass info, drop error) in #eval ({test.call})" for test in shown]
    return Appended(
        "\n".join([own, "", *stated, *printed]) + "\n",
        last,
        dict(enumerate(tests, last + 2)),
        dict(enumerate(shown, last + 2 + len(tests))),
    )


def messages(printed: str) -> list[Message]:
    """What Lean has printed with ``--json``, a line each. Other lines are left out, since a candidate may print too."""
    found = []
    for line in printed.splitlines():
        try:
            said: Any = json.loads(line)
            at = said["pos"]
            found.append(Message(str(said["severity"]), int(at["line"]), int(at["column"]), str(said["data"])))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return found


def values(said: Sequence[Message], whole: Appended) -> dict[str, str]:
    """What calls return, as Lean prints it, by the name of their test."""
    return {
        whole.shown[message.line].name: message.text
        for message in said
        if message.severity == "information" and message.line in whole.shown
    }


def told(said: Sequence[Message], whole: Appended) -> str:
    """The messages that help most, errors first: those about the candidate's own lines, with the goal that was open.

    Of what is appended only errors are told: a call does not fit its function's type.
    """
    own = [m for m in said if m.line <= whole.last_line and m.severity != "information"]
    own += [m for m in said if m.line > whole.last_line and m.severity == "error"]
    own.sort(key=lambda message: (_ORDER.get(message.severity, 2), message.line, message.column))
    parts = []
    for message in own[:_MOST_MESSAGES]:
        text = _shortened(message.text)
        where = f"line {message.line}, column {message.column + 1}"
        if message.line > whole.last_line:
            test = whole.stated.get(message.line)
            where = f"the test ({test.call}) = ({test.expected})" if test else "behind the file"
        parts.append(f"{where}: {message.severity}: {text}")
    if len(own) > _MOST_MESSAGES:
        parts.append(f"and {len(own) - _MOST_MESSAGES} more messages")
    return "\n".join(parts)


def _shortened(text: str) -> str:
    """Without what no reader needs: inaccessible names of instances, and the middle of a long goal."""
    text = re.sub(r"\n\n(Note|Hint): (?s:.*)", "", text.strip())
    if len(text) <= _MOST_SAID:
        return text
    half = _MOST_SAID // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"
