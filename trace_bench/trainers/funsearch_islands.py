"""The programs database of FunSearch: islands of clusters of programs, and how a prompt's programs are drawn from them.

Romera-Paredes et al., Mathematical discoveries from program search with large language models, Nature 625, 2024,
Methods, "Programs database". Standard library only: no model is asked and nothing is evaluated here.

Scores are oriented: higher is better.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_bench.trainers.candidates import oriented_mean

PROGRAM_TEMPERATURE = 1.0
"""Of the choice of a program within a cluster."""
_SMALL = 1e-6
"""Keeps the lengths of a cluster divisible."""


@dataclass(frozen=True)
class Scored:
    """A program with its oriented score on each example.

    Attributes:
        id: of the candidate in the search.
    """

    id: str
    source: str
    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean over all examples."""
        return oriented_mean(self.scores)


def softmax(logits: Sequence[float], temperature: float) -> list[float]:
    """Probabilities proportional to ``exp(logit / temperature)``. Logits are finite, the temperature is above zero."""
    highest = max(logits)
    weights = [math.exp((logit - highest) / temperature) for logit in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def temperature_at(count: int, initial: float, period: int) -> float:
    """Temperature of the choice of a cluster in an island that holds `count` programs: ``T0 (1 - (n mod N) / N)``.

    It falls from `initial` towards 0 within `period` programs, and starts again.
    """
    return initial * (1 - (count % period) / period)


@dataclass
class Cluster:
    """Programs of one island with the same signature, oldest first."""

    score: float
    programs: list[Scored] = field(default_factory=list)

    def probabilities(self) -> list[float]:
        """How probable the choice of each program is: a softmax that favours short sources.

        The logit is minus ``(length - shortest) / (longest + 1e-6)``, lengths in characters.
        """
        lengths = [len(program.source) for program in self.programs]
        shortest, longest = min(lengths), max(lengths)
        return softmax([-(n - shortest) / (longest + _SMALL) for n in lengths], PROGRAM_TEMPERATURE)

    def draw(self, chance: random.Random) -> Scored:
        """A program, by `probabilities`."""
        return chance.choices(self.programs, self.probabilities())[0]


class Island:
    """One sub-population. Its programs are clustered by signature, that is their scores on all examples.

    Args:
        temperature: T0 of `temperature_at`.
        period: N of `temperature_at`.

    Attributes:
        count: programs that were put onto it.
    """

    def __init__(self, temperature: float, period: int) -> None:
        self._temperature = temperature
        self._period = period
        self._sources: set[str] = set()
        self.clusters: dict[tuple[float, ...], Cluster] = {}
        self.count = 0
        self.best: Scored | None = None
        """The program of the highest score; of equal ones the oldest."""

    def __contains__(self, source: str) -> bool:
        return source in self._sources

    def add(self, program: Scored) -> None:
        """Put `program` into the cluster of its signature."""
        cluster = self.clusters.setdefault(program.scores, Cluster(program.score))
        cluster.programs.append(program)
        self._sources.add(program.source)
        self.count += 1
        if self.best is None or program.score > self.best.score:
            self.best = program

    def probabilities(self) -> list[float]:
        """How probable the choice of each cluster is, in order of their creation: a softmax of their scores."""
        scores = [cluster.score for cluster in self.clusters.values()]
        return softmax(scores, temperature_at(self.count, self._temperature, self._period))

    def draw(self, number: int, chance: random.Random) -> list[Scored]:
        """The programs of a prompt, worst first: `number` of them, or as many as there are clusters if that is fewer.

        Clusters are drawn with replacement, so that a prompt may show two programs of one cluster, or one twice.
        """
        clusters = list(self.clusters.values())
        drawn = chance.choices(clusters, self.probabilities(), k=min(number, len(clusters)))
        return sorted((cluster.draw(chance) for cluster in drawn), key=lambda program: program.score)


class Database:
    """All islands. Each of them begins with the initial program.

    Args:
        initial: of the task.
        temperature, period: of each `Island`.
        reset_period: samples between two resets; 0: no reset.
        chance: draws islands, clusters and programs, breaks ties and chooses founders.
    """

    def __init__(
        self,
        initial: Scored,
        islands: int,
        temperature: float,
        period: int,
        reset_period: int,
        chance: random.Random,
    ) -> None:
        self._temperature = temperature
        self._period = period
        self._reset_period = reset_period
        self._chance = chance
        self._samples = 0
        self.islands = [self._island(initial) for _ in range(islands)]

    def draw(self, number: int) -> tuple[int, list[Scored]]:
        """An island, each equally likely, and the programs of a prompt from it (`Island.draw`)."""
        index = self._chance.randrange(len(self.islands))
        return index, self.islands[index].draw(number, self._chance)

    def sampled(self, number: int) -> dict[int, Scored]:
        """Count `number` samples, whatever came of them. If they end a period, reset the worse half of the islands.

        Returns:
            By the number of each island that was reset, the program that it begins with again.
        """
        before, self._samples = self._samples, self._samples + number
        period = self._reset_period
        return self.reset() if period and self._samples // period > before // period else {}

    def reset(self) -> dict[int, Scored]:
        """Discard the half (rounded down) of the islands whose best programs have the lowest scores.

        Each of them begins again with the best program of a surviving island, which is drawn for each, all equally
        likely. Of islands with equal scores, chance says which are discarded.
        """
        scores = [island.best.score if island.best else -math.inf for island in self.islands]
        order = sorted(range(len(scores)), key=lambda index: (scores[index], self._chance.random()))
        half = len(order) // 2
        founders = {}
        for index in sorted(order[:half]):
            founder = self.islands[self._chance.choice(order[half:])].best
            assert founder is not None, "each island begins with a program"
            founders[index] = founder
            self.islands[index] = self._island(founder)
        return founders

    def _island(self, founder: Scored) -> Island:
        island = Island(self._temperature, self._period)
        island.add(founder)
        return island
