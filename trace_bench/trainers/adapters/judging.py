"""Steps for a framework that scores one example at a time: scores of one state on one split are one step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from trace_bench.trainers.adapters.foreign import Foreign
from trace_bench.trainers.answers import Unusable
from trace_bench.trainers.base import Rollout, Slot, State
from trace_bench.trainers.population import state_key

MOST = 100.0
"""A scaled score at most: frameworks take its exponential."""


class Judging:
    """Scores states example by example. Records a step when another state, another split or a model call follows.

    Attributes:
        step: the number of the next step.
    """

    def __init__(self, foreign: Foreign) -> None:
        self._foreign = foreign
        self._scored: dict[tuple[Any, str], dict[int, Rollout]] = {}
        """Rollouts by state and split, for a step over a whole split whose examples were scored at different times."""
        self._rejected: set[str] = set()
        self._answers: set[str] = set()
        """Values that are no value of their parameter."""
        self._group: tuple[State, str] | None = None
        self._rollouts: dict[int, Rollout] = {}
        self.step = 1
        start = foreign.search.start
        self._scored[state_key(start.state), start.split] = dict(enumerate(start.rollouts))
        self._middle = foreign.mean(start.rollouts)

    def read(self, texts: Mapping[str, str]) -> State | None:
        """The state of `texts`. None, with an event the first time, if a text is no value of its parameter."""
        try:
            return self._foreign.read(texts)
        except Unusable as why:
            if str(sorted(texts.items())) not in self._rejected:
                self._rejected.add(str(sorted(texts.items())))
                self._foreign.rejected(Slot(self.step, "value"), why)
                self._unusable(texts, why)
            return None

    def _unusable(self, texts: Mapping[str, str], why: Unusable) -> None:
        """The event of the answer that a value is of, once: frameworks combine values of several answers."""
        value = texts[str(why).partition(": ")[0]]
        if value not in self._answers:
            self._answers.add(value)
            self._foreign.unusable(Slot(self.step, "value"), why)

    def one(self, texts: Mapping[str, str], split: str, index: int) -> Rollout:
        """The rollout of `texts` on one example."""
        state = self.read(texts)
        example = getattr(self._foreign.search.problem, split)[index]
        if state is None:
            failure = self._foreign.search.problem.failure_score
            return Rollout(example.id, failure, "The instruction is no value of its parameter.", failed=True)
        key = (state_key(state), split)
        if self._foreign.knows(state, split, index):
            return self._foreign.evaluate(state, split, [index])[0]
        another = self._group is not None and (state_key(self._group[0]), self._group[1]) != key
        if another or index in self._rollouts:
            self.flush()
        (rollout,) = self._foreign.evaluate(state, split, [index])
        self._scored.setdefault(key, {})[index] = rollout
        self._group = (state, split)
        self._rollouts[index] = rollout
        return rollout

    def whole(self, state: State | None, split: str) -> None:
        """Score `state` on the examples of `split` on which it was not scored yet."""
        if state is None:
            return
        texts = self._foreign.texts(state)
        known = self._scored.setdefault((state_key(state), split), {})
        for index in self._foreign.search.examples(split):
            if index not in known:
                self.one(texts, split, index)
        self.flush()

    def flush(self) -> None:
        """Record the scores since the last step as a step. It has the whole split if that is known by now."""
        if self._group is None:
            return
        state, split = self._group
        examples = self._foreign.search.examples(split)
        if all(index in self._rollouts or self._foreign.knows(state, split, index) for index in examples):
            self._rollouts = self._scored[state_key(state), split]
        rollouts = [rollout for _, rollout in sorted(self._rollouts.items())]
        step, self._group, self._rollouts = self.step, None, {}
        self.step += 1
        self._foreign.tell(step, f"s{step}", (), state, rollouts, split)

    def scaled(self, rollout: Rollout) -> float:
        """The score of `rollout` for frameworks that expect 0 (worst) to 1 (best)."""
        score, bounds = self._foreign.score(rollout), self._foreign.bounds
        if bounds is not None:
            share = (score - bounds[0]) / ((bounds[1] - bounds[0]) or 1.0)
        else:
            share = 0.5 + (score - self._middle) / (abs(self._middle) or 1.0)
        return min(max(share, sys.float_info.min), MOST)
