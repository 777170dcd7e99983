"""``--score-only``: the saved states of a run are scored again by a fresh scorer; nothing is trained.

It is the score phase of a job as ever: the held-out seed follows from the published salt, and calls that scoring makes
are answered from the recorded calls of that phase. What a run says its states score is not asked. The states are a
stranger's: they are read with limits, and run where candidates run.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.contract import Split, State
from trace_bench.artifacts.derived import ReplayDifference
from trace_bench.artifacts.jsonio import JsonError, canonical, dumps, printable, read_model
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import StateKind, StateScores, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.reproduction import JobReproduction, ScoreCheck, Verdict
from trace_bench.artifacts.yamlio import load_state
from trace_bench.audit.reproduce import Prepared
from trace_bench.errors import HarnessError, Interrupted
from trace_bench.execution.attempt import AttemptRunner
from trace_bench.execution.validate import workers_for
from trace_bench.gateway.base import Provider
from trace_bench.gateway.replay import ReplayProvider
from trace_bench.gateway.server import Gateway
from trace_bench.identity import run_id
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import JobPlan
from trace_bench.records.replay_check import same
from trace_bench.records.rows import is_final
from trace_bench.sandbox.uids import UidBlocks

STATES: tuple[StateKind, ...] = ("initial", "best", "final")
STATE_BYTES = 8 << 20
"""Largest file of a state that is read."""
RESULT_BYTES = 256 << 20
SCORE = "score"
OWN_SCORE = "own score"
"""What the task's own score is called among metrics, where states are compared by something else."""
TRIES = 2
"""Of a job, where a sandbox fails."""
TEXT = 300


@dataclass(frozen=True)
class Recorded:
    """A number that a file of the run has. `split` is None for the one that states are compared on."""

    state: StateKind
    split: Split | None
    metric: str
    file: str
    value: float | None


def rescore(
    prepared: Prepared,
    *,
    done: Callable[[JobReproduction], None] = lambda _: None,
    stop_wanted: Callable[[], str | None] = lambda: None,
) -> list[JobReproduction]:
    """Score the saved states of the jobs that were asked for, up to ``max_workers`` jobs at a time.

    Args:
        done: called with each job, in the order of the plan.
        stop_wanted: not None ends it; asked often, from many threads.

    Raises:
        Interrupted: it was asked to stop. All sandboxes are gone.
        EnvironmentUnavailable, SandboxError: the machine lacks something that all sandboxes need; likewise.
    """
    plan, chosen = prepared.plan, prepared.chosen
    recording = prepared.recording
    broken = False

    def stop(_: str) -> str | None:
        return stop_wanted() or ("interrupted" if broken else None)

    with tempfile.TemporaryDirectory(prefix="trace-bench-score-") as folder:
        layout = RunLayout(Path(folder) / run_id(datetime.now(UTC), plan.config_hash, "score")).make()
        provider: Provider = ReplayProvider(
            lambda job_id: replace(recording.recorded(job_id), phase="score"), keep=plan.config.max_workers + 1
        )
        runner = AttemptRunner(
            backend=plan.backend,
            gateway=Gateway({str(model.id): provider for model in plan.lock.models}),
            uids=UidBlocks(plan.backend.default_uid_base),
            layout=layout,
            taken=plan.backend.uid_bases_in_use,
            stop_wanted=stop,
            recording=recording,
        )
        found: list[JobReproduction] = []
        with ThreadPoolExecutor(workers_for(plan, chosen), thread_name_prefix="score") as pool:
            try:
                for outcome in [pool.submit(_one, prepared, runner, p, stop) for p in chosen]:
                    job = outcome.result()
                    if stop_wanted() is not None or job is None:
                        raise Interrupted(f"interrupted; {len(found)} of {len(chosen)} jobs had been scored")
                    done(job)
                    found.append(job)
            finally:
                broken = True
        return found


