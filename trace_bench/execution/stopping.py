"""Why a run or one of its jobs is to stop: the user, a `cancel` command, an error that ends the run, or the budget."""

from __future__ import annotations

from collections.abc import Callable

from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution.cancel import Cancellations
from trace_bench.planning.run_budget import RunBudget


class StopRequests:
    """All requests to stop a run or its jobs. Checked often, from many threads.

    Args:
        user: returns what the user's signals request: None, ``"interrupted"`` (end in order) or ``"kill"``.
    """

    def __init__(self, layout: RunLayout, user: Callable[[], str | None], budget: RunBudget) -> None:
        self._user = user
        self._cancellations = Cancellations(layout)
        self._budget = budget
        self._error: str | None = None

    def requested(self, job_id: str | None = None) -> str | None:
        """What is requested of the run, or of one job: None, ``"interrupted"`` or ``"kill"``."""
        requests = (self._user(), self._cancellations.wanted(job_id), self._error)
        return "kill" if "kill" in requests else requests[0] or requests[1] or requests[2]

    def requested_of_job(self, job_id: str) -> str | None:
        """As `requested`, and ``"budget"`` if the job is to end its training because the run's time is used up."""
        return self.requested(job_id) or ("budget" if self._budget.time_is_up() else None)

    def end_run(self, how: str) -> None:
        """Request that all jobs stop, since an error ends the run."""
        self._error = how

    def why_before_start(self, job_id: str | None = None) -> str:
        """Why a job (or, without `job_id`, those that are left) was stopped before it started."""
        if self._cancellations.wanted(job_id) is not None:
            return "cancelled"
        used_up = self._budget.used_up() if self.requested() is None else None
        return used_up or "interrupted before its turn"

    def forget_cancellations(self) -> None:
        """Remove requests of `cancel`: they were for the controller that was at work."""
        self._cancellations.forget()
