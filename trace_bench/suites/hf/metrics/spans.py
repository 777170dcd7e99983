"""The metrics of HotpotQA, MuSiQue and Qasper: exact match, and F1 of words after SQuAD normalisation. And two metrics
of examples of a user: exact match alone, and whether the response contains the answer.

SQuAD normalisation (Rajpurkar et al., 2016) makes a text lower case and takes out ASCII punctuation, the articles
"a", "an" and "the", and superfluous white space.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trace_bench.suites.hf.metrics.judgement import Judgement, right_or_wrong, unreadable, was_read
from trace_bench.suites.hf.metrics.reading import LONGEST_ANSWER, answer_of, tail

TOO_LONG = (
    f"No answer was read: the response has more than {LONGEST_ANSWER:,} characters and no explicit answer, such as a "
    'last line "Answer: …".'
)
EMPTY = "No answer was read: the response is empty."
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_SPECIAL = frozenset({"yes", "no", "noanswer"})

Metric = Callable[[str, str], float]
"""A number from 0 to 1 for a predicted and a right answer."""


def normalised(text: str) -> str:
    """`text` after SQuAD normalisation.

    >>> normalised("The  U.S. Army, a force")
    'us army force'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(predicted: str, right: str) -> float:
    """1 if both are equal after SQuAD normalisation, else 0."""
    return float(normalised(predicted) == normalised(right))


def hotpot_f1(predicted: str, right: str) -> float:
    """F1 of words as in HotpotQA (Yang et al., 2018): 0 if one is "yes", "no" or "noanswer" and the other is not."""
    first, second = normalised(predicted), normalised(right)
    if first != second and (first in _SPECIAL or second in _SPECIAL):
        return 0.0
    return f1_of(first.split(), second.split())


def musique_f1(predicted: str, right: str) -> float:
    """F1 of words as in MuSiQue (Trivedi et al., 2022): if one has no words, 1 if the other has none, else 0."""
    first, second = normalised(predicted).split(), normalised(right).split()
    return f1_of(first, second) if first and second else float(first == second)


def qasper_f1(predicted: str, right: str) -> float:
    """F1 of words as in Qasper (Dasigi et al., 2021): 0 if one has no words."""
    return f1_of(normalised(predicted).split(), normalised(right).split())


def f1_of(predicted: list[str], right: list[str]) -> float:
    """The harmonic mean of precision and recall of two lists of words; a word counts as often as both have it."""
    same = sum((Counter(predicted) & Counter(right)).values())
    if not same:
        return 0.0
    precision, recall = same / len(predicted), same / len(right)
    return 2 * precision * recall / (precision + recall)


def judge_hotpot(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge as HotpotQA does. The score is F1."""
    return _judged(response, gold["answers"], hotpot_f1)


def judge_musique(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge as MuSiQue does, by the best alias. The score is F1."""
    return _judged(response, gold["answers"], musique_f1)


def judge_qasper(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge as Qasper does, by the best annotator. The score is F1."""
    return _judged(response, [answer["text"] for answer in gold["answers"]], qasper_f1)


def judge_exact(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge as HotpotQA does. The score is the exact match."""
    judgement = judge_hotpot(response, gold)
    return judgement._replace(score=judgement.metrics["exact"], metrics={"exact": judgement.metrics["exact"]})


def judge_contains(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge whether the response has the words of a right answer one after the other, after SQuAD normalisation."""
    text = tail(response)
    words = f" {normalised(text)} "
    return right_or_wrong(any(f" {normalised(answer)} " in words for answer in gold["answers"]), text)


def _judged(response: str, answers: Iterable[str], f1: Metric) -> Judgement:
    answer = answer_of(response)
    if answer is None:
        return unreadable_span(TOO_LONG)
    answers = list(answers)
    best = {"exact": max(exact(answer, each) for each in answers), "f1": max(f1(answer, each) for each in answers)}
    return Judgement(best["f1"], best, was_read(answer) if answer else EMPTY)


def unreadable_span(remark: str) -> Judgement:
    """The judgement of a response without an answer whose words could be counted."""
    judgement = unreadable(remark)
    return judgement._replace(metrics=judgement.metrics | {"f1": 0.0})