def _one(
    prepared: Prepared, runner: AttemptRunner, planned: PlannedJob, stop: Callable[[str], str | None]
) -> JobReproduction | None:
    """Score the states of one job; None if it was to stop before it had begun."""
    if stop(planned.job_id):
        return None
    job = prepared.recording.layout.job(planned.job_id)
    before = prepared.recording.rows[planned.job_id]
    try:
        states = {kind: state for kind in STATES if (state := _state(job, kind)) is not None}
        wanted = recorded_scores(before, _result(job))
    except HarnessError as error:
        return prepared.verdict_on(planned, "not_replayed", why=str(error))
    if not any(number.value is not None for number in wanted):
        why = f"it has no scores to compare with: {before.failure_kind or before.status}"
        return prepared.verdict_on(planned, "not_replayed", why=why)
    plan = scoring_only(prepared.plan.prepare(planned), runner.layout.run_id, states)
    row = runner.run(plan)
    for _ in range(TRIES - 1):
        if is_final(row) or stop(planned.job_id):
            break
        row = runner.run(plan)
    return _judged(prepared, runner.layout.job(planned.job_id), planned, row, states, wanted)


def scoring_only(plan: JobPlan, run: str, states: Mapping[StateKind, State]) -> JobPlan:
    """`plan` as a job of `run` that scores `states`, and trains nothing."""
    spec = plan.spec.model_copy(update={"run_id": run, "states_given": True})
    meta = plan.meta.model_copy(update={"run_id": run})
    return replace(plan, spec=spec, meta=meta, states=dumps(dict(states)).encode())


def recorded_scores(row: Results, result: WorkerResult | None) -> list[Recorded]:
    """All official scores that files of a job have: those of its row, and those of the scorer's own file that the row
    does not have, or has otherwise."""
    found = [
        Recorded("initial", None, SCORE, "results.json", row.score_initial),
        Recorded("final", None, SCORE, "results.json", row.score_final),
        Recorded("best", None, SCORE, "results.json", row.score_best),
        Recorded("best", "test", SCORE, "results.json", row.score_test),
    ]
    by_place: tuple[tuple[StateKind, Split | None, Mapping[str, float]], ...] = (
        ("initial", None, row.metrics_initial), ("final", None, row.metrics_final), ("best", None, row.metrics_best),
        ("best", "test", row.metrics_test),
    )  # fmt: skip
    for state, split, metrics in by_place:
        found += [Recorded(state, split, _renamed(name), "results.json", value) for name, value in metrics.items()]
    if result is None or all(number.value is None for number in found):
        return found  # scores that were withheld stay so
    for state in STATES:
        scores: StateScores | None = getattr(result.scores, state)
        if scores is not None:
            found += _further(state, scores, {(n.state, n.split, n.metric): n.value for n in found})
    return found


def _further(
    state: StateKind, scores: StateScores, known: Mapping[tuple[StateKind, Split | None, str], float | None]
) -> Iterator[Recorded]:
    """What the scorer's own file has of `state` beyond what is `known`."""
    selection = selection_of(scores)
    for split, metric, value in values_of(scores):
        place = None if split == selection else split
        if (state, place, metric) not in known or known[state, place, metric] != value:
            yield Recorded(state, split, metric, "result.json", value)


def selection_of(scores: StateScores) -> Split:
    """The split that states are compared on."""
    return "train" if scores.validate_ is None else "validate"


def values_of(scores: StateScores) -> Iterator[tuple[Split, str, float]]:
    """The official numbers of a state by split and metric, natural units."""
    splits: tuple[tuple[Split, float | None], ...] = (
        ("train", scores.train), ("validate", scores.validate_), ("test", scores.test),
    )  # fmt: skip
    for split, value in splits:
        if value is not None:
            yield split, SCORE, value
    for split, metrics in scores.metrics.items():
        for name, value in metrics.items():
            yield split, _renamed(name), value


def _renamed(metric: str) -> str:
    return OWN_SCORE if metric == SCORE else metric


