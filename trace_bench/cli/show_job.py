"""``show RUN JOB``: everything about one job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.analysis.proposals import proposals_of, proposals_text
from trace_bench.artifacts.contract import ModelRef, Value
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import finite_number, json_objects
from trace_bench.artifacts.layout import RESULT, JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, Scores, StateScores, WorkerResult
from trace_bench.artifacts.records import IntegrityReport, JobMeta, ManifestEntry, Results
from trace_bench.artifacts.yamlio import read_state
from trace_bench.cli.lookup import jobs_named
from trace_bench.cli.show_integrity import Pairs, print_evidence, print_integrity
from trace_bench.cli.show_run import job_json, moment, scores
from trace_bench.config.objectives import SCORE
from trace_bench.display.console import emit, emit_block, emit_json, emit_pairs, emit_table
from trace_bench.display.table import Table, dollars, number
from trace_bench.errors import Boundary, HarnessError
from trace_bench.records.answers import answers_of, answers_text
from trace_bench.records.changes import change
from trace_bench.records.integrity import flags_of, is_withheld
from trace_bench.records.job_states import JobLine, RunProgress, job_line
from trace_bench.records.reading import read_meta, read_optional, read_row

STEPS = 5
"""Last lines of the history that are printed without ``--all``, beside the best one."""
CHANGED = 200
"""Lines of a change that are printed without ``--all``."""

REMEDIES: Mapping[Boundary, str] = {
    Boundary.CONFIG: "correct the config, and start another run",
    Boundary.TASK: "the task's own code or data failed: correct the task, and run the job again",
    Boundary.TRAINER: "the trainer failed: correct it or its parameters, and run the job again",
    Boundary.CANDIDATE: "a proposal of the search failed: this is a result, and a retry does not change it",
    Boundary.PROVIDER: "the model's provider failed, not the trainer: continue the run to try again",
    Boundary.SANDBOX: "the sandbox failed, not the trainer: continue the run to try again",
    Boundary.HARNESS: "Trace-Bench failed, not the trainer: continue the run to try again",
}
"""Remedy of a failure by its boundary."""


@dataclass(frozen=True)
class History:
    """The evaluated steps of a job's newest attempt: the `lines` to print, and the number of all."""

    lines: Sequence[Mapping[str, Any]] = ()
    total: int = 0

    @property
    def title(self) -> str:
        """``history``, and the part of it that is printed."""
        if len(self.lines) == self.total:
            return "history"
        best = "the best and " if len(self.lines) > STEPS else ""
        return f"history, {best}last {STEPS} of {self.total}; --all shows all"


@dataclass(frozen=True)
class _Job:
    """The files of a job, as far as they exist."""

    run: RunLayout
    files: JobLayout
    line: JobLine
    row: Results | None
    meta: JobMeta | None
    result: WorkerResult | None
    history: History
    initial: Mapping[str, Value] | None
    best: Mapping[str, Value] | None

    @property
    def failure(self) -> Failure | None:
        return (self.meta.failure if self.meta else None) or (self.result.failure if self.result else None)

    @property
    def withheld(self) -> bool:
        """True if the scores that the sandbox wrote do not count."""
        return is_withheld(self.failure, self.meta.integrity_report if self.meta else IntegrityReport())

    @property
    def scores(self) -> Scores | None:
        """Official scores; None where they are withheld."""
        return self.result.scores if self.result is not None and not self.withheld else None


def show_job(run: RunLayout, name: str, *, every: bool, as_json: bool) -> None:
    """Print the job of `run` whose id, or the beginning of it, is `name`.

    Raises:
        ConfigError: there is no such job. HarnessError: a file of it is damaged.
    """
    (entry,) = jobs_named(run, [name])
    job = _read(run, entry, every=every)
    if as_json:
        emit_json(_as_json(job))
        return
    emit_pairs(_identity(entry, job.meta))
    emit()
    emit_pairs(_outcome(job))
    shrink = {"is": 16, "wanted": 8, "failure": 16, "candidate": 8}
    for title, header, rows in (
        ("scores", ("state", "train", "validation", "held-out"), _scores(job)),
        ("metrics", ("state", "metric", "train", "validation", "held-out"), _metrics(job)),
        ("attempts", ("attempt", "started", "ended", "status", "failure"), _attempts(job.meta)),
        ("controls not in force", ("control", "wanted", "is"), _controls(job.meta)),
        (job.history.title, ("step", "candidate", "split", "score", "best", "s", "evaluations"), _history(job.history)),
    ):
        if rows:
            emit_block(f"\n{title}")
            emit_table(Table.of(header, rows, shrink=shrink, drop=("evaluations", "s")))
    if job.meta is not None:
        print_evidence(job.meta)
        print_integrity(job.meta, every=every)
    _print_change(job, every=every)
    files = _files(job)
    if files:
        emit_block("\nfiles")
    for path in files:
        emit(f"  {path}")


# ------------------------------------------------------------------------------------------------------- reading


