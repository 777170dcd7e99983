"""Files that are derived from the records of jobs: index, summary, fronts, and how a replay compares."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import (
    Count,
    Direction,
    Metrics,
    Model,
    Name,
    Split,
    State,
    Usd,
    UtcTime,
)
from trace_bench.errors import Boundary


class FileEntry(Model):
    """One file of a run. `schema_name` is the schema that describes it (each line of it, for ``.jsonl``)."""

    path: str
    size: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    schema_name: str | None = None


class FilesIndex(Model):
    """``files_index.json``: files that exist, with size and hash; it does not list itself."""

    run_id: str
    files: tuple[FileEntry, ...]


class Yardstick(Model):
    """The scores by which gaps of one task, with its arguments and one seed, are measured. Natural units.

    Attributes:
        direction: of the scores.
        program: the task's reference program: its file below the task's folder.
        identity: hash of all that the scores follow from; equal ones can be shared.
        reference: scores of `program` by split and example.
        best_known: best known scores of these very instances, as far as a table or a file has them. They go before
            `reference`.
        problem: why the scores are missing; empty if they are complete.
    """

    task_id: str
    eval_kwargs: dict[str, JsonValue]
    seed: int
    direction: Direction
    program: str
    identity: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    reference: dict[Split, dict[str, float]] = {}
    best_known: dict[Split, dict[str, float]] = {}
    problem: str = ""


class Yardsticks(Model):
    """``yardsticks.json``: the yardsticks of a run."""

    yardsticks: tuple[Yardstick, ...]


class ParetoPoint(Model):
    """A state of the history that no other one dominates.

    Attributes:
        line: of ``state_history.jsonl``, from 1.
        metrics: means over all examples of the split, natural units, as training saw them.
        parameters: None where the states together would be too large; `line` has them.
    """

    line: Annotated[int, Field(ge=1)]
    candidate: Name
    step: Count
    score: float
    metrics: Metrics
    parameters: State | None = None


class ParetoFront(Model):
    """``pareto.json``: the trade-offs that a search found, from ``state_history.jsonl`` alone.

    What training saw, and no official score. A front is of the states that were judged on all examples of `split`.

    Attributes:
        metrics: what dominance looked at, in its order, and which way each is better.
        points: best first on the first metric.
        reference: the point that the hypervolume is measured from, natural units.
        reference_from: by metric, who names it: the ``config``, the ``task``, or the ``worst`` value of all candidates.
        hypervolume: of what the front dominates down to `reference`, in the product of the metrics' units; None for
            more than three metrics, or if it is beyond a double.
        candidates: how many different states were compared.
        left_out: lines that were not looked at, and members of the front that are not listed, for there were too many.
    """

    job_id: str
    split: Split
    metrics: dict[Name, Direction]
    points: tuple[ParetoPoint, ...]
    reference: Metrics
    reference_from: dict[Name, Literal["config", "task", "worst"]]
    hypervolume: float | None = None
    candidates: Count
    left_out: Count = 0


class TokenTotals(Model):
    """Tokens that a run's jobs spent, as the gateway metered them. Those that are `cached` are among `prompt`, those of
    `reasoning` among `completion`."""

    prompt: Count = 0
    completion: Count = 0
    cached: Count = 0
    reasoning: Count = 0
    total: Count = 0


class Summary(Model):
    """``summary.json``. `counts` always has ok, failed, interrupted (cut off; neither ok nor failed) and skipped, and
    ``pending`` if jobs have not finished; they add up to `total_jobs`. `failures` (by ``boundary:kind``) and
    `boundaries` leave out what was interrupted; `infrastructure_failures` are those at provider, sandbox and harness,
    which say nothing of a trainer. `flags` counts jobs by flag of `trace_bench.records.integrity`, `flagged_jobs` those
    that have any. `cannot_run` counts skipped jobs by the precondition that they lacked. `package_hash` (of
    `trace_bench.resources`) is that of the code that wrote the tables; earlier versions do not say it."""

    run_id: str
    generated_at: UtcTime
    package_hash: str | None = None
    total_jobs: Count
    counts: dict[str, Count]
    failures: dict[str, Count] = {}
    boundaries: dict[Boundary, Count] = {}
    infrastructure_failures: Count = 0
    unprotected_jobs: Count = 0
    flagged_jobs: Count = 0
    flags: dict[Name, Count] = {}
    cut_by_run_budget: Count = 0
    cannot_run: dict[str, Count] = {}
    llm_calls: Count = 0
    llm_tries: Count = 0
    llm_reused: Count = 0
    llm_cached: Count = 0
    token_totals: TokenTotals = TokenTotals()
    cost_usd: Usd = 0.0
    tags: tuple[str, ...] = ()


class ReplayDifference(Model):
    """One thing that came out otherwise than recorded. `what` is a column of ``results.csv``, a state, or a line of
    ``state_history.jsonl``."""

    job_id: str
    what: str
    recorded: JsonValue = None
    replayed: JsonValue = None


class ReplayReport(Model):
    """``replay.json``: how a replay compares with the run that it repeats.

    Attributes:
        recorded_run: id of that run.
        exact: jobs that were compared to the bit, on the same image and CPU model; the others within the tolerance of
            their tasks.
        skipped: jobs that did not finish in the recorded run.
        differing: jobs in which anything differs.
        differences: the first ones of each such job.
    """

    run_id: str
    recorded_run: str
    jobs: Count
    equal: Count
    exact: Count
    skipped: Count = 0
    differing: Count = 0
    differences: tuple[ReplayDifference, ...] = ()
