"""``show RUN``: a run with its jobs and its leaderboard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from trace_bench.analysis.proposals import proposals_text, yields_of
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.derived import Summary
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, Manifest, Results
from trace_bench.cli.lookup import manifest_of
from trace_bench.cli.outcome import print_leaderboard
from trace_bench.display.console import emit, emit_block, emit_json, emit_pairs, emit_run_table, note
from trace_bench.display.table import UNPROTECTED, Column, Table, dollars, number
from trace_bench.display.text import quoted
from trace_bench.errors import Boundary, ConfigError
from trace_bench.records.answers import answers_of, searches_sentences, summed
from trace_bench.records.integrity import MARK, flags_of, flags_sentence
from trace_bench.records.job_states import JOB_STATES, JobLine, RunProgress, job_lines
from trace_bench.records.leaderboard import displayed_leaderboard
from trace_bench.records.runs import RunLine, describe
from trace_bench.records.tables import summarise

SHOWN = 50
"""Jobs in the table without ``--all``."""


@dataclass(frozen=True)
class _Run:
    """The files of a run, as far as they exist. `lines` are its jobs, `ended` the rows of those that have one."""

    about: RunLine
    manifest: Manifest
    progress: RunProgress
    lines: Sequence[JobLine]
    ended: Sequence[Results]
    summary: Summary


def show_run(layout: RunLayout, *, every: bool, status: str | None, as_json: bool) -> None:
    """Print the run at `layout`.

    Args:
        every: show all jobs, however many.
        status: show only jobs in these states, with commas between them.

    Raises:
        ConfigError: there is no such state. HarnessError: a file of the run is damaged.
    """
    states = _states(status)
    run = _read(layout)
    chosen = [line for line in run.lines if not states or line.state in states]
    if as_json:
        emit_json(_as_json(run, chosen))
        return
    emit_pairs(_head(run))
    emit()
    lines = chosen if every else chosen[:SHOWN]
    if lines:
        table = _jobs_table(lines)
        if all(line.entry.model == "stub" for line in lines):
            table = table.without("model")
        emit_run_table(table, [line.entry.score_direction for line in lines], ("trainer", "variant", "model"))
        if flagged := flags_sentence(line.row for line in lines if line.row is not None):
            emit(flagged)
    else:
        emit("no job is " + " or ".join(states) if states else "no jobs")
    if len(lines) < len(chosen):
        note(f"and {len(chosen) - len(lines)} more jobs; --all shows them")
    if not states and any(row.status != "skipped" for row in run.ended):
        emit_block("\nleaderboard")
        print_leaderboard(run.about.layout, run.ended)
    if run.about.damage:
        note(f"damaged: {run.about.damage}")


def _states(status: str | None) -> list[str]:
    if status is None:
        return []
    wanted = [word for word in re.split(r"[,+\s]+", status) if word]
    unknown = [word for word in wanted or [status] if word not in JOB_STATES]
    if unknown:
        raise ConfigError(f"--status: there is no status {unknown[0]!r}; use one of {', '.join(JOB_STATES)}")
    return wanted


def _read(layout: RunLayout) -> _Run:
    running = has_controller(layout)
    manifest = manifest_of(layout)
    progress = RunProgress.of(layout)
    lines = job_lines(layout, manifest, progress, running=running)
    ended = [line.row for line in lines if line.row is not None]
    summary = summarise(manifest.run_id, ended, len(manifest.jobs), manifest.tags)
    return _Run(describe(layout, running=running), manifest, progress, lines, ended, summary)


def _head(run: _Run) -> list[tuple[str, str | Sequence[str]]]:
    about, manifest, summary = run.about, run.manifest, run.summary
    counts = Counter(line.state for line in run.lines)
    states = ", ".join(f"{counts[state]} {state}" for state in JOB_STATES if counts[state])
    ended = [line for line in run.lines if line.row is not None]
    yields = yields_of(about.layout, (line.entry.job_id for line in ended))
    searches = [(line.entry.trainer_id, line.entry.model) for line in ended]
    answers = [answers_of(line.row, about.layout.job(line.entry.job_id)) for line in ended]
    spent = summary.token_totals
    so_far = ", of jobs that have ended" if about.state == "running" else ""
    flags = ", ".join(f"{count} {flag}" for flag, count in summary.flags.items())
    return [
        ("run", manifest.run_id + (f"  ({about.name})" if about.name else "")),
        ("state", about.state),
        ("replay of", about.replay_of),
        ("folder", str(about.layout.root)),
        ("config", manifest.config_hash),
        ("tags", ", ".join(map(quoted, manifest.tags))),
        ("times", _times(manifest, run.progress)),
        ("backend", _backend(about.layout)),
        ("jobs", f"{len(run.lines)}: {states}" if run.lines else "0"),
        ("failures", _failures(summary, infrastructure=False)),
        ("infrastructure", _failures(summary, infrastructure=True)),
        ("unprotected", f"{summary.unprotected_jobs} of {summary.total_jobs} jobs" if summary.unprotected_jobs else ""),
        ("flagged", f"{summary.flagged_jobs} of {summary.total_jobs} jobs: {flags}" if flags else ""),
        (
            "proposals",
            (
                proposals_text({kind: sum(each) for kind, each in yields.items()}),
                *searches_sentences(summed(zip(searches, answers, strict=True))),
            ),
        ),
        ("tokens", f"{spent.total} ({spent.prompt} in, {spent.completion} out) in {summary.llm_calls} calls{so_far}"),
        ("cost", f"{dollars(summary.cost_usd)} USD{so_far}"),
        ("warnings", manifest.warnings),
    ]


def _times(manifest: Manifest, progress: RunProgress) -> str:
    started, planned = moment(progress.first_started_at or ""), moment(manifest.generated_at)
    times = [("started", started)]
    if not started or planned < started:  # a continued run is planned again
        times.insert(0, ("planned", planned))
    if progress.started_at != progress.first_started_at:
        times.append(("continued", moment(progress.started_at or "")))
    times.append(("ended", moment(progress.ended_at or "")))
    return ", ".join(f"{what} {when}" for what, when in times if when)


def _failures(summary: Summary, *, infrastructure: bool) -> str:
    """Failed jobs by kind: failures of a trainer's job, or of the infrastructure."""
    infra = tuple(f"{boundary}:" for boundary in Boundary if boundary.is_infrastructure)
    kinds = {kind: count for kind, count in summary.failures.items() if kind.startswith(infra) == infrastructure}
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{counts}; not results of a trainer, and not in a mean" if counts and infrastructure else counts


