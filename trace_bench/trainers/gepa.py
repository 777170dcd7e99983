"""The search that GEPA-Base, GEPA-UCB and GEPA-Beam share (Agrawal et al., arXiv:2507.19457, algorithm 1).

They differ in who becomes a parent, and in who stays one that can become it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trace_bench.trainers.base import Rollout, Search, Step
from trace_bench.trainers.candidates import Candidate, oriented_mean
from trace_bench.trainers.gepa_merge import SUBSAMPLE, Member, Merge, Merges, subsample
from trace_bench.trainers.gepa_params import MINIBATCH
from trace_bench.trainers.population import Call, Population

NOTHING_TO_GAIN = "the minibatch has the best score that there is"
BETTER, NO_BETTER = "better than its parent on the minibatch", "no better than its parent on the minibatch"
MERGED, MERGED_WORSE = "merge: as good as its parents on a subsample", "merge: worse than a parent on a subsample"
LEADS = "best on the Pareto set, so judged on all examples"


@dataclass(frozen=True)
class Chosen:
    """A parent, and what the history is to say about its choice."""

    member: Member
    extra: Mapping[str, Any]


class Variant(Protocol):
    """What tells the three apart."""

    def parents(self, gepa: Gepa, step: int) -> list[Chosen]:
        """Whom step `step` reflects on; each at most once."""

    def keep(self, gepa: Gepa, new: Sequence[Member]) -> list[Member]:
        """Of the pool and what is `new` those that can be parents from now on."""


@dataclass(frozen=True)
class _Reflection:
    """A parent on a minibatch: what its children are measured against."""

    parent: Member
    minibatch: tuple[int, ...]
    before: float
    extra: Mapping[str, Any]


class Gepa:
    """One search.

    Attributes:
        pareto_set: indices of the examples of the selection split that candidates are scored on.
        members: every candidate that was accepted, the start among them, in the order of creation.
        pool: those that can be parents.
    """

    def __init__(self, search: Search, variant: Variant, iterations: int, proposals: int = 1) -> None:
        self.search = search
        self.variant = variant
        self.population = Population(search)
        self.minibatches = self.population.minibatches(self._minibatch_size())
        self.modules = [parameter.name for parameter in search.problem.trainable]
        self.pareto_set, self._rest = self._split()
        self.members = [self._member(self.population.seed, [search.start.rollouts[i] for i in self.pareto_set])]
        self.pool = list(self.members)
        self._iterations, self._proposals = iterations, proposals
        self._merges = Merges(search.random("merge"), self.population.known)
        self._subsamples = search.random("merge.subsample")

    def _minibatch_size(self) -> int:
        """As asked for. That the default is more than there are examples is no news, and needs no warning."""
        size: int = self.search.params["train_batch_size"]
        return min(size, len(self.search.problem.train)) if size == MINIBATCH else size

    def _split(self) -> tuple[list[int], list[int]]:
        """The Pareto set, and the rest of the selection split."""
        everything = list(self.search.examples(self.search.selection))
        size = self.search.params["pareto_subset_size"]
        if size > len(everything):
            self.search.log.warn(
                f"pareto_subset_size is {size} and there are {len(everything)} examples; the Pareto set holds them all."
            )
        if size == 0 or size >= len(everything):
            return everything, []
        chosen = set(self.search.random("pareto_set").sample(everything, size))
        return sorted(chosen), [i for i in everything if i not in chosen]

    def run(self) -> Generator[Step, None, None]:
        """All iterations. The state to end with is the best that was recorded.

        Raises:
            StopTraining: passed on.
        """
        every = self.search.params["merge_every"]
        for step in itertools.count(1):
            if step > self._iterations and not self.search.endless:
                return
            merge = self._merges.take(self.pool) if every and step % every == 0 else None
            if merge is not None:
                parents = [merge.older, merge.newer]
                new = yield from self._merge(step, merge)
            else:
                chosen = self.variant.parents(self, step)
                parents = [c.member for c in chosen]
                new = yield from self._reflect(step, chosen)
            self.pool = self.variant.keep(self, new)
            self._tell(step, parents, new)

    def best(self) -> Member:
        """Of highest mean on the Pareto set; of equal ones the oldest."""
        return max(self.members, key=lambda m: (m.mean, -m.created))

    def _reflect(self, step: int, chosen: Sequence[Chosen]) -> Generator[Step, None, list[Member]]:
        """A proposal for one module of each parent; who beats its parent on the parent's minibatch is added."""
        reflections: dict[str, _Reflection] = {}
        calls: list[Call] = []
        for place, choice in enumerate(chosen):
            reflection, asked = self._explore(step, f"c{place}", choice)
            reflections[choice.member.candidate.id] = reflection
            calls += asked
        new: list[Member] = []
        with contextlib.closing(self.population.children(calls)) as children:
            for child in children:
                told = reflections[child.parents[0]]
                rollouts = self.population.judge(child, told.minibatch, "train")
                after = self.population.mean(rollouts)
                extra: dict[str, Any] = {**told.extra, "minibatch_score": self._natural(after)}
                if after > told.before:
                    new.append((yield from self._add(step, child, (told.parent,), BETTER, extra)))
                else:
                    yield self.population.step(
                        step, child, rollouts, "train", accepted=False, reason=NO_BETTER, **extra
                    )
                    self.population.forget(child)
        return new

    def _explore(self, step: int, place: str, choice: Chosen) -> tuple[_Reflection, list[Call]]:
        """Run a parent on the next minibatch; the calls for its children, which may change its next module only."""
        parent, minibatch = choice.member, self.minibatches.take()
        module = self.modules[parent.module]
        parent.chosen += 1
        parent.module = (parent.module + 1) % len(self.modules)
        told = self.population.explore(parent.candidate, minibatch, only=(module,))
        before = self.population.mean(told.rollouts)
        extra: Mapping[str, Any] = {**choice.extra, "module": module, "parent_minibatch_score": self._natural(before)}
        reflection = _Reflection(parent, minibatch, before, extra)
        reason = None
        if self._nothing_to_gain(told.rollouts):
            reason = NOTHING_TO_GAIN
        elif told.prompt is None:
            reason = f"no response depends on {module}"
        if reason is not None:
            self.search.log.event("proposal.skipped", step=step, candidate=parent.candidate.id, reason=reason)
            return reflection, []
        return reflection, self.population.calls(parent.candidate, told, step, place, self._proposals)

    def _nothing_to_gain(self, rollouts: Sequence[Rollout]) -> bool:
        """Whether each score is exactly the best of the task's range. One beyond it has disproved the range."""
        bounds = self.population.bounds
        return bounds is not None and all(self.population.orientation.oriented(r.score) == bounds[1] for r in rollouts)

    def _merge(self, step: int, merge: Merge) -> Generator[Step, None, list[Member]]:
        """Score a merged candidate on a subsample; it is added unless a parent is better there."""
        parents = (merge.older, merge.newer)
        child = self.population.add(
            f"s{step}.m", merge.state, [m.candidate for m in parents], merge.better.candidate.past
        )
        if child is None:  # cannot be: what is known is no merge
            return []
        places = subsample(merge.older.scores, merge.newer.scores, SUBSAMPLE, self._subsamples)
        rollouts = self.population.judge(child, [self.pareto_set[i] for i in places])
        after = self.population.mean(rollouts)
        before = max(oriented_mean([parent.scores[i] for i in places]) for parent in parents)
        extra: dict[str, Any] = {
            "ancestor": merge.ancestor.candidate.id,
            "subsample_score": self._natural(after),
            "parent_subsample_score": self._natural(before),
        }
        if after >= before:
            return [(yield from self._add(step, child, parents, MERGED, extra))]
        yield self.population.step(step, child, rollouts, accepted=False, reason=MERGED_WORSE, **extra)
        self.population.forget(child)
        return []

    def _add(
        self, step: int, child: Candidate, parents: tuple[Member, ...], reason: str, extra: Mapping[str, Any]
    ) -> Generator[Step, None, Member]:
        """Score an accepted candidate on the Pareto set; who is the best there is judged on the rest as well."""
        rollouts = self.population.judge(child, self.pareto_set)
        member = self._member(child, rollouts, parents)
        leads = member.mean > self.best().mean
        self.members.append(member)
        yield self.population.step(step, child, rollouts, accepted=True, reason=reason, **extra)
        if leads and self._rest:
            rollouts += self.population.judge(child, self._rest)
            yield self.population.step(step, child, rollouts, accepted=True, reason=LEADS)
        return member

    def _member(self, candidate: Candidate, rollouts: Sequence[Rollout], parents: tuple[Member, ...] = ()) -> Member:
        scores = tuple(self.population.orientation.oriented(r.score) for r in rollouts)
        module = max((parent.module for parent in parents), default=0)
        return Member(candidate, scores, oriented_mean(scores), parents, module)

    def _natural(self, score: float) -> float:
        return self.population.orientation.oriented(score)

    def _tell(self, step: int, parents: Sequence[Member], new: Sequence[Member]) -> None:
        best = self.best()
        mean = self._natural(best.mean)
        self.search.log.event(
            "search.step", step=step, explored=[m.candidate.id for m in parents],
            children=[m.candidate.id for m in new], best=best.candidate.id, best_mean=mean, known=len(self.members),
        )  # fmt: skip
        if self.search.params["verbose"]:
            line = (
                f"step {step}: best {best.candidate.id} {mean:.6g}, {len(new)} accepted, {len(self.pool)} in the pool"
            )
            print(line, flush=True)  # noqa: T201
