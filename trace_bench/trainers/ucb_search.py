"""UCBSearch: a buffer of states, and the one of highest upper confidence bound gets the next proposal."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, OtherThan, Param, Search, State, Step
from trace_bench.trainers.classic import EVAL_FREQUENCY, NUM_STEPS, TRAIN_BATCH_SIZE, Walk
from trace_bench.trainers.common_params import NUM_EPOCHS, UCB_CONSTANT, VERBOSE

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate


class UCBSearch:
    """Holds a buffer of states, as the arms of a bandit. The state with the highest upper confidence bound is run
    again, and its proposal joins the buffer.

    ### What a step does
    1. **Pick** the state of the buffer with the highest bound, of equal ones the newest.
    2. **Run** it on the next minibatch of `train_batch_size` training examples. These scores count, too.
    3. **Propose.** One backward pass of the whole minibatch, one model call.
    4. **Score** the proposal on a new sample of `evaluation_batch_size` examples of the selection split, drawn without
       replacement.
    5. **Make room.** If the buffer holds `max_buffer_size` states, the one with the lowest bound leaves it, of equal
       ones the oldest. Then the proposal joins, so that each new state is in the buffer for at least one step
       (`accepted` is null). `extra.ucb` is its bound at that time, and `extra.evicted` the state that left.
    6. **Judge.** Every `eval_frequency` steps, and after the last, the state of the buffer with the highest mean, of
       equal ones the newest, is scored on all examples of the selection split, once.

    A state's bound is `mean + c · sqrt(ln T / n) · spread`. This is UCB1 with `c` (`ucb_exploration_constant`) in place
    of `sqrt(2)`. `mean` and `n` are of all its scores so far. `T` is the number of all scores of all states so far,
    including states that left the buffer. `spread` is the highest minus the lowest mean in the buffer. The task's score
    range is not used: if states differ by 1 on a range of 20, the bonus outweighs every difference, and the states take
    turns.

    The final state is that of step 6. A step costs up to `b + e` evaluations for minibatches of `b` and `e` examples to
    score on, one call, and the judgements.

    ### Where it differs from OpenTrace
    | OpenTrace (`UCBSearchAlgorithm`) | here | why |
    |---|---|---|
    | the bonus is made for scores from 0 to 1 | scaled by the spread of the means in the buffer | a bonus of 1 has no effect on scores up to 1000, and decides alone if they differ by 0.01 |
    | scores the start on `evaluation_batch_size` examples | on all: step 0 | |
    | judgements, on test data, do not count into a state's statistics | they are on the selection split and count | all paid scores are used |
    | a known proposal joins as another arm | is dropped | two arms of one state would not share their scores |
    | of equal bounds picks the oldest | the newest | |
    | 100 iterations, minibatches of 2 | 5 and 1 | |
    """  # noqa: E501

    name = "UCBSearch"
    summary = "Improves the state of a buffer with the highest upper confidence bound."
    source = "OpenTrace, UCBSearchAlgorithm; UCB1: Auer, Cesa-Bianchi, Fischer, Machine Learning 47, 2002"
    params: tuple[Param, ...] = (
        replace(NUM_STEPS, aliases=("num_search_iterations",)),
        NUM_EPOCHS,
        TRAIN_BATCH_SIZE,
        Param("max_buffer_size", 10, int, "states in the buffer", minimum=1),
        UCB_CONSTANT,
        Param(
            "evaluation_batch_size",
            20,
            int,
            "examples of the selection split for a proposal, a new sample for each; 0: all",
            minimum=0,
        ),
        replace(EVAL_FREQUENCY, when={"evaluation_batch_size": OtherThan((0,))}),
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", "evaluation_batch_size")

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the state of the buffer with the highest mean.

        Raises:
            StopTraining: passed on.
        """
        return (yield from _Bandit(search).run())


class _Bandit(Walk):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._size: int = self.params["evaluation_batch_size"]
        self._buffer = [self.population.seed]
        self.say_if_idle(self._size, "evaluation_batch_size")

    def run(self) -> Generator[Step, None, State]:
        step = 0
        while self.more(step):
            step += 1
            yield from self._iterate(step)
        leader = self._leader()
        yield from self.judge(step, leader, "leads at the end, judged on all examples")
        return dict(leader.state)

    def _iterate(self, step: int) -> Generator[Step, None, None]:
        bounds = self._bounds()
        picked = max(self._buffer, key=lambda c: (bounds[c.id], c.created))
        told = self.population.explore(picked, self.minibatches.take())
        sample = self.sample(self._size)  # drawn whether or not a proposal comes, which so moves no later sample
        children: list[Candidate] = []
        calls = self.population.calls(picked, told, step, "c0", 1)
        with contextlib.closing(self.population.children(calls)) as proposed:
            for child in proposed:
                rollouts = self.population.judge(child, sample)
                children.append(child)
                evicted = self._make_room()
                self._buffer.append(child)
                bound = self._bounds()[child.id]
                yield self.line(step, child, rollouts, reason="joins the buffer", ucb=bound, evicted=evicted)
        if sample != self.everything:
            yield from self.judge_now(step, self._leader())
        self.tell(step, [picked], children, self._buffer, ucb=bounds[picked.id])

    def _make_room(self) -> str | None:
        """Who leaves a full buffer: the lowest bound, of equal ones the oldest."""
        if len(self._buffer) < self.params["max_buffer_size"]:
            return None
        bounds = self._bounds()
        lowest = min(self._buffer, key=lambda c: (bounds[c.id], c.created))
        self._buffer.remove(lowest)
        return lowest.id

    def _leader(self) -> Candidate:
        return max(self._buffer, key=lambda c: (c.mean, c.created))

    def _bounds(self) -> dict[str, float]:
        """Of all in the buffer, by id, after all scores so far."""
        from trace_bench.trainers.candidates import spread, upper_confidence_bound

        total = sum(len(known.scores) for known in self.population)
        constant, span = self.params["ucb_exploration_constant"], spread(c.mean for c in self._buffer)
        return {c.id: upper_confidence_bound(c.mean, len(c.scores), total, constant, span) for c in self._buffer}
