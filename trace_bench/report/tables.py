"""The tables of a report, the same for the page and for Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from trace_bench.analysis.bounds import within
from trace_bench.analysis.proposals import KINDS
from trace_bench.analysis.statistics import LEVEL, Estimate, coverage_text, means
from trace_bench.analysis.suite_tables import as_table, suite_tables
from trace_bench.artifacts.audits import AuditReport, Claim
from trace_bench.display.table import UNPROTECTED, Column, Table, dollars
from trace_bench.display.text import clean_line
from trace_bench.records.integrity import FLAGS, flag_counts
from trace_bench.records.leaderboard import LeaderboardRow, task_names
from trace_bench.records.rows import normalised_score
from trace_bench.report.content import Report, Source
from trace_bench.report.matrix import Matrix
from trace_bench.report.outcome import Overall

MOST_ROWS = 2000
"""Rows of a table."""
MESSAGES = 5
"""Different messages shown of one kind of failure."""
MESSAGE = 500
LIMIT = 4000
"""Characters of a cell."""
_WHOLE, _TENTHS = "{:.0f}".format, "{:.1f}".format
VERDICTS = ("contradicted", "unverifiable", "verified")
_UNKNOWN = "–"
_INTERVAL = f"{100 * LEVEL:g} % CI"


def overview(report: Report) -> Table:
    """Each run in a line."""
    header = ("run", "name", "state", "jobs", "ok", "failed", "infrastructure", "interrupted", "skipped", "not yet",
              "unprotected", "flagged")  # fmt: skip
    rows = []
    for number_, source in enumerate(report.sources):
        jobs = report.jobs[report.jobs["source"] == number_]
        outcomes = jobs["outcome"].value_counts()
        planned = len(source.manifest.jobs) if source.manifest else len(jobs)
        counts = [int(outcomes.get(name, 0)) for name in ("ok", "failed", "infrastructure", "interrupted", "skipped")]
        ran = jobs[jobs["status"] != "skipped"]
        unprotected = int((ran["integrity"] == "unprotected").sum())
        flagged = int((jobs["integrity_flags"] != "").sum())
        name = source.line.name or _UNKNOWN
        rows.append((source.name, name, source.line.state, planned, *counts, planned - len(jobs), unprotected, flagged))
    return Table.of(header, rows, header[3:])


def what_ran(report: Report) -> Table:
    """What determines each run, a column a run."""
    return _side_by_side(report, [dict(_what(source)) for source in report.sources])


def _side_by_side(report: Report, facts: Sequence[Mapping[str, str]]) -> Table:
    """Names and values, a column a run; empty values are left out."""
    names = dict.fromkeys(name for pairs in facts for name, text in pairs.items() if text)
    rows = [(name, *(pairs.get(name) or _UNKNOWN for pairs in facts)) for name in names]
    return Table.of(("", *(source.name for source in report.sources)), rows, limit=600)


def _what(source: Source) -> list[tuple[str, str]]:
    rows, lock, git = source.rows, source.lock, source.git
    entries = source.manifest.jobs if source.manifest else ()
    pairs = [
        ("name", source.line.name),
        ("started", source.started_at or ""),
        ("ended", source.ended_at or ""),
        ("tasks", _some({entry.task_id for entry in entries} or {row.task_id for row in rows})),
        ("trainers", _some({entry.trainer_id for entry in entries} or {row.trainer_id for row in rows})),
        ("optimizers", _some({row.resolved_optimizer for row in rows})),
        ("seeds", _some({str(entry.seed) for entry in entries}, key=int)),
        ("models", _models(source)),
        ("backend", _some({row.backend for row in rows if row.backend})),
        ("objective", _some({row.objective for row in rows})),
        ("config hash", lock.config_hash if lock else ""),
        ("code", _code(source)),
        ("commit", git.commit or "" if git else ""),
        ("branch", git.branch or "" if git else ""),
        ("tags", _some(source.manifest.tags) if source.manifest else ""),
    ]
    if lock:
        pairs += [(f"image {name}", f"{image.ref}, key {image.key}") for name, image in sorted(lock.images.items())]
        pairs += [(f"task {name}", f"sha256 {digest}") for name, digest in sorted(lock.tasks.items())[:200]]
        pairs += [("salt", lock.salt or "not published: the run has not ended")]
    return pairs


def _code(source: Source) -> str:
    if source.lock is None:
        return ""
    dirty = source.git.dirty if source.git else None
    state = {True: ", with uncommitted changes", False: "", None: ""}[dirty]
    return f"{source.lock.code_version}, sources {source.lock.sources_hash}{state}"


def _models(source: Source) -> str:
    if source.lock is None:
        return _some({row.model for row in source.rows})
    texts = []
    for model in source.lock.models:
        price = source.lock.prices.get(model.id)
        sampling = f" {json.dumps(model.sampling, ensure_ascii=False, sort_keys=True)}" if model.sampling else ""
        cost = f", {price.prompt:g} and {price.completion:g} USD for a million tokens in and out" if price else ""
        texts.append(f"{model.id} ({model.provider}: {model.model}{cost}){sampling}")
    return "; ".join(texts)


def _some(names: Iterable[str], key: Any = None, most: int = 40) -> str:
    every = sorted(names, key=key)
    more = f" … {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


# ------------------------------------------------------------------------------------------------------ results


def matrix_table(matrix: Matrix) -> Table:
    """What the matrix shows, in numbers."""
    header = ("task", *matrix.configurations)
    rows = [
        (task, *(text or _UNKNOWN for text in texts)) for task, texts in zip(matrix.tasks, matrix.texts, strict=True)
    ]
    return Table.of(header, rows, matrix.configurations)


def overall(report: Report, over: Sequence[Overall]) -> Table | None:
    """Configurations over the tasks whose held-out scores are normalised; None where there is none."""
    if not over:
        return None
    tasks = max(len(one.of_task) for one in over)
    rows = []
    for one in over:
        jobs = report.jobs[report.jobs["configuration"] == one.configuration]
        counted = jobs[jobs["counts"]]
        proposals = "/".join(str(int(jobs[kind].sum())) for kind in KINDS)
        rows.append(
            (
                _UNKNOWN if one.rank is None else str(one.rank),
                one.configuration + _unprotected(counted),
                _fixed(one.held_out.mean),
                _interval(one.held_out, _fixed),
                _fixed(one.validation.mean),
                f"{len(one.of_task)} of {tasks}",
                f"{len(counted)} of {len(jobs)}",
                _UNKNOWN if proposals == "0/0/0" else proposals,
                dollars(float(counted["cost_usd"].mean())),
            )
        )
    header = ("rank", "configuration", "held-out", _INTERVAL, "validation", "tasks", "jobs", "proposals", "USD a job")
    believed = coverage_text(over[0].held_out.coverage)
    notes = (
        "Means over tasks of each task's mean over seeds of the normalised score: the gap, from the template (0) to "
        "the reference (1), where a task has one; else from a failure (0) to the bound or target (1). The "
        "interval is Student's t over the tasks (arXiv:2411.00640, section 2.2), over the seeds of a single task, cut "
        "at the score's declared bounds"
        + (f"; of so few values it holds the true mean in {believed} of simulations. " if believed != "-" else ". ")
        + "Validation scores chose the best states, which flatters them. Proposals: new/duplicate/unusable. A "
        "configuration that lacks a task is not ranked.",
    )
    return Table.of(header, rows, (header[0], *header[2:]), notes=notes)


def leaderboards(report: Report) -> list[Table]:
    """One a run and task, in the task's units."""
    found = []
    intervals = _intervals(report)
    labels = {(row.source, row.job_id): row.configuration for row in report.counted.itertuples()}
    for number, (source, board) in enumerate(report.leaderboards()):
        tasks = task_names(board)
        for task in dict.fromkeys(tasks):
            ranked = [row for row, name in zip(board, tasks, strict=True) if name == task]
            where = f" in {source.name}" if report.several else ""
            better = "higher" if ranked[0].score_direction == "maximize" else "lower"
            names = [str(labels.get((number, row.best_job_id), row.trainer_id)) for row in ranked]
            ends = [intervals.get((source.layout.run_id, row.best_job_id), _UNKNOWN) for row in ranked]
            found.append(_leaderboard(f"{task}{where} ({better} is better)", ranked, names, ends))
    return found