def _judged(
    prepared: Prepared,
    scored: JobLayout,
    planned: PlannedJob,
    row: Results,
    states: Mapping[StateKind, State],
    wanted: Sequence[Recorded],
) -> JobReproduction:
    if not is_final(row):
        why = f"scoring failed here at {row.failure_boundary} ({row.failure_kind}): {row.feedback}"
        return prepared.verdict_on(planned, "not_replayed", why=why)
    if row.status != "ok":
        why = f"scoring failed here at {row.failure_boundary} ({row.failure_kind}): {row.feedback}"
        return prepared.verdict_on(planned, "differs", why=why)
    result = _result(scored)
    if result is None or result.stop_reason is not None:
        why = (
            f"the worker in the image of {planned.job.image_family} cannot score states alone; build it from the "
            "recipe here, with --no-pull"
        )
        return prepared.verdict_on(planned, "not_replayed", why=why)
    checks = tuple(_checks(prepared, planned, result, wanted))
    differences = tuple(_other_start(scored, states))
    verdicts = {check.verdict for check in checks}
    verdict: Verdict = "equal"
    why = ""
    if "differs" in verdicts or differences:
        verdict = "differs"
    elif "not_replayed" in verdicts:
        verdict = "not_replayed"
        lacking = next(check for check in checks if check.verdict == "not_replayed")
        why = (
            "the salt is not known, so that held-out data cannot be drawn again"
            if lacking.split == "test" and prepared.recording.salt is None
            else f"its {lacking.state} state was not scored: is artifacts/{lacking.state}_state.yaml missing?"
        )
    elif "within" in verdicts:
        verdict = "within"
    return prepared.verdict_on(planned, verdict, why=why, scores=checks, differences=differences)


def _checks(
    prepared: Prepared, planned: PlannedJob, result: WorkerResult, wanted: Sequence[Recorded]
) -> Iterator[ScoreCheck]:
    tolerance = prepared.tolerance(planned)
    for number in wanted:
        scores: StateScores | None = getattr(result.scores, number.state)
        split: Split = number.split or (selection_of(scores) if scores is not None else "validate")
        by_place = {} if scores is None else {(s, metric): value for s, metric, value in values_of(scores)}
        found = by_place.get((split, number.metric))
        if number.value is None and found is None:
            continue
        verdict: Verdict = "differs"
        if (split == "test" and prepared.recording.salt is None) or scores is None:
            verdict = "not_replayed"
        elif same(number.value, found, 0.0):
            verdict = "equal"
        elif same(number.value, found, tolerance):
            verdict = "within"
        yield ScoreCheck(
            state=number.state,
            split=split,
            metric=number.metric[:200],
            file="result.json" if number.file == "result.json" else "results.json",
            recorded=number.value,
            found=found,
            verdict=verdict,
        )


def _other_start(scored: JobLayout, states: Mapping[StateKind, State]) -> Iterator[ReplayDifference]:
    """The recorded initial state has to be what the problem starts from, as it is built here."""
    with suppress(HarnessError):
        built, given = _state(scored, "initial"), states.get("initial")
        if built is not None and given is not None and canonical(built) != canonical(given):
            texts = [dumps(value)[:TEXT] for value in (given, built)]
            yield ReplayDifference(job_id=scored.job_id, what="initial_state", recorded=texts[0], replayed=texts[1])


def _state(job: JobLayout, kind: StateKind) -> State | None:
    """A saved state; None if there is none.

    Raises:
        HarnessError: it is no state, or too large.
    """
    path: Path = {"initial": job.initial_state, "best": job.best_state, "final": job.final_state}[kind]
    data = _read(path, STATE_BYTES)
    if data is None:
        return None
    try:
        return load_state(data.decode("utf-8"))
    except RecursionError:
        raise HarnessError(f"{path}: it is nested too deeply") from None
    except ValueError as error:
        raise HarnessError(f"{path}: {printable(str(error), 200)}") from None


def _result(job: JobLayout) -> WorkerResult | None:
    """What the scorer of the last attempt wrote; None where it is not there.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        meta = read_model(JobMeta, job.meta.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, JsonError) as error:
        raise HarnessError(f"{job.meta}: {error}") from None
    if not meta.attempts:
        return None
    path = job.attempt_out(meta.attempts[-1].number) / files.RESULT
    data = _read(path, RESULT_BYTES)
    try:
        return read_model(WorkerResult, data) if data is not None else None
    except JsonError as error:
        raise HarnessError(f"{path}: {error}") from None


def _read(path: Path, most: int) -> bytes | None:
    """
    Raises:
        HarnessError: it is no plain file, or larger than `most` bytes.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror or error}") from None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise HarnessError(f"{path}: it is no file, or has more than {most} bytes")
        return opened.read(most + 1)
