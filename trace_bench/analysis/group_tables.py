"""Groups of jobs as tables: for people and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from trace_bench.analysis.groups import ASIDE, LABELS, Group, Summary
from trace_bench.analysis.markup import Table, coverage, interval
from trace_bench.analysis.render import UNPROTECTED, dollars, number
from trace_bench.analysis.statistics import RESAMPLES, Estimate
from trace_bench.artifacts.jsonio import printable
from trace_bench.display.text import csv_cell
from trace_bench.records.integrity import MARK, PAGE
from trace_bench.records.leaderboard import hardware_sentence

DOCS = "docs/design/statistics.md"
HELD_OUT_COVERS = "held-out covers"
ARROW = {"maximize": "↑", "minimize": "↓"}
_ESTIMATES = ("score", "test", "improvement", "normalised", "normalised_test")
_NUMBERS = ("tokens", "cost_usd", "seconds", "per_dollar", "total_cost_usd", "jobs", "counted", "unprotected",
            "unscored", "flagged")  # fmt: skip
NUMERIC = frozenset({
    "n", "tasks", "validation", "covers", HELD_OUT_COVERS, "IQM", "SE", "held-out", "improvement", "normalised",
    "held-out normalised", "new", "duplicate", "unusable", "tokens", "usd", "s", "per usd", "jobs", "counted",
    "unprotected", "unscored", "flagged", *ASIDE,
})  # fmt: skip
ELASTIC = {
    "variant": 16,
    "parameters": 8,
    "optimizer_kwargs": 8,
    "eval_kwargs": 8,
    "hardware": 12,
    "trainer": 14,
    "kinds": 12,
}
SPARE = ("proposals", "tokens", "s", "per usd", "SE", "usd", "IQM", "held-out normalised", "normalised", "new",
         "duplicate", "unusable", "improvement", "covers", HELD_OUT_COVERS, "tasks", "validation")  # fmt: skip


# -------------------------------------------------------------------------------------------------------- for people


def short_table(summary: Summary) -> Table:
    """The groups with the scores that a reader asks for first. Where there are held-out scores, the interval is theirs.
    The last columns say of each group how many proposals were new, duplicates and unusable, and which jobs are in no
    mean."""
    whole = main_table(summary)
    ci = next(name for name in (f"held-out {_ci(summary)}", f"validation {_ci(summary)}") if name in whole.header)
    tasks = ("tasks",) if any(group.tasks_without for group in summary.groups) else ()
    kept = (*summary.by, *summary.joined, *tasks, "n", "validation", "held-out", ci, "improvement", "usd")
    shown = [place for place, name in enumerate(whole.header) if name in kept]
    header = [whole.header[place] for place in shown]
    columns = [[row[place] for row in whole.rows] for place in shown]
    for name, cells in (("proposals", map(_proposals, summary.groups)), ("left out", map(_left_out, summary.groups))):
        found = list(cells)
        if set(found) - {"-"}:
            header.append(name)
            columns.append(found)
    return Table.of(header, list(zip(*columns, strict=True)), NUMERIC)


def _ci(summary: Summary) -> str:
    return f"{100 * summary.level:g} % CI"


def _proposals(group: Group) -> str:
    counts = [group.proposals[kind] for kind in ("new", "duplicate", "unusable")]
    return "/".join(map(str, counts)) if any(counts) else "-"


def _left_out(group: Group) -> str:
    """Jobs in no mean, by outcome."""
    counts = {**group.aside, "unprotected": group.unprotected, "unscored": group.unscored}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "-"


def caveats(summary: Summary) -> str:
    """What a reader has to know before a number is quoted, in one line."""
    found = [line.rstrip(".") for line in notes(summary)]
    if summary.averaged:
        found.append("scores are normalised: 1 is a task's bound or target, 0 a failure")
    if any(_proposals(group) != "-" for group in summary.groups):
        found.append("proposals: new/duplicate/unusable answers of the model")
    sizes = {e.n for group in summary.groups for e in (group.test, group.normalised_test, group.score) if e.coverage}
    if sizes:
        found.append(f"intervals of {min(sizes)} values may be too short")
    return f"Caveats: {'; '.join(found) or 'none'}. --explain says more."


def main_table(summary: Summary) -> Table:
    """The groups with all that they come to. Intervals stand in brackets. Left out is what no group has, and what
    ``covers`` says of the held-out intervals where it says the same of the others."""
    ci = _ci(summary)
    keys = [*summary.by, *summary.joined]
    sizes = ("tasks", "n", "validation") if summary.averaged else ("n", "validation")
    kept = {*keys, *sizes, f"validation {ci}"}
    scores = (*keys, *sizes, f"validation {ci}", "covers", "IQM", "SE", "held-out", f"held-out {ci}", HELD_OUT_COVERS,
              "improvement", f"improvement {ci}")  # fmt: skip
    rest = () if summary.averaged else ("normalised", "held-out normalised")
    header = (*scores, *rest, "new", "duplicate", "unusable", "tokens", "usd", "s", "per usd")
    rows = [_cells(summary, group, keys) for group in summary.groups]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    kept |= {name for name, cells in zip(header, columns, strict=True) if set(cells) - {"-"}}
    if _covered_alike(*(columns[header.index(name)] for name in ("covers", f"held-out {ci}", HELD_OUT_COVERS))):
        kept.discard(HELD_OUT_COVERS)
    else:
        kept.add(HELD_OUT_COVERS)
    shown = [place for place, name in enumerate(header) if name in kept]
    return Table.of([header[place] for place in shown], [[row[place] for place in shown] for row in rows], NUMERIC)


def _covered_alike(covers: Sequence[str], held_out: Sequence[str], of_held_out: Sequence[str]) -> bool:
    """What is said of the intervals of validation scores holds of the held-out ones, too."""
    found = zip(covers, held_out, of_held_out, strict=True)
    return all(one == other or interval_ == "-" for one, interval_, other in found)


def _cells(summary: Summary, group: Group, keys: Sequence[str]) -> tuple[str, ...]:
    names = [printable(group.keys[key], 200) for key in keys]
    score, test = (group.normalised, group.normalised_test) if summary.averaged else (group.score, group.test)
    if group.marked:
        place = keys.index("trainer") if "trainer" in keys else 0
        names[place] += UNPROTECTED
    arrow = f" {ARROW[group.direction]}" if group.direction and not summary.averaged and score.n else ""
    found = (
        *names,
        *([_tasks(group)] if summary.averaged else []),
        _size(score) if summary.averaged else str(score.n),
        number(score.mean) + arrow + (MARK if group.flagged else ""),
        interval(score),
        coverage(score.coverage),
        number(score.iqm),
        _short(score.se),
        _among(test, score.n),
        interval(test),
        coverage(test.coverage),
        number(group.improvement.mean),
        interval(group.improvement),
    )
    if not summary.averaged:
        found = (*found, number(group.normalised.mean), number(group.normalised_test.mean))
    proposals = [str(count) for count in group.proposals.values()] if any(group.proposals.values()) else ["-"] * 3
    spent = (
        *proposals,
        number(group.tokens, 0),
        dollars(group.cost_usd) if group.cost_usd else "-",
        number(group.seconds, 1),
    )
    return (*found, *spent, _short(group.per_dollar))


def aside_table(summary: Summary) -> Table | None:
    """The jobs that are in no mean, by group and by what came of them; None where all count and none is flagged."""
    keys = [*summary.by, *summary.joined]
    told = [group for group in summary.groups if group.jobs > group.counted or group.flagged]
    if not told:
        return None
    values = {name: [str(_count(group, name) or "-") for group in told] for name in (*_SIZES, *ASIDE, *_OTHERS)}
    shown = [name for name, cells in values.items() if name in _SIZES or set(cells) != {"-"}]
    kinds = [_kinds_text(group) for group in told]
    rows = [
        (*(printable(group.keys[key], 200) for key in keys), *(values[name][place] for name in shown), kinds[place])
        for place, group in enumerate(told)
    ]
    return Table.of((*keys, *shown, "kinds"), rows, NUMERIC)


def _kinds_text(group: Group) -> str:
    kinds = (*group.failures.items(), *group.infrastructure.items())
    return ", ".join(f"{count} {printable(kind, 60)}" for kind, count in kinds)


_SIZES = ("jobs", "counted")
_OTHERS = ("unscored", "unprotected", "flagged")


def _count(group: Group, name: str) -> int:
    return group.aside.get(name, 0) if name in ASIDE else int(getattr(group, name))


def notes(summary: Summary) -> list[str]:
    """What is to be known of the tables, a sentence each; the methods come after it."""
    found = []
    groups = summary.groups
    if any(group.aside for group in groups):
        found.append("Jobs that failed, were cut off, never ran or have not come to their end are in no mean; "
                     "infrastructure (provider, sandbox, harness) says nothing of a trainer.")  # fmt: skip
    if summary.unprotected and any(group.marked for group in groups):
        found.append("unprotected: a candidate could have written its own score.")
    elif any(group.unprotected for group in groups):
        number_ = sum(group.unprotected for group in groups)
        found.append(f"{number_} unprotected jobs are in no mean, as a candidate could have written its own score; "
                     "--unprotected lets them count.")  # fmt: skip
    if any(group.flagged for group in groups):
        flagged = sum(group.flagged for group in groups)
        found.append(f"!: {flagged} jobs that count are flagged: look at them before you quote a score; {PAGE}.")
    if sentence := hardware_sentence(group.keys.get("hardware", "") for group in groups):
        found.append(sentence)
    if any(group.tasks_without for group in groups):
        found.append("tasks: those that are averaged, of all; scores of the others are not normalised, and raw scores "
                     "of different tasks have no mean. Put task into --by to see them.")  # fmt: skip
    if any(e.equal for group in groups for e in (group.score, group.test, group.normalised)):
        found.append("=: all values are the same, so that the interval says nothing of how others might vary.")
    return found


def methods(summary: Summary) -> list[str]:
    """How the numbers were made, one line each, with citations."""
    level = f"{100 * summary.level:g} %"
    if summary.averaged:
        unit = "the mean over tasks of each task's mean over seeds, with Student's t interval over the tasks"
        source = "clustered by task: Miller 2024, arXiv:2411.00640, section 2.2"
        mean = f"validation, held-out, improvement: of normalised scores, {unit} ({level}; {source})"
        mean += "; where n says seeds there is one task"
        gain = "improvement: of the normalised score, from the initial to the best state"
    else:
        mean = f"validation: the mean over the seeds of a task, in its own units, with Student's t interval ({level})"
        gain = (
            "improvement: of the validation score, from the initial to the best state; better when larger, whatever is"
            " better"
        )
    return [
        f"{mean}.",
        "held-out: of the state that validation data chose, on data that training never saw.",
        "IQM: interquartile mean (Agarwal et al. 2021, arXiv:2108.13264); its interval, in CSV and JSON, is a "
        f"percentile bootstrap with expanded percentiles (Hesterberg 2015, arXiv:1411.5279), {RESAMPLES} resamples; "
        "below four values it is the mean.",
        f"{gain}; per usd: improvement for each US dollar.",
        "new, duplicate, unusable: what the model's proposals were, summed over jobs: a state that was evaluated, one "
        "that was known or unchanged, an answer that held none.",
        f"covers: below ten values, the share of simulated intervals that held the truth, over six distributions "
        f"({DOCS}); {HELD_OUT_COVERS}: the same of the held-out intervals, where these are of other sizes.",
    ]


def _size(found: Estimate) -> str:
    return f"{found.n} {found.unit if found.n != 1 else found.unit[:-1]}" if found.n else "0"


def _tasks(group: Group) -> str:
    return f"{group.tasks - group.tasks_without} of {group.tasks}" if group.tasks_without else str(group.tasks)


def _among(found: Estimate, n: int) -> str:
    """The mean, and how many values it is of where these are not all `n`."""
    return number(found.mean) + (f" ({found.n} of {n})" if 0 < found.n < n else "")


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


# ------------------------------------------------------------------------------------------------------ for programs


def records(summary: Summary) -> list[dict[str, Any]]:
    """The groups for JSON: raw numbers, None where there is none, and all that a group's jobs share."""
    return [_record(group) for group in summary.groups]


