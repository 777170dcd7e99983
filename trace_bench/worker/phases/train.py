"""Runs the trainer. It holds a gateway scope, so no source that a model wrote runs here."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.worker.answer_text import READER
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.checkpoint import Checkpoint, Watch, digest_of
from trace_bench.worker.evaluate import evaluate_state, mean_metrics, mean_score
from trace_bench.worker.objective import Front
from trace_bench.worker.phases import Link, PhaseFailure, build_problem, model_of
from trace_bench.worker.phases.model_calls import ModelCalls
from trace_bench.worker.phases.progress import Progress
from trace_bench.worker.problem import Problem, Value
from trace_bench.worker.search_loop import run_search
from trace_bench.worker.training import Budget, Rollout, Slot, State, Step, StopTraining, selection_of

PLUGINS = "/opt/trace-bench/plugins"
"""Where an image has the files of trainer packages. No other phase can import them: not the one that scores."""

BRIDGE = "trace_bench.trainers.opto_bridge"
"""The module of the trainers of OpenTrace."""


def warm_up() -> None:
    """Imports what every trainer that calls a model needs, while the problem is still being built elsewhere."""
    # Which trainer it is, is not known yet; `run` imports it. Not at the top: the spawner imports this module before it
    # forks anything, and the HTTP client (with email and ssl) takes as long as all else there.
    importlib.import_module("http.client")


def run(link: Link, start: dict[str, Any], programs: CandidatePrograms) -> dict[str, Any]:
    """Returns the final state and why training stopped."""
    job = start["job"]
    module, _, name = job["trainer"]["entry"].partition(":")
    add_plugins()
    if module == BRIDGE:
        add_checkout()
    trainer = getattr(importlib.import_module(module), name)()
    if getattr(trainer, "uses_graph", False):
        from trace_bench.worker import graph

        graph.load()
    # The import above overlaps with the build phase; the supervisor says when building is over. Before that it hands
    # over the results of earlier attempts.
    lines: list[str] = []
    while (message := link.receive())["op"] != "go":
        if message["op"] == "checkpoint":
            lines += message["text"].splitlines()
    watch = Watch(start["gateway_port"])
    problem = build_problem(link, start, programs)
    watch.built()
    context = WorkerTrainContext(link, start, problem, programs, watch, lines)
    if hasattr(trainer, "search"):
        final, stop_reason = run_search(trainer, problem, job["trainer"]["params"], context)
    else:
        # No trainer that the host lists, and no search: what the worker is tested with does what no search would.
        try:
            final, stop_reason = trainer.train(problem, job["trainer"]["params"], context), "completed"
        except StopTraining as stop:
            final, stop_reason = context.best_state, stop.reason
    if not isinstance(final, dict):
        raise PhaseFailure("trainer", "bad_state", f"{job['trainer']['id']} returned no state")
    context.report_resumed()
    link.send("state", kind="final", values=final, claim=context.claim_of(final))
    return {"stop_reason": stop_reason, "evaluations": context.evaluations, "evaluations_saved": context.saved}


def add_plugins() -> None:
    """Put `PLUGINS` before what the image has besides the standard library: it may hold another opto."""
    ours = [index for index, path in enumerate(sys.path) if Path(path).parent == Path(PLUGINS).parent]
    sys.path.insert(min(ours, default=len(sys.path)), PLUGINS)


def add_checkout() -> None:
    """Put the copy of OpenTrace that the local backend names before installed packages. Images have it in `PLUGINS`."""
    if named := os.environ.get("OPENTRACE"):
        names = ("site-packages", "dist-packages")
        installed = [index for index, path in enumerate(sys.path) if Path(path).name in names]
        sys.path.insert(min(installed, default=len(sys.path)), named)


@dataclass(frozen=True)
class Best:
    """A state that was scored on all examples of the official score, with its claim."""

    score: float
    state: State
    claim: Mapping[str, Any]


class WorkerTrainContext:
    """Implements `training.TrainContext` over the link to the supervisor."""

    def __init__(
        self,
        link: Link,
        start: dict[str, Any],
        problem: Problem,
        programs: CandidatePrograms,
        watch: Watch,
        lines: Sequence[str] = (),
    ) -> None:
        job = start["job"]
        self.seed: int = job["seed"]
        self.optimizer: str = job["optimizer"]["id"]
        self.optimizer_kwargs: Mapping[str, Any] = job["optimizer"]["kwargs"]
        guide = job.get("guide") or {"id": "default", "kwargs": {}}
        self.guide: str = guide["id"]
        self.guide_kwargs: Mapping[str, Any] = guide["kwargs"]
        self.budget = Budget(**job["budget"])
        self.programs = programs
        self.evaluations = 0
        self.saved: int | None = 0 if job.get("memo") else None
        """Evaluations that were asked for and known; None where none are remembered."""
        self.best_state: State = problem.initial_state()
        """What a search that is stopped ends with."""
        self.reader: int = job.get("reader", READER)
        """See `training.TrainContext.reader`."""
        self.extra_dir = Path(start["extra_dir"])
        self._link = link
        self._problem = problem
        self._best: Best | None = None
        self._front = (
            Front[Best](problem.comparison, problem.metrics, self.seed) if problem.comparison.mode == "pareto" else None
        )
        self._started = time.monotonic()
        self._stop: str | None = None
        self._stop_at: Mapping[str, Any] | None = job.get("stop_at")
        self._thread = threading.get_ident()
        self._checks = 0
        self._model = ModelCalls(start["gateway_port"], model_of(job), watch, self._stop_at, self.reader)
        self._selection = selection_of(problem)
        self._judging = {example.id for example in getattr(problem, self._selection)}
        self._claims: dict[str, dict[str, Any]] = {}
        self._initial = digest_of(self.best_state)
        self._initial_split: str | None = None
        self._watch = watch
        self._checkpoint = Checkpoint(lines, lambda line: link.send("checkpoint", line=line), self.event)
        self._resuming = self._checkpoint.as_of is not None
        if lines and not self._resuming:
            link.send("resumed")
        if self._checkpoint.damaged:
            self.warn(
                f"{self._checkpoint.damaged} lines of the checkpoint of an earlier attempt are damaged, and not used"
            )

    def claim_of(self, state: State) -> dict[str, Any] | None:
        """The last reported score of `state`, as a `Claim` of the contract; None if there is none."""
        return self._claims.get(digest_of(state))

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
        """Count one more check after which the search continues: the clock by which a replay ends at the same place.

        Threads beside the search's own check too, but in an order that is not reproducible.
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
        chosen = [examples[i] for i in example_indices]
        self.count_evaluations(len(chosen))
        key, nth, known = self._checkpoint.ask(digest_of(state), split, example_indices, [e.id for e in chosen])
        if known is not None:
            return known.rollouts
        self.report_resumed()
        with self._watch.evaluation(self._checkpoint):
            progress = Progress(self._link, split, check=self.check)
            rollouts = evaluate_state(self._problem, state, chosen, self.programs, progress)
        self._checkpoint.keep(key, nth, rollouts)
        return rollouts

    def report_resumed(self) -> None:
        """Report, once, that the search has reached the point where an earlier attempt ended."""
        if self._resuming:
            self._resuming = False
            self._link.send("resumed")
            self.event("search.resumed", evaluations=self._checkpoint.found, llm_calls=self._model.calls)

    @property
    def deterministic(self) -> bool:
        """See `training.TrainContext.deterministic`. Once an evaluation has asked a model, or has drawn from the
        process's own generators, the next one may come out otherwise."""
        return self.saved is not None and not (self._watch.asked or self._watch.drew)

    def count_saved(self, number: int) -> None:
        """See `training.TrainContext.count_saved`."""
        self.saved = (self.saved or 0) + number

    def count_evaluations(self, number: int) -> None:
        """See `training.TrainContext.count_evaluations`."""
        allowed = self.budget.evaluations
        if allowed is not None and self.evaluations + number > allowed:
            raise StopTraining("budget")
        self.evaluations += number

    def record(self, step: Step) -> None:
        """See `training.TrainContext.record`."""
        score = mean_score(step.rollouts)
        examples = [r.example_id for r in step.rollouts]
        claim = {"score": score, "split": step.split, "examples": examples}
        _check_text(step.state)
        self._claims[key := digest_of(step.state)] = claim
        if key == self._initial and self._initial_split != self._selection:
            # The first of them on the split that official scores are of; until then, what there is.
            self._initial_split = step.split
            self._link.send("claim", kind="initial", claim=claim)
        # Means over other examples do not compare: best is who is best on all that the official score is of.
        comparable = step.split == self._selection and self._judging <= set(examples)
        metrics = mean_metrics(step.rollouts)
        if self._problem.metrics.keys() != metrics.keys():
            raise PhaseFailure(
                "trainer", "bad_step", "a step's rollouts lack metrics of the task; pass on those that evaluate() gives"
            )
        if comparable:
            self._compare(Best(score, dict(step.state), claim), metrics)
        self._link.send(
            "history",
            saved=self.saved,
            line={
                "step": step.step,
                "candidate": step.candidate,
                "parents": list(step.parents),
                "split": step.split,
                "score": score,
                "best_score": score if self._best is None else self._best.score,
                "comparable": comparable,
                "metrics": metrics,
                "accepted": step.accepted,
                "reason": step.reason[:1000],
                "evaluations": self.evaluations,
                "parameters": dict(step.state),
                "as_of": self._checkpoint.as_of if self._resuming else None,
                "extra": {
                    **step.extra,
                    "failures": sum(r.failed for r in step.rollouts),
                    "feedback": next((r.feedback for r in step.rollouts if r.failed), step.rollouts[0].feedback)[:1000],
                },
            },
        )
        self.check()

    def _compare(self, new: Best, metrics: Mapping[str, float]) -> None:
        """Make `new` the best state if it is better. Where dominance decides, another state can become the best."""
        best = self._best
        if self._front is not None:
            best = self._front.add(metrics, new)
        elif best is None or self._problem.better(new.score, best.score):
            best = new
        if best is not None and best is not self._best:
            self._best = best
            self.best_state = dict(best.state)
            self._link.send("state", kind="best", values=dict(best.state), claim=best.claim)

    def event(self, kind: str, /, **fields: Any) -> None:
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
        """One chat completion through the gateway. See `ModelCalls.chat`."""
        self.check()
        return self._model.chat(messages, slot, variables, request)

    def embed(self, texts: Sequence[str], *, slot: Slot, model: str = "") -> list[list[float]]:
        """One vector for each text, in order, through the gateway. Raises as `chat` does."""
        self.check()
        return self._model.embed(texts, slot, model)


def _check_text(state: State) -> None:
    """Check that all texts of `state` are Unicode: others cannot be written to a file.

    Raises:
        PhaseFailure: at ``trainer``.
    """
    for name, value in state.items():
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise PhaseFailure("trainer", "bad_state", f"{name} holds text that is no Unicode: {error}") from None