def suite_sections(report: Report) -> dict[str, list[Table]]:
    """The tables that suites have of their jobs, one a run, by the heading of a section."""
    sections: dict[str, list[Table]] = {}
    for number, source in enumerate(report.sources):
        jobs = report.jobs[report.jobs["source"] == number]
        for table in suite_tables(jobs, jobs["counts"]):
            notes, title = (table.explanation, *table.remarks), source.name if report.several else ""
            sections.setdefault(table.heading, []).append(replace(as_table(table), notes=notes, title=title))
    return sections


def _intervals(report: Report) -> dict[tuple[str, str], str]:
    """By run and any of the jobs that count: the interval of the configuration's held-out mean on the task."""
    jobs = report.counted[report.counted["score_test"].notna()]
    groups = [group for _, group in jobs.groupby(["source", "task", "configuration"], sort=False)]
    found = [
        within(one, [report.score_bounds.get(str(group["task"].iloc[0]))])
        for group, one in zip(groups, means([group["score_test"].tolist() for group in groups], LEVEL), strict=True)
    ]
    return {
        (report.sources[row.source].layout.run_id, row.job_id): _interval(one, _number)
        for group, one in zip(groups, found, strict=True)
        for row in group.itertuples()
    }


def _leaderboard(title: str, ranked: Sequence[LeaderboardRow], names: list[str], intervals: list[str]) -> Table:
    columns = (
        Column("rank", right=True), Column("configuration", limit=LIMIT), Column("seeds", right=True),
        Column("start", True, _number), Column("validation", True, _number), Column("held-out", True, _number),
        Column(_INTERVAL, right=True), Column("normalised", True, _fixed), Column("evaluations", right=True),
        Column("tokens", True, _WHOLE), Column("USD", True, dollars), Column("flags"),
    )  # fmt: skip
    rows = [
        (
            row.rank,
            name + (UNPROTECTED if row.integrity == "unprotected" else ""),
            f"{row.jobs}/{row.seeds}" if row.jobs != row.seeds else row.jobs,
            *(_UNKNOWN if score is None else score for score in (row.score_initial, row.score_mean, row.score_test)),
            ends,
            _fixed(normalised_score(row.metrics)),
            _number(row.evaluations, 4),
            row.total_tokens,
            row.cost_usd,
            row.integrity_flags,
        )
        for row, name, ends in zip(ranked, names, intervals, strict=True)
    ]
    return Table.of(columns, rows, title=title).without_empty()


