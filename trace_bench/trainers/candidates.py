"""What a search remembers: candidates with their scores, the heap that ranks them, and the minibatches.

Scores in here are oriented: higher is better, whatever the problem's direction (`Orientation`).
"""

from __future__ import annotations

import heapq
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trace_bench.trainers.base import Rollout
from trace_bench.trainers.proposer import Past
from trace_bench.worker.objective import mean_of_huge
from trace_bench.worker.problem import Problem, Value


@dataclass
class Candidate:
    """A state that was, or is about to be, evaluated.

    Attributes:
        id: its place in the search, e.g. ``s3.c0.p1``: step 3, explored candidate 0, proposal 1.
        parents: ids; none for the start.
        created: 0 for the seed, then 1, 2, … in slot order. It stands in for a clock.
        past: what its ancestors were told, for the optimizer's memory.
        scores: of all rollouts so far, oriented.
        by_example: the same scores by ``(split, example id)``.
        vectors: metrics of all rollouts so far, natural units; empty for a task that declares none.
    """

    id: str
    state: Mapping[str, Value]
    parents: tuple[str, ...]
    created: int
    past: Past = ()
    scores: list[float] = field(default_factory=list)
    by_example: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    vectors: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Mean of all scores. A candidate without any is worse than every other."""
        return oriented_mean(self.scores)

    def add(self, rollouts: Sequence[Rollout], split: str, orientation: Orientation) -> list[float]:
        """Remember `rollouts`; returns their oriented scores."""
        scores = [orientation.oriented(r.score) for r in rollouts]
        self.scores.extend(scores)
        self.vectors.extend(r.metrics for r in rollouts if r.metrics)
        for rollout, score in zip(rollouts, scores, strict=True):
            self.by_example.setdefault((split, rollout.example_id), []).append(score)
        return scores


def oriented_mean(scores: Sequence[float]) -> float:
    """Mean of finite scores; of none, minus infinity."""
    if not scores:
        return -math.inf
    try:
        return math.fsum(scores) / len(scores)
    except OverflowError:
        return mean_of_huge(scores)


@dataclass(frozen=True)
class Orientation:
    """Turns natural units into "higher is better", and back."""

    sign: float

    @classmethod
    def of(cls, problem: Problem) -> Orientation:
        return cls(1.0 if problem.direction == "maximize" else -1.0)

    def oriented(self, score: float) -> float:
        """`score` in natural units as a number of which higher is better, or the other way round."""
        return self.sign * score

    def bounds(self, score_range: tuple[float, float] | None) -> tuple[float, float] | None:
        """(lowest, highest) oriented score of a range in natural units, whichever way round it is given."""
        if score_range is None:
            return None
        ends = sorted(self.oriented(end) for end in score_range)
        return ends[0], ends[1]


def upper_confidence_bound(
    mean: float, count: int, total: float, constant: float, span: float, clip: tuple[float, float] | None = None
) -> float:
    """``mean + constant * sqrt(ln(total) / count) * span``, after UCB1 (Auer, Cesa-Bianchi, Fischer, 2002).

    Args:
        count: scores behind `mean`, at least 1.
        total: what the bonus grows with, such as the number of all scores; at least 1.
        span: width of the scores that compete (`spread`).
        clip: (lowest, highest) score, or None for no clipping.
    """
    most = sys.float_info.max
    bound = mean + constant * math.sqrt(math.log(total) / count) * min(span, most)
    lowest, highest = clip or (-most, most)
    return min(max(bound, lowest), highest)


def spread(means: Iterable[float]) -> float:
    """Highest minus lowest of the finite `means`; 0 for fewer than two."""
    finite = [mean for mean in means if math.isfinite(mean)]
    return max(finite) - min(finite) if finite else 0.0


class Memory:
    """A max-heap of candidates by priority, each in it once. Of equal priorities the newest comes first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._priority: dict[int, float] = {}
        self._candidates: dict[int, Candidate] = {}

    def __len__(self) -> int:
        return len(self._candidates)

    def __iter__(self) -> Iterator[Candidate]:
        """In order of creation."""
        return iter([self._candidates[created] for created in sorted(self._candidates)])

    def push(self, candidate: Candidate, priority: float) -> None:
        """Add `candidate`, or give it a new priority."""
        self._candidates[candidate.created] = candidate
        self._priority[candidate.created] = priority
        heapq.heappush(self._heap, (-priority, -candidate.created))

    def pop(self) -> Candidate:
        """Remove and return the candidate of highest priority.

        Raises:
            IndexError: the memory is empty.
        """
        while True:
            negative, created = heapq.heappop(self._heap)
            # An entry whose candidate has left, or has another priority by now, is a leftover.
            if self._priority.get(-created) == -negative:
                del self._priority[-created]
                return self._candidates.pop(-created)

    def remove(self, candidate: Candidate) -> None:
        """Take `candidate` out.

        Raises:
            KeyError: it is not in it.
        """
        del self._priority[candidate.created]
        del self._candidates[candidate.created]

    def trim(self, size: int) -> list[Candidate]:
        """Forget all but the `size` candidates of highest priority; returns those forgotten, the highest first."""
        ranked = sorted(self._candidates.values(), key=lambda c: (self._priority[c.created], c.created), reverse=True)
        for candidate in ranked[size:]:
            self.remove(candidate)
        return ranked[size:]

    def best(self) -> Candidate:
        """The candidate of highest mean score, which stays; of equal ones the newest.

        Raises:
            ValueError: the memory is empty.
        """
        return max(self._candidates.values(), key=lambda c: (c.mean, c.created))

    def drain_into(self, other: Memory) -> None:
        """Move everything to `other`."""
        for created, candidate in self._candidates.items():
            other.push(candidate, self._priority[created])
        self._heap, self._priority, self._candidates = [], {}, {}


class Minibatches:
    """Endless minibatches of training examples, a fresh permutation for each epoch.

    The last minibatch of an epoch may be shorter; none holds an example twice.

    Args:
        count: number of examples. size: of a minibatch. seed: the same seed gives the same minibatches.
    """

    def __init__(self, count: int, size: int, seed: int) -> None:
        self._count = count
        self._size = size
        self._random = random.Random(f"trace-bench/minibatches/{seed}")
        self._left: list[int] = []
        self.epochs = 0
        """Finished passes over all examples."""

    def take(self) -> tuple[int, ...]:
        """Indices of the next minibatch."""
        if not self._left:
            self._left = list(range(self._count))
            self._random.shuffle(self._left)
        taken, self._left = self._left[: self._size], self._left[self._size :]
        self.epochs += not self._left
        return tuple(taken)
