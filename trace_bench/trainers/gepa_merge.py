"""System-aware merge of two candidates, as in GEPA (Agrawal et al., arXiv:2507.19457, algorithms 3 and 4)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trace_bench.trainers.base import State
from trace_bench.worker.problem import Value

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

SUBSAMPLE = 5
"""Examples of the Pareto set that a merged candidate is compared with its parents on."""


@dataclass(eq=False)
class Member:
    """A candidate that the search went on with.

    Attributes:
        scores: on the Pareto set, in its order, oriented. mean: of them.
        module: index of the trainable parameter whose turn is next.
        chosen: how often it was a parent.
    """

    candidate: Candidate
    scores: tuple[float, ...]
    mean: float
    parents: tuple[Member, ...] = ()
    module: int = 0
    chosen: int = 0

    @property
    def created(self) -> int:
        """Its place in the order of creation."""
        return self.candidate.created

    @property
    def state(self) -> Mapping[str, Value]:
        return self.candidate.state

    def ancestors(self) -> set[Member]:
        """All that it comes of, itself not among them."""
        found: set[Member] = set()
        left = list(self.parents)
        while left:
            member = left.pop()
            if member not in found:
                found.add(member)
                left.extend(member.parents)
        return found


@dataclass(frozen=True)
class Merge:
    """`state` takes from `older` and `newer` what each of them has changed since `ancestor`."""

    ancestor: Member
    older: Member
    newer: Member
    state: State

    @property
    def better(self) -> Member:
        """The parent of higher mean; of equal ones the newer."""
        return max((self.newer, self.older), key=lambda m: m.mean)


@dataclass
class Merges:
    """Finds merges that were not tried yet.

    The scores of members are fixed, so that an ancestor and a pair have one result. Each result is tried once, and so
    is each of them.

    Args:
        known: whether a state is that of a candidate.
    """

    random: random.Random
    known: Callable[[Mapping[str, Value]], bool]
    _tried: list[State] = field(default_factory=list)

    def take(self, pool: Sequence[Member]) -> Merge | None:
        """One merge of two members of `pool`, never to be had again; None where there is none."""
        found = self.possible(pool)
        if not found:
            return None
        taken = self.random.choice(found)
        self._tried.append(taken.state)
        return taken

    def possible(self, pool: Sequence[Member]) -> list[Merge]:
        """At most one merge for each pair, in the order of creation: that over the newest common ancestor."""
        ordered = sorted(pool, key=lambda m: m.created)
        ancestors = {member: member.ancestors() for member in ordered}
        found = []
        for n, newer in enumerate(ordered):
            for older in ordered[:n]:
                if older not in ancestors[newer]:  # the newer one cannot be an ancestor of the older
                    shared = ancestors[older] & ancestors[newer]
                    merge = self._over(sorted(shared, key=lambda m: -m.created), older, newer)
                    if merge is not None:
                        found.append(merge)
        return found

    def _over(self, shared: Sequence[Member], older: Member, newer: Member) -> Merge | None:
        for ancestor in shared:
            if ancestor.mean <= min(older.mean, newer.mean):
                better, other = (newer, older) if newer.mean >= older.mean else (older, newer)
                state = merged(ancestor.state, better.state, other.state)
                # Where neither side alone has changed a parameter, this is the better side itself, which is known.
                if not self.known(state) and not any(_equal(state, tried) for tried in self._tried):
                    return Merge(ancestor, older, newer, state)
        return None


def merged(ancestor: Mapping[str, Value], better: Mapping[str, Value], other: Mapping[str, Value]) -> State:
    """Each parameter from the side that changed it; where both or neither did, from `better`."""
    return {name: other[name] if _same(value, better[name]) else better[name] for name, value in ancestor.items()}


def subsample(older: Sequence[float], newer: Sequence[float], size: int, rng: random.Random) -> list[int]:
    """At most `size` places in two rows of scores, in order: as equal parts as can be of those where `older` is
    better, where `newer` is, and where they are equal."""
    pairs = list(enumerate(zip(older, newer, strict=True)))
    groups = [
        [i for i, (a, b) in pairs if a > b],
        [i for i, (a, b) in pairs if a < b],
        [i for i, (a, b) in pairs if a == b],
    ]
    for group in groups:
        rng.shuffle(group)
    chosen: list[int] = []
    while len(chosen) < size and any(groups):
        for group in groups:
            if group and len(chosen) < size:
                chosen.append(group.pop())
    return sorted(chosen)


def _same(one: Value, two: Value) -> bool:
    return type(one) is type(two) and one == two


def _equal(one: Mapping[str, Value], two: Mapping[str, Value]) -> bool:
    return all(_same(value, two[name]) for name, value in one.items())
