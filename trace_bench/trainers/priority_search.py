"""PrioritySearch: a search over candidates kept in a priority queue.

After Ren, Nie, Xie, Cheng (POLCA, arXiv:2603.14769), without its filter and summarizer, and after
`PrioritySearch` of OpenTrace (experimental). Where it differs, `docs/reference/trainers.md` says how and why.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Param, Rollout, Slot, State, TrainContext
from trace_bench.worker.problem import Problem, Value

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate
    from trace_bench.trainers.proposer import Prompt

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
    Param("ucb_exploration_constant", 1.0, float, "weight of the exploration bonus of score_function ucb", minimum=0.0),
    Param("validate_exploration_candidates", False, bool, "score explored candidates on the validation set again"),
    Param("num_threads", 1, int, "model calls at a time; results do not depend on it", minimum=1, aliases=("threads",)),
    Param("verbose", False, bool, "print a line for each step to stdout; results do not depend on it"),
)


class PrioritySearch:
    """Explores the best candidates, lets an optimizer propose children, and ranks them by their scores."""

    name = "PrioritySearch"
    summary = "Explores the best candidates of a priority queue and asks an optimizer for children of each."
    source = "Ren, Nie, Xie, Cheng: POLCA, arXiv:2603.14769; OpenTrace (experimental), PrioritySearch"
    params: tuple[Param, ...] = _PARAMS
    uses_llm = True
    uses_graph = True

    def train(self, problem: Problem, params: Mapping[str, Any], context: TrainContext) -> State:
        """Return the state of highest mean score.

        Raises:
            TrainerError: the problem has nothing to train on, or the optimizer cannot be had.
            StopTraining: passed on.
        """
        if not problem.trainable:
            raise TrainerError("PrioritySearch needs a trainable parameter, and this problem has none.")
        if not problem.train:
            raise TrainerError("PrioritySearch needs training examples, and this problem has none.")
        return _Search(problem, params, context).run()


@dataclass(frozen=True)
class _Call:
    """One model call to be made, and whose child would come of it."""

    parent: Candidate
    prompt: Prompt
    slot: Slot


class _Search:
    def __init__(self, problem: Problem, params: Mapping[str, Any], context: TrainContext) -> None:
        # Imported here: the host imports this module to list trainers, and needs nothing of these.
        from trace_bench.trainers.candidates import Candidate, Memory, Minibatches, Orientation
        from trace_bench.trainers.proposer import Proposer

        self.problem = problem
        self.params = params
        self.context = context
        self.proposer = Proposer(problem, context)
        self.orientation = Orientation.of(problem)
        self.clip = self.orientation.bounds(problem.score_range)
        size = min(params["train_batch_size"], len(problem.train))
        if size < params["train_batch_size"]:
            context.warn(
                f"train_batch_size is {params['train_batch_size']} and there are {size} training examples; "
                f"each minibatch holds all {size}."
            )
        if params["score_function"] == "ucb" and self.clip is None:
            context.warn("the task states no score range; score_function ucb scales its bonus by the scores seen.")
        self.minibatches = Minibatches(len(problem.train), size, context.seed)
        self.seed = Candidate("seed", problem.initial_state(), None, 0)
        self.known = {_key(self.seed.state): self.seed}
        self.long_term, self.short_term = Memory(), Memory()
        self.lowest, self.highest = math.inf, -math.inf

    def run(self) -> State:
        if self.problem.validate:
            self._score(self.seed, self._validation(self.seed), step=0, iterations=0)
        self.long_term.push(self.seed, math.inf)
        iterations = 0
        while iterations < self.params["num_steps"] or self.minibatches.epochs < self.params["num_epochs"]:
            iterations += 1
            self._iterate(iterations)
        return dict(self._best().state)

    def _iterate(self, step: int) -> None:
        explored = self._select(step)
        batches = [self.minibatches.take() for _ in range(self.params["num_batches"])]
        calls = self._explore(step, explored, batches)
        batch = sorted({index for minibatch in batches for index in minibatch})
        children = self._children(step, calls, batch)
        memory = self._memory(step)
        for candidate in (*explored, *children):
            memory.push(candidate, self._priority(candidate, step))
        best = self._best()
        self.context.event(
            "search.step", step=step, explored=[c.id for c in explored], children=[c.id for c in children],
            best=best.id, best_mean=self.orientation.oriented(best.mean), known=len(self.known),
        )  # fmt: skip
        if self.params["verbose"]:
            mean = self.orientation.oriented(best.mean)
            new = f"{len(children)} new candidates of {len(calls)} proposals"
            print(f"step {step}: best {best.id} {mean:.6g}, {new}, {len(self.known)} known", flush=True)  # noqa: T201

    def _memory(self, iterations: int) -> Any:
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

    def _explore(self, step: int, explored: Sequence[Candidate], batches: Sequence[tuple[int, ...]]) -> list[_Call]:
        """Run the explored candidates on all minibatches; one backward pass each, in slot order."""
        calls = []
        for i, candidate in enumerate(explored):
            rollouts: list[Rollout] = []
            for j, minibatch in enumerate(batches):
                self.context.check()
                result = self.proposer.explore(candidate.state, minibatch, candidate.past)
                rollouts.extend(result.rollouts)
                place = f"c{i}" if len(batches) == 1 else f"c{i}.b{j}"
                if result.prompt is None:
                    self.context.event("proposal.skipped", step=step, candidate=candidate.id, reason=_UNCONNECTED)
                    continue
                for proposal in range(self.params["num_proposals"]):
                    calls.append(_Call(candidate, result.prompt, Slot(step, place, proposal)))
            if candidate is self.seed and not candidate.scores:
                self._score(candidate, rollouts, step=0, iterations=step, split="train")
            else:
                self._add(candidate, rollouts)
            if self.problem.validate and self.params["validate_exploration_candidates"]:
                self._add(candidate, self._validation(candidate))
        return calls

    def _children(self, step: int, calls: Sequence[_Call], batch: Sequence[int]) -> list[Candidate]:
        """Ask for, check and score the proposals, in slot order."""
        from trace_bench.trainers.candidates import Candidate

        children = []
        with contextlib.closing(self._answers(calls)) as answers:
            for call, response in answers:
                state = self.proposer.read(call.prompt, response, call.slot)
                if state is None or not self._is_new(state, call):
                    continue
                name = f"s{step}.{call.slot.candidate}.p{call.slot.proposal}"
                child = Candidate(name, state, call.parent.id, len(self.known), call.prompt.past)
                self.known[_key(state)] = child
                if self.problem.validate:
                    self._score(child, self._validation(child), step=step, iterations=step)
                else:
                    rollouts = self.context.evaluate(state, batch, "train")
                    self._score(child, rollouts, step=step, iterations=step, split="train")
                children.append(child)
        return children

    def _answers(self, calls: Sequence[_Call]) -> Generator[tuple[_Call, Mapping[str, Any]], None, None]:
        """The answers in slot order. More threads make the calls overlap and change nothing else."""
        if self.params["num_threads"] == 1:
            for call in calls:
                self.context.check()
                yield call, self.proposer.ask(call.prompt, call.slot)
            return
        executor = ThreadPoolExecutor(self.params["num_threads"], thread_name_prefix="proposals")
        try:
            futures = [executor.submit(self.proposer.ask, call.prompt, call.slot) for call in calls]
            for call, future in zip(calls, futures, strict=True):
                self.context.check()
                yield call, future.result()
        finally:
            executor.shutdown(cancel_futures=True)

    def _is_new(self, state: State, call: _Call) -> bool:
        known = self.known.get(_key(state))
        if known is None:
            return True
        reason = "unchanged" if known is call.parent else "duplicate"
        self.context.event("proposal.dropped", slot=str(call.slot), reason=reason, same_as=known.id)
        return False

    def _validation(self, candidate: Candidate) -> Sequence[Rollout]:
        return self.context.evaluate(candidate.state, range(len(self.problem.validate)), "validate")

    def _add(self, candidate: Candidate, rollouts: Sequence[Rollout]) -> None:
        scores = [self.orientation.oriented(r.score) for r in rollouts]
        candidate.scores.extend(scores)
        self.lowest = min([self.lowest, *scores])
        self.highest = max([self.highest, *scores])

    def _score(
        self,
        candidate: Candidate,
        rollouts: Sequence[Rollout],
        *,
        step: int,
        iterations: int,
        split: str = "validate",
    ) -> None:
        """Add the rollouts by which a candidate is judged, and record it."""
        self._add(candidate, rollouts)
        self.context.step(
            step=step, candidate=candidate.id, parent=candidate.parent, state=dict(candidate.state), rollouts=rollouts,
            split=split, priority=self._priority(candidate, iterations),
        )  # fmt: skip

    def _priority(self, candidate: Candidate, iterations: int) -> float:
        """Priority after `iterations`; higher is explored earlier."""
        from trace_bench.trainers.candidates import upper_confidence_bound

        match self.params["score_function"]:
            case "time":
                return -float(candidate.created)
            case "ucb":
                low, high = self.clip or (self.lowest, self.highest)
                constant = self.params["ucb_exploration_constant"]
                return upper_confidence_bound(
                    candidate.mean, len(candidate.scores), iterations, constant, high - low, self.clip
                )
            case _:
                return candidate.mean

    def _best(self) -> Candidate:
        return max((c for c in self.known.values() if c.scores), key=lambda c: (c.mean, c.created))


_UNCONNECTED = "no response depends on a trainable parameter"


def _key(state: Mapping[str, Value]) -> tuple[tuple[str, str, Value], ...]:
    """Equal for equal states only: 1 and 1.0 are different values."""
    return tuple((name, type(value).__name__, value) for name, value in sorted(state.items()))
