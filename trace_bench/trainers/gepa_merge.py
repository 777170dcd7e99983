"""System-aware merge of two candidates, as in GEPA (Agrawal et al., arXiv:2507.19457, algorithms 3 and 4)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
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
    is each of them. A search of a thousand steps has many thousands of pairs: what is found of a pair is kept, and
    looked at again only when its merge has become a candidate or was tried.

    Args:
        known: the candidates of the search by the keys of their states, in the order of creation.
    """

    random: random.Random
    known: dict[Key, Candidate]
    _members: dict[int, Member] = field(default_factory=dict)
    _open: dict[tuple[int, int], tuple[Merge, Iterator[Merge]]] = field(default_factory=dict)
    """Of each pair, by creation: its merge, and those over older ancestors."""
    _pairs: dict[Key, list[tuple[int, int]]] = field(default_factory=dict)
    """By the key of their merge."""
    _tried: set[Key] = field(default_factory=set)
    _seen: int = -1
    """Creation of the newest candidate that was looked at."""

    def take(self, pool: Sequence[Member]) -> Merge | None:
        """One merge of two members of `pool`, never to be had again; None where there is none."""
        found = self.possible(pool)
        if not found:
            return None
        taken = self.random.choice(found)
        self._tried.add(taken.key)
        self._go_on(taken.key)
        return taken

    def possible(self, pool: Sequence[Member]) -> list[Merge]:
        """At most one merge for each pair, in the order of creation: that over the newest common ancestor."""
        for member in sorted(pool, key=lambda m: m.created):
            if member.created not in self._members:
                self._add(member)
        before = self._seen
        for key, candidate in reversed(self.known.items()):
            if candidate.created <= before:
                break
            self._seen = max(self._seen, candidate.created)
            self._go_on(key)
        present = {member.created for member in pool}
        return [merge for (older, newer), (merge, _) in self._open.items() if older in present and newer in present]

    def _add(self, newer: Member) -> None:
        """Find the merges of `newer` with all members before it."""
        ancestors = newer.ancestors()
        for older in self._members.values():
            if older not in ancestors:  # the newer one cannot be an ancestor of the older
                self._next((older.created, newer.created), _merges(older, newer, ancestors))
        self._members[newer.created] = newer

    def _go_on(self, key: Key) -> None:
        """Look for another merge of the pairs whose merge has `key`."""
        for pair in self._pairs.pop(key, ()):
            self._next(pair, self._open[pair][1])

    def _next(self, pair: tuple[int, int], left: Iterator[Merge]) -> None:
        """Keep the next merge of `left` that is neither known nor tried as that of `pair`, or close the pair."""
        for merge in left:
            # Where neither side alone has changed a parameter, it is the better side itself, which is known.
            if merge.key not in self._tried and merge.key not in self.known:
                self._open[pair] = merge, left
                self._pairs.setdefault(merge.key, []).append(pair)
                return
        self._open.pop(pair, None)


def _merges(older: Member, newer: Member, ancestors: set[Member]) -> Iterator[Merge]:
    """The merges of a pair over each common ancestor that is no better than either, the newest ancestor first.

    Args:
        ancestors: of `newer`.
    """
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
