"""The candidates of one search: each known once, scored, named and told of in one way by every trainer.

A trainer decides who is explored, what is kept and when it ends; this is what all of them do alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.trainers.base import Rollout, Search, Slot, State, Step
from trace_bench.trainers.candidates import Candidate, Minibatches, Orientation, oriented_mean
from trace_bench.trainers.proposer import Ask, Explored, Prompt
from trace_bench.worker.objective import means, ranking
from trace_bench.worker.problem import Value

UNCONNECTED = "no response depends on a trainable parameter"


@dataclass(frozen=True)
class Call:
    """One child to be asked for: whose, with which prompt, and where in the search."""

    parent: Candidate
    prompt: Prompt
    slot: Slot


class Population:
    """All candidates of `search`, the start among them, which has its scores already.

    Attributes:
        seed: the start.
        known: every candidate, by its state.
        bounds: (lowest, highest) oriented score that the task can give; None if it does not say.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.orientation = Orientation.of(search.problem)
        self.bounds = self.orientation.bounds(search.problem.score_range)
        start = search.start
        self.seed = Candidate(start.candidate, dict(start.state), (), 0)
        self.seed.add(start.rollouts, start.split, self.orientation)
        self.known: dict[Any, Candidate] = {state_key(self.seed.state): self.seed}
        self._created = 0

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.known.values())

    def minibatches(self, size: int, name: str = "train_batch_size") -> Minibatches:
        """Endless minibatches of training examples; a warning says so where there are fewer than `size`."""
        count = len(self._search.problem.train)
        if size > count:
            self._search.log.warn(
                f"{name} is {size} and there are {count} training examples; each minibatch holds all {count}."
            )
        return Minibatches(count, min(size, count), self._search.seed)

    def explore(
        self, candidate: Candidate, minibatch: Sequence[int], context: str = "", *, only: Sequence[str] = ()
    ) -> Explored:
        """Run `candidate` on training examples, through the graph; its scores count from now on.

        Args:
            context: what the prompt says besides, if anything.
            only: names of the parameters that its children may change; empty: all of them.
        """
        explored: Explored = self._search.proposer.explore(
            candidate.state, minibatch, candidate.past, context=context, only=only or None
        )
        candidate.add(explored.rollouts, "train", self.orientation)
        return explored

    def calls(self, candidate: Candidate, explored: Explored, step: int, place: str, proposals: int) -> list[Call]:
        """`proposals` calls for children of `candidate`; none (and an event) where no parameter had a part in it.

        Args:
            place: of the candidate in the step, such as ``c0``; unique in the step.
        """
        if explored.prompt is None:
            self._search.log.event("proposal.skipped", step=step, candidate=candidate.id, reason=UNCONNECTED)
            return []
        return [Call(candidate, explored.prompt, Slot(step, place, proposal)) for proposal in range(proposals)]

    def children(self, calls: Sequence[Call]) -> Generator[Candidate, None, None]:
        """The new candidates that come of `calls`, in order, not yet scored. Close it when done.

        What cannot be used, changes nothing or is known already is an event, and has cost a proposal.
        """
        with contextlib.closing(self._proposed(calls)) as proposed:
            for call, state in proposed:
                child = self._child(call, state)
                if child is not None:
                    yield child

    def successors(self, calls: Sequence[Call]) -> Generator[Candidate, None, None]:
        """As `children`, for searches that move: a state that is known already is yielded as the candidate it is (event
        ``proposal.known``), and only what changes nothing is left out."""
        with contextlib.closing(self._proposed(calls)) as proposed:
            for call, state in proposed:
                known = self.known.get(state_key(state))
                if known is None or known is call.parent:
                    known = self._child(call, state)
                else:
                    self._search.log.event("proposal.known", slot=str(call.slot), same_as=known.id)
                if known is not None:
                    yield known

    def _proposed(self, calls: Sequence[Call]) -> Generator[tuple[Call, State], None, None]:
        proposals = self._search.proposer.proposals([Ask(call.prompt, call.slot) for call in calls])
        try:
            for call, state in zip(calls, proposals, strict=True):
                if state is not None:
                    yield call, state
        finally:
            proposals.close()

    def _child(self, call: Call, state: State) -> Candidate | None:
        name = f"s{call.slot.step}.{call.slot.candidate}.p{call.slot.proposal}"
        return self.add(name, state, (call.parent,), call.prompt.past, slot=str(call.slot))

    def add(
        self, name: str, state: Mapping[str, Value], parents: Sequence[Candidate], past: Any = (), **place: Any
    ) -> Candidate | None:
        """A new candidate, or None (and the event ``proposal.dropped``, with `place`) if its state is known."""
        known = self.known.get(key := state_key(state))
        if known is not None:
            reason = "unchanged" if known in parents else "duplicate"
            self._search.log.event("proposal.dropped", **place, reason=reason, same_as=known.id)
            return None
        self._created += 1
        child = Candidate(name, dict(state), tuple(p.id for p in parents), self._created, past)
        self.known[key] = child
        return child

    def forget(self, candidate: Candidate) -> None:
        """Drop `candidate`, so that the same state is a new candidate when it is proposed again."""
        del self.known[state_key(candidate.state)]

    def judge(
        self, candidate: Candidate, indices: Sequence[int] | None = None, split: str | None = None
    ) -> tuple[Rollout, ...]:
        """Score `candidate` without a graph: on all examples of the selection split, or on some of any."""
        split = split or self._search.selection
        chosen = self._search.examples(split) if indices is None else indices
        rollouts = tuple(self._search.evaluate(candidate.state, chosen, split))
        candidate.add(rollouts, split, self.orientation)
        return rollouts

    def step(
        self,
        step: int,
        candidate: Candidate,
        rollouts: Sequence[Rollout],
        split: str | None = None,
        *,
        accepted: bool | None = None,
        reason: str = "",
        **extra: Any,
    ) -> Step:
        """What there is to yield of `candidate`."""
        return Step(
            step=step,
            candidate=candidate.id,
            parents=candidate.parents,
            state=dict(candidate.state),
            rollouts=tuple(rollouts),
            split=split or self._search.selection,
            accepted=accepted,
            reason=reason,
            extra=extra,
        )

    def mean(self, rollouts: Sequence[Rollout]) -> float:
        """Oriented mean of `rollouts`: higher is better."""
        return oriented_mean([self.orientation.oriented(r.score) for r in rollouts])

    def best(self) -> Candidate:
        """The first of all candidates that are `ranked`."""
        return self.ranked(self.known.values())[0]

    def ranked(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those of `candidates` that have scores, best first: by mean score, of equal ones the newest first.

        Where the run's objective is dominance: by non-dominated front of their mean metrics, within a front by its
        tie-break, of equal ones the oldest first.
        """
        scored = sorted((c for c in candidates if c.scores), key=lambda c: c.created)
        problem = self._search.problem
        if problem.comparison.mode != "pareto":
            return sorted(scored, key=lambda c: (c.mean, c.created), reverse=True)
        vectors, created = [means(c.vectors) for c in scored], [c.created for c in scored]
        order = ranking(problem.comparison, problem.metrics, vectors, self._search.seed, created)
        return [scored[i] for i in order]


def state_key(state: Mapping[str, Value]) -> tuple[tuple[str, str, Value], ...]:
    """Equal for equal states only: 1 and 1.0 are different values."""
    return tuple((name, type(value).__name__, value) for name, value in sorted(state.items()))