def _backend(layout: RunLayout) -> str:
    """Name and version of the backend as ``env.json`` has it; empty where that cannot be read."""
    try:
        backend = read_model(EnvInfo, layout.env.read_bytes()).backend
    except (OSError, JsonError):
        return ""
    return " ".join(str(backend[key]) for key in ("backend", "engine") if backend.get(key))


def moment(text: str) -> str:
    """A time of a run's files in UTC, as ``2026-01-02T03:04:05Z``; a text that is not a time, unchanged."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (time.astimezone(UTC) if time.tzinfo else time).strftime("%Y-%m-%dT%H:%M:%SZ")


def scores(row: Results | None, direction: Direction) -> str:
    """Initial and best score, the direction, and the mark of a flagged job."""
    mark = MARK if row is not None and row.integrity_flags else ""
    if row is None or (row.score_initial is None and row.score_best is None):
        return f"-{mark}"
    better = {"maximize": "↑", "minimize": "↓"}[direction]
    return f"{number(row.score_initial)} → {number(row.score_best)} {better}{mark}"


# ----------------------------------------------------------------------------------------------------------- jobs


def _jobs_table(lines: Sequence[JobLine]) -> Table:
    columns = (
        Column("job", limit=12),
        Column("task", limit=80),
        Column("trainer", limit=60 + len(UNPROTECTED)),
        Column("variant"),
        Column("model", limit=60),
        Column("seed", right=True),
        Column("status"),
        Column("validation"),
        Column("held-out", right=True),
        Column("s", right=True),
        Column("tokens", right=True),
        Column("usd", right=True),
        Column("note", limit=300),
    )
    rows = []
    for line in lines:
        entry, row = line.entry, line.row
        rows.append(
            (
                entry.job_id,
                entry.task_id,
                entry.trainer_id + (UNPROTECTED if entry.integrity == "unprotected" else ""),
                entry.variant,
                entry.model,
                entry.seed,
                line.state,
                scores(row, entry.score_direction),
                number(row.score_test) if row else None,
                number(row.time_seconds, 1) if row else None,
                row.total_tokens if row else None,
                dollars(row.cost_usd) if row and row.cost_usd else None,
                "; ".join(filter(None, (" ".join(flags_of(row)) if row is not None else "", line.note))),
            )
        )
    shrink = {"note": 14, "variant": 16, "task": 8, "trainer": 8, "model": 8}
    return Table.of(columns, rows, shrink=shrink, drop=("tokens", "s", "held-out", "usd"))


# ----------------------------------------------------------------------------------------------------------- JSON


def _as_json(run: _Run, chosen: Sequence[JobLine]) -> dict[str, Any]:
    about, manifest, progress, summary = run.about, run.manifest, run.progress, run.summary
    return {
        "run_id": manifest.run_id,
        "name": about.name or None,
        "state": about.state,
        "folder": str(about.layout.root),
        "config_hash": manifest.config_hash,
        "tags": list(manifest.tags),
        "generated_at": manifest.generated_at,
        **{name: getattr(progress, name) for name in ("first_started_at", "started_at", "ended_at")},
        "backend": _backend(about.layout) or None,
        "counts": dict(Counter(line.state for line in run.lines)),
        "failures": summary.failures,
        "boundaries": {str(boundary): count for boundary, count in summary.boundaries.items()},
        "infrastructure_failures": summary.infrastructure_failures,
        "unprotected_jobs": summary.unprotected_jobs,
        "flagged_jobs": summary.flagged_jobs,
        "flags": summary.flags,
        "llm_calls": summary.llm_calls,
        "token_totals": summary.token_totals.model_dump(),
        "cost_usd": summary.cost_usd,
        "warnings": list(manifest.warnings),
        "damage": about.damage,
        "jobs": [job_json(line) for line in chosen],
        "leaderboard": [asdict(row) for row in displayed_leaderboard(run.ended)],
    }


def job_json(line: JobLine) -> dict[str, Any]:
    """A job as ``show --json`` has it."""
    entry = line.entry
    return {
        **{name: getattr(entry, name) for name in ("job_id", "task_id", "trainer_id", "variant", "model", "seed")},
        "status": line.state,
        "decision": entry.decision,
        "note": line.note or None,
        "flags": flags_of(line.row) if line.row is not None else [],
        "step": line.step,
        "row": line.row.model_dump(mode="json") if line.row else None,
    }
