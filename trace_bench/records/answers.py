"""Count the answers that searches asked their models for, and word why some were unusable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from trace_bench.artifacts.jsonio import json_objects
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.records import Results
from trace_bench.worker.unusable import KINDS, counted, ordered

K = TypeVar("K")
MOST_PARTS = 8
"""Trainers and models that have a line of their own."""
_REMEDIES = {
    "cut_off": "Raise max_tokens of the trainer or of its optimizer.",
    "reasoning_only": "Raise max_tokens, or ask the model for less reasoning.",
    "refused": "trace-bench llm shows the words of the provider.",
    **dict.fromkeys(
        ("no_json", "no_suggestion", "no_tags"), "Try another model, or an optimizer with another format of answers."
    ),
}


@dataclass(frozen=True)
class Answers:
    """The answers of a model to one or more searches.

    Attributes:
        total: number of answers; None if a job did not record it.
        unusable: number of those that the search could not use, by kind.
    """

    total: int | None = 0
    unusable: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Answers) -> Answers:
        total = None if self.total is None or other.total is None else self.total + other.total
        return Answers(total, ordered(Counter(self.unusable) + Counter(other.unusable)))


def answers_of(row: Results | None, job: JobLayout) -> Answers:
    """The answers of a job. Jobs without a count of their own (of earlier versions, or killed) are counted by their
    events, which do not have the total."""
    if row is not None and row.unusable_answers is not None:
        return Answers(row.search_answers, ordered(row.unusable_answers))
    unusable = counted(events_with(job.events, b".unusable"))
    return Answers(None if unusable else 0, unusable)


def answers_text(answers: Answers) -> str:
    """The sentence without its full stop; empty where no answer was unusable.

    >>> answers_text(Answers(60, {"cut_off": 9, "no_program": 3}))
    '12 of 60 answers unusable: 9 cut off, 3 without a program'
    >>> answers_text(Answers(None, {"empty": 1})), answers_text(Answers(60))
    ('1 answer unusable: 1 empty', '')
    """
    if not answers.unusable:
        return ""
    count, size = _counts(answers)
    return f"{count} answer{'' if size == 1 else 's'} unusable: {_kinds(answers)}"


def _counts(answers: Answers) -> tuple[str, int]:
    """``12 of 60``, and the number before the noun; without the total if it is not known, or cannot be right."""
    count = sum(answers.unusable.values())
    known = answers.total is not None and answers.total >= count
    return (f"{count} of {answers.total}", answers.total or 0) if known else (str(count), count)


def _kinds(answers: Answers) -> str:
    kinds = sorted(ordered(answers.unusable).items(), key=lambda pair: -pair[1])
    return ", ".join(f"{number} {KINDS[kind]}" for kind, number in kinds)


def summed(parts: Iterable[tuple[K, Answers]]) -> dict[K, Answers]:
    """The answers by key, without keys that have none."""
    found: dict[K, Answers] = {}
    for key, answers in parts:
        found[key] = found.get(key, Answers()) + answers
    return {key: answers for key, answers in found.items() if answers.total != 0}


def answers_sentences(by_label: Mapping[str, Answers]) -> list[str]:
    """Sentences about all answers together, about each label with unusable ones if there are several labels, and about
    what helps against the most frequent kind; empty where no answer was unusable."""
    whole = sum(by_label.values(), Answers())
    if not (text := answers_text(whole)):
        return []
    sentences = [f"{text}."]
    if len(by_label) > 1:
        bad = [(label, answers) for label, answers in by_label.items() if answers.unusable]
        bad.sort(key=lambda pair: -sum(pair[1].unusable.values()))
        sentences += [f"{label}: {_counts(answers)[0]} ({_kinds(answers)})." for label, answers in bad[:MOST_PARTS]]
        sentences += [f"{len(bad) - MOST_PARTS} more have unusable answers."] if len(bad) > MOST_PARTS else []
    remedy = _REMEDIES.get(max(whole.unusable, key=lambda kind: whole.unusable[kind]))
    return [*sentences, *([remedy] if remedy else [])]


def searches_sentences(by_search: Mapping[tuple[str, str], Answers]) -> list[str]:
    """`answers_sentences` by (trainer, model)."""
    return answers_sentences(dict(zip(labels_of(by_search), by_search.values(), strict=True)))


def labels_of(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """A label for each (trainer, model): what differs among them.

    >>> labels_of([("FunSearch", "small"), ("EoH", "small")]), labels_of([("EoH", "a"), ("EoH", "b"), ("GEPA", "b")])
    (['FunSearch', 'EoH'], ['EoH, a', 'EoH, b', 'GEPA, b'])
    """
    pairs = list(pairs)
    several = [len({pair[place] for pair in pairs}) > 1 for place in (0, 1)]
    if not any(several):
        several[0] = True
    return [", ".join(name for name, shown in zip(pair, several, strict=True) if shown) for pair in pairs]


def events_with(path: Path, *marks: bytes) -> Iterator[Mapping[str, Any]]:
    """The objects of a journal whose lines hold one of `marks`; all of them if there are no marks.

    A sandbox wrote it: a line that is not an object is left out.
    """
    try:
        raw = path.read_bytes()
    except OSError:
        return
    if not marks or any(mark in raw for mark in marks):
        lines = (line for line in raw.splitlines() if not marks or any(mark in line for mark in marks))
        yield from json_objects(lines)
