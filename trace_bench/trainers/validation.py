"""On which examples of the selection split a search scores its candidates: all of them, or a sample for each step."""

from __future__ import annotations

from dataclasses import dataclass

from trace_bench.trainers.base import Rollout, Search
from trace_bench.trainers.candidates import Candidate
from trace_bench.trainers.population import Population


@dataclass(frozen=True)
class Judgement:
    """The rollouts of one candidate on all examples of the selection split.

    Attributes:
        rollouts: in the order of the examples.
        new: those that were made for it; the others were on samples.
    """

    rollouts: tuple[Rollout, ...]
    new: tuple[Rollout, ...]


class Validation:
    """Scores the candidates of one search.

    Args:
        size: examples of a sample; 0, or no less than there are, for all of them.

    Attributes:
        samples: a sample does not hold all examples, so that means over different samples do not compare.
    """

    def __init__(self, search: Search, population: Population, size: int) -> None:
        self._population = population
        self._everything = tuple(search.examples(search.selection))
        self.samples = 0 < size < len(self._everything)
        self._size = size
        self._random = search.random("validation")
        self._sample = self._everything
        self._scored: dict[int, dict[int, Rollout]] = {population.seed.created: dict(enumerate(search.start.rollouts))}

    def draw(self) -> None:
        """Draw the sample of the next step, without replacement."""
        if self.samples:
            self._sample = tuple(sorted(self._random.sample(self._everything, self._size)))

    def score(self, candidate: Candidate) -> tuple[Rollout, ...]:
        """Score `candidate` on the sample of the step."""
        rollouts = self._population.judge(candidate, self._sample)
        self._of(candidate).update(zip(self._sample, rollouts, strict=True))
        return rollouts

    def complete(self, candidate: Candidate) -> Judgement | None:
        """Score `candidate` on the examples that no sample of it had; None if it has all of them already."""
        scored = self._of(candidate)
        rest = [index for index in self._everything if index not in scored]
        if not rest:
            return None
        new = self._population.judge(candidate, rest)
        scored.update(zip(rest, new, strict=True))
        return Judgement(tuple(scored[index] for index in self._everything), new)

    def _of(self, candidate: Candidate) -> dict[int, Rollout]:
        return self._scored.setdefault(candidate.created, {})
