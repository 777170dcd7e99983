"""``show RUN``: a run with its jobs and its leaderboard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from trace_bench.analysis.leaderboard_table import BETTER, leaderboard_lines, left_out_sentence
from trace_bench.analysis.proposals import told, yields_of
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.derived import Summary
from trace_bench.artifacts.jsonio import JsonError, printable, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, Manifest, Results
from trace_bench.cli.lookup import manifest_of
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.tables import emit_pairs
from trace_bench.cli.tally import number as finite
from trace_bench.display import console
from trace_bench.display.table import UNPROTECTED, Column, Table, dollars, number
from trace_bench.display.terminal import state_shared
from trace_bench.errors import Boundary, ConfigError
from trace_bench.planning.ownership import has_controller
from trace_bench.records.integrity import MARK, flags_of, flags_sentence
from trace_bench.records.job_states import JOB_STATES, Course, JobLine, job_lines
from trace_bench.records.leaderboard import hardware_sentence, shown_to_people
from trace_bench.records.runs import RunLine, describe
from trace_bench.records.tables import summarise

SHOWN = 50
"""Jobs in the table unless all are asked for."""
_COLUMNS = (
    Column("job", limit=12),
    Column("task", limit=80),
    Column("trainer", limit=60),
    Column("variant"),
    Column("model", limit=60),
    Column("seed", right=True),
    Column("status"),
    Column("validation"),
    Column("held-out", True, number),
    Column("s", True, "{:.1f}".format),
    Column("tokens", right=True),
    Column("usd", True, dollars),
    Column("note", limit=300),
)
_SHRINK = {"note": 14, "variant": 16, "trainer": 8, "model": 8}
_DROP = ("tokens", "s", "held-out", "usd")


def show_run(layout: RunLayout, *, every: bool, status: str | None, as_json: bool) -> None:
    """Print the run at `layout`.

    Args:
        every: show all jobs, however many.
        status: show only jobs in these states, with commas between them.

    Raises:
        ConfigError: there is no such state. HarnessError: a file of the run is damaged.
    """
    wanted = _states(status)
    running = has_controller(layout)
    manifest = manifest_of(layout)
    course = Course.of(layout)
    lines = job_lines(layout, manifest, course, running=running)
    ended = [line.row for line in lines if line.row is not None]
    whole = summarise(manifest.run_id, ended, len(manifest.jobs), manifest.tags)
    about = describe(layout, lambda _: running)
    chosen = [line for line in lines if not wanted or line.state in wanted]
    if as_json:
        emit_json(_as_json(about, manifest, course, whole, lines, chosen, ended))
        return
    emit_pairs(_head(about, manifest, course, whole, lines))
    emit()
    shown = chosen if every else chosen[:SHOWN]
    if shown:
        _print_jobs(shown)
        if flagged := flags_sentence(line.row for line in shown if line.row is not None):
            emit(printable(flagged, 2000))
    else:
        emit("no job is " + " or ".join(wanted) if wanted else "no jobs")
    if len(shown) < len(chosen):
        note(f"and {len(chosen) - len(shown)} more jobs; --all shows them")
    if not wanted:
        _print_leaderboard(ended)
    if about.damage:
        note(f"damaged: {printable(about.damage, 400)}")


def _states(status: str | None) -> list[str]:
    if status is None:
        return []
    wanted = [word for word in re.split(r"[,+\s]+", status) if word]
    unknown = [word for word in wanted if word not in JOB_STATES]
    if unknown or not wanted:
        name = printable(unknown[0] if unknown else status)
        raise ConfigError(f"--status: no job is ever {name!r}; known are {', '.join(JOB_STATES)}")
    return wanted


def _head(
    about: RunLine, manifest: Manifest, course: Course, whole: Summary, lines: Sequence[JobLine]
) -> list[tuple[str, str]]:
    counts = Counter(line.state for line in lines)
    states = ", ".join(f"{counts[state]} {state}" for state in JOB_STATES if counts[state])
    spent = whole.token_totals
    started = moment(course.first_started_at or "")
    times = [("started", started)]
    if not started or moment(manifest.generated_at) < started:  # a continued run is planned again
        times.insert(0, ("planned", moment(manifest.generated_at)))
    if course.started_at != course.first_started_at:
        times.append(("continued", moment(course.started_at or "")))
    times.append(("ended", moment(course.ended_at or "")))
    yields = yields_of(about.layout, (line.entry.job_id for line in lines if line.row is not None))
    proposals = {kind: sum(counts) for kind, counts in yields.items()}
    so_far = ", of jobs that have ended" if about.state == "running" else ""
    warnings = [printable(text, 2000) for text in manifest.warnings]
    return [
        ("run", printable(manifest.run_id, 128) + (f"  ({printable(about.name, 200)})" if about.name else "")),
        ("state", about.state),
        ("replay of", printable(about.replay_of, 128)),
        ("folder", printable(str(about.layout.root), 4096)),
        ("config", printable(manifest.config_hash)),
        ("tags", ", ".join(printable(tag) for tag in manifest.tags)),
        ("times", ", ".join(f"{what} {when}" for what, when in times if when)),
        ("backend", _backend(about.layout)),
        ("jobs", f"{len(lines)}: {states}" if lines else "0"),
        ("failures", _failures(whole, infrastructure=False)),
        ("infrastructure", _failures(whole, infrastructure=True)),
        ("unprotected", f"{whole.unprotected_jobs} of {whole.total_jobs} jobs" if whole.unprotected_jobs else ""),
        ("flagged", _flagged(whole)),
        ("proposals", told(proposals)),
        ("tokens", f"{spent.total} ({spent.prompt} in, {spent.completion} out) in {whole.llm_calls} calls{so_far}"),
        ("cost", f"{dollars(whole.cost_usd)} USD{so_far}"),
        *(("warnings" if place == 0 else " ", text) for place, text in enumerate(warnings)),
    ]


def _failures(whole: Summary, *, infrastructure: bool) -> str:
    """Failed jobs by kind: those that are results, or those that say nothing of a trainer."""
    infra = tuple(f"{boundary}:" for boundary in Boundary if boundary.is_infrastructure)
    kinds = {kind: count for kind, count in whole.failures.items() if kind.startswith(infra) == infrastructure}
    told = ", ".join(f"{count} {printable(kind)}" for kind, count in kinds.items())
    return f"{told}; no results of a trainer, and in no mean" if told and infrastructure else told


def _flagged(whole: Summary) -> str:
    told = ", ".join(f"{count} {printable(flag, 60)}" for flag, count in whole.flags.items())
    return f"{whole.flagged_jobs} of {whole.total_jobs} jobs: {told}" if told else ""


def _backend(layout: RunLayout) -> str:
    """Name and version of the backend as ``env.json`` has it; empty where that cannot be read."""
    try:
        found = read_model(EnvInfo, layout.env.read_bytes()).backend
    except (OSError, JsonError):
        return ""
    return " ".join(printable(str(found[key]), 60) for key in ("backend", "engine") if found.get(key))


def moment(text: str) -> str:
    """A time of a run's files in UTC, as ``2026-01-02T03:04:05Z``; what is no time, as it is."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return printable(text, 40)
    return (found.astimezone(UTC) if found.tzinfo else found).strftime("%Y-%m-%dT%H:%M:%SZ")


