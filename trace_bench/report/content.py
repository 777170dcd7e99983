"""What a report is of: runs as their files have them, and their jobs in one frame, by task and configuration.

A *configuration* is a trainer with parameters, optimizer, guide and model; of several runs, also the run.
Which jobs count is as in the leaderboard: ok, with a score, and unprotected ones only where there are no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pandas as pd
from pydantic import BaseModel

from trace_bench.analysis.bounds import normalised_range, objectives_of, recorded, score_range
from trace_bench.analysis.frames import jobs_frame, steps_frame
from trace_bench.analysis.proposals import KINDS, proposals_of
from trace_bench.analysis.spending import Spending, no_room_sentence, spread_sentence
from trace_bench.analysis.statistics import Interval
from trace_bench.artifacts.audits import AuditReport, Claim
from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, canonical, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, GitInfo, Lock, Manifest, Results
from trace_bench.display.names import parameters_of, shared_parameters, shortened, without
from trace_bench.display.text import clean_line
from trace_bench.errors import HarnessError
from trace_bench.records.answers import answers_of, answers_sentences, summed
from trace_bench.records.gaps import gap_sentences
from trace_bench.records.job_states import RunProgress
from trace_bench.records.leaderboard import LeaderboardRow, displayed_leaderboard, hardware_sentence
from trace_bench.records.reading import read_manifest, read_rows
from trace_bench.records.rows import named_task, with_known_hardware
from trace_bench.records.runs import RunLine, describe

LABEL = 70
"""Longest name of a task or a configuration, in characters."""
CONFIG = 60_000
"""Longest part of a config that is shown, in characters."""

M = TypeVar("M", bound=BaseModel)
Row = Results


@dataclass(frozen=True)
class Source:
    """One run.

    Attributes:
        rows: in the order of the plan, of the jobs that have ended.
        manifest, lock, env, git: None where there is none.
        config: the snapshot's text, cut; empty where there is none.
        audit: its verdict; None where none was made.
        notes: what could not be read, a sentence each.
    """

    layout: RunLayout
    line: RunLine
    rows: tuple[Row, ...]
    started_at: str | None = None
    ended_at: str | None = None
    manifest: Manifest | None = None
    lock: Lock | None = None
    env: EnvInfo | None = None
    git: GitInfo | None = None
    config: str = ""
    audit: AuditReport | None = None
    notes: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the audit looked at; nothing without one."""
        return self.audit.claims if self.audit is not None else ()

    @property
    def name(self) -> str:
        return self.layout.run_id[:LABEL]


