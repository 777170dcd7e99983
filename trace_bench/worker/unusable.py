"""Why a search could not use an answer of its model: the kinds, their words, and the events that tell of them.

Trainers write these events, the supervisor counts them, and the host reads them. Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

KINDS: Mapping[str, str] = {
    "cut_off": "cut off",
    "reasoning_only": "reasoning alone",
    "empty": "empty",
    "refused": "refused",
    "no_program": "without a program",
    "no_json": "without JSON",
    "no_suggestion": "without a suggestion",
    "no_tags": "without the tags",
    "unknown_names": "with unknown names alone",
    "invalid_value": "with invalid values",
    "other": "for other reasons",
}
"""The kinds, and the words that follow a number: ``9 cut off, 3 without a program``."""
EVENTS = frozenset({"proposal.unusable", "summary.unusable", "description.unusable", "judge.unusable"})
"""Events of one unusable answer each."""
_REASONS = {
    "cut off at max_tokens": "cut_off",
    "refused the request": "refused",
    "message is empty": "empty",
    "holds no message": "empty",
    "holds no summary": "empty",
    "there is nothing between": "empty",
    "holds no code block": "no_program",
    "holds no JSON": "no_json",
    'no "suggestion"': "no_suggestion",
    'the "suggestion" is empty': "no_suggestion",
    'no "choice"': "no_suggestion",
    "the answer suggests no": "no_suggestion",
    "holds no <": "no_tags",
    "has no tags": "no_tags",
    "is not closed": "no_tags",
    "does not begin with its <name>": "no_tags",
    "is not followed by a <value>": "no_tags",
    "is not in the bounds": "invalid_value",
    "is due, and the answer gives": "invalid_value",
    "the source is empty": "invalid_value",
}
"""Parts of the sentences of versions whose events have no ``kind``; the first that occurs decides."""


def known_kind(kind: object) -> str:
    """`kind` if it is one of `KINDS`, else ``other``."""
    return kind if isinstance(kind, str) and kind in KINDS else "other"


def kind_of(event: Mapping[str, Any]) -> str | None:
    """The kind of unusable answer that a line of ``events.jsonl`` tells of; None for all other events."""
    if not isinstance(name := event.get("event"), str) or name not in EVENTS:
        return None
    if "kind" in event:
        return known_kind(event["kind"])
    reason = str(event.get("reason", ""))
    return next((kind for part, kind in _REASONS.items() if part in reason), "other")


def counted(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The number of unusable answers by kind, in the order of `KINDS`; kinds that did not occur are left out."""
    return ordered(Counter(kind for event in events if (kind := kind_of(event)) is not None))


def ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """`counts` in the order of `KINDS`, without those of 0; what is not a kind counts as ``other``."""
    found = Counter[str]()
    for kind, count in counts.items():
        found[known_kind(kind)] += count
    return {kind: found[kind] for kind in KINDS if found[kind]}
