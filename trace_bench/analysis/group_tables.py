"""Groups of jobs as tables: for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from trace_bench.analysis.groups import ASIDE, LABELS, Group, Summary
from trace_bench.analysis.statistics import RESAMPLES, Estimate, coverage_text, interval_text
from trace_bench.display.table import UNPROTECTED, Table, dollars, number
from trace_bench.records.answers import searches_sentences
from trace_bench.records.integrity import MARK, PAGE
from trace_bench.records.leaderboard import hardware_sentence
from trace_bench.records.rows import named_task

DOCS = "docs/design/statistics.md"
HELD_OUT_COVERS = "held-out covers"
ARROW = {"maximize": "↑", "minimize": "↓"}
_ESTIMATES = ("score", "test", "improvement", "normalised", "normalised_test")
_NUMBERS = ("tokens", "cost_usd", "seconds", "per_dollar", "total_cost_usd", "jobs", "counted", "unprotected",
            "unscored", "flagged")  # fmt: skip
_RIGHT = frozenset({
    "n", "tasks", "validation", "covers", HELD_OUT_COVERS, "IQM", "SE", "held-out", "improvement", "normalised",
    "held-out normalised", "new", "duplicate", "unusable", "tokens", "usd", "s", "per usd", "jobs", "counted",
    "unprotected", "unscored", "flagged", *ASIDE,
})  # fmt: skip
_SHRINK = {
    "variant": 16,
    "parameters": 8,
    "optimizer_kwargs": 8,
    "eval_kwargs": 8,
    "hardware": 12,
    "trainer": 14,
    "kinds": 12,
}
_DROP = ("proposals", "tokens", "s", "per usd", "SE", "usd", "IQM", "held-out normalised", "normalised", "new",
         "duplicate", "unusable", "improvement", "covers", HELD_OUT_COVERS, "tasks", "validation")  # fmt: skip


# -------------------------------------------------------------------------------------------------------- for people


def short_table(summary: Summary) -> Table:
    """The groups with the scores that a reader asks for first. Where there are held-out scores, the interval is theirs.
    The last columns show the proposals of each group (new, duplicates and unusable) and its jobs that are in no
    mean."""
    whole = main_table(summary)
    ci = next(name for name in (f"held-out {_ci(summary)}", f"validation {_ci(summary)}") if name in whole.header)
    tasks = ("tasks",) if any(group.tasks_without for group in summary.groups) else ()
    kept = (*summary.by, *summary.joined, *tasks, "n", "validation", "held-out", ci, "improvement", "usd")
    short = whole.only(kept)
    rows = [(*row, _proposals(group), _left_out(group)) for row, group in zip(short.rows, summary.groups, strict=True)]
    return _laid_out(Table.of((*short.header, "proposals", "left out"), rows, _RIGHT).without_empty(short.header))


def main_table(summary: Summary) -> Table:
    """The groups with all their values. Intervals stand in brackets. Columns without content are left out, and so is
    ``covers`` of the held-out intervals where it equals that of the others."""
    ci = _ci(summary)
    keys = [*summary.by, *summary.joined]
    scores = ("n", "validation", f"validation {ci}", "covers", "IQM", "SE", "held-out", f"held-out {ci}",
              HELD_OUT_COVERS, "improvement", f"improvement {ci}")  # fmt: skip
    header = (*keys, *(["tasks"] if summary.averaged else []), *scores,
              *([] if summary.averaged else ["normalised", "held-out normalised"]),
              "new", "duplicate", "unusable", "tokens", "usd", "s", "per usd")  # fmt: skip
    table = Table.of(header, [_cells(summary, group, keys) for group in summary.groups], _RIGHT)
    held_out, covers, of_held_out = (table.column(name) for name in (f"held-out {ci}", "covers", HELD_OUT_COVERS))
    kept = {*keys, "tasks", "n", "validation", f"validation {ci}"}
    if all(one == other or ends == "-" for one, other, ends in zip(covers, of_held_out, held_out, strict=True)):
        return _laid_out(table.without(HELD_OUT_COVERS).without_empty(kept))
    return _laid_out(table.without_empty(kept | {HELD_OUT_COVERS}))


def aside_table(summary: Summary) -> Table | None:
    """The jobs that are in no mean, by group and outcome; None where all jobs count and none is flagged."""
    keys = [*summary.by, *summary.joined]
    shown = [group for group in summary.groups if group.jobs > group.counted or group.flagged]
    if not shown:
        return None
    rows = [
        (
            *_names(group, keys),
            group.jobs,
            group.counted,
            *(group.aside.get(name) for name in ASIDE),
            *(count or None for count in (group.unscored, group.unprotected, group.flagged)),
            ", ".join(f"{count} {kind}" for kind, count in (*group.failures.items(), *group.infrastructure.items())),
        )
        for group in shown
    ]
    sizes = ("jobs", "counted")
    table = Table.of((*keys, *sizes, *ASIDE, "unscored", "unprotected", "flagged", "kinds"), rows, _RIGHT)
    return _laid_out(table.without_empty((*keys, *sizes, "kinds")))


def caveats(summary: Summary) -> str:
    """The facts that a reader needs before quoting a number, in one line."""
    marked = any(str(cell).endswith("]=") for row in short_table(summary).rows for cell in row)
    found = [line.rstrip(".") for line in notes(summary) if marked or not line.startswith("=")]
    if summary.averaged:
        found.append("scores are normalised: 0 is the template or a failure, 1 the reference or the bound")
    if any(_proposals(group) for group in summary.groups):
        found.append("proposals: new/duplicate/unusable answers of the model")
    sizes = {e.n for group in summary.groups for e in (group.test, group.normalised_test, group.score) if e.coverage}
    if sizes:
        found.append(f"intervals of {min(sizes)} values may be too short")
    return f"Caveats: {'; '.join(found) or 'none'}. --explain says more."


def answers(summary: Summary) -> list[str]:
    """Sentences about the models' unusable answers, by trainer and model where there are several."""
    return searches_sentences(summary.answers)