def note_of(line: JobLine) -> str:
    """Why a job is not ok, how far it is, or that its result is an earlier one's. Untrusted text."""
    if line.state == "running" and line.step is not None:
        step, best = finite(line.step.get("step")), finite(line.step.get("best_score"))
        return f"step {'-' if step is None else step}, best so far {number(best)}"
    if line.state == "ok" and line.row is not None and line.row.cut_by_run_budget:
        return "cut off by the run's budget; a larger one continues it"
    if line.state == "ok" and line.row is not None and line.row.stop_reason == "budget":
        return "ended by its budget"
    if line.state == "ok" and line.entry.decision == "reuse":
        return "reused"
    return line.note


def scores(row: Results | None, direction: Direction) -> str:
    """Initial and best score, which way is better, and whether it is flagged."""
    mark = MARK if row is not None and row.integrity_flags else ""
    if row is None or (row.score_initial is None and row.score_best is None):
        return f"-{mark}"
    return f"{number(row.score_initial)} → {number(row.score_best)} {'↑' if direction == 'maximize' else '↓'}{mark}"


def _flags_and_note(line: JobLine) -> str:
    flags = " ".join(flags_of(line.row)) if line.row is not None else ""
    return "; ".join(text for text in (flags, note_of(line)) if text)


def _cells(line: JobLine) -> tuple[Any, ...]:
    entry, row = line.entry, line.row
    return (
        entry.job_id,
        entry.task_id,
        entry.trainer_id + (UNPROTECTED if entry.integrity == "unprotected" else ""),
        entry.variant,
        entry.model,
        entry.seed,
        line.state,
        scores(row, entry.score_direction),
        *((row.score_test, row.time_seconds, row.total_tokens, row.cost_usd or None) if row else [None] * 4),
        _flags_and_note(line),
    )