def read_source(layout: RunLayout, audit: AuditReport | None = None) -> Source:
    """The run in a folder: finished, going on, killed, or with nothing in it yet.

    A small file that is damaged becomes a note.

    Raises:
        HarnessError: the manifest or a job's row is damaged, so that there is no table of it.
    """
    notes: list[str] = []

    def add_note(text: str) -> None:
        notes.append(text.replace(str(layout.root), layout.run_id))

    line = describe(layout, running=has_controller(layout))
    if line.damage:
        add_note(line.damage)
    rows = tuple(with_known_hardware(read_rows(layout)))
    progress = RunProgress()
    try:
        progress = RunProgress.of(layout)
    except HarnessError as error:
        add_note(str(error))
    return Source(
        layout=layout,
        line=line,
        rows=rows,
        started_at=progress.first_started_at,
        ended_at=progress.ended_at,
        manifest=read_manifest(layout),
        lock=_model(Lock, layout.lock, add_note),
        env=_model(EnvInfo, layout.env, add_note),
        git=_model(GitInfo, layout.git, add_note),
        config=_text(layout.config_snapshot),
        audit=audit,
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True)
class Report:
    """Several runs side by side.

    Attributes:
        jobs: `trace_bench.analysis.frames.jobs_frame` of all of them, and ``source`` (number of the run), ``task`` and
            ``configuration`` (labels), ``counts`` (whether its score is one of the configuration's), and the counts of
            `trace_bench.analysis.proposals`.
        tasks, configurations: labels in the order of the plans.
        bounds: lowest and highest normalised score of the tasks that declare them, and `score_bounds` of their score.
        steps: `trace_bench.analysis.frames.steps_frame` of the jobs that count, with ``source``, ``task`` and
            ``configuration``.
        notes: what could not be read, and why.
        remarks: sentences that belong to the scores: the hardware, and what gaps are measured by.
        answers: sentences about the models' unusable answers, by configuration.
        spending: sentences about what configurations spent (`trace_bench.analysis.spending`).
    """

    sources: tuple[Source, ...]
    jobs: pd.DataFrame
    tasks: tuple[str, ...]
    configurations: tuple[str, ...]
    steps: pd.DataFrame
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    signs: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, Interval | None] = field(default_factory=dict)
    score_bounds: Mapping[str, Interval | None] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    spending: tuple[str, ...] = ()

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Report:
        """Make the content from `sources`, one or more, each another run."""
        named = [(number, row) for number, source in enumerate(sources) for row in source.rows]
        rows = [row for _, row in named]
        jobs = jobs_frame(rows)
        jobs["source"] = pd.Series([number for number, _ in named], dtype="int64")
        jobs["task"] = pd.Series(_task_labels(rows), dtype="object")
        jobs["configuration"] = pd.Series(_configuration_labels(named, sources), dtype="object")
        protected = ((jobs["integrity"] == "protected") & (jobs["status"] != "skipped")).any()
        jobs["counts"] = (
            (jobs["outcome"] == "ok")
            & jobs["score_best"].notna()
            & ((jobs["integrity"] == "protected") | (not protected))
        )
        yields = [proposals_of(sources[number].layout.job(row.job_id)) for number, row in named]
        for kind in KINDS:
            jobs[kind] = pd.Series([counts[kind] for counts in yields], dtype="int64")
        answers = (answers_of(row, sources[number].layout.job(row.job_id)) for number, row in named)
        objectives: dict[str, ObjectiveSpec] = {}
        for number, source in enumerate(sources):
            ours = jobs[jobs["source"] == number]
            objectives |= objectives_of(zip(ours["task"], ours["job_id"], strict=True), recorded(source.layout))
        notes = [note for source in sources for note in source.notes]
        remarks = [sentence for source in sources for sentence in gap_sentences(source.layout)]
        remarks += filter(None, [hardware_sentence(row.hardware for row in rows)])
        layouts = [sources[number].layout for number, _ in named]
        labels = zip(jobs["configuration"], jobs["task"], rows, jobs["counts"], strict=True)
        spread = spread_sentence(Spending(name, task, row) for name, task, row, counts in labels if counts)
        no_room = no_room_sentence((row, run.job(row.job_id)) for run, row in zip(layouts, rows, strict=True))
        return cls(
            sources=tuple(sources),
            jobs=jobs,
            tasks=tuple(dict.fromkeys(jobs["task"])),
            configurations=tuple(dict.fromkeys(jobs["configuration"])),
            steps=_steps(sources, jobs, notes),
            notes=tuple(dict.fromkeys(notes)),
            remarks=tuple(dict.fromkeys(remarks)),
            signs=dict(zip(jobs["task"], jobs["sign"], strict=True)),
            bounds={task: normalised_range(objective) for task, objective in objectives.items()},
            score_bounds={task: score_range(objective) for task, objective in objectives.items()},
            answers=tuple(answers_sentences(summed(zip(jobs["configuration"], answers, strict=True)))),
            spending=tuple(filter(None, (spread, no_room))),
        )

    @property
    def counted(self) -> pd.DataFrame:
        return self.jobs[self.jobs["counts"]]

    @property
    def several(self) -> bool:
        return len(self.sources) > 1

    def better(self, task: str) -> str:
        """Which way the scores of a task are better, in words."""
        return "higher is better" if self.signs.get(task, 1.0) > 0 else "lower is better"

    def leaderboards(self) -> list[tuple[Source, list[LeaderboardRow]]]:
        return [(source, displayed_leaderboard(source.rows)) for source in self.sources]


# ---------------------------------------------------------------------------------------------------------- labels


