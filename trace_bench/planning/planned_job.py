"""A job of a plan: the job, its fingerprint, and what the run does about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trace_bench.artifacts.contract import Direction
from trace_bench.matrix import Job

Decision = Literal["run", "reuse", "adopt", "skip"]
"""What the run does about a job: run it, take its earlier result, go on with its sandbox, or leave it out."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job of the matrix, and what the run does about it. `reason` says why, in a few words."""

    job: Job
    fingerprint: str
    score_direction: Direction
    decision: Decision
    reason: str

    @property
    def job_id(self) -> str:
        return self.job.job_id

    @property
    def task_id(self) -> str:
        return self.job.task_id

    @property
    def trainer_id(self) -> str:
        return self.job.trainer_id

    @property
    def variant(self) -> str:
        """The label of the variant."""
        return self.job.variant.label

    @property
    def model(self) -> str:
        """The id of the model."""
        return str(self.job.model["id"])

    @property
    def seed(self) -> int:
        return self.job.seed

    @property
    def memory(self) -> int:
        """Bytes that its sandbox declares."""
        return self.job.sandbox.memory
