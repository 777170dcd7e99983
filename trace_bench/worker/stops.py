"""What stops a phase before it is done: a limit on time or disk, the host, or the stop that a replay repeats."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.worker.clocks import TrainClock, late_task, late_training, recorded_kill, timed_out
from trace_bench.worker.folders import tree_bytes
from trace_bench.worker.job_log import JobLog
from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.phase_process import PhaseProcess
from trace_bench.worker.phase_set import STOP_GRACE, PhaseSet
from trace_bench.worker.recorder import Recorder

DISK_INTERVAL = 0.25


@dataclass
class Training:
    """The state of the training of a job, in the supervisor.

    Attributes:
        checks: how often the trainer has asked whether it must stop: the clock that a replay stops by.
        evaluations, saved: as the trainer reports them; `saved` were known, None where none are remembered.
        built: the problem is built, so the trainer may start.
        ended: the phase is over; killed: without a result.
        seconds, calls: wall time and LLM calls, once it has ended.
        stop_reason: ``completed``, ``budget``, ``timeout`` or ``interrupted``, once it is known.
        unusable: the kinds of answers that the trainer could not use.
    """

    clock: TrainClock = field(default_factory=TrainClock)
    checks: int = 0
    evaluations: int = 0
    saved: int | None = None
    built: bool = False
    ended: bool = False
    killed: bool = False
    seconds: float | None = None
    calls: int = 0
    stop_reason: str | None = None
    unusable: Counter[str] = field(default_factory=Counter)

    @property
    def was_stopped(self) -> bool:
        """Whether something other than the trainer ended it."""
        return self.stop_reason in ("timeout", "interrupted", "budget")

    def stop_point(self) -> dict[str, Any] | None:
        """`StopPoint` of the contract: where a replay must stop; None if training completed."""
        if not self.built or self.stop_reason in (None, "completed"):
            return None
        return {"reason": self.stop_reason, "checks": self.checks, "calls": self.calls, "killed": self.killed}


@dataclass
class StopWatch:
    """Stops the phases of one job.

    Attributes:
        extra: the folder that the trainer may write to.
        trains: the job trains. Then its build and its score are not stopped, as they turn training into a result.
    """

    job: dict[str, Any]
    phases: PhaseSet
    log: JobLog
    recorder: Recorder
    training: Training
    llm: LlmCalls
    extra: Path
    trains: bool
    _last_disk: float = 0.0

    def check(self, now: float) -> None:
        """Stop what has reached a limit. To be called at every tick of the supervisor."""
        if now - self._last_disk > DISK_INTERVAL:
            self._last_disk = now
            self.check_disk()
        for phase in list(self.phases.running.values()):
            if phase.kill_at is not None:
                if now > phase.kill_at:
                    self.phases.kill(phase.name)
            elif phase.name == "train":
                self._check_training(phase, now)
            else:
                self._check_task(phase, now)

    def request(self, reason: str) -> None:
        """Stop the job: training in order, and then its scores; all of a job that does not train."""
        if self.training.stop_reason not in (None, "completed"):
            return
        if reason == "budget" and self.training.ended:
            return  # scoring costs no budget
        self.training.stop_reason = reason
        if reason == "interrupted":
            self.log.event("stop.requested", {"reason": reason})
        for phase in self.phases.running.values():
            if phase.name == "train":
                phase.send("go")
                phase.send("stop", reason=reason)
                self.phases.kill_later(phase, STOP_GRACE)
            elif not self.trains:
                self.log.fail("harness", "interrupted", f"the {phase.name} was interrupted")
                self.phases.kill_later(phase)

    def reason_of_end(self, reported: str) -> str:
        """Why training ended that was not stopped.

        Args:
            reported: what the trainer says. That it was interrupted or timed out is not for it to say: such a job
                runs again.
        """
        recorded = self.job.get("stop_at") or {}
        if recorded and self.training.checks >= recorded["checks"]:
            if recorded["reason"] == "timeout":
                self.log.time_out(timed_out(self.job))
            return str(recorded["reason"])
        if reported in ("completed", "budget", recorded.get("reason")):
            return reported
        self.log.warn(f"the trainer reports {reported!r} as its end, but it was not stopped: it counts as completed")
        return "completed"

    def _check_task(self, phase: PhaseProcess, now: float) -> None:
        failure = late_task(self.job, phase.name, now - phase.started, self.llm.waited(phase.name, now))
        if failure is not None:
            self.log.fail(**failure)
            self.phases.kill(phase.name)
            self.phases.kill_later(phase, STOP_GRACE)

    def _check_training(self, phase: PhaseProcess, now: float) -> None:
        training = self.training
        if not training.built:
            return
        waited = self.llm.waited(phase.name, now)
        late = late_training(self.job, now - phase.started, training.clock, now, waited)
        if late is not None:
            self.log.time_out(late.failure)
            self.request(late.stop_reason)
            return
        late = recorded_kill(self.job, training.checks, self.llm.answers)
        if late is not None and training.stop_reason is None:
            self.log.time_out(late.failure)
            training.stop_reason = late.stop_reason
            self.phases.kill("train")
            self.phases.kill_later(phase)

    def check_disk(self) -> None:
        """Fail a trainer that has left too much in its output folder, and empty the folder.

        To be called while the trainer runs, and again at the end of each phase: it can write a lot between two checks
        and end by itself, and the process that empties the folder cannot always be started at the first request.
        """
        allowed = self.job["limits"]["out_bytes"]
        used = tree_bytes(self.extra, allowed)
        # A volume with a size of its own is full before the trainer's part of it has reached the limit.
        if used > allowed or (self.recorder.full and used > allowed // 2):
            self.log.fail("trainer", "disk_limit", f"the trainer left more than {allowed} bytes in its output folder")
            if "train" in self.phases.running:
                self.phases.kill("train")
            self.phases.empty_folder("train", self.extra)