def _task_labels(rows: Sequence[Row]) -> list[str]:
    """The id; with its arguments, or its hardware, where one id has several."""
    keys = [(row.task_id, canonical(row.eval_kwargs).decode(), row.hardware) for row in rows]
    arguments = Counter(task_id for task_id, _ in {key[:2] for key in keys})
    machines = Counter(task_id for task_id, _ in {(key[0], key[2]) for key in keys})
    texts = [
        named_task(task_id, row.eval_kwargs.get("fixture") is True)
        + (f" {text}" if arguments[task_id] > 1 else "")
        + (f" on {hardware or 'unknown hardware'}" if machines[task_id] > 1 else "")
        for row, (task_id, text, hardware) in zip(rows, keys, strict=True)
    ]
    return _unique(keys, texts)


def _configuration_labels(named: Sequence[tuple[int, Row]], sources: Sequence[Source]) -> list[str]:
    """The trainer, with those properties that distinguish configurations."""
    rows = [row for _, row in named]
    variants: dict[str, set[str]] = {}
    for row in rows:
        variants.setdefault(row.trainer_id, set()).add(row.variant)
    optimizers: dict[str, set[str]] = {}
    for row in rows:
        optimizers.setdefault(row.trainer_id, set()).add(row.resolved_optimizer)
    guides: dict[str, set[str]] = {}
    for row in rows:
        guides.setdefault(row.trainer_id, set()).add(row.resolved_guide or "default")
    models = {row.model for row in rows}
    shared = {trainer: shared_parameters(sorted(texts)) for trainer, texts in variants.items()}
    keys: list[Hashable] = []
    texts = []
    for number, row in named:
        several = len(variants[row.trainer_id]) > 1
        parts = [
            row.trainer_id,
            ", ".join(parameters_of(without(row.variant, shared[row.trainer_id]))) if several else "",
            row.resolved_optimizer if len(optimizers[row.trainer_id]) > 1 else "",
            f"guide {row.resolved_guide or 'default'}" if len(guides[row.trainer_id]) > 1 else "",
            row.model if len(models) > 1 else "",
            f"in {sources[number].layout.run_id}" if len(sources) > 1 else "",
        ]
        texts.append(" · ".join(part for part in parts if part))
        parameters = canonical([row.resolved_trainer_kwargs, row.resolved_optimizer_kwargs, row.resolved_guide_kwargs])
        guide = row.resolved_guide or "default"
        keys.append((number, row.trainer_id, row.variant, row.resolved_optimizer, guide, row.model, parameters))
    return _unique(keys, texts)


def _unique(keys: Sequence[Hashable], texts: Sequence[str]) -> list[str]:
    """A label for each key, on one line and cut. Equal labels of different keys are numbered."""
    found: dict[Hashable, str] = {}
    taken: Counter[str] = Counter()
    for key, text in zip(keys, texts, strict=True):
        if key not in found:
            label = shortened([clean_line(text, 400)], LABEL)[0]
            taken[label] += 1
            found[key] = label if taken[label] == 1 else f"{label} ({taken[label]})"
    return [found[key] for key in keys]


# --------------------------------------------------------------------------------------------------------- reading


def _steps(sources: Sequence[Source], jobs: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Of the jobs that count. A history that is damaged is left out, with a note."""
    frames = []
    for number, source in enumerate(sources):
        ours = jobs[(jobs["source"] == number) & jobs["counts"]]
        wanted = set(ours["job_id"])
        rows = [row for row in source.rows if row.job_id in wanted]
        frame = _steps_of(source.layout, rows, notes)
        frame["source"] = number
        label = ours.set_index("job_id")
        frame["task"] = frame["job_id"].map(label["task"])
        frame["configuration"] = frame["job_id"].map(label["configuration"])
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _steps_of(layout: RunLayout, rows: Sequence[Row], notes: list[str]) -> pd.DataFrame:
    try:
        return steps_frame(layout, rows)
    except HarnessError:
        whole = []
        for row in rows:
            try:
                whole.append(steps_frame(layout, [row]))
            except HarnessError as error:
                notes.append(str(error).replace(str(layout.root), layout.run_id))
        return pd.concat(whole, ignore_index=True) if whole else steps_frame(layout, [])


def _model(model: type[M], path: Path, add_note: Callable[[str], None]) -> M | None:
    try:
        return read_model(model, path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, JsonError) as error:
        add_note(f"{path}: {error}")
        return None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG + 1)
    except OSError:
        return ""
    text = data.decode("utf-8", "replace")
    return text if len(data) <= CONFIG else text[:CONFIG] + "\n… (cut here)"