def _print_jobs(lines: Sequence[JobLine]) -> None:
    """Print one table to a pipe; to a terminal a table by task, below lines that state what all jobs share. The model
    is left out where all jobs use the stub."""
    table = Table.of(_COLUMNS, map(_cells, lines), shrink=_SHRINK, drop=_DROP)
    if all(line.entry.model == "stub" for line in lines):
        table = table.without("model")
    if console.screen() is None:
        console.emit_table(table)
        return
    place = table.header.index("validation")
    rows = ((*row[:place], row[place].replace(" ↑", "").replace(" ↓", ""), *row[place + 1 :]) for row in table.rows)
    table, shared = state_shared(
        replace(table, rows=tuple(rows)).without("task"), ("trainer", "variant", "model") if len(lines) > 1 else ()
    )
    for text in shared:
        emit(text)
    console.emit_table(table, sections=[(line.entry.task_id, BETTER[line.entry.score_direction]) for line in lines])


def _print_leaderboard(rows: Sequence[Results]) -> None:
    ended = [row for row in rows if row.status != "skipped"]
    if not ended:
        return
    ranked = shown_to_people(rows)
    emit("\nleaderboard")
    traded = any(row.objective != "scalar" for row in ended)
    emit("\n".join(leaderboard_lines(ranked, console.screen(), several_objectives=traded)))
    hardware = hardware_sentence(row.hardware for row in ranked)
    for sentence in (left_out_sentence(ranked), hardware, unprotected_sentence(ended)):
        if sentence:
            emit(sentence)


def unprotected_sentence(ended: Sequence[Results]) -> str:
    """What is to be said below a leaderboard of jobs of which a candidate could have written its own score."""
    number = sum(row.integrity == "unprotected" for row in ended)
    if not number:
        return ""
    if number == len(ended):
        return "All jobs of this run are unprotected: a candidate could have written its own score."
    return (
        f"Left out: {number} of {len(ended)} jobs, which are unprotected: a candidate could have written its own score."
    )


def _as_json(
    about: RunLine,
    manifest: Manifest,
    course: Course,
    whole: Summary,
    lines: Sequence[JobLine],
    chosen: Sequence[JobLine],
    ended: Sequence[Results],
) -> dict[str, Any]:
    return {
        "run_id": manifest.run_id,
        "name": about.name or None,
        "state": about.state,
        "folder": str(about.layout.root),
        "config_hash": manifest.config_hash,
        "tags": list(manifest.tags),
        "generated_at": manifest.generated_at,
        "first_started_at": course.first_started_at,
        "started_at": course.started_at,
        "ended_at": course.ended_at,
        "backend": _backend(about.layout) or None,
        "counts": dict(Counter(line.state for line in lines)),
        "failures": whole.failures,
        "boundaries": {str(boundary): count for boundary, count in whole.boundaries.items()},
        "infrastructure_failures": whole.infrastructure_failures,
        "unprotected_jobs": whole.unprotected_jobs,
        "flagged_jobs": whole.flagged_jobs,
        "flags": whole.flags,
        "llm_calls": whole.llm_calls,
        "token_totals": whole.token_totals.model_dump(),
        "cost_usd": whole.cost_usd,
        "warnings": list(manifest.warnings),
        "damage": about.damage,
        "jobs": [job_json(line) for line in chosen],
        "leaderboard": [asdict(row) for row in shown_to_people(ended)],
    }


def job_json(line: JobLine) -> dict[str, Any]:
    """A job as ``show --json`` has it."""
    entry = line.entry
    return {
        "job_id": entry.job_id,
        "task_id": entry.task_id,
        "trainer_id": entry.trainer_id,
        "variant": entry.variant,
        "model": entry.model,
        "seed": entry.seed,
        "status": line.state,
        "decision": entry.decision,
        "note": note_of(line) or None,
        "flags": flags_of(line.row) if line.row is not None else [],
        "step": line.step,
        "row": line.row.model_dump(mode="json") if line.row else None,
    }
