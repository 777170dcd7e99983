"""``reproduction.json``: what came of making a run, or its scores, again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trace_bench.artifacts.contract import Count, Model, Split, UtcTime
from trace_bench.artifacts.derived import ReplayDifference
from trace_bench.artifacts.outputs import StateKind

Verdict = Literal["equal", "within", "differs", "not_replayed"]
"""``equal`` is to the bit, ``within`` the task's tolerance. What cannot be repeated is ``not_replayed``."""


class Pin(Model):
    """One thing that determines a run, as it was recorded and as it is here.

    Attributes:
        what: ``backend`` is where jobs ran, ``limits`` stands for budget, splits and limits of the jobs.
        name: of the image's family, the task, the package; else empty.
        same: None where it is not known.
        says: what is otherwise, in a sentence; empty where nothing is to be said.
    """

    what: Literal["backend", "image", "code", "task", "package", "python", "cpu", "salt", "limits"]
    name: str = ""
    same: bool | None
    recorded: str = ""
    here: str = ""
    says: str = ""


class ScoreCheck(Model):
    """One official score of one saved state, as it was recorded, and as a fresh scorer found it; natural units.

    Attributes:
        metric: ``score`` is what states are compared by.
        file: whose number it is: ``results.json``, or ``result.json`` of the last attempt, which knows more of them.
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
    """What came of one job.

    Attributes:
        why: it could not be repeated, or what else is to be said of the verdict.
        tolerance: relative, of the task as it is here.
        reasons: what is otherwise here, that may be why the job differs; none if nothing is.
        differences: the first ones, of a job that was replayed and differs.
        scores: of a job whose states were scored again.
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
        recorded_run: id of the run that was repeated, and `recorded_from` where it lay.
        mode: ``replay``: the jobs were run again from their cassettes; ``score-only``: their saved states were scored.
        run_id: of the new run; None with ``score-only``, which makes none.
        counts: jobs by verdict.
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
        """Every job came out equal, to the bit or within the tolerance of its task."""
        return bool(self.jobs) and all(job.verdict in ("equal", "within") for job in self.jobs)