def _record(group: Group) -> dict[str, Any]:
    plain = {f.name: getattr(group, f.name) for f in fields(group) if f.name not in ("constants", *_ESTIMATES)}
    told = {name: _told(getattr(group, name)) for name in _ESTIMATES}
    return {"keys": dict(group.keys), "shared": dict(group.constants)} | plain | told


def _told(found: Estimate) -> dict[str, Any]:
    return asdict(found) | {"coverage": found.coverage, "iqm_coverage": found.iqm_coverage}


def csv_text(summary: Summary) -> str:
    """One line per group. Columns are the same whatever was grouped by; a name that a group's jobs do not share is
    empty."""
    parts = ("n", "mean", "se", "low", "high", "coverage_low", "coverage_high", "iqm", "iqm_low", "iqm_high")
    header = ["run_id", *LABELS.values(), "integrity", "direction", "improvement_of", "level", "unit", "tasks",
              "tasks_without_normalised", *(f"{name}_{part}" for name in _ESTIMATES for part in parts), *_NUMBERS,
              *ASIDE, "failures", "infrastructure_failures"]  # fmt: skip
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for group in summary.groups:
        of_tasks = summary.averaged and group.normalised.unit == "tasks"
        line = [group.constants["run"] or summary.run_id, *(group.constants[name] for name in LABELS.values()),
                "unprotected" if group.marked else "protected", group.direction,
                "normalised" if summary.averaged else "score", summary.level, "tasks" if of_tasks else "seeds",
                group.tasks, group.tasks_without]  # fmt: skip
        for name in _ESTIMATES:
            line += _numbers(getattr(group, name))
        line += [getattr(group, name) for name in _NUMBERS]
        line += [group.aside.get(name, 0) for name in ASIDE]
        writer.writerow([csv_cell(value) for value in (*line, _kinds(group.failures), _kinds(group.infrastructure))])
    return text.getvalue()


def _numbers(found: Estimate) -> list[Any]:
    ends = [(None, None) if pair is None else pair for pair in (found.interval, found.coverage, found.iqm_interval)]
    return [found.n, found.mean, found.se, *ends[0], *ends[1], found.iqm, *ends[2]]


def _kinds(kinds: Mapping[str, int]) -> str:
    return " ".join(f"{kind}={count}" for kind, count in kinds.items())
