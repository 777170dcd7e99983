"""LLMJudge: a model says what is wrong with a response, beside the score that the task's own guide gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.trainers.answer_reading import unusable
from trace_bench.trainers.answers import Unusable, content
from trace_bench.trainers.base import ChatModel, Log, Rollout, Slot
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.problem import Example, Problem
from trace_bench.worker.sentences import visible

MOST = 8000
"""Characters of a response, a query or a reference that the model is shown."""

_SYSTEM = (
    "You judge one response to a task, for somebody who is to improve what gave it. Say in a few sentences what "
    "is right, what is wrong, and what to change. Give no score: there is one. Do not write the response anew."
)


class LLMJudge:
    """Writes feedback on training examples with the job's model.

    It replaces the task's feedback in the optimizer's prompt. Each judgement is one call with its own slot
    (``candidate=judge``), paid from the job's budget. The feedback of a failed candidate is its error, without a call.

    Args:
        kwargs: as `guides.GUIDES` has them.
    """

    def __init__(self, problem: Problem, chat: ChatModel, log: Log, kwargs: Mapping[str, Any]) -> None:
        self._problem = problem
        self._chat = chat
        self._log = log
        self._kwargs = kwargs
        self._judged = 0

    def feedback(self, example: Example, response: Any, rollout: Rollout) -> str:
        """What the model says of `response`, or the task's own feedback where it says nothing. To be called in an order
        that comes again.

        Raises:
            StopTraining: passed on. PhaseFailure: the provider has no answer.
        """
        if rollout.failed:
            return rollout.feedback
        self._judged += 1
        slot = Slot(self._judged, "judge")
        better = "higher" if self._problem.direction == "maximize" else "lower"
        told = [
            f"The task:\n{self._problem.objective}",
            f"The question:\n{clipped(example.query, MOST)}" if example.query is not None else "",
            f"The response:\n{clipped(response, MOST)}",
            f"A reference:\n{clipped(example.reference, MOST)}" if self._shows(example) else "",
            f"Its score is {rollout.score:.10g}; {better} is better. The task's own guide says: {rollout.feedback}",
            self._kwargs["instruction"],
        ]
        messages = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": "\n\n".join(part for part in told if part)},
        ]
        answer = self._chat(messages, slot=slot, max_tokens=self._kwargs["max_tokens"])
        try:
            return visible(content(answer, partial=True), lines=True)
        except Unusable as why:
            kind, fields = unusable(slot, why, answer, "judge")
            self._log.event(kind, **fields)
            return rollout.feedback

    def _shows(self, example: Example) -> bool:
        return bool(self._kwargs["show_reference"]) and example.reference is not None
