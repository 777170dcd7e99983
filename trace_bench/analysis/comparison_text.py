"""A comparison in words and tables, for people: in one table, or explained."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.analysis.comparison import Compared, Comparison, TaskDifference
from trace_bench.analysis.comparison_groups import short_names
from trace_bench.analysis.comparison_metric import NOT_HELD_OUT
from trace_bench.analysis.comparison_power import detected, interval, methods, name, needed, p_value, short, signed
from trace_bench.analysis.paired import Effect
from trace_bench.analysis.statistics import FEW, Interval
from trace_bench.analysis.testing import Share
from trace_bench.display.markup import markdown as table_text
from trace_bench.display.markup import markdown_text
from trace_bench.display.table import Table, number
from trace_bench.records.leaderboard import hardware_sentence
from trace_bench.records.rows import named_task

_OUTCOMES = ("failed", "infrastructure", "interrupted", "skipped", "pending")
_ARROWS = {"maximize": "↑", "minimize": "↓"}
_LAYOUT: dict[str, Any] = {
    "shrink": {"task": 16, "note": 20, "part": 16, "run": 10, "axis": 8},
    "drop": ("detectable", "p", "run", "other", "baseline", "n"),
}
_VERDICTS = {"win": "better", "tie": "equal", "loss": "worse"}


Block = str | Table
"""A line, an empty one, or a table."""


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


def sections(done: Compared) -> list[Section]:
    """All of it, in the order in which it is to be read: what differs comes before any number."""
    found = [_head(done)]
    found += [_axes(one) for one in done.comparisons]
    found += [_differences(done, one) for one in done.comparisons]
    if any(one.tasks for one in done.comparisons):
        found.append(
            Section("What could be detected", [line for one in done.comparisons for line in detected(done, one)])
        )
        found.append(Section("Methods", [f"{name}: {text}" for name, text in methods(done)]))
    return found


def markdown(sections: Sequence[Section]) -> str:
    """Sections in Markdown, whatever names and parameters hold."""
    lines: list[str] = []
    for section in sections:
        lines += ["", f"## {markdown_text(section.title)}", ""]
        for block in section.blocks:
            lines += [f"- {markdown_text(block)}"] if isinstance(block, str) else ["", table_text(block), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


# --------------------------------------------------------------------------------------------------------- in short


def summary(done: Compared) -> Section:
    """The comparison in one table with verdicts, what makes it unfair above it, and a line of caveats below it."""
    labels = labels_of(done)
    title = f"{labels[0]} is the baseline; {done.metric.about}"
    if done.parts and not any(one.tasks for one in done.comparisons):
        title = "no task has a score of both parts that counts, so that there is nothing to compare yet"
    warnings = [f"WARNING: {text}" for text in dict.fromkeys(one.warning for one in done.comparisons) if text]
    above = [done.split] if done.split else []
    return Section(title, [*above, *warnings, difference_table(done, labels), f"{caveats(done)} --explain says more."])


def difference_table(done: Compared, labels: Sequence[str]) -> Table:
    """Each difference from the baseline with its verdict: by task, then over these tasks and for tasks like them.

    Args:
        labels: what to call the parts.
    """
    header = ("configuration", "task", "n", "baseline", "other", "difference", f"{done.level * 100:g} % (Holm)",
              "p (Holm)", "verdict")  # fmt: skip
    rows = []
    for label, one in zip(labels[1:], done.comparisons, strict=True):
        several = len({task.task_id for task in one.tasks}) < len(one.tasks)
        for task in one.tasks:
            name_, *rest = _row(task, several)
            task_name = name_.removesuffix(" ↑") if done.metric.scale_free else name_
            rows.append((label, task_name, *rest[:4], *rest[6:9]))
        rows += [(label, *row) for row in over_tasks(done, one)]
    return Table.of(header, rows, header[2:8], **_LAYOUT)


def over_tasks(done: Compared, one: Comparison) -> Iterable[tuple[str, ...]]:
    """The rows below the tasks of a comparison, where it has several."""
    if len(one.tasks) < 2:
        return
    scores = [[task.baseline_mean, task.other_mean, task.effect.mean] for task in one.tasks]
    means = [math.fsum(v / len(scores) for v in side if v is not None) for side in zip(*scores, strict=True)]
    shared = ("-", "-", "-") if not done.metric.scale_free else (number(means[0]), number(means[1]), signed(means[2]))
    if one.these is not None:
        direction = means[2] if done.metric.scale_free else None
        verdict = _verdict(direction, one.these.p_adjusted, done.alpha)
        yield f"these {len(one.tasks)} tasks", str(_pairs(one)), *shared, "-", p_value(one.these.p_adjusted), verdict
    if one.alike is not None:
        effect, p = one.alike.effect, one.alike.p_adjusted
        ends = interval(one.alike.interval_adjusted)
        found = (signed(effect.mean), ends, p_value(p), _verdict(effect.mean, p, done.alpha))
        yield "tasks like these", str(effect.n), "-", "-", *found


def _verdict(difference: float | None, p: float, alpha: float) -> str:
    """A difference is a finding only if its corrected p is at most `alpha`; None is one without a direction."""
    if p > alpha:
        return "undecided" if difference != 0 else "equal"
    return "differs" if difference is None else "better" if difference > 0 else "worse" if difference < 0 else "equal"


def caveats(done: Compared) -> str:
    """The caveats of a verdict in one line."""
    found = [text for text in notes(done) if not text.startswith("failures by boundary")]
    found += dict.fromkeys(f"NOT PAIRED: {_not_paired(one)}" for one in done.comparisons if one.design == "unpaired")
    sizes = {task.effect.n for one in done.comparisons for task in one.tasks if task.effect.n_baseline is None}
    tests = f" after Holm's correction for {done.tests} tests, and an interval without 0 at the level of that test"
    found.append(f"a verdict takes p ≤ {done.alpha:g}{tests if done.tests > 1 else ''}")
    if sizes and max(sizes) < needed(done):
        pairs = "–".join(str(size) for size in sorted({min(sizes), max(sizes)}))
        few = (
            f"with {pairs} pair{'s' * (pairs != '1')} no single task can have a verdict, nor an interval at that level"
        )
        found.append(f"{few}, with {needed(done)} it can")
    return f"Caveats: {'; '.join(found)}."


def labels_of(done: Compared) -> list[str]:
    """Short names of the parts: without the keys of their conditions, if the names still differ."""
    return short_names([part.name for part in done.parts])


# ------------------------------------------------------------------------------------------------------------ parts


def _head(done: Compared) -> Section:
    columns = [name for name in _OUTCOMES if any(part.outcomes.get(name) for part in done.parts)]
    rows = [
        (
            name(part.name),
            part.run_id,
            str(part.jobs),
            str(part.counted),
            *(str(part.outcomes.get(c, 0)) for c in columns),
        )
        for part in done.parts
    ]
    header = ("part", "run", "jobs", "counted", *columns)
    metric = f"{done.metric.name}: {done.metric.about}; a difference above 0 is better than the baseline"
    blocks: list[Block] = [
        Table.of(header, rows, ("jobs", "counted", *columns), **_LAYOUT),
        f"baseline: {name(done.parts[0].name)}",
    ]
    return Section("Parts", [*blocks, f"compared: {metric}", *([done.split] if done.split else []), *notes(done)])


def notes(done: Compared) -> list[str]:
    """Notes about the trust in the scores of the jobs."""
    found = [] if done.metric.held_out else [f"NOT HELD OUT: {NOT_HELD_OUT}"]
    found += [done.metric.note] if done.metric.note else []
    unprotected = sum(part.unprotected for part in done.parts)
    if unprotected and done.unprotected:
        found.append(f"UNPROTECTED: {unprotected} jobs whose score a candidate could have written itself count here")
    elif unprotected:
        found.append(f"{unprotected} unprotected jobs are left out; --unprotected counts them")
    hardware = hardware_sentence(one for part in done.parts for one in part.hardware)
    found += [f"DIFFERENT HARDWARE: {hardware.rstrip('.')}"] if hardware else []
    found += [f"BUDGETS: {text.rstrip('.')}" for text in done.spending]
    flagged = sum(part.flagged for part in done.parts)
    if flagged:
        found.append(f"{flagged} jobs that count have integrity flags; trace-bench show RUN says which")
    failed = [part.outcomes.get("failed", 0) for part in done.parts]
    if any(failed):
        found.append(_failures(done, failed))
    unfinished = [sum(part.outcomes.get(name, 0) for name in _OUTCOMES[1:]) for part in done.parts]
    if any(unfinished):
        each = ", ".join(f"{count} of {name(part.name)}" for part, count in zip(done.parts, unfinished, strict=True))
        found.append(f"not finished, and left out: {each}")
    for part in done.parts:
        kinds = ", ".join(f"{count} {kind}" for kind, count in part.failures.items())
        found += [f"failures by boundary of {name(part.name)}: {kinds}"] if kinds else []
    return found


def _failures(done: Compared, failed: Sequence[int]) -> str:
    each = ", ".join(f"{count} of {name(part.name)}" for part, count in zip(done.parts, failed, strict=True))
    if done.failures_as_worst:
        return f"jobs that failed by themselves score 0: {each}"
    text = f"jobs that failed by themselves are left out: {each}"
    if len({count / max(1, part.jobs) for part, count in zip(done.parts, failed, strict=True)}) > 1:
        text += "; that flatters the one that fails more"
        text += ", and --failures-as-worst scores them 0" if done.metric.scale_free else ""
    return text


# ------------------------------------------------------------------------------------------------------------- axes


def _axes(one: Comparison) -> Section:
    rows = [(axis.name, axis.baseline, axis.other, "" if axis.counts else "no", axis.why) for axis in one.axes]
    blocks: list[Block] = [Table.of(("axis", "baseline", "other", "counts", "note"), rows, **_LAYOUT)] if rows else []
    if not any(axis.counts or axis.unknown for axis in one.axes):
        blocks.append("nothing differs that can change a score: one is a repetition of the other")
    if one.warning:
        blocks.append(f"WARNING: {one.warning}")
    return Section(f"What differs: {name(one.other)} against {name(one.baseline)}", blocks)


# ------------------------------------------------------------------------------------------------------ differences


def _differences(done: Compared, one: Comparison) -> Section:
    title = f"{name(one.other)} against {name(one.baseline)}"
    if not one.tasks:
        return Section(title, ["no task has a score of both that counts, so that there is nothing to compare yet"])
    percent = f"{done.level * 100:g} %"
    several = len({task.task_id for task in one.tasks}) < len(one.tasks)
    header = ("task", "n", "baseline", "other", "difference", percent, "p", f"{percent} (Holm)", "p (Holm)", "verdict",
              "detectable")  # fmt: skip
    rows = [_row(task, several) for task in one.tasks]
    layout = {**_LAYOUT, "drop": (*_LAYOUT["drop"][:2], percent, *_LAYOUT["drop"][2:])}
    blocks: list[Block] = [Table.of(header, rows, header[1:9] + header[10:], **layout)]
    blocks += [text for text in (_pairing(one), _degenerate(one.tasks), *_coverage(one.tasks, percent)) if text]
    blocks += _uncorrected(done)
    return Section(title, [*blocks, *_overall(done, one, percent)])


def _row(task: TaskDifference, several: bool) -> tuple[str, ...]:
    effect = task.effect
    ends = _ends(effect)
    fixture = '"fixture":true' in task.arguments
    name = named_task(task.task_id, fixture) + (f" {task.arguments}" if several else "")
    return (
        f"{name} {_ARROWS[task.direction]}",
        str(effect.n) if effect.n_baseline is None else f"{effect.n_baseline}/{effect.n}",
        number(task.baseline_mean),
        number(task.other_mean),
        signed(effect.mean),
        interval(ends),
        p_value(effect.p),
        interval(task.interval_adjusted),
        p_value(task.p_adjusted),
        _VERDICTS[task.verdict] if task.significant else "equal" if effect.mean == effect.se == 0 else "undecided",
        short(task.detectable),
    )


def _ends(effect: Effect) -> Interval | None:
    return None if effect.low is None or effect.high is None else (effect.low, effect.high)


def _pairing(one: Comparison) -> str:
    if one.design == "unpaired":
        text = f"NOT PAIRED: {_not_paired(one)}; n is scores of the baseline and of the other"
    else:
        text = f"pairs share {', '.join(one.matched_by)}"
    if one.ways[1] > 1:
        ways = "–".join(str(count) for count in dict.fromkeys(one.ways))
        of = ", ".join(one.matched_by[2:])
        text += f"; n is seeds × {ways} configurations ({of}): jobs of one seed share its luck, so that their mean is"
        text += " one score"
    extra = [
        f"{count} jobs of {side}"
        for count, side in zip(one.unpaired_jobs, ("the baseline", "the other"), strict=True)
        if count
    ]
    text += f"; without a counterpart, and left out: {' and '.join(extra)}" if extra else ""
    text += f"; {one.tasks_left_out} tasks without a score of both are left out" if one.tasks_left_out else ""
    return text + (f"; {one.beyond} differences are beyond a double, and left out" if one.beyond else "")


def _not_paired(one: Comparison) -> str:
    if not one.shared_seeds:
        return "the parts share no seed"
    return (
        f"of {one.shared_seeds} seeds of tasks that both parts have, none has a score of both; those that have one may"
        " be the easier ones"
    )


def _degenerate(tasks: Sequence[TaskDifference]) -> str:
    flat = sum(task.effect.se == 0 for task in tasks)
    if not flat:
        return ""
    where = "all tasks" if flat == len(tasks) else f"{flat} of {len(tasks)} tasks"
    return f"on {where} every difference is the same: an interval without width says nothing of other seeds"


def _uncorrected(done: Compared) -> list[str]:
    """The caveat about what is not corrected for many tests."""
    if done.tests < 2:
        return []
    several = "; intervals of the probability of improvement are not corrected" * (len(done.comparisons) > 1)
    return [
        f"{done.level * 100:g} % and p are of each task alone, and one without 0 is no finding; those with (Holm) are"
        f" corrected for the {done.tests} tests, and the verdict follows from them{several}"
    ]


def _coverage(tasks: Sequence[TaskDifference], percent: str) -> Iterable[str]:
    """The coverage of intervals over few pairs."""
    for pairs, coverage in sorted({task.effect.n: task.effect.coverage for task in tasks}.items()):
        if coverage is not None:
            yield f"measured coverage of the {percent} interval of {pairs} pairs: {_range(coverage)}"


def _range(coverage: tuple[float, float]) -> str:
    return f"{coverage[0] * 100:.0f} to {coverage[1] * 100:.0f} % of simulated samples"


def _overall(done: Compared, one: Comparison, percent: str) -> list[str]:
    lines = []
    several = len(done.comparisons) > 1
    if one.alike is not None:
        effect = one.alike.effect
        believed = f" (measured coverage {_range(effect.coverage)})" if effect.coverage else ""
        text = f"tasks like these ({effect.n} tasks, each one observation): mean difference {signed(effect.mean)}"
        corrected = f", {interval(one.alike.interval_adjusted)} after Holm's correction" if several else ""
        ends = f"{percent} {interval(_ends(effect))}{corrected}"
        lines.append(f"{text}, {ends}{believed}, {_ps(effect.p, one.alike.p_adjusted, several)}")
    if one.these is not None:
        of = "the mean difference relative to each task's own size" if one.these.scaled else "the mean difference"
        lines.append(f"these tasks ({_tested(one)}): {of}, {_ps(one.these.p, one.these.p_adjusted, several)}")
    if one.improvement is not None:
        share = one.improvement
        lines.append(f"probability of improvement: {share.value:.3f}, {_of_share(share, percent)}")
    kinds = [*(["single tasks"] if len(one.tasks) > 1 else []), *(["these tasks"] if one.these else [])]
    kinds += ["tasks like these"] if one.alike else []
    if len(kinds) > 1 and len(one.tasks) > 1:
        lines.append(f"p of {', '.join(kinds)} are not corrected for each other: quote the one chosen beforehand")
    tasks, pairs = one.of_tasks, one.of_pairs
    better = sum(task.significant and task.verdict == "win" for task in one.tasks)
    worse = sum(task.significant and task.verdict == "loss" for task in one.tasks)
    lines.append(
        f"higher/equal/lower: {tasks.wins}/{tasks.ties}/{tasks.losses} of {len(one.tasks)} tasks"
        f" (significant: {better} better, {worse} worse)"
        + (f", {pairs.wins}/{pairs.ties}/{pairs.losses} of {_pairs(one)} pairs" if one.design == "paired" else "")
    )
    return lines


def _of_share(share: Share, percent: str) -> str:
    if share.low is None or share.high is None:
        return f"no {percent} interval, as all resamples are the same or a side has a single score"
    text = f"{percent} [{share.low:.3f}, {share.high:.3f}]"
    if share.coverage is not None:
        return f"{text} (measured coverage {_range(share.coverage)})"
    return text + ("; of fewer than 10 scores a task, so that it may be too short" if share.scores < FEW else "")


def _ps(p: float, adjusted: float, several: bool) -> str:
    return f"p {p_value(p)}" + (f", {p_value(adjusted)} after Holm's correction" if several else "")


def _tested(one: Comparison) -> str:
    if one.design == "unpaired":
        return "labels shuffled within each"
    pairs, ties = _pairs(one), one.of_pairs.ties
    return f"{pairs} pair{'s' * (pairs != 1)}" + (f", of which {ties} are equal" if ties else "")


def _pairs(one: Comparison) -> int:
    return sum(task.effect.n for task in one.tasks)
