"""Metrics of question answering: how right a response is, as the authors of the data sets measure it.

In the sandbox: standard library only. A response is the output of a model, so each metric reads a limited number of
characters and takes time linear in them. ``docs/reference/question-answering-metrics.md`` has the rules of each metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trace_bench.suites.hf.metrics import bbeh, choice, drop, number, spans, yes_no
from trace_bench.suites.hf.metrics.judgement import Judgement

_METRICS: Mapping[str, Callable[[str, Mapping[str, Any]], Judgement]] = {
    "span": spans.judge_hotpot,
    "exact": spans.judge_exact,
    "contains": spans.judge_contains,
    "musique": spans.judge_musique,
    "qasper": spans.judge_qasper,
    "drop": drop.judge,
    "number": number.judge,
    "choice": choice.judge,
    "yes_no": yes_no.judge,
    "bbeh": bbeh.judge,
}
KINDS = tuple(_METRICS)


def judge(kind: str, response: str, gold: Mapping[str, Any]) -> Judgement:
    """Compare `response` with `gold` by the metric `kind`.

    Shapes of `gold`:

    * ``span``, ``exact``, ``contains`` and ``musique``: ``{"answers": [text, …]}``, the answer and its aliases
    * ``qasper``: ``{"answers": [{"text": …, "type": "extractive" | "abstractive" | "boolean" | "none"}, …]}``
    * ``drop``: ``{"answers": [[span, …], …]}``, the spans of each annotated answer
    * ``number``: ``{"answer": "18"}``
    * ``choice``: ``{"label": "B", "options": [["A", text], …]}``
    * ``yes_no``: ``{"answer": "yes" | "no"}``
    * ``bbeh``: ``{"answer": text}``

    Raises:
        KeyError: there is no metric `kind`.
    """
    return _METRICS[kind](response, gold)
