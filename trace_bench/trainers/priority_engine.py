"""The engine of PrioritySearch and of the searches that change one of its decisions.

Explore, propose, evaluate, rank: what a subclass overrides is who is explored (`select`), which children are worth
evaluating (`admit`), where a candidate stands in the memory (`priority`), and what else the prompts say (`context`).
Light at import, since the host imports trainers to list them: what needs the graph is imported where it is used.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import OtherThan, Param, Rollout, Search, State, Step
from trace_bench.trainers.common_params import NUM_EPOCHS, NUM_THREADS, UCB_CONSTANT, VERBOSE, bound

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate, Memory
    from trace_bench.trainers.population import Call
    from trace_bench.trainers.proposer import Explored

LOOP = (
    bound("num_steps", 5, "iterations: explore, propose, evaluate", aliases=("ps_steps",)),
    NUM_EPOCHS,
    Param("num_batches", 1, int, "minibatches for each explored candidate", minimum=1, aliases=("ps_batches",)),
    Param("num_candidates", 2, int, "candidates explored in one step", minimum=1, aliases=("ps_candidates",)),
    Param("num_proposals", 2, int, "proposals for each candidate and minibatch", minimum=1, aliases=("ps_proposals",)),
    Param("train_batch_size", 1, int, "examples in a minibatch", minimum=1, aliases=("batch_size",)),
)
MEMORY = (
    Param(
        "memory_update_frequency",
        0,
        int,
        "steps between merges of the short-term memory, the only one explored, into the long-term memory; 0: "
        "one memory",
        minimum=0,
        aliases=("ps_mem_update",),
    ),
    Param(
        "long_term_memory_size",
        0,
        int,
        "candidates of highest priority that the memory keeps after a step; 0: all",
        minimum=0,
    ),
    Param(
        "short_term_memory_size",
        0,
        int,
        "candidates of highest priority that the short-term memory keeps after a step; 0: all",
        minimum=0,
        when={"memory_update_frequency": OtherThan((0, 1))},
    ),
)
RANKING = (
    Param("score_function", "mean", str, "priority of a candidate", choices=("mean", "ucb", "time")),
    replace(UCB_CONSTANT, when={"score_function": ("ucb",)}),
    Param(
        "use_best_candidate_to_explore",
        True,
        bool,
        "always explore the candidate of highest mean score",
        when={"score_function": OtherThan(("mean",))},
    ),
)
VALIDATE_AGAIN = (
    Param(
        "validate_exploration_candidates",
        False,
        bool,
        "score explored candidates on the validation data again; no effect without such data",
    ),
    Param(
        "validation_batch",
        0,
        int,
        "examples of the selection split for children, a new sample in each step; 0: all",
        minimum=0,
        later=True,
    ),
)
RUNNING = (NUM_THREADS, VERBOSE)


@dataclass(frozen=True)
class Told:
    """What an explored candidate made of one minibatch. `place` names the pair in the step: ``c0``, or ``c0.b1``."""

    candidate: Candidate
    place: str
    explored: Explored


class PriorityEngine:
    """One search of PrioritySearch; subclasses override decisions.

    Attributes:
        clip: (lowest, highest) oriented score that the task can give; None if it does not say.
        accepted: `Step.accepted` of the children that were admitted; None where all are.
    """

    accepted: bool | None = None

    def __init__(self, search: Search) -> None:
        from trace_bench.trainers.candidates import Memory
        from trace_bench.trainers.population import Population
        from trace_bench.trainers.validation import Validation

        self.search = search
        self.params = search.params
        self.population = Population(search)
        self.seed = self.population.seed
        self.clip = self.population.bounds
        self.minibatches = self.population.minibatches(self.params["train_batch_size"])
        self.long_term, self.short_term = Memory(), Memory()
        self.validation = Validation(search, self.population, self.params.get("validation_batch", 0))

    def run(self) -> Generator[Step, None, State | None]:
        self.long_term.push(self.seed, math.inf)
        self.seen(self.seed, self.search.start.rollouts, self.search.start.split)
        step = 0
        num_steps, num_epochs = self.params["num_steps"], self.params["num_epochs"]
        while self.search.endless or step < num_steps or self.minibatches.epochs < num_epochs:
            step += 1
            yield from self._iterate(step)
        return self.result()

    def _iterate(self, step: int) -> Generator[Step, None, None]:
        explored = self.select(step)
        batches = [self.minibatches.take() for _ in range(self.params["num_batches"])]
        self.validation.draw()
        context = self.context(step, explored)
        told: list[Told] = []
        for i, candidate in enumerate(explored):
            for one in self._explore(i, candidate, batches, context):
                told.append(one)
                yield from self.report(step, one)
            yield from self._judge_again(step, candidate)
        yield from self.settle(step, explored)
        calls = self.calls(step, told)
        children = yield from self._children(step, explored, calls)
        yield from self._judge_leader(step)
        memory = self.memory(step)
        for candidate in (*explored, *children):
            memory.push(candidate, self.priority(candidate, step))
        forgotten = self._trim()
        best = self.population.best()
        mean = self.population.orientation.oriented(best.mean)
        known = len(self.population.known)
        self.search.log.event(
            "search.step", step=step, explored=[c.id for c in explored], children=[c.id for c in children],
            best=best.id, best_mean=mean, known=known, forgotten=[c.id for c in forgotten],
        )  # fmt: skip
        if self.params["verbose"]:
            new = f"{len(children)} new candidates of {len(calls)} proposals"
            print(f"step {step}: best {best.id} {mean:.6g}, {new}, {known} known", flush=True)  # noqa: T201

    # -- decisions -------------------------------------------------------------------------------------------------

    def select(self, step: int) -> list[Candidate]:
        """Who is explored in `step`; they leave the memory until they are pushed back. At least one."""
        memory = self.memory(step - 1)
        best = memory.best() if self.params["use_best_candidate_to_explore"] else None
        explored = [] if best is None else [best]
        while len(explored) < self.params["num_candidates"] and len(memory):
            candidate = memory.pop()
            if candidate is not best:
                explored.append(candidate)
        return explored

    def context(self, step: int, explored: Sequence[Candidate]) -> str:
        """What the prompts of `step` say besides, if anything."""
        return ""

    def report(self, step: int, told: Told) -> Iterable[Step]:
        """What the history says of one explored candidate on one minibatch."""
        return ()

    def settle(self, step: int, explored: Sequence[Candidate]) -> Iterable[Step]:
        """Called once all of `explored` were run, before any proposal."""
        return ()

    def calls(self, step: int, told: Sequence[Told]) -> list[Call]:
        """The proposals to be asked for, in slot order."""
        calls: list[Call] = []
        for one in told:
            calls += self.population.calls(one.candidate, one.explored, step, one.place, self.params["num_proposals"])
        return calls

    def admit(self, step: int, explored: Sequence[Candidate], children: Iterator[Candidate]) -> Iterable[Candidate]:
        """Those of the new `children` that are worth an evaluation, in order."""
        return children

    def judge(self, step: int, child: Candidate) -> Iterable[Step]:
        """Evaluate a child that was admitted."""
        rollouts = self.validation.score(child)
        self.seen(child, rollouts, self.search.selection)
        yield self.population.step(step, child, rollouts, accepted=self.accepted, **self.extra(step, child))

    def seen(self, candidate: Candidate, rollouts: Sequence[Rollout], split: str) -> None:
        """Called with everything that was evaluated, in order."""

    def extra(self, step: int, candidate: Candidate) -> Mapping[str, Any]:
        """`Step.extra` of a child."""
        return {"priority": self.priority(candidate, step)}

    def priority(self, candidate: Candidate, iterations: int) -> float:
        """Priority after `iterations`; higher is explored earlier."""
        from trace_bench.trainers.candidates import spread, upper_confidence_bound

        match self.params["score_function"]:
            case "time":
                return -float(candidate.created)
            case "ucb":
                constant, span = self.params["ucb_exploration_constant"], spread(c.mean for c in self.population)
                return upper_confidence_bound(
                    candidate.mean, len(candidate.scores), iterations + 2, constant, span, self.clip
                )
            case _:
                return candidate.mean

    def result(self) -> State | None:
        """The final state; None for the best one recorded: means over different samples do not compare."""
        return None if self.validation.samples else dict(self.population.best().state)

    # -- what all of them do alike ---------------------------------------------------------------------------------

    def memory(self, iterations: int) -> Memory:
        """The memory in use after `iterations`; the short-term one is merged every so many of them."""
        every = self.params["memory_update_frequency"]
        if every == 0:
            return self.long_term
        if iterations % every == 0:
            self.short_term.drain_into(self.long_term)
            return self.long_term
        return self.short_term

    def _trim(self) -> list[Candidate]:
        """Keep the memories to their sizes; returns those that are in none of them any more."""
        forgotten: list[Candidate] = []
        for memory, name in ((self.long_term, "long_term_memory_size"), (self.short_term, "short_term_memory_size")):
            if size := self.params[name]:
                forgotten += memory.trim(size)
        left = {c.created for c in (*self.long_term, *self.short_term)}
        return [c for c in forgotten if c.created not in left]

    def _explore(
        self, i: int, candidate: Candidate, batches: Sequence[tuple[int, ...]], context: str
    ) -> Generator[Told, None, None]:
        """Run an explored candidate on all minibatches; one backward pass each, in slot order."""
        for j, minibatch in enumerate(batches):
            place = f"c{i}" if len(batches) == 1 else f"c{i}.b{j}"
            told = Told(candidate, place, self.population.explore(candidate, minibatch, context))
            self.seen(candidate, told.explored.rollouts, "train")
            yield told

    def _judge_again(self, step: int, candidate: Candidate) -> Generator[Step, None, None]:
        """Score an explored candidate on the validation set again, if that was asked for."""
        if self.search.problem.validate and self.params.get("validate_exploration_candidates"):
            rollouts = self.validation.score(candidate)
            self.seen(candidate, rollouts, "validate")
            yield self.population.step(step, candidate, rollouts, reason="explored, and judged again")

    def _judge_leader(self, step: int) -> Iterator[Step]:
        """Where children are scored on samples: score the candidate of highest mean on what no sample of it had."""
        leader = self.population.best()
        if self.validation.samples and (judgement := self.validation.complete(leader)) is not None:
            self.seen(leader, judgement.new, self.search.selection)
            extra = self.extra(step, leader)
            yield self.population.step(
                step, leader, judgement.rollouts, reason="leads, judged on all examples", **extra
            )

    def _children(
        self, step: int, explored: Sequence[Candidate], calls: Sequence[Call]
    ) -> Generator[Step, None, list[Candidate]]:
        """Ask for, choose and score the proposals, in slot order."""
        children: list[Candidate] = []
        with contextlib.closing(self.population.children(calls)) as proposed:
            for child in self.admit(step, explored, proposed):
                yield from self.judge(step, child)
                children.append(child)
        return children
