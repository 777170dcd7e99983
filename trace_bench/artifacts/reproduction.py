"""``reproduction.json``: the result of repeating a run or its scores."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trace_bench.artifacts.contract import Count, Model, Split, UtcTime
from trace_bench.artifacts.derived import ReplayDifference
from trace_bench.artifacts.outputs import StateKind

Verdict = Literal["equal", "within", "differs", "not_replayed"]
"""``equal``: to the bit; ``within``: within the task's tolerance; ``not_replayed``: it cannot be repeated."""


class Pin(Model):
    """One thing that determines a run, as recorded and as it is here.

    Attributes:
        what: ``backend`` is that of the jobs; ``limits`` stands for budget, splits and limits of the jobs.
        name: the image's family, the task, or the package; else empty.
        same: None if it is unknown.
        says: a sentence on the difference; empty if there is none.
    """

    what: Literal["backend", "image", "code", "task", "package", "python", "cpu", "salt", "limits"]
    name: str = ""
    same: bool | None
    recorded: str = ""
    here: str = ""
    says: str = ""


class ScoreCheck(Model):
    """One official score of one saved state, as recorded and as a fresh scorer found it; natural units.

    Attributes:
        metric: ``score`` is the score that compares states.
        file: the file with the recorded score: ``results.json``, or ``result.json`` of the last attempt.
        found: None if the state was not scored.
    """

    state: StateKind
    split: Split
    metric: str
    file: Literal["results.json", "result.json"]
    recorded: float | None
    found: float | None
    verdict: Verdict


class JobReproduction(Model):
    """The result for one job.

    Attributes:
        why: why it could not be repeated, or a remark on the verdict.
        tolerance: relative; that of the task installed here.
        reasons: possible reasons for a difference: what differs here from the recording.
        differences: the first differences of a replayed job.
        scores: the scores of a job whose states were scored again.
    """

    job_id: str
    task_id: str
    trainer_id: str
    variant: str
    seed: int
    verdict: Verdict
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    why: str = ""
    reasons: tuple[str, ...] = ()
    differences: tuple[ReplayDifference, ...] = ()
    scores: tuple[ScoreCheck, ...] = ()


class Reproduction(Model):
    """``reproduction.json``.

    Attributes:
        recorded_run: the id of the repeated run.
        recorded_from: its folder.
        mode: ``replay``: the jobs ran again from their cassettes; ``score-only``: their saved states were scored again.
        run_id: the id of the new run; None with ``score-only``, which makes no run.
        counts: number of jobs by verdict.
    """

    recorded_run: str
    recorded_from: str
    mode: Literal["replay", "score-only"]
    run_id: str | None = None
    code_version: str
    generated_at: UtcTime
    pins: tuple[Pin, ...] = ()
    jobs: tuple[JobReproduction, ...] = ()
    counts: dict[Verdict, Count] = Field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every job is equal, to the bit or within the tolerance of its task."""
        return bool(self.jobs) and all(job.verdict in ("equal", "within") for job in self.jobs)