def _laid_out(table: Table) -> Table:
    """The table with what a narrow terminal may cut and drop."""
    header = table.header
    intervals = [name for name in header if name.startswith(("improvement ", "validation "))]
    drop = [*intervals, *_DROP, *(name for name in header if name.startswith("held-out "))]
    if "held-out" not in header:
        drop = [name for name in drop if not name.startswith("validation")]
    return replace(table, shrink=_SHRINK, drop=tuple(drop))


def _names(group: Group, keys: Sequence[str]) -> list[str]:
    """The cells of `keys`; a task that all jobs ran on a fixture is marked."""
    fixture = bool(group.constants["eval_kwargs"]) and json.loads(group.constants["eval_kwargs"]).get("fixture") is True
    return [named_task(group.keys[key], fixture) if key == "task" else group.keys[key] for key in keys]


def _cells(summary: Summary, group: Group, keys: Sequence[str]) -> tuple[Any, ...]:
    names = _names(group, keys)
    score, test = (group.normalised, group.normalised_test) if summary.averaged else (group.score, group.test)
    if group.marked:
        names[keys.index("trainer") if "trainer" in keys else 0] += UNPROTECTED
    arrow = f" {ARROW[group.direction]}" if group.direction and not summary.averaged and score.n else ""
    return (
        *names,
        *([_tasks(group), _size(score)] if summary.averaged else [score.n]),
        number(score.mean) + arrow + (MARK if group.flagged else ""),
        interval_text(score),
        coverage_text(score.coverage),
        number(score.iqm),
        _short(score.se),
        _among(test, score.n),
        interval_text(test),
        coverage_text(test.coverage),
        number(group.improvement.mean),
        interval_text(group.improvement),
        *([] if summary.averaged else [number(group.normalised.mean), number(group.normalised_test.mean)]),
        *(group.proposals.values() if any(group.proposals.values()) else [None] * 3),
        number(group.tokens, 0),
        dollars(group.cost_usd) if group.cost_usd else None,
        number(group.seconds, 1),
        _short(group.per_dollar),
    )