def _read(run: RunLayout, entry: ManifestEntry, *, every: bool) -> _Job:
    files = run.job(entry.job_id)
    row = read_row(files.results) if files.results.is_file() else None
    line = job_line(run, entry, row, RunProgress.of(run), running=has_controller(run))
    return _Job(
        run=run,
        files=files,
        line=line,
        row=line.row,
        meta=read_meta(files),
        result=_result(files),
        history=read_history(files.state_history, every=every),
        initial=_state(files.initial_state),
        best=_state(files.best_state),
    )


def _result(job: JobLayout) -> WorkerResult | None:
    """The result of the newest attempt that has one."""
    folders = job.attempts.iterdir() if job.attempts.is_dir() else ()
    for attempt in sorted((int(path.name) for path in folders if path.name.isdigit()), reverse=True):
        path = job.attempt_out(attempt) / RESULT
        if path.is_file():
            return read_optional(WorkerResult, path)
    return None


def read_history(path: Path, *, every: bool) -> History:
    """The last `STEPS` lines of ``state_history.jsonl`` and the best one; all of them for `every`."""
    if not path.is_file():
        return History()
    lines: list[Mapping[str, Any]] = list(json_objects(path.read_bytes().splitlines()))
    best = _best_line(lines)
    last = lines if every else lines[-STEPS:]
    if best is not None and not any(line is best for line in last):
        last = [best, *last]
    return History(last, len(lines))