def _unprotected(jobs: pd.DataFrame) -> str:
    return UNPROTECTED if (jobs["integrity"] == "unprotected").any() else ""


def failures(report: Report) -> tuple[Table, Table | None]:
    """Jobs without a result by boundary and kind, and what the flags of flagged jobs mean."""
    header = ("boundary: kind", "jobs", "tasks", "configurations", "messages")
    jobs = report.jobs[report.jobs["outcome"].isin(["failed", "infrastructure", "interrupted", "skipped"])]
    keys = jobs["failure_boundary"].fillna("").astype(str) + ": " + jobs["failure_kind"].fillna("").astype(str)
    keys = keys.where(jobs["failure_kind"].notna(), "interrupted: " + jobs["stop_reason"].fillna("").astype(str))
    keys = keys.where(jobs["outcome"] != "skipped", "skipped")
    rows = []
    for key, group in jobs.groupby(keys, sort=False):
        messages = list(dict.fromkeys(clean_line(text, MESSAGE) for text in group["feedback"] if text))
        more = f" … {len(messages) - MESSAGES} other messages" if len(messages) > MESSAGES else ""
        rows.append(
            (
                str(key),
                len(group),
                _some(set(group["task"]), most=8),
                _some(set(group["configuration"]), most=8),
                " | ".join(messages[:MESSAGES]) + more,
            )
        )
    rows.sort(key=lambda row: (-row[1], row[0]))
    counts = flag_counts(row for source in report.sources for row in source.rows)
    flags = [(flag, count, FLAGS.get(flag, "")) for flag, count in counts.items()]
    texts = Table.of(("flag", "jobs", "what it says"), flags, ("jobs",), title="Flagged jobs") if flags else None
    return Table.of(header, rows, ("jobs",), limit=LIMIT), texts


