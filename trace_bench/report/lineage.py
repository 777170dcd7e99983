"""Where the candidates of a search come from: a tree by first parents, and what each changed in its parent.

The history is what a sandbox wrote. It may name parents that do not exist, in a circle, a thousand of them, or with
lines of a megabyte; all of that is bounded here, and what is left out is counted.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from trace_bench.artifacts.contract import Value
from trace_bench.artifacts.jsonio import JsonError, dumps
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import read_journal
from trace_bench.artifacts.yamlio import read_state
from trace_bench.errors import HarnessError
from trace_bench.report.content import Report

MOST_JOBS = 60
MOST_CANDIDATES = 120
"""Of one job."""
MOST_LINES = 400
"""Of one diff, and of each text that is compared twice as many."""
LONGEST_LINE = 400
MOST_BYTES = 4 << 20
"""Of all diffs together."""
FEEDBACK = 400


@dataclass(frozen=True)
class Candidate:
    """One candidate of a search.

    Attributes:
        score: of all examples of the selection split where it was judged on them (`comparable`), else of its last line;
            natural units, as training saw it.
        x, y: its place in the tree: the step it was made in, and a place of its own above or below.
        parent: an index into the same list, or None.
        others: further parents, by name.
        diffs: by parameter, lines of a unified diff; empty where nothing changed.
    """

    name: str
    step: int
    score: float
    comparable: bool
    accepted: bool | None
    reason: str
    feedback: str
    x: float
    y: float
    parent: int | None
    parent_name: str
    others: tuple[str, ...]
    diffs: Mapping[str, tuple[str, ...]]
    cut: bool


@dataclass(frozen=True)
class JobLineage:
    """The candidates of one job, in the order of its history; `left_out` more are not here. `change` is what the best
    state changed in the initial one, by parameter."""

    source: int
    job_id: str
    task: str
    configuration: str
    seed: int
    start: float | None
    score: float
    candidates: tuple[Candidate, ...]
    best: int
    left_out: int
    change: Mapping[str, tuple[str, ...]]

    @property
    def key(self) -> str:
        return f"{self.source}-{self.job_id}"


def lineages(report: Report) -> tuple[list[JobLineage], list[str]]:
    """Of the best job of each configuration on each task, as far as there is room; and sentences about what there was
    none for.

    Configurations without a search (one candidate) have none.
    """
    jobs = report.counted
    lengths = report.steps.groupby(["source", "job_id"]).size()
    signed = (jobs["sign"] * jobs["score_best"]).rename("signed")
    order = pd.concat([jobs, signed], axis=1).sort_values(["signed", "job_id"], ascending=[False, True])
    best = order.drop_duplicates(["task", "configuration"])
    place = {name: n for n, name in enumerate((*report.tasks, *report.configurations))}
    chosen = sorted(
        (row for row in best.itertuples() if lengths.get((row.source, row.job_id), 0) > 1),
        key=lambda row: (place[row.task], place[row.configuration]),
    )
    found: list[JobLineage] = []
    said: list[str] = []
    room = MOST_BYTES
    for row in chosen[:MOST_JOBS]:
        layout = report.sources[row.source].layout
        candidates, left_out, spent = _candidates(layout, row.job_id, row.sign, room)
        room -= spent
        if candidates:
            start = None if pd.isna(row.score_initial) else row.score_initial
            who = (row.source, row.job_id, row.task, row.configuration, row.seed, start, row.score_best)
            change, spent = _change(layout, row.job_id, room)
            room -= spent
            found.append(JobLineage(*who, candidates, _best(candidates, row.sign), left_out, change))
    if len(jobs) > len(found):
        said.append(
            f"Shown is the best job of each configuration on each task: {len(found)} of {len(jobs)} jobs with a score."
        )
    if len(chosen) > MOST_JOBS:
        said.append(f"{len(chosen) - MOST_JOBS} more were left out, for the page shows {MOST_JOBS} at most.")
    if room <= 0:
        said.append(f"Diffs beyond {MOST_BYTES >> 20} MiB in all were left out.")
    return found, said


def _change(layout: RunLayout, job_id: str, room: int) -> tuple[Mapping[str, tuple[str, ...]], int]:
    """What the saved best state changed in the initial one, and its bytes; nothing where a state cannot be read."""
    files = layout.job(job_id)
    try:
        before, after = read_state(files.initial_state), read_state(files.best_state)
    except (OSError, ValueError):
        return {}, 0
    diffs, _ = _diffs(before, after) if room > 0 else ({}, True)
    return diffs, sum(len(text) for texts in diffs.values() for text in texts)


def _best(candidates: Sequence[Candidate], sign: float) -> int:
    """The first of those with the best score, if any was judged on all examples."""
    return max(range(len(candidates)), key=lambda i: (candidates[i].comparable, sign * candidates[i].score, -i))


# ------------------------------------------------------------------------------------------------------ one job


@dataclass
class _Line:
    """A candidate as the lines of the history have it."""

    name: str
    step: int
    parents: tuple[str, ...]
    parameters: Mapping[str, Value]
    score: float
    comparable: bool
    accepted: bool | None
    reason: str
    feedback: str


def _candidates(layout: RunLayout, job_id: str, sign: float, room: int) -> tuple[tuple[Candidate, ...], int, int]:
    """Candidates, how many more there are, and the bytes of their diffs."""
    try:
        lines = read_journal(layout.job(job_id).state_history).lines
    except (HarnessError, OSError):
        return (), 0, 0
    known: dict[str, _Line] = {}
    for value in lines:
        _take(known, value)
    kept = _kept(known, sign)
    index = {name: number for number, name in enumerate(kept)}
    parents = [_parent(known[name], name, index) for name in kept]
    ys = _places(parents)
    found, spent = [], 0
    for number, name in enumerate(kept):
        line, parent = known[name], parents[number]
        origin = known[kept[parent]].parameters if parent is not None else None
        diffs, cut = _diffs(origin, line.parameters) if room - spent > 0 else ({}, True)
        spent += sum(len(text) for texts in diffs.values() for text in texts)
        found.append(
            Candidate(
                name=name,
                step=line.step,
                score=line.score,
                comparable=line.comparable,
                accepted=line.accepted,
                reason=line.reason,
                feedback=line.feedback[: FEEDBACK + 1],
                x=float(line.step),
                y=ys[number],
                parent=parent,
                parent_name=kept[parent] if parent is not None else "",
                others=line.parents[1:9],
                diffs=diffs,
                cut=cut,
            )
        )
    return tuple(found), len(known) - len(kept), spent


def _take(known: dict[str, _Line], line: Mapping[str, object]) -> None:
    """A line of the history; one that is not what it should be is no candidate. A candidate may have several lines: its
    newest counts, but none before one over all examples."""
    name, score, parameters = line.get("candidate"), line.get("score"), line.get("parameters")
    if not isinstance(name, str) or not isinstance(score, int | float) or not isinstance(parameters, dict):
        return
    comparable = line.get("comparable") is True
    parents, extra, step, accepted = (line.get(key) for key in ("parents", "extra", "step", "accepted"))
    before = known.get(name)
    if before is not None:
        if comparable >= before.comparable:
            before.score, before.comparable = float(score), comparable
        before.accepted = accepted if isinstance(accepted, bool) else before.accepted
        return
    feedback = extra.get("feedback") if isinstance(extra, dict) else None
    known[name] = _Line(
        name=name,
        step=step if isinstance(step, int) else 0,
        parents=tuple(str(parent) for parent in parents) if isinstance(parents, list) else (),
        parameters=parameters,
        score=float(score),
        comparable=comparable,
        accepted=accepted if isinstance(accepted, bool) else None,
        reason=str(line.get("reason") or ""),
        feedback=feedback if isinstance(feedback, str) else "",
    )


def _kept(known: Mapping[str, _Line], sign: float) -> list[str]:
    """Names in the order of the history: all, or the best one with its ancestors and then the first ones."""
    if len(known) <= MOST_CANDIDATES:
        return list(known)
    name: str | None = max(known, key=lambda n: (known[n].comparable, sign * known[n].score))
    keep: dict[str, None] = {}
    while name is not None and name not in keep and len(keep) < MOST_CANDIDATES:
        keep[name] = None
        parents = known[name].parents
        name = parents[0] if parents and parents[0] in known else None
    for other in known:
        if len(keep) >= MOST_CANDIDATES:
            break
        keep[other] = None
    return [name for name in known if name in keep]


def _parent(line: _Line, name: str, index: Mapping[str, int]) -> int | None:
    """A parent that came before it, so that there are no circles."""
    parent = index.get(line.parents[0]) if line.parents else None
    return parent if parent is not None and parent < index[name] else None


def _places(parents: Sequence[int | None]) -> list[float]:
    """A place for each node so that leaves stand apart and parents amid their children."""
    children: list[list[int]] = [[] for _ in parents]
    roots: list[int] = []
    for number, parent in enumerate(parents):
        (roots if parent is None else children[parent]).append(number)
    order, stack = [], list(reversed(roots))
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(children[node]))
    places = [0.0] * len(parents)
    leaf = 0
    for node in order:
        if not children[node]:
            places[node] = float(leaf)
            leaf += 1
    for node in reversed(order):
        if children[node]:
            places[node] = (places[children[node][0]] + places[children[node][-1]]) / 2
    return places


# -------------------------------------------------------------------------------------------------------- diffs


def _diffs(before: Mapping[str, Value] | None, after: Mapping[str, Value]) -> tuple[dict[str, tuple[str, ...]], bool]:
    """By parameter; and whether anything was cut. Of a start, which has no parent, the whole text."""
    found: dict[str, tuple[str, ...]] = {}
    cut = False
    for name in list(after)[:50]:
        old, new = (before or {}).get(name), after[name]
        if before is not None and old == new and type(old) is type(new):
            continue
        lines, shortened = _diff(old, new)
        cut |= shortened
        found[name] = lines
    return found, cut or len(after) > 50


def _diff(old: Value | None, new: Value) -> tuple[tuple[str, ...], bool]:
    if not isinstance(new, str) or (old is not None and not isinstance(old, str)):
        return tuple(f"{sign}{_value(value)}" for sign, value in (("-", old), ("+", new)) if value is not None), False
    before, cut_before = _lines(old or "")
    after, cut_after = _lines(new)
    if old is None:
        lines = [f"+{line}" for line in after]
    else:
        lines = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]  # without the names of files
    return tuple(lines[:MOST_LINES]), cut_before or cut_after or len(lines) > MOST_LINES


def _lines(text: str) -> tuple[list[str], bool]:
    """Lines in which nothing hides, and whether any was cut."""
    every = text[: 2 * MOST_LINES * LONGEST_LINE].split("\n")
    lines = [line[:LONGEST_LINE] for line in every[: 2 * MOST_LINES]]
    whole = len(every) <= 2 * MOST_LINES and all(len(line) <= LONGEST_LINE for line in every)
    return lines, not whole or len(text) > 2 * MOST_LINES * LONGEST_LINE


def _value(value: Value) -> str:
    try:
        return dumps(value)[:LONGEST_LINE]
    except (JsonError, ValueError):
        return str(value)[:LONGEST_LINE]