def _ci(summary: Summary) -> str:
    return f"{100 * summary.level:g} % CI"


def _proposals(group: Group) -> str | None:
    counts = [group.proposals[kind] for kind in ("new", "duplicate", "unusable")]
    return "/".join(map(str, counts)) if any(counts) else None


def _left_out(group: Group) -> str | None:
    """Jobs in no mean, by outcome."""
    counts = {**group.aside, "unprotected": group.unprotected, "unscored": group.unscored}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or None


def notes(summary: Summary) -> list[str]:
    """Facts that a reader needs to read the tables, a sentence each."""
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
    if summary.fixtures:
        found.append(f"fixture: {summary.fixtures} jobs took the few rows that come with the program, so that their "
                     "scores are none of the data set's.")  # fmt: skip
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
    """The methods behind the numbers, one line each, with citations."""
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


def answer_records(summary: Summary) -> list[dict[str, Any]]:
    """The answers of models to searches for JSON, by trainer and model."""
    return [
        {"trainer": trainer, "model": model, "answers": found.total, "unusable": dict(found.unusable)}
        for (trainer, model), found in summary.answers.items()
    ]


def records(summary: Summary) -> list[dict[str, Any]]:
    """The groups for JSON: raw numbers, None where there is none, and all that a group's jobs share."""
    return [_record(group) for group in summary.groups]


def _record(group: Group) -> dict[str, Any]:
    plain = {f.name: getattr(group, f.name) for f in fields(group) if f.name not in ("constants", *_ESTIMATES)}
    record = {"keys": dict(group.keys), "shared": dict(group.constants)} | plain
    for name in _ESTIMATES:
        estimate: Estimate = getattr(group, name)
        coverage = {"coverage": estimate.coverage, "iqm_coverage": estimate.iqm_coverage}
        record[name] = asdict(estimate) | coverage
    return record


def csv_table(summary: Summary) -> Table:
    """One row per group, for CSV. Columns are the same whatever was grouped by; a name that a group's jobs do not share
    is empty."""
    parts = ("n", "mean", "se", "low", "high", "coverage_low", "coverage_high", "iqm", "iqm_low", "iqm_high")
    header = ["run_id", *LABELS.values(), "integrity", "direction", "improvement_of", "level", "unit", "tasks",
              "tasks_without_normalised", *(f"{name}_{part}" for name in _ESTIMATES for part in parts), *_NUMBERS,
              *ASIDE, "failures", "infrastructure_failures"]  # fmt: skip
    rows = []
    for group in summary.groups:
        of_tasks = summary.averaged and group.normalised.unit == "tasks"
        rows.append([
            group.constants["run"] or summary.run_id, *(group.constants[name] for name in LABELS.values()),
            "unprotected" if group.marked else "protected", group.direction,
            "normalised" if summary.averaged else "score", summary.level, "tasks" if of_tasks else "seeds",
            group.tasks, group.tasks_without,
            *(value for name in _ESTIMATES for value in _numbers(getattr(group, name))),
            *(getattr(group, name) for name in _NUMBERS), *(group.aside.get(name, 0) for name in ASIDE),
            _kinds(group.failures), _kinds(group.infrastructure),
        ])  # fmt: skip
    return Table.of(header, rows)


def _numbers(found: Estimate) -> list[Any]:
    ends = [(None, None) if pair is None else pair for pair in (found.interval, found.coverage, found.iqm_interval)]
    return [found.n, found.mean, found.se, *ends[0], *ends[1], found.iqm, *ends[2]]


def _kinds(kinds: Mapping[str, int]) -> str:
    return " ".join(f"{kind}={count}" for kind, count in kinds.items())
