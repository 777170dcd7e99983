"""The first process of a sandbox: it speaks with the host, starts the phases one after another, and writes the files.

It runs for the whole job as uid 0 and never imports code of a task, a trainer or a plug-in, nor parses anything that a
candidate said. Forking is the spawner's business (see there why); this is the other half.

The order: read ``job`` → build and (importing ahead) train start → build says what is trainable → train runs → the
host hands over the held-out seed → score, fresh → ``result.json`` → ``done`` → exit once the host has acknowledged, or
the lease has ended. A job ``until: build`` goes from build to ``result.json``; one with ``states_given`` from build to
score, where those states take the place of what training would have come to.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_bench.worker import hardware, memory, reports, scorer_files, spawner
from trace_bench.worker.checkpoint_relay import CheckpointRelay
from trace_bench.worker.clocks import Late, TrainClock, late_task, late_training, recorded_kill, timed_out
from trace_bench.worker.control_stream import Message, fits
from trace_bench.worker.datagrams import receive_datagram, send_datagram
from trace_bench.worker.folders import HELD_OUT, let_in, make_folder_of, tree_bytes, unpack
from trace_bench.worker.host_link import HostLink
from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.phase_process import REPORT_BYTES, Failure, PhaseProcess
from trace_bench.worker.recorder import Recorder
from trace_bench.worker.relay import Relay

LEASE_ENDED = 75
"""Exit code: no controller renewed the lease."""
HUNG_UP = 76
"""Exit code: the host hung up before it sent a job."""
SPAWNER_ENDED = 70
SPAWNER_KILLED = 74
"""Exit code: the spawner was killed by a signal. Nothing of a job can do that but the kernel, for want of memory."""
VOLUME_FULL = 77
"""Exit code: there was no room for ``result.json``, not even what was kept free for it."""
RESERVE = 4 << 20
"""Bytes of the volume that are kept free for what is written at the end; less of a small one."""
STOP_GRACE = 5.0
"""Seconds that a phase has, after it was asked to stop, before it is killed."""
DISK_INTERVAL = 0.25
MAX_REPORTED = 64 << 20
"""Bytes of events and history of one job."""


class Supervisor:
    """One job, from ``job`` to ``done``."""

    def __init__(self, options: spawner.Options, out: Path, lease: float) -> None:
        # Before anything else: the spawner must be forked from memory that has read nothing.
        self._spawn = spawner.fork(options)
        self._spawn.setblocking(False)
        self._options = options
        self._out_dir = out
        self._lease = lease
        self._selector = selectors.DefaultSelector()
        self._job: dict[str, Any] = {}
        self._phases: dict[str, PhaseProcess] = {}
        self._given: dict[str, dict[str, Any]] = {}
        self._build: dict[str, Any] | None = None
        self._score: dict[str, Any] | None = None
        self._failure: Failure | None = None
        self._stop_reason: str | None = None
        self._train_done = False
        self._train_end: dict[str, Any] | None = None
        self._train_evaluations = 0
        self._train_seconds: float | None = None
        self._train_killed = False
        self._train_calls = 0
        self._checks = 0
        self._test_seed: int | None = None
        self._awaiting_seed = False
        self._clock = TrainClock()
        self._seconds: dict[str, float] = {}
        self._phase_ends: dict[str, dict[str, int | None]] = {}
        self._warnings: list[str] = []
        self._warned: set[str] = set()
        self._claims: dict[str, dict[str, Any] | None] = {}
        self._tallies: dict[str, dict[str, Any]] = {}
        self._scorer_files: dict[str, Any] | None = None
        self._last_disk = 0.0
        self._done = False
        self._signalled = False
        self._exit: int | None = None

    # -- loop ----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until the job is over; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._host = HostLink(
            self._selector,
            self._lease,
            on_message=self._on_message,
            on_successor=self._ask_again,
            on_hang_up=self._on_hang_up,
        )
        self._llm = LlmCalls(self._host.send)
        self._checkpoint = CheckpointRelay(self._clock, self._host.send, self._event)
        self._selector.register(self._spawn, selectors.EVENT_READ, lambda _: self._on_spawner())
        while self._exit is None:
            for key, mask in self._selector.select(timeout=0.2):
                handler: Callable[[int], None] = key.data
                handler(mask)
                if self._exit is not None:
                    break
            self._tick(time.monotonic())
        self._spawn.close()
        self._host.flush()
        return self._exit

    def _on_signal(self, *_: object) -> None:
        # Only a note: the loop may be in the middle of anything.
        self._signalled = True

    def _tick(self, now: float) -> None:
        if self._signalled:
            self._signalled = False
            if self._job:
                self._ask_to_stop("interrupted")
            else:
                self._exit = HUNG_UP
        if self._done and self._host.all_acknowledged:
            self._exit = 0
        elif self._host.lease_ended(now):
            sys.stderr.write("trace-bench: no controller renewed the lease; ending\n")
            self._exit = LEASE_ENDED
        elif self._job:
            if now - self._last_disk > DISK_INTERVAL:
                self._last_disk = now
                self._watch_disk()
            for phase in list(self._phases.values()):
                self._watch_clock(phase, now)

    def _watch_clock(self, phase: PhaseProcess, now: float) -> None:
        if phase.kill_at is not None:
            if now > phase.kill_at:
                self._kill(phase.name)
        elif phase.name != "train":
            failure = late_task(self._job, phase.name, now - phase.started)
            if failure is not None:
                self._fail(**failure)
                self._kill(phase.name)
                phase.kill_at = now + STOP_GRACE
        elif self._build is not None:
            late = late_training(self._job, now - phase.started, self._clock, now)
            if late is not None:
                self._failure = self._failure or late.failure
                self._ask_to_stop(late.stop_reason)
            else:
                self._kill_as_recorded(phase)

    def _kill_as_recorded(self, phase: PhaseProcess) -> None:
        late: Late | None = recorded_kill(self._job, self._checks, self._llm.answers)
        if late is not None and self._stop_reason is None:
            self._failure = self._failure or late.failure
            self._stop_reason = late.stop_reason
            self._kill("train")
            phase.kill_at = time.monotonic()

    def _watch_disk(self) -> None:
        allowed = self._job["limits"]["out_bytes"]
        used = tree_bytes(self._out_dir / "extra", allowed)
        # Where the volume has a size of its own it is full before the trainer's part of it has reached the limit.
        if (used > allowed or (self._recorder.full and used > allowed // 2)) and "train" in self._phases:
            self._fail(
                "trainer",
                "disk_limit",
                f"the trainer left more than {self._job['limits']['out_bytes']} bytes in its output folder",
            )
            self._kill("train")
            with contextlib.suppress(ConnectionError):
                send_datagram(self._spawn, {"op": "purge", "name": "train", "path": str(self._out_dir / "extra")})

    # -- the host ------------------------------------------------------------------------------------------------

    def _on_hang_up(self) -> None:
        if not self._job:
            self._exit = HUNG_UP

    def _ask_again(self) -> None:
        """What the last controller took but may not have answered: LLM calls, and the held-out seed."""
        self._llm.ask_again()
        if self._train_end is not None and self._test_seed is None:
            self._host.send("event", {"event": self._train_end})

    def _on_message(self, message: Message) -> None:
        kind, header = message.type, message.header
        if kind == "job" and not self._job:
            task, states = reports.given_states(header, message.blob)
            self._begin(header["job"], self._checkpoint.split(header, task), states)
        elif kind == "llm.response":
            self._llm.answered(header, message.blob)
        elif kind == "heldout":
            self._test_seed = int(header["test_seed"])
            if self._awaiting_seed:
                self._start_score()
        elif kind == "stop":
            self._ask_to_stop(header.get("reason", "interrupted"))

    # -- the job -------------------------------------------------------------------------------------------------

    def _begin(self, job: dict[str, Any], task: bytes, states: dict[str, dict[str, Any]]) -> None:
        self._job, self._given = job, states
        reserve = min(RESERVE, job["limits"]["out_bytes"] // 8)
        self._recorder = Recorder(self._out_dir, job["limits"]["stdout_bytes"], reserve)
        # Half of what the volume, and each file of it, may hold; and three states fit into a file.
        self._allowance = reports.Allowance(min(job["limits"]["out_bytes"] // 2, MAX_REPORTED))
        # Whoever used that up did so before scoring, and must not cost the job its scores.
        self._score_allowance = reports.Allowance(min(job["limits"]["out_bytes"], MAX_REPORTED) // 8)
        self._state_bytes = min(job["limits"]["out_bytes"] // 8, REPORT_BYTES)
        unpack(task, self._options.tmp / "task", self._options.uid_base)
        let_in(self._options.tmp / "task" / HELD_OUT, self._build_only)
        self._event("job.start", {"task": job["task"]["id"], "trainer": job["trainer"]["id"], "seed": job["seed"]})
        self._start_phase("build")
        if not self._untrained:
            uid = self._options.uid_base
            extra = self._out_dir / "extra"
            make_folder_of(extra, None if uid is None else uid + spawner.PHASE_OFFSETS["train"])
            self._start_phase("train", extra_dir=str(extra))
            self._checkpoint.hand_over(self._phases["train"])

    @property
    def _build_only(self) -> bool:
        return bool(self._job.get("until", "score") != "score")

    @property
    def _untrained(self) -> bool:
        return self._build_only or bool(self._job.get("states_given", False))

    def _start_phase(self, name: str, **start: Any) -> None:
        relay = None
        if name != "build":
            uid = self._options.uid_base
            relay = Relay(
                self._selector,
                None if uid is None else uid + spawner.PHASE_OFFSETS[name],
                lambda request, answer: self._llm.ask(name, request, answer),
            )
        phase = PhaseProcess(
            name,
            self._selector,
            relay=relay,
            on_report=self._on_report,
            on_output=self._on_output,
            on_end=self._end_if_over,
            on_nonsense=self._on_nonsense,
        )
        self._phases[name] = phase
        with contextlib.suppress(ConnectionError):  # it has ended; `_on_spawner` hears of it next
            phase.hand_over(self._spawn)
        port = relay.port if relay else None
        phase.tell("start", job=self._job, task_dir=str(self._options.tmp / "task"), gateway_port=port, **start)
        self._event("phase.start", {"phase": name})

    def _ask_to_stop(self, reason: str) -> None:
        if self._stop_reason is not None and self._stop_reason != "completed":
            return
        if reason == "budget" and self._train_done:
            return  # what is left is to score what training came to
        self._stop_reason = reason
        if reason == "interrupted":
            self._event("stop.requested", {"reason": reason})
        for phase in self._phases.values():
            if phase.name == "train":
                phase.tell("go")
                phase.tell("stop", reason=reason)
                phase.kill_at = time.monotonic() + STOP_GRACE
            elif self._untrained:
                # There is nothing to end in order.
                self._fail("harness", "interrupted", f"the {phase.name} was interrupted")
                phase.kill_at = time.monotonic()

    def _kill(self, name: str) -> None:
        # Asked again at every tick: a spawner that is stuck must not take the clocks and the lease with it.
        with contextlib.suppress(BlockingIOError, ConnectionError):
            send_datagram(self._spawn, {"op": "kill", "name": name})

    def _fail(self, boundary: str, kind: str, message: str) -> None:
        # The first failure is the cause; what follows from it would only hide it.
        if self._failure is None:
            self._failure = {"boundary": boundary, "kind": kind, "message": message}
            self._event("failure", self._failure)
        elif self._failure["kind"] == "job_timeout" and message not in self._warnings:
            # Which says that a state was scored; whether it was is another matter.
            self._warn(message)

    def _event(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        line = self._recorder.event(kind, fields)
        self._host.send("event", {"event": line})
        return line

    # -- phases --------------------------------------------------------------------------------------------------

    def _on_report(self, phase: PhaseProcess, message: dict[str, Any]) -> None:
        op = message["op"]
        if op in ("event", "history", "warn"):
            (self._score_allowance if phase.name == "score" else self._allowance).take(message)
        if op == "event":
            self._event(reports.event_kind(phase.name, message["kind"]), dict(message["fields"]))
        elif op == "history" and phase.name == "train":
            line = {**message["line"], **self._llm.spent}
            as_of = line.pop("as_of", None)
            # Of a trainer that is killed this is all that is known.
            self._train_evaluations = reports.count(line["evaluations"])
            seconds = self._clock.seconds(time.monotonic())
            line["seconds"] = round(seconds if as_of is None else max(0.0, min(as_of, seconds)), 6)
            self._host.send("history", {"line": self._recorder.history(line)})
        elif op == "checkpoint" and phase.name == "train":
            self._checkpoint.pass_on(message["line"], time.monotonic())
        elif op == "resumed" and phase.name == "train":
            self._clock.live_at = self._clock.live_at or time.monotonic()
        elif op == "state" and phase.name == "train" and message["kind"] in ("best", "final"):
            self._recorder.state(message["kind"], reports.state(message["values"], self._state_bytes))
            self._claims[message["kind"]] = reports.claim(message.get("claim"))
        elif op == "claim" and phase.name == "train" and message["kind"] == "initial":
            self._claims["initial"] = reports.claim(message["claim"])
        elif op == "check" and phase.name == "train":
            self._checks += 1
        elif op == "warn":
            topic = str(message.get("once", ""))[:100]
            if not topic or topic not in self._warned:
                self._warned.add(topic)
                self._warn(str(message["message"])[:2000])
        elif op == "result":
            phase.result = reports.result(phase.name, message, self._state_bytes)
        elif op == "failed":
            phase.failure = reports.failure(
                message, phase.boundary, provider_failed=self._llm.provider_failed, has_gpus=bool(hardware.gpus())
            )

    def _warn(self, message: str) -> None:
        if len(self._warnings) < 100:
            self._warnings.append(message)
        self._event("warning", {"message": message})

    def _on_nonsense(self, phase: PhaseProcess, sentence: str) -> None:
        self._fail(phase.boundary, "bad_report", sentence)
        self._kill(phase.name)

    def _on_output(self, phase: PhaseProcess, data: bytes) -> None:
        if self._recorder.log(data):
            self._host.send_ephemeral("log", {"phase": phase.name, "text": data.decode("utf-8", "replace")})
        elif self._failure is None or self._failure["kind"] != "output_limit":
            limit = self._job["limits"]["stdout_bytes"]
            self._fail(phase.boundary, "output_limit", f"{phase.name} printed more than {limit} bytes")
            self._kill(phase.name)

    def _on_spawner(self) -> None:
        try:
            received = receive_datagram(self._spawn)
        except ConnectionError:
            received = None
        if received is None:
            sys.stderr.write("trace-bench: the spawner ended\n")
            _, status = os.waitpid(-1, 0)  # it is our only child
            self._exit = SPAWNER_KILLED if os.WIFSIGNALED(status) else SPAWNER_ENDED
            return
        message, _ = received
        if message["op"] == "exit":
            phase = self._phases[message["name"]]
            phase.exited = message
            self._tallies[phase.name] = message["candidates"]
            self._end_if_over(phase)

    def _end_if_over(self, phase: PhaseProcess) -> None:
        if not phase.is_over or phase.name not in self._phases:
            return
        phase.close()
        del self._phases[phase.name]
        if phase.relay is not None and phase.relay.refused:
            self._warn(
                f"{phase.relay.refused} connections to the {phase.name} phase's port for LLM calls came from another "
                "uid and were dropped"
            )
        self._seconds[phase.name] = round(time.monotonic() - phase.started, 6)
        self._phase_ends[phase.name] = phase.end
        self._event("phase.end", {"phase": phase.name, "seconds": self._seconds[phase.name], **phase.end})
        failure = phase.failure
        if failure is None and phase.result is None:
            failure = phase.how_it_died()
        if failure is not None and not (
            phase.name == "train" and self._stop_reason in ("timeout", "interrupted", "budget")
        ):
            self._fail(**failure)
        getattr(self, f"_after_{phase.name}")(phase)

    def _after_build(self, phase: PhaseProcess) -> None:
        if phase.result is None:
            train = self._phases.get("train")
            if train is not None:
                # Again at every tick: a process that has only just been forked is no group yet that could be killed.
                train.kill_at = time.monotonic()
                self._kill("train")
            else:
                self._finish()
            return
        self._build = phase.result
        self._recorder.state("initial", phase.result["initial"])
        told = ("direction", "parameters", "examples", *(("bound", "programs") if phase.result["programs"] else ()))
        self._event("build.end", {key: phase.result[key] for key in told})
        if self._build_only:
            self._finish()
            return
        if self._untrained:
            for kind, values in self._given.items():
                if kind != "initial":  # what the problem starts from, as it is built here, stands beside it
                    self._recorder.state(kind, values)
            self._request_seed()
            return
        train = self._phases.get("train")
        if train is not None:
            train.started = time.monotonic()
            if not self._clock.before:
                self._clock.live_at = train.started
            train.tell("go")
            # What hashing needs before scoring is imported while somebody else is busy.
            importlib.import_module("hashlib")
        elif self._train_done:
            self._request_seed()

    def _after_train(self, phase: PhaseProcess) -> None:
        self._train_seconds = round(self._clock.seconds(time.monotonic()), 6)
        self._train_done = True
        self._train_calls = self._llm.number
        if phase.result is None:
            self._train_killed = True
        else:
            self._train_evaluations = phase.result["evaluations"]
            if self._stop_reason is None:
                self._stop_reason = self._recorded_reason() or self._own_reason(phase.result["stop_reason"])
        if self._build is not None:
            self._request_seed()
        elif "build" not in self._phases:
            self._finish()

    def _recorded_reason(self) -> str | None:
        """In a replay that has come to the recorded stop: why training was ended there."""
        place = self._job.get("stop_at")
        if place is None or self._checks < place["checks"]:
            return None
        if place["reason"] == "timeout":
            self._failure = self._failure or timed_out(self._job)
        return str(place["reason"])

    def _own_reason(self, told: str) -> str:
        """Why training ended that nobody has ended. That it was cut off, is not its to say: such a job is run again."""
        place = self._job.get("stop_at") or {}
        if told in ("completed", "budget", place.get("reason")):
            return told
        self._warn(f"the trainer says that its end was {told!r}, and nobody had ended it: it counts as completed")
        return "completed"

    def _stop_point(self) -> dict[str, Any] | None:
        """Where training was ended, so that a replay can end there."""
        if self._build is None or self._stop_reason in (None, "completed"):
            return None
        return {
            "reason": self._stop_reason,
            "checks": self._checks,
            "calls": self._train_calls,
            "killed": self._train_killed,
        }

    def _request_seed(self) -> None:
        self._awaiting_seed = True
        self._train_end = self._event("train.end", {"stop_reason": self._stop_reason})
        if self._test_seed is not None:
            self._start_score()

    def _start_score(self) -> None:
        self._awaiting_seed = False
        known = self._given if self._untrained else self._recorder.states
        states = {kind: known[kind] for kind in ("initial", "best", "final") if kind in known}
        let_in(self._options.tmp / "task" / HELD_OUT, True)
        self._scorer_files = scorer_files.digest(self._options.tmp / "task")
        self._start_phase("score", states=states, test_seed=self._test_seed)

    def _after_score(self, phase: PhaseProcess) -> None:
        self._score = phase.result
        before = self._scorer_files
        assert before is not None
        unchanged = scorer_files.digest(self._options.tmp / "task") == before
        self._scorer_files = {**before, "unchanged": unchanged}
        if not unchanged:
            # Whatever else went wrong: these scores are worth nothing.
            self._score = self._failure = None
            self._fail("harness", "scorer_changed", "a file that scoring depends on changed while it scored")
        self._finish()

    def _finish(self) -> None:
        if self._recorder.full:
            self._warn(f"/out had no room; {self._recorder.lost} pieces of what was to be written there are lacking")
        if self._recorder.lost:
            self._fail("sandbox", "out_of_disk", "the disk below /out was full, so that not all is there")
        ok = self._failure is None
        score = self._score or {}
        if self._llm.all_inert:
            self._warn("the stub model is inert for this trainer: no request carried variables that it could change")
        result = {
            "contract": 1,
            "status": "ok" if ok else "failed",
            "failure": self._failure,
            "stop_reason": self._stop_reason if self._build is not None and not self._untrained else None,
            "stop_point": None if self._untrained else self._stop_point(),
            "scores": score.get("scores", {}),
            "evaluations": self._train_evaluations,
            "score_evaluations": int(score.get("evaluations", 0)),
            "train_seconds": self._train_seconds,
            "llm_calls": self._llm.calls,
            "seconds": self._seconds,
            "warnings": self._warnings,
            "stub_inert": self._llm.all_inert,
            "integrity": self._integrity(),
            "evidence": {"phases": self._phase_ends, "memory": memory.account()},
            "hardware": hardware.described(),
        }
        self._event("job.end", {"status": result["status"]})
        if not self._recorder.result(result):
            sys.stderr.write("trace-bench: the disk below /out is full; there is no room for the result\n")
            self._exit = VOLUME_FULL
            return
        # The host counts what it collects. What is too large for a message is told without what makes it large.
        short = {**result, "scores": {}, "integrity": {}}
        self._host.send("done", {"result": result if fits(result) else short})
        self._done = True

    def _integrity(self) -> dict[str, Any]:
        """`WorkerIntegrity` of the contract."""
        return {
            "claims": {kind: claim for kind, claim in self._claims.items() if claim is not None},
            "signs": (self._score or {}).get("signs", {}),
            "candidates": self._tallies,
            "scorer_files": self._scorer_files,
        }
