"""A small, honest supervisor without processes: the sandbox's end of the control stream, and a volume in memory.

It speaks the real control stream (``docs/design/job-contract.md``) and leaves the real files, so that a test of the
controller meets everything but the isolation. It has no thread: `move` takes in what was written and lives on as far as
that and the clock allow. What it does is a `Script`; its scores are a function of the job's id alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trace_bench.worker.control_stream import PADDING, Decoder, Mailbox, Message

FOREVER = float("inf")


@dataclass(frozen=True)
class Script:
    """What one sandbox does.

    Attributes:
        starting: seconds until its supervisor speaks.
        seconds: of training, after `calls` questions to the model.
        ends: ``done``, whatever the scores; ``hangs`` in training until it is told to stop; ``dies starting`` before
            it speaks; ``dies`` with training begun.
        failure, kind: of the failure that ``result.json`` tells of; its boundary ``damaged``: that file is no JSON.
        outage: seconds for which the engine is gone once training has begun.
    """

    starting: float = 0.0
    seconds: float = 0.0
    calls: int = 1
    ends: Literal["done", "hangs", "dies starting", "dies"] = "done"
    failure: str = ""
    kind: str = "simulated"
    outage: float = 0.0


def scores_of(job_id: str) -> tuple[float, float]:
    """Initial and best score of a job; both are below 1, the second is not below the first."""
    digest = hashlib.sha256(job_id.encode()).digest()
    return digest[0] / 512, digest[0] / 512 + digest[1] / 512


class Supervisor:
    """One job from the first word to the last.

    Attributes:
        wish: what it waits for: a time of the monotonic clock, or a type of message.
        exit: its exit code once it has ended.
        outgoing: what is to be read from it.
    """

    def __init__(
        self, script: Script, *, on_first_word: Callable[[], None], on_outage: Callable[[float], None]
    ) -> None:
        self._script = script
        self._on_first_word = on_first_word
        self._on_outage = on_outage
        self.wish: float | str = FOREVER
        self.exit: int | None = None
        self.outgoing = bytearray()
        self._unread = bytearray()
        self._speaks = self._stoppable = self._done = False
        self._stop: str | None = None
        self._answer: Message | None = None
        self._question: tuple[dict[str, Any], bytes] | None = None
        self._train_end: dict[str, Any] | None = None
        self._controller = ""
        self._decoder, self._mailbox = Decoder(), Mailbox()
        self._job: dict[str, Any] | None = None
        self._seed: int | None = None
        self._events: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []
        self._files: dict[str, Any] = {}
        self._began = time.monotonic()
        self._life = self._live()
        self.wish = next(self._life)

    def write(self, data: bytes) -> None:
        self._unread += data

    def stop(self, reason: str) -> None:
        """End training in order."""
        self._stop = self._stop or reason

    def end(self, code: int) -> None:
        """It is gone, at once."""
        if self.exit is None:
            self.exit = code
            self._first_word()

    def move(self) -> None:
        if self._speaks and self.exit is None:
            self._take_in()
        while self.exit is None and self._may_go_on():
            self.wish = next(self._life)
        if self._done and self._mailbox.pending == 0:
            self.end(0)

    @property
    def job(self) -> dict[str, Any] | None:
        """``job.json``, once it was handed over."""
        return self._job

    def volume(self) -> dict[str, bytes]:
        """The files of /out by name."""
        lines = {"events.jsonl": self._events, "state_history.jsonl": self._history}
        found = {name: "".join(json.dumps(line) + "\n" for line in of).encode() for name, of in lines.items()}
        files = {name: v if isinstance(v, bytes) else json.dumps(v).encode() for name, v in self._files.items()}
        return {**found, **files, "stdout.log": b"simulated\n" if self._events else b""}

    # -- its life --------------------------------------------------------------------------------------------------

    def _live(self) -> Generator[float | str, None, None]:
        script = self._script
        yield self._began + script.starting
        self._first_word()
        self._hello()
        self._take_in()
        if script.ends == "dies starting":
            self.end(70)
        yield "job"
        assert self._job is not None
        job = self._job
        initial, best = scores_of(job["job_id"])
        self._event("job.start", task=job["task"]["id"], trainer=job["trainer"]["id"], seed=job["seed"])
        self._event("phase.start", phase="build")
        x = {"name": "x", "kind": "float", "trainable": True}
        self._event("build.end", direction="maximize", parameters=[x], examples={"train": 1, "validate": 1})
        self._event("phase.start", phase="train")
        self._files["states.json"] = {"initial": {"x": initial}}
        training, self._stoppable = time.monotonic(), True
        for number in range(script.calls):
            self._ask(number)
            yield "llm.response"
            if self._answer is not None and b'"budget_exhausted"' in self._answer.blob:
                self.stop("budget")
            elif self._answer is not None:
                self._told(number, initial if number == 0 else best)
            self._question = self._answer = None
            if self._stop is not None:
                break
        if script.outage:
            self._on_outage(script.outage)
        if script.ends == "dies":
            self.end(137)
        yield FOREVER if script.ends == "hangs" else training + script.seconds
        self._stoppable = False
        states = (("initial", initial), ("best", best), ("final", best))
        self._files["states.json"] = {state: {"x": value} for state, value in states}
        self._train_end = self._event("train.end", stop_reason=self._stop or "completed")
        yield "heldout"
        self._event("phase.start", phase="score")
        self._finish({state: {"validate": value} for state, value in states})
        yield FOREVER

    def _finish(self, scores: dict[str, Any]) -> None:
        failure = self._script.failure
        told = {"boundary": failure, "kind": self._script.kind, "message": "it was to fail"}
        result = {
            "contract": 1, "status": "failed" if failure else "ok", "failure": told if failure else None,
            "stop_reason": self._stop or "completed", "scores": scores, "evaluations": len(self._history) + 3,
            "llm_calls": len(self._history), "seconds": {"build": 0.0, "train": 0.0, "score": 0.0}, "warnings": [],
            "stub_inert": False,
        }  # fmt: skip
        self._event("job.end", status=result["status"])
        self._files["result.json"] = b"{" if failure == "damaged" else result
        self._send("done", result=result)
        self._done = True

    def _may_go_on(self) -> bool:
        if self._stop is not None and self._stoppable:
            return True
        if isinstance(self.wish, float):
            return time.monotonic() >= self.wish
        return {"job": self._job, "llm.response": self._answer, "heldout": self._seed}[self.wish] is not None

    def _ask(self, number: int) -> None:
        model = self._job["model"]["id"] if self._job is not None else ""
        body = {"model": model, "messages": [{"role": "user", "content": f"question {number}"}]}
        fields = {
            "id": f"train-{number}", "phase": "train", "method": "POST", "path": "/v1/chat/completions",
            "headers": {"x-trace-bench-slot": f"step={number}"},
        }  # fmt: skip
        self._question = (fields, json.dumps(body).encode())
        self.outgoing += self._mailbox.pack("llm.request", *self._question)

    def _told(self, step: int, score: float) -> None:
        line = {
            "step": step, "candidate": f"c{step}", "split": "validate", "score": score, "best_score": score,
            "seconds": 0.0, "evaluations": step + 1, "parameters": {"x": score},
        }  # fmt: skip
        self._history.append(line)
        self._send("history", line=line)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        line = {"t": round(time.monotonic() - self._began, 6), "event": kind, **fields}
        self._events.append(line)
        self._send("event", event=line)
        return line

    # -- the stream ------------------------------------------------------------------------------------------------

    def _send(self, kind: str, **fields: Any) -> None:
        self.outgoing += self._mailbox.pack(kind, fields)

    def _hello(self) -> None:
        fields = {"received": self._mailbox.received, "forgotten": self._mailbox.forgotten}
        self.outgoing += self._mailbox.pack_ephemeral("hello", fields)

    def _first_word(self) -> None:
        if not self._speaks:
            self._speaks = True
            self._on_first_word()

    def _take_in(self) -> None:
        data = bytes(self._unread)
        self._unread.clear()
        for message in self._decoder.feed(data):
            if message.type == "hello":
                self._on_hello(message.header)
            elif message.type == "ack":
                self._mailbox.acknowledged(message.header["received"])
            elif self._mailbox.accept(message):
                self._on_message(message)
                if "n" in message.header:
                    self.outgoing += self._mailbox.ack()

    def _on_message(self, message: Message) -> None:
        if message.type == "job":
            self._job = self._job or message.header["job"]
        elif message.type == "heldout":
            self._seed = message.header["test_seed"]
        elif message.type == "stop":
            self.stop(message.header["reason"])
        elif message.type == "llm.response" and self._question and self._question[0]["id"] == message.header["id"]:
            self._answer = message

    def _on_hello(self, header: Mapping[str, Any]) -> None:
        before, self._controller = self._controller, header["controller"]
        self.outgoing += PADDING
        self._hello()
        self.outgoing += self._mailbox.resend(header["received"])
        if before not in ("", self._controller):
            # What the last controller took but may not have answered.
            if self._question is not None:
                self.outgoing += self._mailbox.pack("llm.request", *self._question)
            if self._train_end is not None and self._seed is None:
                self._send("event", event=self._train_end)
