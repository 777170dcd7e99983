"""A model that summarizes results of candidates for the prompts of the next proposals."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.trainers.answers import Unusable, content
from trace_bench.trainers.base import Rollout
from trace_bench.trainers.epsilon_net import text_of
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.problem import Example, Problem, Value

MAX_TRAJECTORIES = 5
MAX_SUMMARY = 8000
"""Characters of a summary that go into prompts."""
SYSTEM = (
    "You analyze how candidates of a search behaved, and say what the next ones should do. You see parameters, the "
    "inputs they were run on, scores, and feedback."
)
ASK = """# Objective
{objective}

# The summary so far
{summary}

# New candidates
{trajectories}

# What to do
Write one summary that stands for itself: what the summary so far says that still holds, together with what the new
candidates teach. Say which patterns led to good scores, which to bad ones, and what to try next, as concretely as
possible. Do not refer to the summary so far.

Answer in this form:
<reasoning>
your analysis
</reasoning>
<summary>
the summary
</summary>
"""
HEADING = "Recommendations for better values, from what candidates did so far in this search:"


@dataclass(frozen=True)
class Trajectory:
    """A candidate, and what became of it on training examples."""

    state: Mapping[str, Value]
    rollouts: Sequence[Rollout]


class Summarizer:
    """Words the request for a summary, reads the answer, and remembers the last one.

    Attributes:
        summary: the last usable one; empty before the first.
    """

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        self.summary = ""
        self._problem = problem
        self._examples: dict[str, Example] = {e.id: e for e in problem.train}
        self._random = rng
        self._told: set[int] = set()

    def request(self, trajectories: Mapping[int, Trajectory]) -> tuple[list[int], list[dict[str, str]]]:
        """(keys, messages): which of `trajectories` the next summary is about, and how to ask for it.

        At most `MAX_TRAJECTORIES` of those that no request was about, drawn at random; none if there are none.
        """
        new = [key for key, one in trajectories.items() if key not in self._told and one.rollouts]
        keys = sorted(self._random.sample(new, min(len(new), MAX_TRAJECTORIES)))
        self._told.update(keys)
        if not keys:
            return [], []
        user = ASK.format(
            objective=self._problem.objective,
            summary=self.summary or "There is none yet.",
            trajectories="\n\n".join(self._worded(n, trajectories[key]) for n, key in enumerate(keys, 1)),
        )
        return keys, [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]

    def read(self, response: Mapping[str, Any]) -> str:
        """The summary in an answer: what stands between the tags, or all of an answer without them.

        Raises:
            Unusable: there is none; the summary so far stays.
        """
        text = content(response, partial=True)
        found = re.search(r"<summary>(.*?)(?:</summary>|\Z)", text, re.DOTALL)
        summary = (found.group(1) if found else text).strip()
        if not summary:
            raise Unusable("the answer holds no summary", "empty")
        self.summary = clipped(summary, MAX_SUMMARY)
        return self.summary

    @property
    def context(self) -> str:
        """What prompts say of the summary; empty before there is one."""
        return f"{HEADING}\n{self.summary}" if self.summary else ""

    def _worded(self, number: int, one: Trajectory) -> str:
        """The candidate with its best and its worst rollout."""
        better = self._problem.better
        best = worst = one.rollouts[0]
        for rollout in one.rollouts[1:]:
            best = rollout if better(rollout.score, best.score) else best
            worst = rollout if better(worst.score, rollout.score) else worst
        shown = [best] if best is worst else [best, worst]
        text = f"## Candidate {number}\n{clipped(text_of(one.state))}"
        for rollout in shown:
            query = self._examples[rollout.example_id].query
            asked = "" if query is None else f"\nInput: {clipped(str(query))}"
            told = f"Score: {rollout.score:g} ({self._problem.direction} it)\nFeedback: {clipped(rollout.feedback)}"
            text += f"{asked}\n{told}"
        return text
