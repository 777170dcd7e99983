"""Remembers the rollouts of one search, so that no trainer pays twice for one state on one example.

Every trainer evaluates through `Memo`: ours, the adapters to other frameworks, and the trainers of OpenTrace. So a
budget of evaluations means the same for all of them. A known rollout is returned as it was, and is counted as saved.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from trace_bench.worker.checkpoint import digest_of
from trace_bench.worker.problem import Value
from trace_bench.worker.stall import Stall
from trace_bench.worker.training import Rollout, TrainContext

MEMO_BYTES = 64 << 20
"""Size of all rollouts that one search remembers, about. The least recently used ones make room for new ones."""
ROLLOUT_BYTES = 512
"""Size of a rollout without its texts, about."""

Key = tuple[str, str, int]
"""Digest of the state, split, index of the example."""


class Memo:
    """The evaluations of one search, each made and counted once. For one thread.

    Nothing is remembered while `TrainContext.deterministic` is False. A rollout that may come out otherwise the next
    time (`Rollout.transient`) is not remembered either. Which rollouts are known depends on nothing but the order of
    the calls, so that an attempt that goes on from a checkpoint, and a replay, know the same ones at the same place.

    Args:
        context: evaluates, counts, and looks whether the search is to stop.
        limit: size of the rollouts that are remembered, in bytes, as `ROLLOUT_BYTES` and the characters of its texts.
        stall: notices when nothing is evaluated any more.
    """

    def __init__(self, context: TrainContext, limit: int = MEMO_BYTES, stall: Stall | None = None) -> None:
        self._context = context
        self.stall = stall or Stall()
        self._limit = limit
        self._known: OrderedDict[Key, Rollout] = OrderedDict()
        self._size = 0

    def evaluate(self, state: Mapping[str, Value], example_indices: Sequence[int], split: str) -> list[Rollout]:
        """See `training.Evaluate`. Only examples whose rollouts are not known are evaluated, each once.

        Raises:
            StopTraining: a stop was asked for, or the budget has not enough evaluations left for what is not known.
        """
        indices = list(example_indices)
        if not self._context.deterministic:
            self.stall.evaluated()
            return self._context.evaluate(state, indices, split)
        digest = digest_of(state)
        distinct = dict.fromkeys(indices)
        found = {index: known for index in distinct if (known := self._get((digest, split, index))) is not None}
        missing = [index for index in distinct if index not in found]
        if missing:
            made = self._context.evaluate(state, missing, split)
            self.stall.evaluated()
            for index, rollout in zip(missing, made, strict=True):
                found[index] = rollout
                self._keep((digest, split, index), rollout)
        else:
            self._context.check()
            self.stall.known()
        self._context.count_saved(len(indices) - len(missing))
        return [found[index] for index in indices]

    def knows(self, state: Mapping[str, Value], index: int, split: str) -> bool:
        """Whether `evaluate` returns this rollout without an evaluation."""
        return self._context.deterministic and (digest_of(state), split, index) in self._known

    def count(self, state: Mapping[str, Value], index: int, split: str) -> None:
        """Count an evaluation that is about to be made through a graph, unless its rollout is known.

        The run itself is made in any case: the graph is needed.

        Raises:
            StopTraining: the budget has none left.
        """
        if self._context.deterministic and self._get((digest_of(state), split, index)) is not None:
            self.stall.known()
            self._context.count_saved(1)
        else:
            self._context.count_evaluations(1)
            self.stall.evaluated()

    def keep(self, state: Mapping[str, Value], index: int, split: str, rollout: Rollout) -> None:
        """Remember what an evaluation through a graph came to."""
        self._keep((digest_of(state), split, index), rollout)

    def _get(self, key: Key) -> Rollout | None:
        rollout = self._known.get(key)
        if rollout is not None:
            self._known.move_to_end(key)
        return rollout

    def _keep(self, key: Key, rollout: Rollout) -> None:
        # Asked again after the evaluation, which may have shown that it cannot be repeated.
        if rollout.transient or not self._context.deterministic:
            return
        if (before := self._known.pop(key, None)) is not None:
            self._size -= _size(before)
        self._known[key] = rollout
        self._size += _size(rollout)
        while self._size > self._limit:
            _, forgotten = self._known.popitem(last=False)
            self._size -= _size(forgotten)


def _size(rollout: Rollout) -> int:
    return ROLLOUT_BYTES + len(rollout.feedback) + len(rollout.response or "")