def _best_line(lines: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first line with the best score of the last line; None if that line has none."""
    best = finite_number(lines[-1].get("best_score")) if lines else None
    if best is None:
        return None
    with_best = [line for line in lines if line.get("best_score") == best]
    return next((line for line in with_best if line.get("score") == best), with_best[0])


def _state(path: Path) -> Mapping[str, Value] | None:
    if not path.is_file():
        return None
    try:
        return read_state(path)
    except ValueError as error:
        raise HarnessError(f"{error}; run the job again") from None


# ------------------------------------------------------------------------------------------------------ printing


def _identity(entry: ManifestEntry, meta: JobMeta | None) -> list[tuple[str, str]]:
    model = meta.model if meta else None
    return [
        ("job", entry.job_id),
        ("task", entry.task_id),
        ("eval_kwargs", _json(entry.eval_kwargs)),
        ("trainer", f"{entry.trainer_id}, variant {entry.variant}"),
        ("parameters", _json(entry.resolved_trainer_kwargs)),
        ("optimizer", f"{entry.resolved_optimizer} {_json(entry.resolved_optimizer_kwargs)}".rstrip()),
        ("seed", str(entry.seed)),
        ("model", _model_name(model) if model else entry.model),
        ("sampling", _json(model.sampling) if model else ""),
        ("fingerprint", entry.fingerprint),
        ("image", f"{meta.image.ref}  ({meta.image.key})" if meta and meta.image else ""),
        ("backend", f"{meta.backend}, {meta.integrity}" if meta else entry.integrity),
    ]


def _model_name(model: ModelRef) -> str:
    """The model's id, with provider and model if they differ from it."""
    parts = [part for part in dict.fromkeys((model.provider, model.model)) if part != model.id]
    return f"{model.id} ({': '.join(parts)})" if parts else model.id


def _outcome(job: _Job) -> Pairs:
    row, meta, state = job.row, job.meta, job.line.state
    failure = job.failure if state in ("failed", "interrupted") else None
    why = job.line.note if state != "failed" else ""
    pairs: list[tuple[str, str | Sequence[str]]] = [("status", f"{state}, {why}" if why else state)]
    if row is not None:
        pairs += _measured(job, row)
        if state == "ok":
            pairs.append(("feedback", row.feedback))
    if failure is not None:
        pairs += [
            ("failure", f"{failure.boundary}: {failure.kind}"),
            ("message", failure.message),
            ("remedy", "" if failure.kind == "interrupted" else REMEDIES[failure.boundary]),
        ]
    return [*pairs, ("warnings", meta.warnings if meta else ())]


def _measured(job: _Job, row: Results) -> Pairs:
    """The scores and the usage of a job."""
    evaluations = f"{row.evaluations} in training, {row.score_evaluations} in scoring"
    evaluations += f", {row.evaluations_saved} saved" if row.evaluations_saved else ""
    tokens = f"{row.total_tokens} ({row.prompt_tokens} in, {row.completion_tokens} out)"
    tokens += f", {row.cached_tokens} in the provider's cache" if row.cached_tokens else ""
    tokens += f", {row.reasoning_tokens} reasoning" if row.reasoning_tokens else ""
    return [
        ("stop reason", row.stop_reason or ""),
        ("objective", _objective(job.meta) if job.meta is not None else ""),
        ("validation", "" if job.withheld else scores(row, row.score_direction)),
        ("hypervolume", "" if row.objective == "scalar" or row.hypervolume is None else number(row.hypervolume)),
        ("withheld", "the scores, which do not count: see the failure" if job.withheld else ""),
        ("flags", " ".join(flags_of(row))),
        ("held-out", "" if row.score_test is None else number(row.score_test)),
        ("time", "" if row.time_seconds is None else f"{row.time_seconds:.1f} s"),
        ("evaluations", evaluations if row.score_evaluations else str(row.evaluations)),
        ("proposals", (proposals_text(proposals_of(job.files)), answers_text(answers_of(row, job.files)))),
        ("tokens", tokens),
        ("calls", f"{row.llm_calls}{_tries(row)}"),
        ("cost", f"{dollars(row.cost_usd)} USD"),
        ("hardware", job.result.hardware.name if job.result is not None else ""),
        ("inert", "no call gave the stub model a variable that it can change" if row.stub_inert else ""),
    ]


def _objective(meta: JobMeta) -> str:
    """The objective of a job, where it is not the task's own score."""
    objective = meta.objective
    if objective.mode == "scalar":
        return "" if objective.score_key == SCORE else f"the metric {objective.score_key} alone"
    weights = ", ".join(f"{name} {weight:g}" for name, weight in objective.weights.items())
    if objective.mode == "weighted":
        return f"weighted sum: {weights}"
    fronts = ", ".join(objective.pareto_metrics)
    return f"pareto over {fronts}; tie-break {objective.tie_break}; score by weights {weights}"


def _tries(row: Results) -> str:
    parts = [f"{row.llm_tries} tries"] if row.llm_tries != row.llm_calls and row.llm_tries else []
    parts += [f"{row.llm_reused} more answered by the job's cassette"] if row.llm_reused else []
    parts += [f"{row.llm_cached} of them by the response cache"] if row.llm_cached else []
    return f" ({', '.join(parts)})" if parts else ""


def _scores(job: _Job) -> list[tuple[str, ...]]:
    """Official scores by state and split."""
    return [
        (name, number(state.train), number(state.validate_), number(state.test)) for name, state in _states(job.scores)
    ]


def _metrics(job: _Job) -> list[tuple[str, ...]]:
    """Official means of each metric by state and split, of a task that declares any."""
    if job.meta is None or not job.meta.objective.metrics:
        return []
    objective = job.meta.objective
    directions = {SCORE: objective.score_direction, **{key: each.direction for key, each in objective.metrics.items()}}
    return [
        (kind, f"{name} {'↑' if direction == 'maximize' else '↓'}", *(
            number(state.metrics.get(split, {}).get(name)) for split in ("train", "validate", "test")
        ))
        for kind, state in _states(job.scores)
        for name, direction in directions.items()
    ]  # fmt: skip


def _states(scores: Scores | None) -> list[tuple[str, StateScores]]:
    """The states that have scores, by name."""
    states = {"initial": scores.initial, "best": scores.best, "final": scores.final} if scores else {}
    return [(name, state) for name, state in states.items() if state is not None]


def _attempts(meta: JobMeta | None) -> list[tuple[str, ...]]:
    return [
        (
            str(attempt.number),
            moment(attempt.started_at),
            moment(attempt.ended_at) if attempt.ended_at else "-",
            attempt.status,
            f"{attempt.failure.boundary}: {attempt.failure.kind}" if attempt.failure else "-",
        )
        for attempt in (meta.attempts if meta else ())
    ]


def _controls(meta: JobMeta | None) -> list[tuple[str, ...]]:
    controls = meta.controls if meta else ()
    return [(control.name, control.wanted, control.detail) for control in controls if not control.in_force]


def _history(history: History) -> list[tuple[str, ...]]:
    names = ("step", "candidate", "split", "score", "best_score", "seconds", "evaluations")
    values = ([line.get(name) for name in names] for line in history.lines)
    return [
        tuple(number(each) if each is None or isinstance(each, float) else str(each) for each in line)
        for line in values
    ]


def _print_change(job: _Job, *, every: bool) -> None:
    if job.initial is None or job.best is None:
        return
    changed = change(job.initial, job.best)
    emit_block("\nchange from the initial to the best state" if changed else "\nthe best state is the initial one")
    for name, lines in changed.items():
        emit(f"  {name}")
        for line in lines if every else lines[:CHANGED]:
            emit(f"    {line}".rstrip())
        if not every and len(lines) > CHANGED:
            emit(f"    … {len(lines) - CHANGED} more lines; --all shows them")


def _files(job: _Job) -> list[str]:
    files = job.files
    known = (
        files.meta, files.results, files.stdout, files.events, files.cassette, files.state_history, files.pareto,
        files.initial_state, files.best_state, files.final_state, files.extra, files.tb, files.attempts,
    )  # fmt: skip
    return [str(path) for path in known if path.exists()]


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) if value else ""


def _as_json(job: _Job) -> dict[str, Any]:
    failure = job.failure
    changed = change(job.initial, job.best) if job.initial is not None and job.best is not None else None
    return {
        **job_json(job.line),
        "entry": job.line.entry.model_dump(mode="json"),
        "job_meta": job.meta.model_dump(mode="json") if job.meta else None,
        "failure": {**failure.model_dump(mode="json"), "remedy": REMEDIES[failure.boundary]} if failure else None,
        "scores": job.scores.model_dump(mode="json") if job.scores else None,
        "history": list(job.history.lines),
        "history_lines": job.history.total,
        "change": changed,
        "files": _files(job),
    }
