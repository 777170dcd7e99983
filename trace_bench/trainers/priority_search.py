"""PrioritySearch: a search over candidates kept in a priority queue.

After Ren, Nie, Xie, Cheng (POLCA, arXiv:2603.14769), without its filter and summarizer, and after
`PrioritySearch` of OpenTrace (experimental). Where it differs, `docs/reference/trainers.md` says how and why.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import Param, Rollout, Search, State, Step
from trace_bench.trainers.common_params import NUM_THREADS, VERBOSE

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate, Memory
    from trace_bench.trainers.population import Call

_PARAMS = (
    Param("num_steps", 5, int, "iterations: explore, propose, evaluate", minimum=1, aliases=("ps_steps",)),
    Param("num_epochs", 0, int, "go on until this many passes over the training data are done, too", minimum=0),
    Param("num_batches", 1, int, "minibatches for each explored candidate", minimum=1, aliases=("ps_batches",)),
    Param("num_candidates", 2, int, "candidates explored in one step", minimum=1, aliases=("ps_candidates",)),
    Param("num_proposals", 2, int, "proposals for each candidate and minibatch", minimum=1, aliases=("ps_proposals",)),
    Param(
        "memory_update_frequency",
        0,
        int,
        "steps for which new candidates stay in a memory of their own; 0: there is one memory only",
        minimum=0,
        aliases=("ps_mem_update",),
    ),
    Param("train_batch_size", 1, int, "examples in a minibatch", minimum=1, aliases=("batch_size",)),
    Param("score_function", "mean", str, "priority of a candidate", choices=("mean", "ucb", "time")),
    Param(
        "ucb_exploration_constant",
        1.0,
        float,
        "weight of the exploration bonus",
        minimum=0.0,
        when={"score_function": ("ucb",)},
    ),
    Param("validate_exploration_candidates", False, bool, "score explored candidates on the validation set again"),
    NUM_THREADS,
    VERBOSE,
)


class PrioritySearch:
    """Explores the best candidates, lets an optimizer propose children, and ranks them by their scores."""

    name = "PrioritySearch"
    summary = "Explores the best candidates of a priority queue and asks an optimizer for children of each."
    source = "Ren, Nie, Xie, Cheng: POLCA, arXiv:2603.14769; OpenTrace (experimental), PrioritySearch"
    params: tuple[Param, ...] = _PARAMS
    uses_llm = True
    uses_graph = True

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the state of highest mean score.

        Raises:
            StopTraining: passed on.
        """
        return (yield from _Run(search).run())


class _Run:
    def __init__(self, search: Search) -> None:
        # Imported here: the host imports this module to list trainers, and needs nothing of these.
        from trace_bench.trainers.candidates import Memory
        from trace_bench.trainers.population import Population

        self.search = search
        self.params = search.params
        self.population = Population(search)
        self.seed = self.population.seed
        self.clip = self.population.bounds
        self.minibatches = self.population.minibatches(self.params["train_batch_size"])
        if self.params["score_function"] == "ucb" and self.clip is None:
            search.log.warn("the task states no score range; score_function ucb scales its bonus by the scores seen.")
        self.long_term, self.short_term = Memory(), Memory()

    def run(self) -> Generator[Step, None, State]:
        self.long_term.push(self.seed, math.inf)
        step = 0
        while step < self.params["num_steps"] or self.minibatches.epochs < self.params["num_epochs"]:
            step += 1
            yield from self._iterate(step)
        return dict(self.population.best().state)

    def _iterate(self, step: int) -> Generator[Step, None, None]:
        explored = self._select(step)
        batches = [self.minibatches.take() for _ in range(self.params["num_batches"])]
        calls = self._explore(step, explored, batches)
        children = yield from self._children(step, calls)
        memory = self._memory(step)
        for candidate in (*explored, *children):
            memory.push(candidate, self._priority(candidate, step))
        best = self.population.best()
        mean = self.population.orientation.oriented(best.mean)
        known = len(self.population.known)
        self.search.log.event(
            "search.step", step=step, explored=[c.id for c in explored], children=[c.id for c in children],
            best=best.id, best_mean=mean, known=known,
        )  # fmt: skip
        if self.params["verbose"]:
            new = f"{len(children)} new candidates of {len(calls)} proposals"
            print(f"step {step}: best {best.id} {mean:.6g}, {new}, {known} known", flush=True)  # noqa: T201

    def _memory(self, iterations: int) -> Memory:
        """The memory in use after `iterations`; the short-term one is merged every so many of them."""
        every = self.params["memory_update_frequency"]
        if every == 0:
            return self.long_term
        if iterations % every == 0:
            self.short_term.drain_into(self.long_term)
            return self.long_term
        return self.short_term

    def _select(self, step: int) -> list[Candidate]:
        """The best candidate by mean score, and those of highest priority, which leave the memory until they
        are pushed back."""
        memory = self._memory(step - 1)
        best = memory.best()
        explored = [best]
        while len(explored) < self.params["num_candidates"] and len(memory):
            candidate = memory.pop()
            if candidate is not best:
                explored.append(candidate)
        return explored

    def _explore(self, step: int, explored: Sequence[Candidate], batches: Sequence[tuple[int, ...]]) -> list[Call]:
        """Run the explored candidates on all minibatches; one backward pass each, in slot order."""
        calls: list[Call] = []
        for i, candidate in enumerate(explored):
            for j, minibatch in enumerate(batches):
                place = f"c{i}" if len(batches) == 1 else f"c{i}.b{j}"
                told = self.population.explore(candidate, minibatch)
                calls += self.population.calls(candidate, told, step, place, self.params["num_proposals"])
            if self.search.problem.validate and self.params["validate_exploration_candidates"]:
                self.population.judge(candidate)
        return calls

    def _children(self, step: int, calls: Sequence[Call]) -> Generator[Step, None, list[Candidate]]:
        """Ask for, check and score the proposals, in slot order."""
        children: list[Candidate] = []
        with contextlib.closing(self.population.children(calls)) as proposed:
            for child in proposed:
                rollouts: Sequence[Rollout] = self.population.judge(child)
                yield self.population.step(step, child, rollouts, priority=self._priority(child, step))
                children.append(child)
        return children

    def _priority(self, candidate: Candidate, iterations: int) -> float:
        """Priority after `iterations`; higher is explored earlier."""
        from trace_bench.trainers.candidates import upper_confidence_bound

        match self.params["score_function"]:
            case "time":
                return -float(candidate.created)
            case "ucb":
                scores: list[Any] = [score for known in self.population.known.values() for score in known.scores]
                low, high = self.clip or (min(scores), max(scores))
                constant = self.params["ucb_exploration_constant"]
                return upper_confidence_bound(
                    candidate.mean, len(candidate.scores), iterations, constant, high - low, self.clip
                )
            case _:
                return candidate.mean
