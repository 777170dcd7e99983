"""Files that are derived from the records of jobs: index, summary, fronts, and how a replay compares."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import (
    Bytes,
    Calls,
    Count,
    Direction,
    Hypervolume,
    JobId,
    Metrics,
    Model,
    Name,
    RunId,
    Score,
    Seed,
    Split,
    State,
    TaskId,
    Tokens,
    Usd,
    UtcTime,
)
from trace_bench.errors import Boundary


class FileEntry(Model):
    """One file of a run."""

    path: str
    """Path relative to the run."""
    size: Bytes
    """Size of the file."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 (hexadecimal) of its content."""
    schema_name: str | None = None
    """Schema of the file, in `.jsonl` of each line; null where it has none."""


class FilesIndex(Model):
    """``files_index.json``: files that exist, with size and hash; it does not list itself."""

    run_id: RunId
    files: tuple[FileEntry, ...]
    """Every regular file of the run but this one, sorted by path."""


class Yardstick(Model):
    """The scores by which gaps of one task, with its arguments and one seed, are measured."""

    task_id: TaskId
    eval_kwargs: dict[str, JsonValue]
    """Arguments of the task."""
    seed: Seed
    direction: Direction
    """Direction of the scores: `maximize` or `minimize`."""
    program: str
    """File of the task's reference program, relative to the task's folder."""
    identity: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 (hexadecimal) of all that the scores follow from: equal ones can be shared."""
    reference: dict[Split, dict[str, Score]] = {}
    """Scores of `program` by split and example."""
    best_known: dict[Split, dict[str, Score]] = {}
    """Best known scores by split and example, as far as a table or a file has them. They go before `reference`."""
    problem: str = ""
    """Reason why the scores are missing; empty if they are complete."""


class Yardsticks(Model):
    """``yardsticks.json``: the yardsticks of a run."""

    yardsticks: tuple[Yardstick, ...]
    """One for each task, set of arguments and seed that has scores and a reference program."""


class ParetoPoint(Model):
    """A state of the history that no other one dominates."""

    line: Annotated[int, Field(ge=1)]
    """Number of the line in `state_history.jsonl`, from 1."""
    candidate: Name
    """Id of the candidate."""
    step: Count
    """Number of the search step, from 0, the start."""
    score: Score
    """Mean score over all examples of the split, as training saw it."""
    metrics: Metrics
    """Mean of each metric over all examples of the split, as training saw it."""
    parameters: State | None = None
    """Values of the candidate's parameters; null where the states together would be too large, and `line` has them."""


class ParetoFront(Model):
    """``pareto.json``: the trade-offs that a search found, from ``state_history.jsonl`` alone.

    What training saw, and no official score. A front is of the states that were judged on all examples of `split`.
    """

    job_id: JobId
    split: Split
    """Split of the examples."""
    metrics: dict[Name, Direction]
    """Direction of each metric that dominance compares, in order."""
    points: tuple[ParetoPoint, ...]
    """The front, best first on the first metric."""
    reference: Metrics
    """Point from which the hypervolume is measured."""
    reference_from: dict[Name, Literal["config", "task", "worst"]]
    """Source of each metric's reference: the `config`, the `task`, or the `worst` value of all candidates."""
    hypervolume: Hypervolume | None = None
    """Hypervolume that the front dominates down to `reference`; null for more than three metrics, beyond a double, or
    where members of the front are left out."""
    candidates: Count
    """Number of different states that were compared."""
    left_out: Count = 0
    """Number of lines that were not compared, and of members of the front that are not listed, for there were too
    many."""


class TokenTotals(Model):
    """Tokens that a run's jobs spent, as the gateway metered them."""

    prompt: Tokens = 0
    """Tokens of prompts."""
    completion: Tokens = 0
    """Tokens of answers."""
    cached: Tokens = 0
    """Prompt tokens from the cache of the provider, part of `prompt`."""
    reasoning: Tokens = 0
    """Reasoning tokens, part of `completion`."""
    total: Tokens = 0
    """Sum of `prompt` and `completion`."""


class Summary(Model):
    """``summary.json``: counts and sums over the rows of a run."""

    run_id: RunId
    generated_at: UtcTime
    """Time at which the file was written."""
    package_hash: str | None = None
    """SHA-256 over the code that wrote the tables (`trace_bench.resources`); null in files of earlier versions."""
    total_jobs: Count
    """Number of planned jobs."""
    counts: dict[str, Count]
    """Number of jobs that are `ok`, `failed`, `interrupted` (cut off, whatever the status) and `skipped`; `pending`
    while jobs have no row. They add up to `total_jobs`."""
    failures: dict[str, Count] = {}
    """Number of failed jobs by `boundary:kind`, without interrupted ones."""
    boundaries: dict[Boundary, Count] = {}
    """Number of failed jobs by boundary, without interrupted ones."""
    infrastructure_failures: Count = 0
    """Number of failures at provider, sandbox and harness, which say nothing of a trainer."""
    unprotected_jobs: Count = 0
    """Number of jobs with integrity `unprotected`."""
    flagged_jobs: Count = 0
    """Number of jobs with any flag."""
    flags: dict[Name, Count] = {}
    """Number of jobs by flag of `trace_bench.records.integrity`."""
    cut_by_run_budget: Count = 0
    """Number of jobs whose training the run's budget ended."""
    cannot_run: dict[str, Count] = {}
    """Number of skipped jobs by the missing precondition."""
    llm_calls: Calls = 0
    """Calls that a provider or the response cache answered."""
    llm_tries: Count = 0
    """Number of requests to providers."""
    llm_reused: Calls = 0
    """Calls answered from the cassettes of jobs."""
    llm_cached: Calls = 0
    """Calls answered from the response cache, part of `llm_calls`."""
    token_totals: TokenTotals = TokenTotals()
    """Sums of tokens."""
    cost_usd: Usd = 0.0
    """Cost of calls."""
    tags: tuple[str, ...] = ()
    """Tags of the config."""


class ReplayDifference(Model):
    """One result that differs from the recorded one."""

    job_id: JobId
    what: str
    """Column of `results.csv`, state, or line of `state_history.jsonl`."""
    recorded: JsonValue = None
    """Value in the recorded run."""
    replayed: JsonValue = None
    """Value in the replay."""


class ReplayReport(Model):
    """``replay.json``: the comparison of a replay with the run that it repeats."""

    run_id: RunId
    recorded_run: str
    """Id of the recorded run."""
    jobs: Count
    """Number of compared jobs."""
    equal: Count
    """Number of jobs without a difference."""
    exact: Count
    """Number of jobs compared to the bit, on the same image and CPU model; the others are compared within the tolerance
    of their tasks."""
    skipped: Count = 0
    """Number of jobs that did not finish in the recorded run."""
    differing: Count = 0
    """Number of jobs with a difference."""
    differences: tuple[ReplayDifference, ...] = ()
    """First differences of each such job."""
