"""Runs the trainer. It holds a gateway scope, so no source that a model wrote runs here."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.evaluate import evaluate_state, mean_score
from trace_bench.worker.phases import Link, PhaseFailure, build_problem
from trace_bench.worker.problem import Problem, Value
from trace_bench.worker.training import Rollout, Slot, State, StopTraining

MAX_SIGN_EVENTS = 200
"""Events ``candidate.signs`` of one job."""


def warm_up() -> None:
    """Imports what every trainer that calls a model needs, while the problem is still being built elsewhere."""
    # Which trainer it is, is not known yet; `run` imports it. Not at the top: the spawner imports this module before it
    # forks anything, and the HTTP client (with email and ssl) takes as long as all else there.
    importlib.import_module("http.client")


def run(link: Link, start: dict[str, Any], programs: CandidatePrograms) -> dict[str, Any]:
    """Returns the final state and why training stopped."""
    job = start["job"]
    module, _, name = job["trainer"]["entry"].partition(":")
    trainer = getattr(importlib.import_module(module), name)()
    if getattr(trainer, "uses_graph", False):
        from trace_bench.worker import graph

        graph.load()
    # The import above overlaps with the build phase; the supervisor says when building is over.
    while link.receive()["op"] != "go":
        continue
    programs.on_signs = _SignEvents(link)
    problem = build_problem(link, start, programs)
    context = WorkerTrainContext(link, start, problem, programs)
    stop_reason = "completed"
    try:
        final = trainer.train(problem, job["trainer"]["params"], context)
    except StopTraining as stop:
        stop_reason = stop.reason
        final = context.best_state
    if not isinstance(final, dict):
        raise PhaseFailure("trainer", "bad_state", f"{job['trainer']['id']} returned no state")
    link.send("state", kind="final", values=final, claim=context.claim_of(final))
    return {"stop_reason": stop_reason, "evaluations": context.evaluations}


class _SignEvents:
    """Tells of each source that has signs, up to a number of them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._left = MAX_SIGN_EVENTS

    def __call__(self, digest: str, signs: list[dict[str, Any]]) -> None:
        if self._left > 0:
            self._left -= 1
            self._link.send("event", kind="candidate.signs", fields={"candidate_sha256": digest[:16], "signs": signs})