def costs(report: Report) -> Table:
    """What was spent, by task and configuration: sums over all jobs that ran."""
    sums: dict[str, tuple[str, Callable[[Any], str]]] = {
        "jobs": ("job_id", str), "evaluations": ("evaluations", _WHOLE), "calls": ("llm_calls", _WHOLE),
        "tokens in": ("prompt_tokens", _WHOLE), "tokens out": ("completion_tokens", _WHOLE),
        "USD": ("cost_usd", dollars), "training s": ("train_seconds", _TENTHS), "total s": ("time_seconds", _TENTHS),
    }  # fmt: skip
    jobs = report.jobs[report.jobs["status"] != "skipped"]

    def spent(group: pd.DataFrame) -> list[Any]:
        return [len(group), *(float(group[column].sum()) for column, _ in list(sums.values())[1:])]

    groups = jobs.groupby(["task", "configuration"], sort=False)
    rows = [(task, name, *spent(group)) for (task, name), group in groups]
    place = {name: n for n, name in enumerate((*report.tasks, *report.configurations))}
    rows.sort(key=lambda row: (place[row[0]], place[row[1]]))
    if len(rows) > 1:
        rows.append(("all", "", *spent(jobs)))
    return Table.of(("task", "configuration", *(Column(name, True, form) for name, (_, form) in sums.items())), rows)


# -------------------------------------------------------------------------------------------------- environment


def environment(report: Report) -> Table:
    """Host, versions and variables, a column a run."""
    facts: list[dict[str, str]] = []
    for source in report.sources:
        facts.append({})
        if (env := source.env) is not None:
            facts[-1] |= {"captured": env.captured_at, "python": env.python_version, "platform": env.platform}
            facts[-1] |= {"CPU": env.cpu_model}
            facts[-1] |= {f"backend: {name}": _plain(value) for name, value in env.backend.items()}
            facts[-1] |= {f"package {name}": version for name, version in env.packages.items()}
            facts[-1] |= {f"${name}": value for name, value in env.env.items()}
    return _side_by_side(report, facts)


def verdict(claims: Sequence[Claim]) -> Table:
    """What was contradicted first."""
    ranked = sorted(claims, key=lambda claim: VERDICTS.index(claim.verdict))
    rows = [(c.verdict, c.claim, c.says, _evidence(c)) for c in ranked]
    return Table.of(("verdict", "claim", "the audit says", "evidence"), rows, limit=LIMIT)


def verdict_sentence(audit: AuditReport | None) -> str:
    """The verdict in one line."""
    if audit is None:
        return "not audited"
    claims = audit.claims
    counts = {name: sum(claim.verdict == name for claim in claims) for name in VERDICTS}
    texts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{len(claims)} claims: {texts}" if claims else "the audit made no claims"


def _evidence(claim: Claim) -> str:
    """Where it is, what is there, and what should be; the first of them."""
    texts = []
    for one in claim.evidence:
        expected = "" if one.due is None else f", should be {_plain(one.due)}"
        texts.append(f"{' '.join(part for part in (one.file, one.key) if part)} is {_plain(one.was)}{expected}")
    more = claim.found - len(claim.evidence)
    return clean_line("; ".join(texts), 1000) + (f" … {more} more" if texts and more > 0 else "")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _number(value: float | None, digits: int = 5) -> str:
    """With so many significant digits; large numbers whole."""
    if value is None:
        return _UNKNOWN
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e12 else f"{value:.{digits}g}"


def _interval(found: Estimate, text_of: Callable[[float], str]) -> str:
    if found.interval is None:
        return _UNKNOWN
    return f"[{text_of(found.interval[0])}, {text_of(found.interval[1])}]" + ("=" if found.equal else "")


def _fixed(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.3f}"
