"""One job inside the sandbox: its phases in their order, what they report, and the result.

Build and train start together, and train imports ahead. Once the problem is built, train runs. Then the host sends the
held-out seed, and score starts in a fresh process. Last comes ``result.json``. A job ``until: build`` goes from build
to the result. A job with ``states_given`` goes from build to score, with these states in the place of trained ones.
"""

from __future__ import annotations

import importlib
import selectors
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.worker import hardware, memory, reports, scorer_files
from trace_bench.worker.checkpoint_relay import CheckpointRelay
from trace_bench.worker.control_stream import Message, fits
from trace_bench.worker.folders import HELD_OUT, let_in, make_folder_of, unpack
from trace_bench.worker.host_link import HostLink
from trace_bench.worker.job_log import JobLog
from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.options import Options
from trace_bench.worker.phase_process import REPORT_BYTES, PhaseProcess
from trace_bench.worker.phase_set import PhaseSet
from trace_bench.worker.recorder import Recorder
from trace_bench.worker.stops import StopWatch, Training
from trace_bench.worker.unusable import counted, ordered

RESERVE = 4 << 20
"""Bytes of the volume that are kept free for what is written at the end; less of a small one."""
MAX_REPORTED = 64 << 20
"""Bytes of events and history of one job."""


class JobRun:
    """Runs one job.

    Args:
        message: the host's ``job`` message.
        out: the job's volume.
        spawner: the supervisor's end of the spawner's socket.
        on_volume_full: called when there is no room for the result.

    Attributes:
        done: the result is written and sent.
    """

    def __init__(
        self,
        message: Message,
        host: HostLink,
        selector: selectors.BaseSelector,
        spawner: socket.socket,
        options: Options,
        out: Path,
        *,
        on_volume_full: Callable[[], None],
    ) -> None:
        job: dict[str, Any] = message.header["job"]
        self._job = job
        self._host = host
        self._options = options
        self._task_dir = options.tmp / "task"
        self._extra = out / "extra"
        self._on_volume_full = on_volume_full
        self._build_only = bool(job.get("until", "score") != "score")
        self._trains = not self._build_only and not job.get("states_given", False)
        self._test_seed: int | None = None
        self._train_end: dict[str, Any] | None = None
        """The event that asks the host for the held-out seed."""
        self._score: dict[str, Any] | None = None
        self._scorer_files: dict[str, Any] | None = None
        self.done = False

        out_bytes = job["limits"]["out_bytes"]
        self._recorder = Recorder(out, job["limits"]["stdout_bytes"], min(RESERVE, out_bytes // 8))
        self._log = JobLog(self._recorder, host.send)
        self._llm = LlmCalls(host.send)
        self._training = Training()
        self._checkpoint = CheckpointRelay(self._training.clock, host.send, self._log.event)
        rest, self._given = reports.given_states(message.header, message.blob)
        self._task = self._checkpoint.split(message.header, rest)
        self._reports = PhaseReports(
            out_bytes, host, self._log, self._recorder, self._training, self._llm, self._checkpoint
        )
        self._phases = PhaseSet(
            selector,
            spawner,
            options,
            on_report=self._reports.take,
            on_output=self._on_output,
            on_nonsense=self._on_nonsense,
            on_end=self._on_phase_end,
        )
        self._stops = StopWatch(
            job,
            self._phases,
            self._log,
            self._recorder,
            self._training,
            self._llm,
            extra=self._extra,
            trains=self._trains,
        )

    def start(self) -> None:
        """Unpack the task and start the first phases."""
        job = self._job
        unpack(self._task, self._task_dir, self._options.uid_base)
        self._task = b""
        let_in(self._task_dir / HELD_OUT, self._build_only)
        self._log.event("job.start", {"task": job["task"]["id"], "trainer": job["trainer"]["id"], "seed": job["seed"]})
        self._start_phase("build")
        if self._trains:
            make_folder_of(self._extra, self._options.uid_of("train"))
            self._start_phase("train", extra_dir=str(self._extra))
            self._checkpoint.hand_over(self._phases.running["train"])

    # -- what the supervisor passes on ---------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Stop phases that have reached a limit."""
        self._stops.check(now)

    def stop(self, reason: str) -> None:
        """Stop in order: the best state is scored still."""
        self._stops.request(reason)

    def take(self, message: Message) -> None:
        """Act on a message of the host."""
        if message.type == "llm.response":
            self._llm.answered(message.header, message.blob)
        elif message.type == "heldout":
            self._test_seed = int(message.header["test_seed"])
            self._score_if_seeded()

    def phase_exited(self, message: dict[str, Any]) -> None:
        """Take the spawner's message that the process of a phase has exited."""
        self._phases.exited(message)

    def repeat_requests(self) -> None:
        """Ask a new controller what the one before may not have answered: LLM calls, and the held-out seed."""
        self._llm.ask_again()
        if self._train_end is not None and self._test_seed is None:
            self._host.send("event", {"event": self._train_end})

    # -- phases --------------------------------------------------------------------------------------------------

    def _start_phase(self, name: str, **start: Any) -> None:
        forward = None if name == "build" else lambda request, answer: self._llm.ask(name, request, answer)
        self._phases.start(name, forward, job=self._job, task_dir=str(self._task_dir), **start)
        self._log.event("phase.start", {"phase": name})

    def _on_nonsense(self, phase: PhaseProcess, sentence: str) -> None:
        self._log.fail(phase.boundary, "bad_report", sentence)
        self._phases.kill(phase.name)

    def _on_output(self, phase: PhaseProcess, data: bytes) -> None:
        failure = self._log.failure
        if self._recorder.log(data):
            self._host.send_ephemeral("log", {"phase": phase.name, "text": data.decode("utf-8", "replace")})
        elif failure is None or failure["kind"] != "output_limit":
            limit = self._job["limits"]["stdout_bytes"]
            self._log.fail(phase.boundary, "output_limit", f"{phase.name} printed more than {limit} bytes")
            self._phases.kill(phase.name)

    def _on_phase_end(self, phase: PhaseProcess) -> None:
        if phase.relay is not None and phase.relay.refused:
            self._log.warn(
                f"{phase.relay.refused} connections to the {phase.name} phase's port for LLM calls came from another "
                "uid and were dropped"
            )
        self._stops.check_disk()
        seconds = self._phases.seconds[phase.name]
        self._log.event("phase.end", {"phase": phase.name, "seconds": seconds, **phase.end})
        failure = phase.failure
        if failure is None and phase.result is None:
            failure = phase.how_it_died()
        if failure is not None and not (phase.name == "train" and self._training.was_stopped):
            self._log.fail(**failure)
        {"build": self._after_build, "train": self._after_train, "score": self._after_score}[phase.name](phase)

    def _after_build(self, phase: PhaseProcess) -> None:
        train = self._phases.running.get("train")
        built = phase.result
        if built is None:
            if train is None:
                self._finish()
            else:
                self._phases.kill("train")
                self._phases.kill_later(train)
            return
        self._training.built = True
        self._recorder.state("initial", built["initial"])
        shown = (
            "direction",
            "parameters",
            "examples",
            *(("bound", "best_known", "programs") if built["programs"] else ()),
        )
        self._log.event("build.end", {key: built[key] for key in shown})
        if self._build_only:
            self._finish()
        elif not self._trains:
            for kind, values in self._given.items():
                if kind != "initial":  # the initial state is that of the problem as it is built here
                    self._recorder.state(kind, values)
            self._request_seed()
        elif train is not None:
            train.started = time.monotonic()
            if not self._training.clock.before:
                self._training.clock.live_at = train.started
            train.send("go")
            # Hashing before scoring needs it. It is imported now, while the supervisor waits.
            importlib.import_module("hashlib")
        elif self._training.ended:
            self._request_seed()

    def _after_train(self, phase: PhaseProcess) -> None:
        training = self._training
        training.seconds = round(training.clock.seconds(time.monotonic()), 6)
        training.ended = True
        training.calls = self._llm.number
        if phase.result is None:
            training.killed = True
        else:
            training.evaluations = phase.result["evaluations"]
            training.saved = phase.result["evaluations_saved"]
            if training.stop_reason is None:
                training.stop_reason = self._stops.reason_of_end(phase.result["stop_reason"])
        if training.built:
            self._request_seed()
        elif "build" not in self._phases.running:
            self._finish()

    def _request_seed(self) -> None:
        self._train_end = self._log.event("train.end", {"stop_reason": self._training.stop_reason})
        self._score_if_seeded()

    def _score_if_seeded(self) -> None:
        if self._train_end is None or self._test_seed is None or self._scorer_files is not None:
            return
        known = self._recorder.states if self._trains else self._given
        states = {kind: known[kind] for kind in ("initial", "best", "final") if kind in known}
        let_in(self._task_dir / HELD_OUT, True)
        self._scorer_files = scorer_files.digest(self._task_dir)
        self._start_phase("score", states=states, test_seed=self._test_seed)

    def _after_score(self, phase: PhaseProcess) -> None:
        self._score = phase.result
        assert self._scorer_files is not None
        unchanged = scorer_files.digest(self._task_dir) == self._scorer_files
        self._scorer_files = {**self._scorer_files, "unchanged": unchanged}
        if not unchanged:
            # Whatever else failed: these scores are worth nothing.
            self._score = self._log.failure = None
            self._log.fail("harness", "scorer_changed", "a file that scoring depends on changed while it scored")
        self._finish()

    # -- the result ----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        log, recorder = self._log, self._recorder
        if recorder.full:
            log.warn(f"/out had no room; {recorder.lost} pieces of what was to be written there are lacking")
        if recorder.lost:
            log.fail("sandbox", "out_of_disk", "the disk below /out was full, so that not all is there")
        if self._llm.all_inert:
            log.warn("the stub model is inert for this trainer: no request carried variables that it could change")
        result = self._result()
        log.event("job.end", {"status": result["status"]})
        if not recorder.result(result):
            sys.stderr.write("trace-bench: the disk below /out is full; there is no room for the result\n")
            self._on_volume_full()
            return
        # The host reads the result from the volume. Where it is too large for a message, its large parts are left out.
        short = {**result, "scores": {}, "integrity": {}}
        self._host.send("done", {"result": result if fits(result) else short})
        self.done = True

    def _result(self) -> dict[str, Any]:
        """`WorkerResult` of the contract."""
        training, score = self._training, self._score or {}
        return {
            "contract": 1,
            "status": "ok" if self._log.failure is None else "failed",
            "failure": self._log.failure,
            "stop_reason": training.stop_reason if training.built and self._trains else None,
            "stop_point": training.stop_point() if self._trains else None,
            "scores": score.get("scores", {}),
            "evaluations": training.evaluations,
            "evaluations_saved": training.saved,
            "search_answers": self._llm.search_answers or None,
            "unusable_answers": ordered(training.unusable) if self._llm.search_answers else None,
            "score_evaluations": int(score.get("evaluations", 0)),
            "train_seconds": training.seconds,
            "llm_calls": self._llm.calls,
            "seconds": self._phases.seconds,
            "warnings": self._log.warnings,
            "stub_inert": self._llm.all_inert,
            "integrity": {
                "claims": self._reports.claims,
                "candidates": self._phases.tallies,
                "scorer_files": self._scorer_files,
            },
            "evidence": {"phases": self._phases.ends, "memory": memory.account()},
            "hardware": hardware.described(),
        }


@dataclass
class PhaseReports:
    """Acts on the messages of phases.

    Attributes:
        out_bytes: what the job's volume may hold.
        claims: what the trainer says that states score, as `Claim` of the contract, by state.
    """

    out_bytes: int
    host: HostLink
    log: JobLog
    recorder: Recorder
    training: Training
    llm: LlmCalls
    checkpoint: CheckpointRelay
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Half of what the volume, and each file of it, may hold. Three states fit into a file.
        self._allowance = reports.Allowance(min(self.out_bytes // 2, MAX_REPORTED))
        # A trainer that uses its own up must not cost the job its scores.
        self._score_allowance = reports.Allowance(min(self.out_bytes, MAX_REPORTED) // 8)
        self._state_bytes = min(self.out_bytes // 8, REPORT_BYTES)

    def take(self, phase: PhaseProcess, message: dict[str, Any]) -> None:
        """Act on one message.

        Raises:
            ValueError, KeyError, TypeError: it is no report of this phase.
        """
        op = message["op"]
        if op in ("event", "history", "warn"):
            (self._score_allowance if phase.name == "score" else self._allowance).take(message)
        if op == "event":
            line = self.log.event(reports.event_kind(phase.name, message["kind"]), dict(message["fields"]))
            self.training.unusable.update(counted([line]) if phase.name == "train" else ())
        elif op == "warn":
            self.log.warn(str(message["message"])[:2000], str(message.get("once", ""))[:100])
        elif op == "result":
            phase.result = reports.result(phase.name, message, self._state_bytes)
        elif op == "failed":
            phase.failure = reports.failure(
                message, phase.boundary, provider_failed=self.llm.provider_failed, has_gpus=bool(hardware.gpus())
            )
        elif phase.name == "train":
            self._take_of_train(op, message)

    def _take_of_train(self, op: str, message: dict[str, Any]) -> None:
        clock = self.training.clock
        if op == "history":
            line = {**message["line"], **self.llm.spent}
            as_of = line.pop("as_of", None)
            # Of a trainer that is killed this is all that is known.
            self.training.evaluations = reports.count(line["evaluations"])
            self.training.saved = reports.saved(message.get("saved"))
            seconds = clock.seconds(time.monotonic())
            line["seconds"] = round(seconds if as_of is None else max(0.0, min(as_of, seconds)), 6)
            self.host.send("history", {"line": self.recorder.history(line)})
        elif op == "checkpoint":
            self.checkpoint.pass_on(message["line"], time.monotonic())
        elif op == "resumed":
            clock.live_at = clock.live_at or time.monotonic()
        elif op == "state" and message["kind"] in ("best", "final"):
            self.recorder.state(message["kind"], reports.state(message["values"], self._state_bytes))
            self._claim(message["kind"], message.get("claim"))
        elif op == "claim" and message["kind"] == "initial":
            self._claim("initial", message["claim"])
        elif op == "check":
            self.training.checks += 1

    def _claim(self, kind: str, given: object) -> None:
        claim = reports.claim(given)
        if claim is None:
            self.claims.pop(kind, None)
        else:
            self.claims[kind] = claim
