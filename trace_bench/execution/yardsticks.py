"""Measure the yardsticks of a run: score the reference program of a task on the very instances of its jobs.

One sandbox for each task, set of arguments and seed, after the jobs have ended: it scores as the score phase of a job
does, held-out instances included. Equal yardsticks of earlier runs are reused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.derived import Yardstick
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.outputs import ExampleScore, StateScores, WorkerResult
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import write_json
from trace_bench.cancellation import Cancellation
from trace_bench.config.frozen import thaw
from trace_bench.display.log import entry
from trace_bench.display.text import clean_line
from trace_bench.errors import TraceBenchError
from trace_bench.execution.aside import resources_aside
from trace_bench.execution.attempt import Attempt, NotStarted, RunResources
from trace_bench.execution.validate import workers_for
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.homes import cache_home
from trace_bench.identity import digest
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import PreparedJob, scoring_only
from trace_bench.records.gaps import Problem, has_span, own_score, problem_of, top_scores
from trace_bench.records.reading import last_result, read_meta
from trace_bench.records.rows import NORMALISED
from trace_bench.suites.code_task import PARAMETER
from trace_bench.suites.forms import candidates_of, form_of

_LOG = logging.getLogger(__name__)
_STUB = ModelRef(id="stub")
_MAX_TRIES = 2
"""Attempts at a yardstick whose sandbox fails, or whose program does: on a busy machine one that works can take too
long."""
_SENTENCE = 300


def measure(
    plan: RunPlan,
    rows: Iterable[Results],
    known: Iterable[Yardstick] = (),
    *,
    begins: Callable[[int], None] = lambda _: None,
    stop: Cancellation | None = None,
) -> tuple[tuple[Yardstick, ...], int]:
    """The yardstick of every problem of which a job of `rows` has a score and whose task has a reference program, and
    the number of those that a stop has kept from being measured.

    A yardstick that cannot be measured says why in `problem`. Up to ``max_workers`` sandboxes at a time.

    Args:
        known: yardsticks that an earlier controller of the run has measured.
        begins: called with the number of programs before the first sandbox starts.
        stop: ends the measuring.
    """
    wanted = _wanted(plan, rows)
    by_identity = {each.identity: each for each in known if not each.problem}
    blanks = {problem: _blank(plan, planned) for problem, planned in wanted.items()}
    found: dict[Problem, Yardstick] = {}
    for problem, blank in blanks.items():
        made = by_identity.get(blank.identity) or _cached(blank)
        if made is not None and _fits(plan, wanted[problem], made, blank):
            found[problem] = made
    rest = {problem: planned for problem, planned in wanted.items() if problem not in found}
    if rest:
        begins(len(rest))
        found |= _measured(plan, rest, blanks, stop or Cancellation())
    return tuple(found[problem] for problem in wanted if problem in found), len(wanted) - len(found)


def _wanted(plan: RunPlan, rows: Iterable[Results]) -> dict[Problem, PlannedJob]:
    jobs = {planned.job_id: planned for planned in plan.jobs}
    wanted: dict[Problem, PlannedJob] = {}
    for row in rows:
        spec = plan.material[row.task_id].task.spec if row.task_id in plan.material else None
        if spec is None or spec.candidates is None or spec.candidates.reference is None or spec.foreign is not None:
            continue
        if NORMALISED in spec.metrics and row.score_initial is not None and row.score_best is not None:
            wanted.setdefault(problem_of(row), jobs[row.job_id])
    return wanted


def _blank(plan: RunPlan, planned: PlannedJob) -> Yardstick:
    """The yardstick of a problem before it is measured."""
    task, prepared = plan.material[planned.task_id].task, plan.prepare(planned)
    kwargs = thaw(planned.job.eval_kwargs)
    program = str(candidates_of(task.spec.raw, form_of(task.spec.raw, kwargs))["reference"])
    image = prepared.meta.image
    identity = {
        "task": task.content_hash,
        "eval_kwargs": kwargs,
        "seed": planned.seed,
        "test_seed": None if kwargs.get("num_test") == 0 else prepared.test_seed,
        "image": image.key if image is not None else None,
        "program": program,
    }
    return Yardstick(
        task_id=planned.task_id,
        eval_kwargs=kwargs,
        seed=planned.seed,
        direction=task.spec.score.direction,
        program=program,
        identity=digest(identity),
    )


def _measured(
    plan: RunPlan,
    rest: Mapping[Problem, PlannedJob],
    blanks: Mapping[Problem, Yardstick],
    stop: Cancellation,
) -> dict[Problem, Yardstick]:
    with resources_aside(plan, "yardsticks", Gateway({"stub": StubProvider()})) as resources:
        with ThreadPoolExecutor(workers_for(plan, list(rest.values())), thread_name_prefix="yardstick") as pool:
            made = {p: pool.submit(_one, plan, resources, planned, blanks[p], stop) for p, planned in rest.items()}
        return {p: each for p, outcome in made.items() if (each := outcome.result()) is not None}


def _one(
    plan: RunPlan, resources: RunResources, planned: PlannedJob, blank: Yardstick, stop: Cancellation
) -> Yardstick | None:
    """Measure one yardstick; None if the run was stopped meanwhile."""
    try:
        prepared = _scoring(plan.prepare(planned), resources.layout.run_id, plan, planned, blank.program)
        for _ in range(_MAX_TRIES):
            if stop.cancelled:
                return None
            row = Attempt(resources, prepared, stop).run()
            job = resources.layout.job(planned.job_id)
            meta = read_meta(job)
            result = last_result(job, meta) if meta is not None else None
            made = _filled(blank, result, row.feedback if row.status != "ok" else "")
            if not made.problem:
                break
        if stop.cancelled:
            return None
    except (KeyboardInterrupt, NotStarted):
        return None
    except (TraceBenchError, OSError) as error:
        made = _filled(blank, None, str(error))
    if not made.problem:
        made = made.model_copy(update={"problem": _no_span(plan, planned, made)})
    _LOG.info(entry("yardstick", task=blank.task_id, seed=blank.seed, problem=made.problem or None))
    if not made.problem and plan.material[planned.task_id].task.spec.repeats:
        with suppress(OSError):
            _place(made).parent.mkdir(parents=True, exist_ok=True)
            write_json(_place(made), made, durable=False)
    return made


def _scoring(prepared: PreparedJob, run: str, plan: RunPlan, planned: PlannedJob, program: str) -> PreparedJob:
    """`prepared` as a job of `run` that scores `program` as its best state, without a model or a budget."""
    source = (plan.material[planned.task_id].task.folder / program).read_text(encoding="utf-8")
    scoring = scoring_only(prepared, run, {"best": {PARAMETER: source}})
    spec = scoring.spec.model_copy(update={"model": _STUB, "budget": Budget(), "stop_at": None})
    return replace(scoring, spec=spec, meta=scoring.meta.model_copy(update={"model": _STUB}))


def _filled(blank: Yardstick, result: WorkerResult | None, problem: str) -> Yardstick:
    """`blank` with the scores in `result`, or with the reason why there are none."""
    scores = result.scores.best if result is not None else None
    if problem or scores is None:
        problem = problem or "its sandbox left no scores"
        return blank.model_copy(update={"problem": f"its reference program was not scored: {_line(problem)}"})
    for each in scores.examples:
        if each.failed and each.best_known is None:
            why = f"its reference program fails on {each.id}: {_line(each.feedback)}"
            return blank.model_copy(update={"problem": why})
    reference = _by_split((each, None if each.failed else own_score(each)) for each in scores.examples)
    best_known = _by_split((each, each.best_known) for each in scores.examples)
    return blank.model_copy(update={"reference": reference, "best_known": best_known})


def _no_span(plan: RunPlan, planned: PlannedJob, made: Yardstick) -> str:
    """Why `made` measures nothing: it is no better than the template, as the job scored it, on a split."""
    initial = _initial(plan, planned)
    if initial is None:
        return ""
    for split in made.reference:
        if not has_span(made, initial, split):
            return f"its reference program is no better than the template on the {split} instances"
    return ""


def _initial(plan: RunPlan, planned: PlannedJob) -> StateScores | None:
    """Scores of the template, by the job."""
    job = plan.layout.job(planned.job_id)
    meta = read_meta(job)
    result = last_result(job, meta) if meta is not None else None
    return result.scores.initial if result is not None else None


def _by_split(values: Iterable[tuple[ExampleScore, float | None]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for each, value in values:
        if value is not None:
            found.setdefault(each.split, {})[each.id] = value
    return found


def _line(text: str) -> str:
    return clean_line(text, _SENTENCE)


def _place(yardstick: Yardstick) -> Path:
    return cache_home() / "yardsticks" / f"{yardstick.identity}.json"


def _cached(blank: Yardstick) -> Yardstick | None:
    """The equal yardstick of an earlier run; a file that cannot be read is as good as none."""
    try:
        made = read_model(Yardstick, _place(blank).read_bytes())
    except (OSError, JsonError):
        return None
    return made if not made.problem else None


def _fits(plan: RunPlan, planned: PlannedJob, made: Yardstick, blank: Yardstick) -> bool:
    """Return True if `made`, of a file that is no run's, is what measuring `blank` leads to but for its numbers."""
    if made.model_copy(update={"reference": {}, "best_known": {}}) != blank:
        return False
    initial = _initial(plan, planned)
    return initial is not None and all(each.id in top_scores(made, each.split) for each in initial.examples)
