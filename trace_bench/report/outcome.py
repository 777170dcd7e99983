"""What runs came to in short: a ranking over tasks, paired differences from a baseline, a sentence and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trace_bench.analysis.bounds import within
from trace_bench.analysis.comparison import Compared, compare
from trace_bench.analysis.comparison_groups import choose
from trace_bench.analysis.comparison_text import caveats, difference_table, labels_of, over_tasks
from trace_bench.analysis.statistics import LEVEL, Estimate, means, task_sample
from trace_bench.display.table import Table
from trace_bench.errors import ConfigError
from trace_bench.report.content import Report
from trace_bench.report.drawing import Figure, Style, Trace, plain, short, wrapped

MOST_COMPARED = 24
"""Configurations that are compared with the baseline."""
_MOST_DRAWN = 12
_LONGEST = 40
_BY = "trainer,variant"


@dataclass(frozen=True)
class Overall:
    """A configuration over the tasks whose every score is normalised.

    Attributes:
        rank: from 1, equal means share one; None where tasks are missing.
        held_out, validation: normalised means, better when larger.
        of_task: the held-out mean on each task.
    """

    rank: int | None
    configuration: str
    held_out: Estimate
    validation: Estimate
    of_task: dict[str, float]


def ranked(report: Report) -> list[Overall]:
    """Configurations by their normalised held-out mean over tasks, the best first; those that lack a task come last."""
    jobs = report.counted[report.counted["normalised_test"].notna()]
    tasks = set(jobs["task"])
    found = []
    for configuration, ours in jobs.groupby("configuration", sort=False):
        estimates = []
        for column in ("normalised_test", "normalised"):
            known = ours[ours[column].notna()]
            sample, unit = task_sample(known["task"].tolist(), known[column].tolist())
            bounds = [report.bounds.get(task) for task in dict.fromkeys(known["task"])]
            estimates.append(within(means([sample], LEVEL, [unit])[0], bounds))
        of_task = ours.groupby("task")["normalised_test"].mean().to_dict()
        found.append(Overall(None, str(configuration), estimates[0], estimates[1], of_task))
    found.sort(key=lambda one: (len(one.of_task) < len(tasks), -(one.held_out.mean or 0.0), one.configuration))
    scores = [one.held_out.mean for one in found]
    return [
        replace(one, rank=scores.index(one.held_out.mean) + 1) if len(one.of_task) == len(tasks) else one
        for one in found
    ]


# --------------------------------------------------------------------------------------------------- differences


@dataclass(frozen=True)
class Differences:
    """The comparison with a baseline, and what the report calls its parts, the baseline first."""

    done: Compared
    labels: tuple[str, ...]

    @property
    def table(self) -> Table:
        """The differences with verdicts, and their caveats as notes."""
        table = difference_table(self.done, self.labels)
        tasks = list(dict.fromkeys(row[1] for row in table.rows))
        rows = tuple((row[0], short(row[1], tasks), *row[2:]) for row in table.rows)
        warnings = dict.fromkeys(f"WARNING: {one.warning}" for one in self.done.comparisons if one.warning)
        notes = (f"Paired by task and seed; above 0 is better. {caveats(self.done)}", *warnings)
        return replace(table, rows=rows, title=f"Differences from {self.labels[0]}", notes=notes)


def differences(report: Report) -> Differences | str:
    """Every configuration against a baseline, or every run against the first one; a sentence where that is impossible.

    The baseline of a single run is the configuration that does not search, if there is one, else the first.
    """
    try:
        parts = choose([source.layout for source in report.sources], [], None if report.several else _BY, None)
        parts.sort(key=lambda part: not part.name.startswith("trainer=NoOp,"))
        done = compare(parts[: MOST_COMPARED + 1])
    except ConfigError as error:
        return f"There is nothing to compare: {error}."
    configurations = dict(zip(report.jobs["job_id"], report.jobs["configuration"], strict=True))
    named = [{str(configurations[job]) for job in part.jobs["job_id"] if job in configurations} for part in parts]
    labels = [names.pop() if len(names) == 1 and not report.several else "" for names in named]
    others = labels_of(done)
    return Differences(done, tuple(label or other for label, other in zip(labels, others, strict=False)))


# ------------------------------------------------------------------------------------------------------ sentence


def sentence(report: Report, over: Sequence[Overall], found: Differences | str) -> str:
    """The outcome."""
    if not len(report.counted):
        return "No job has a score that counts."
    if over and over[0].rank == 1:
        return _of_leader(over, found)
    firsts: Counter[str] = Counter()
    for task in report.tasks:
        jobs = report.counted[report.counted["task"] == task]
        score = jobs["sign"] * jobs["score_best"]
        mean = score.groupby(jobs["configuration"], sort=False).mean()
        firsts.update(mean.index[mean == mean.max()].astype(str))
    leader, count = firsts.most_common(1)[0]
    tasks = f"{count} of {len(report.tasks)} tasks" if len(report.tasks) > 1 else "the task"
    level = [name for name, number in firsts.items() if number == count and name != leader]
    who = " and ".join([leader, *level[:2]]) + (" and others" if len(level) > 2 else "")
    have = "have" if level else "has"
    return f"{who} {have} the best mean validation score on {tasks}; no task has a normalised held-out score."


def _of_leader(over: Sequence[Overall], found: Differences | str) -> str:
    first = over[0]
    text = _score(first)
    if isinstance(found, str) or len(over) < 2:
        return f"{first.configuration} reaches {text}."
    baseline = next((one for one in over if one.configuration == found.labels[0]), None)
    if baseline is not None and baseline.rank == 1:
        return f"No configuration is ahead of {baseline.configuration}, which reaches {text}."
    against = f"; {baseline.configuration} reaches {baseline.held_out.mean:.3f}" if baseline is not None else ""
    verdicts = ""
    for label, one in zip(found.labels[1:], found.done.comparisons, strict=True):
        rows = list(over_tasks(found.done, one)) if label == first.configuration else []
        if rows:
            verdicts = "; the difference is " + " and ".join(_verdict(row) for row in rows)
    return f"{first.configuration} leads with {text}{against}{verdicts}."


def _score(one: Overall) -> str:
    found = one.held_out
    unit = f"over {len(one.of_task)} tasks" if len(one.of_task) > 1 else "on the task"
    ends = f" ({100 * LEVEL:g} % CI {found.interval[0]:.3f} to {found.interval[1]:.3f})" if found.interval else ""
    return f"a normalised held-out score of {found.mean:.3f} {unit}{ends}"


def _verdict(row: Sequence[str]) -> str:
    """Of a row of the table of differences: ``in its favour on these 4 tasks (p 0.0006)``."""
    words = {"better": "in its favour", "worse": "against it", "equal": "zero", "differs": "significant"}
    where = f"on {row[0]}" if row[0].startswith("th") else f"for {row[0]}"
    return f"{words.get(row[-1], 'undecided')} {where} (p {row[-2]})"


# ------------------------------------------------------------------------------------------------------- picture


def outcome_figure(report: Report, over: Sequence[Overall], style: Style) -> Figure | None:
    """Normalised held-out means with their intervals, and a pale mark for each task."""
    shown = [one for one in over[:_MOST_DRAWN] if one.held_out.mean is not None]
    if not shown:
        return None
    names = [wrapped(one.configuration, _LONGEST) for one in shown]
    data: list[Trace] = []
    for name, one in zip(names, shown, strict=True):
        mean = one.held_out.mean or 0.0
        low, high = one.held_out.interval or (mean, mean)
        text = [f"{plain(short(task, report.tasks))}: {score:.4g}" for task, score in one.of_task.items()]
        marker = {**style.marker(one.configuration, 7), "opacity": 0.35}
        common: Trace = {"type": "scatter", "mode": "markers", "hovertemplate": "%{text}<extra></extra>"}
        scores = list(one.of_task.values())
        data.append({**common, "x": scores, "y": [name] * len(scores), "text": text, "marker": marker})
        bars = {"type": "data", "symmetric": False, "array": [high - mean], "arrayminus": [mean - low], "width": 6}
        bars["color"] = style.color(one.configuration)
        text = [f"{name}<br>{mean:.4g}, {100 * LEVEL:g} % CI {low:.4g} … {high:.4g}"]
        marker = style.marker(one.configuration, 12)
        data.append({**common, "x": [mean], "y": [name], "error_x": bars, "marker": marker, "text": text})
    tasks = len(shown[0].of_task)
    title = f"normalised held-out score: mean over {tasks} tasks" if tasks > 1 else "normalised held-out score"
    title += f", {100 * LEVEL:g} % CI; 1 is the reference or the bound"
    layout = {
        "showlegend": False,
        "xaxis": {"title": {"text": title}, "zeroline": False},
        "yaxis": {"type": "category", "automargin": True, "categoryorder": "array", "categoryarray": names[::-1]},
        "margin": {"t": 30},
    }
    return Figure(
        "outcome", "Normalised held-out scores by configuration", data, layout, min(110 + 42 * len(shown), 420)
    )