class WorkerTrainContext:
    """Implements `training.TrainContext` over the link to the supervisor."""

    def __init__(self, link: Link, start: dict[str, Any], problem: Problem, programs: CandidatePrograms) -> None:
        job = start["job"]
        self.seed: int = job["seed"]
        self.optimizer: str = job["optimizer"]["id"]
        self.optimizer_kwargs: Mapping[str, Any] = job["optimizer"]["kwargs"]
        self.programs = programs
        self.evaluations = 0
        self.best_state: State = problem.initial_state()
        """What a search that is stopped ends with."""
        self.extra_dir = Path(start["extra_dir"])
        self._link = link
        self._problem = problem
        self._best: float | None = None
        self._started = time.monotonic()
        self._stop: str | None = None
        self._stop_at: Mapping[str, Any] | None = job.get("stop_at")
        self._thread = threading.get_ident()
        self._checks = 0
        self._port: int = start["gateway_port"]
        self._model: str = job["model"].get("model") or job["model"]["id"]
        self._selection = "validate" if problem.validate else "train"
        self._claims: dict[str, dict[str, Any]] = {}
        self._initial = _key(self.best_state)
        self._initial_split: str | None = None

    def claim_of(self, state: State) -> dict[str, Any] | None:
        """What was last reported of `state`, as a `Claim` of the contract; None if it never was."""
        return self._claims.get(_key(state))

    def check(self) -> None:
        """See `training.TrainContext.check`."""
        message = self._link.poll()
        if message is not None and message["op"] == "stop":
            self._stop = message["reason"]
        if self._stop is not None:
            raise StopTraining(self._stop)  # type: ignore[arg-type]
        if threading.get_ident() == self._thread:
            self._passed()

    def _passed(self) -> None:
        """Count one more look that the search went on after: the clock by which a replay ends at the same place.

        Threads beside the search's own look too, but in no order that comes again.
        """
        if self._stop_at is not None and self._checks >= self._stop_at["checks"]:
            if not self._stop_at["killed"]:
                raise StopTraining(self._stop_at["reason"])
            while True:  # the supervisor is about to kill it
                self._link.receive()
        self._checks += 1
        self._link.send("check")

    def evaluate(self, state: Mapping[str, Value], example_indices: Sequence[int], split: str) -> list[Rollout]:
        """See `training.Evaluate`."""
        self.check()
        examples = getattr(self._problem, split)
        rollouts = evaluate_state(self._problem, state, [examples[i] for i in example_indices], self.programs)
        self.count_evaluations(len(rollouts))
        return rollouts

    def count_evaluations(self, number: int) -> None:
        """Evaluations that a trainer made through a graph of its own."""
        self.evaluations += number

    def step(
        self,
        *,
        step: int,
        candidate: str,
        parent: str | None,
        state: State,
        rollouts: Sequence[Rollout],
        split: str,
        **extra: Any,
    ) -> None:
        """See `training.TrainContext.step`."""
        score = mean_score(rollouts)
        claim = {"score": score, "split": split, "examples": [r.example_id for r in rollouts]}
        _check_text(state)
        self._claims[key := _key(state)] = claim
        if key == self._initial and self._initial_split != self._selection:
            # The first of them on the split that official scores are of; until then, what there is.
            self._initial_split = split
            self._link.send("claim", kind="initial", claim=claim)
        if split == self._selection and (self._best is None or self._problem.better(score, self._best)):
            self._best = score
            self.best_state = dict(state)
            self._link.send("state", kind="best", values=dict(state), claim=claim)
        self._link.send(
            "history",
            line={
                "step": step,
                "candidate": candidate,
                "parent": parent,
                "split": split,
                "score": score,
                "best_score": score if self._best is None else self._best,
                "evaluations": self.evaluations,
                "parameters": dict(state),
                "extra": {
                    **extra,
                    "failures": sum(r.failed for r in rollouts),
                    "feedback": next((r.feedback for r in rollouts if r.failed), rollouts[0].feedback)[:1000],
                },
            },
        )
        self.check()

    def event(self, kind: str, **fields: Any) -> None:
        """See `training.TrainContext.event`."""
        self._link.send("event", kind=kind, fields=fields)

    def warn(self, message: str) -> None:
        """See `training.TrainContext.warn`."""
        self._link.send("warn", message=message)

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        slot: Slot,
        variables: Sequence[Mapping[str, Any]] = (),
        **request: Any,
    ) -> dict[str, Any]:
        """One chat completion through the gateway.

        Raises:
            StopTraining: the budget is used up, or a stop was asked for.
            PhaseFailure: at ``provider``: the gateway has no answer.
        """
        self.check()
        body = json.dumps({"model": self._model, "messages": messages, **request}).encode()
        headers = {"Content-Type": "application/json", "X-Trace-Bench-Slot": str(slot)}
        if variables:
            packed = zlib.compress(json.dumps(list(variables)).encode())
            headers["X-Trace-Bench-Variables"] = base64.b64encode(packed).decode()
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        try:
            connection.request("POST", "/v1/chat/completions", body, headers)
            response = connection.getresponse()
            text = response.read()
        except OSError as error:
            raise PhaseFailure("trainer", "relay", f"the port for LLM calls does not answer: {error}") from error
        finally:
            connection.close()
        try:
            reply = json.loads(text)
        except ValueError:
            reply = {}
        if response.status == 200 and isinstance(reply, dict):
            return reply
        error_body = reply.get("error", {}) if isinstance(reply, dict) else {}
        if isinstance(error_body, dict) and error_body.get("code") == "budget_exhausted":
            raise StopTraining("budget")
        if isinstance(error_body, dict) and error_body.get("code") == "training_stopped" and self._stop_at is not None:
            raise StopTraining(self._stop_at["reason"])
        message = error_body.get("message") if isinstance(error_body, dict) else None
        raise PhaseFailure("provider", "provider_error", f"HTTP {response.status}: {message or 'no explanation'}")


def _key(state: Mapping[str, Value]) -> str:
    return hashlib.sha256(repr(sorted(state.items())).encode("utf-8", "replace")).hexdigest()


def _check_text(state: State) -> None:
    """A text that is no Unicode cannot be written to any file.

    Raises:
        PhaseFailure: at ``trainer``.
    """
    for name, value in state.items():
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise PhaseFailure("trainer", "bad_state", f"{name} holds text that is no Unicode: {error}") from None
