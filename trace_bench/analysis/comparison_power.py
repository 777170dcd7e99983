"""Describe the power and the methods of a comparison, and format numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count

from trace_bench.analysis.comparison import Alike, Compared, Comparison, TaskDifference
from trace_bench.analysis.paired import smallest_paired_p
from trace_bench.analysis.statistics import Interval
from trace_bench.analysis.testing import BOOTSTRAP, EXACT, POWER, RESAMPLES, drawn
from trace_bench.display.text import quoted

_POWER = f"a power of {POWER:.0%}, if the spread is as seen"


def detected(done: Compared, one: Comparison) -> list[str]:
    """Sentences about the differences that this number of seeds and tasks could detect."""
    if not one.tasks:
        return []
    who = f"{name(one.other)}: " if len(done.comparisons) > 1 else ""
    lines = [who + text for text in _single(done, one)]
    alpha = done.alpha / len(done.comparisons)
    if one.alike is not None:
        lines.append(who + _of_alike(one.alike, done.alpha, alpha))
    elif len({task.task_id for task in one.tasks}) == 1:
        lines.append(f"{who}one task: nothing can be said of tasks like it")
    else:
        lines.append(
            f"{who}scores of different tasks have no common unit, and no mean over tasks; normalised ones have"
        )
    if one.these is not None and one.these.smallest_p > alpha:
        smallest = p_value(one.these.smallest_p)
        lines.append(
            f"{who}these tasks: the smallest possible p is {smallest}; nothing can be significant at {alpha:.3g}"
        )
    return lines


def _single(done: Compared, one: Comparison) -> Iterable[str]:
    """By number of pairs."""
    alpha = done.alpha / done.tests
    sizes: dict[str, list[TaskDifference]] = {}
    for task in one.tasks:
        effect = task.effect
        unpaired = f"{effect.n_baseline} and {effect.n} scores"
        key = f"{effect.n} pair{'s' * (effect.n != 1)}" if effect.n_baseline is None else unpaired
        sizes.setdefault(key, []).append(task)
    for key, tasks in sizes.items():
        smallest = tasks[0].effect.smallest_p
        where = key if len(sizes) == 1 else f"{key} ({len(tasks)} tasks)"
        least = p_value(min(1.0, smallest * done.tests))
        corrected = f" ({least} corrected for {done.tests} tests)" if done.tests > 1 else ""
        text = f"{where}: the smallest possible p is {p_value(smallest)}{corrected}"
        if smallest > alpha:
            enough = f"; it takes {needed(done)} pairs" if tasks[0].effect.n_baseline is None else ""
            yield f"{text}; no difference on a single task can be significant at {done.alpha:g}{enough}"
        else:
            known = any(task.detectable is not None for task in tasks)
            yield text + (f"; a true difference as large as under detectable is found with {_POWER}" if known else "")


def needed(done: Compared) -> int:
    """Pairs a task from which on a difference can be significant after the correction."""
    return next(n for n in count(2) if smallest_paired_p(n) <= done.alpha / done.tests)


def _of_alike(alike: Alike, level: float, alpha: float) -> str:
    effect = alike.effect
    text = f"tasks like these: {effect.n} tasks: the smallest possible p is {p_value(effect.smallest_p)}"
    if effect.smallest_p > alpha:
        return f"{text}; no mean difference can be significant at {level:g}"
    if alike.detectable is None:
        return text
    return f"{text}; a true mean difference of {short(alike.detectable)} is found with {_POWER}"


# ---------------------------------------------------------------------------------------------------------- methods


_STUDENT = (
    "Student's t test of the paired differences and its interval; n pairs have no p below 2/4ⁿ, and differences that"
    " are all or nothing none below the probability that equal scores of that kind have such a t"
)


def methods(done: Compared) -> list[tuple[str, str]]:
    """The methods, with sources."""
    labels = (
        "permutation test of the scores' labels, two-sided, and the differences that it does not reject; exact up to"
        f" {EXACT} labellings, else {drawn(done.tests, done.alpha)} drawn and the observed one, arXiv:1603.05766"
    )
    designs = {one.design for one in done.comparisons}
    several = (
        ", each the mean over what else its jobs share" if any(one.ways[1] > 1 for one in done.comparisons) else ""
    )
    found = {
        "pairs": f"scores of one task and seed{several}, arXiv:2411.00640 (paired differences)"
        if "paired" in designs
        else "",
        "interval and p of a task": _STUDENT if "paired" in designs else "",
        "without pairs": labels if "unpaired" in designs else "",
        "correction": f"Holm 1979, over the {done.tests} tests of single tasks; family-wise error rate {done.alpha:g};"
        " an interval (Holm) is at the level at which its task is tested, so that it excludes 0 if and only if the"
        " verdict is better or worse"
        if done.tests > 1
        else "",
        "tasks like these": ""
        if not any(one.alike for one in done.comparisons)
        else "clustered by task, arXiv:2411.00640 §2.2: every task is one observation, its mean"
        " difference (over all its arguments); interval and p as of a task's pairs",
        "these tasks": "permutation test over all scores, stratified by task; it says nothing of other tasks. "
        f"Signs of pairs, or labels, are exchanged: all patterns up to {EXACT}, else {RESAMPLES} drawn ones",
        "probability of improvement": "mean over tasks of P(better) + ½ P(equal), Mann-Whitney, arXiv:2108.13264 §4.3;"
        f" percentile interval of {BOOTSTRAP} stratified bootstrap resamples, its percentiles expanded for few scores,"
        " arXiv:1411.5279 §5.2",
        "which p": "each kind of test (single tasks, these tasks, tasks like these) is corrected by itself and not for"
        " the others: choose the one that answers your question before you look",
        "detectable": f"smallest true difference that the test at the corrected level finds with a power of {POWER:.0%}"
        ", by the noncentral t distribution",
    }
    return [(what, text) for what, text in found.items() if text]


# ---------------------------------------------------------------------------------------------------------- in short


def interval(ends: Interval | None) -> str:
    """``[low, high]``, ``[value]=`` where all differences are the same; a dash for None."""
    if ends is None:
        return "-"
    low, high = ends
    return f"[{short(low)}]=" if low == high else f"[{short(low)}, {short(high)}]"


def p_value(p: float) -> str:
    """Two digits that count, and never 0.

    >>> p_value(0.0625), p_value(0.00019531), p_value(1.0)
    ('0.0625', '0.0002', '1')
    """
    if p >= 0.001:
        return f"{p:.3g}"
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def signed(value: float) -> str:
    return f"{value:+.4g}" if value else "0"


def short(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def name(text: str) -> str:
    return quoted(text, 100)
