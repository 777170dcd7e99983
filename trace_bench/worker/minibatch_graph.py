"""Runs one state on a minibatch of examples as one graph, for one backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.errors import TaskError, TraceBenchError
from trace_bench.worker.evaluate import failed, judged, raised_by_task
from trace_bench.worker.graph_nodes import GraphNodes, clipped
from trace_bench.worker.graph_ops import GraphOps
from trace_bench.worker.objective import SCORE
from trace_bench.worker.problem import (
    CandidateError,
    Example,
    Problem,
    ProblemError,
    Programs,
    Value,
)
from trace_bench.worker.training import Rollout, StopTraining


@dataclass(frozen=True)
class Traced:
    """A rollout, and the node to send its feedback to."""

    rollout: Rollout
    target: Any


class MinibatchGraph(GraphNodes):
    """The graph of one state on one minibatch; see `GraphNodes` on how to open it.

    Args:
        programs: opens the sources of trainable operators.

    Attributes:
        parts: of the last `batch`: where the feedback of each example enters, and that feedback.
    """

    def __init__(self, problem: Problem, state: Mapping[str, Value], programs: Programs) -> None:
        super().__init__(problem, state)
        self._programs = programs
        self.parts: tuple[tuple[Any, str], ...] = ()

    def __enter__(self) -> MinibatchGraph:
        super().__enter__()
        return self

    def run(self, example: Example) -> Traced:
        """Run the problem's agent on one example and score its response.

        Raises:
            TaskError: agent or guide raised anything but `CandidateError`.
            StopTraining: passed on.
        """
        target = None
        try:
            target, response = self._respond(example)
            return Traced(judged(self.problem, example, response), target)
        except CandidateError as error:
            # An operator's failure has a node of its own; without one, the response is where feedback enters.
            target = getattr(error, "exception_node", None) or target
            return self._failed(example, error, target)
        except (TraceBenchError, StopTraining):
            raise
        except ProblemError as error:
            raise TaskError(f"{error} (example {example.id!r})") from error
        except Exception as error:
            if target is None:
                raise raised_by_task("agent", self.problem.agent, error, example) from error
            raise raised_by_task("guide", self.problem.guide, error, example) from error

    def _respond(self, example: Example) -> tuple[Any, Any]:
        if self.problem.agent is None:
            raise TaskError("this problem has no agent to run")
        with GraphOps(self, self._programs) as ops:
            response = self.problem.agent(ops, example.query)
            return ops.node_of(response), ops.data_of(response)

    def _failed(self, example: Example, error: CandidateError, target: Any) -> Traced:
        if target is None:
            inputs = {name: node for name, node in self.parameters.items() if node.trainable}
            target = self.exception(error, function="agent", doc="The agent.", inputs=inputs)
        return Traced(failed(self.problem, example, error), target)

    def evaluated(self, rollout: Rollout) -> Traced:
        """The graph of a problem without agent: its only trainable parameter, evaluated without a graph.

        Raises:
            TaskError: the problem has not exactly one trainable parameter.
        """
        if len(self.problem.trainable) != 1:
            raise TaskError(
                "a problem without agent needs exactly one trainable parameter, "
                f"and this one has {len(self.problem.trainable)}"
            )
        name = self.problem.trainable[0].name
        doc = f"Runs {name} on one example of the problem and scores it."
        inputs = {name: self.parameters[name]}
        if rollout.failed:
            error = CandidateError("call", rollout.feedback)
            target = self.exception(error, function="evaluate", doc=doc, inputs=inputs)
            target._data = rollout.feedback
        else:
            target = self.message(rollout.score, function="evaluate", name="score", doc=doc, inputs=inputs)
        return Traced(rollout, target)

    def batch(self, traced: Sequence[Traced]) -> tuple[Any, str]:
        """One target and one feedback for all of `traced`: feedbacks that meet in one graph must be equal."""
        lines = [f"({self._scores(t.rollout)}) {t.rollout.feedback}".rstrip() for t in traced]
        self.parts = tuple((t.target, line) for t, line in zip(traced, lines, strict=True))
        if len(traced) == 1 and isinstance(traced[0].target, self.opto.MessageNode):
            return traced[0].target, lines[0]
        target = self.message(
            "\n".join(f"ID [{i}]: {clipped(t.target._data)}" for i, t in enumerate(traced)),
            function="join",
            name="results",
            doc="Puts the results of all examples together, each under its ID.",
            inputs={f"result_{i}": t.target for i, t in enumerate(traced)},
        )
        return target, "\n".join(f"ID [{i}]: {line}" for i, line in enumerate(lines))

    def _scores(self, rollout: Rollout) -> str:
        """The score, and the metrics beside the task's own score, each with the way in which it is better."""
        measured = {n: (v, self.problem.metrics[n].direction) for n, v in rollout.metrics.items() if n != SCORE}
        listed = {SCORE: (rollout.score, self.problem.direction), **measured}
        return "; ".join(
            f"{name} {value:.10g}, {'higher' if direction == 'maximize' else 'lower'} is better"
            for name, (value, direction) in listed.items()
        )
