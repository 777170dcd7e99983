"""``reproduction.json``: the result of repeating a run or its scores."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trace_bench.artifacts.contract import (
    Count,
    JobId,
    Model,
    Score,
    Seed,
    Split,
    TaskId,
    TrainerId,
    UtcTime,
    Variant,
)
from trace_bench.artifacts.derived import ReplayDifference
from trace_bench.artifacts.outputs import StateKind
from trace_bench.config.values import measured

Verdict = Literal["equal", "within", "differs", "not_replayed"]


class Pin(Model):
    """One thing that determines a run, as recorded and as it is here."""

    what: Literal["backend", "image", "code", "task", "package", "python", "cpu", "salt", "limits"]
    """Kind of thing; `backend` is the jobs', and `limits` stands for budget, splits and limits of the jobs."""
    name: str = ""
    """Image family, task or package; else empty."""
    same: bool | None
    """Recorded and present values are equal; null if that is unknown."""
    recorded: str = ""
    """Value in the recorded run."""
    here: str = ""
    """Value here."""
    says: str = ""
    """The difference in a sentence; empty if there is none."""


class ScoreCheck(Model):
    """One official score of one saved state, as recorded and as a fresh scorer found it."""

    state: StateKind
    """Saved state."""
    split: Split
    """Split of the examples."""
    metric: str
    """Name of the metric; `score` is the score that compares states."""
    file: Literal["results.json", "result.json"]
    """File with the recorded score: `results.json`, or `result.json` of the last attempt."""
    recorded: Score | None
    """Recorded score; null if there is none."""
    found: Score | None
    """Score that the fresh scorer found; null if the state was not scored."""
    verdict: Verdict
    """`equal`: to the bit. `within`: within the task's tolerance. Else `differs` or `not_replayed`."""


class JobReproduction(Model):
    """The result for one job."""

    job_id: JobId
    task_id: TaskId
    trainer_id: TrainerId
    variant: Variant
    seed: Seed
    verdict: Verdict
    """`equal`: to the bit. `within`: within the task's tolerance. Else `differs`, or `not_replayed` if it cannot be
    repeated."""
    tolerance: Annotated[float, Field(ge=0), measured("dimensionless")] = 0.0
    """Relative tolerance of the task installed here."""
    why: str = ""
    """Reason that the job could not be repeated, or a remark on the verdict."""
    reasons: tuple[str, ...] = ()
    """Possible reasons for a difference: values here that differ from the recording."""
    differences: tuple[ReplayDifference, ...] = ()
    """First differences of a replayed job."""
    scores: tuple[ScoreCheck, ...] = ()
    """Scores of a job whose states were scored again."""


class Reproduction(Model):
    """``reproduction.json``: the result of repeating a run or its scores."""

    recorded_run: str
    """Id of the repeated run."""
    recorded_from: str
    """Folder of the repeated run."""
    mode: Literal["replay", "score-only"]
    """`replay`: the jobs ran again from their cassettes. `score-only`: their saved states were scored again."""
    run_id: str | None = None
    """Id of the new run; null with `score-only`, which makes no run."""
    code_version: str
    """Version of Trace-Bench that repeated the run."""
    generated_at: UtcTime
    """Time at which the file was written."""
    pins: tuple[Pin, ...] = ()
    """Things that determine the run, and whether they are the same here."""
    jobs: tuple[JobReproduction, ...] = ()
    """Result for each job."""
    counts: dict[Verdict, Count] = Field(default_factory=dict)
    """Number of jobs by verdict."""

    @property
    def ok(self) -> bool:
        """Return True if every job is equal, to the bit or within the tolerance of its task."""
        return bool(self.jobs) and all(job.verdict in ("equal", "within") for job in self.jobs)
