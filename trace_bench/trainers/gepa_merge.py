"""System-aware merge of two candidates, as in GEPA (Agrawal et al., arXiv:2507.19457, algorithms 3 and 4)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import State
from trace_bench.trainers.population import state_key
from trace_bench.worker.problem import Value

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

Key = Any
"""Of a state (`state_key`)."""
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
    key: Key

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
        known: whether the state with this key is that of a candidate.
    """

    random: random.Random
    known: Callable[[Key], bool]
    _tried: set[Key] = field(default_factory=set)
    _next: dict[tuple[int, int], tuple[Merge | None, Iterator[Merge]]] = field(default_factory=dict)
    """Of each pair, by creation: the merge that was found last, and those over older ancestors. A search of a thousand
    steps has many thousands of pairs, and a merge that is known or tried stays so."""

    def take(self, pool: Sequence[Member]) -> Merge | None:
        """One merge of two members of `pool`, never to be had again; None where there is none."""
        found = self.possible(pool)
        if not found:
            return None
        taken = self.random.choice(found)
        self._tried.add(taken.key)
        return taken

    def possible(self, pool: Sequence[Member]) -> list[Merge]:
        """At most one merge for each pair, in the order of creation: that over the newest common ancestor."""
        ordered = sorted(pool, key=lambda m: m.created)
        pairs = ((older, newer) for n, newer in enumerate(ordered) for older in ordered[:n])
        return [merge for older, newer in pairs if (merge := self._of_pair(older, newer)) is not None]

    def _of_pair(self, older: Member, newer: Member) -> Merge | None:
        pair = older.created, newer.created
        if pair not in self._next:
            left = _merges(older, newer)
            self._next[pair] = next(left, None), left
        merge, left = self._next[pair]
        while merge is not None and (merge.key in self._tried or self.known(merge.key)):
            # Where neither side alone has changed a parameter, it is the better side itself, which is known.
            merge = next(left, None)
            self._next[pair] = merge, left
        return merge


def _merges(older: Member, newer: Member) -> Iterator[Merge]:
    """The merges of a pair over each common ancestor that is no better than either, the newest ancestor first."""
    ancestors = newer.ancestors()
    if older in ancestors:  # the newer one cannot be an ancestor of the older
        return
    better, other = (newer, older) if newer.mean >= older.mean else (older, newer)
    for ancestor in sorted(older.ancestors() & ancestors, key=lambda m: -m.created):
        if ancestor.mean <= other.mean:
            state = merged(ancestor.state, better.state, other.state)
            yield Merge(ancestor, older, newer, state, state_key(state))


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
