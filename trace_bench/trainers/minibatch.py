"""Minibatch: one minibatch, one proposal, and the state moves on."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.classic import EVAL_FREQUENCY, NUM_STEPS, TRAIN_BATCH_SIZE, Walk
from trace_bench.trainers.common_params import NUM_EPOCHS, VERBOSE

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate
    from trace_bench.trainers.proposer import Explored


class Minibatch:
    """Holds one state. Each minibatch of feedback changes it, as in stochastic gradient descent.

    ### What a step does
    1. **Run.** The state runs on the next minibatch: `train_batch_size` training examples, from a permutation that is
       drawn again in each epoch. Its scores there are a line of the history (split `train`, the step's number).
    2. **Propose.** One backward pass of the whole minibatch, one model call.
    3. **Move on.** The proposal is the next state. With `ensure_improvement` it is first scored on the *same*
       minibatch, a line of its own. It is then the next state only if
       `mean(proposal) − mean(state) > improvement_threshold`, where higher is better. With the default of 0 an equal
       proposal is rejected.
    4. **Judge.** Every `eval_frequency` steps, and after the last, the state is scored on all examples of the selection
       split, once. Only judged states can become the best state.

    A proposal without a change does not change the state. A proposal that equals an earlier state returns to it (event
    `proposal.known`). Only the minibatches are random. The final state is the last one. The best state is the best
    judged one.

    A step costs `b` evaluations and one call for minibatches of `b`. `ensure_improvement` adds up to `b`. A judgement
    costs one evaluation for each example of the selection split.

    ### Where it differs from OpenTrace
    | OpenTrace (`MinibatchAlgorithm`) | here | why |
    |---|---|---|
    | `ensure_improvement` accepts a score above the old one *minus* the threshold | plus the threshold | a threshold is the required improvement |
    | `ensure_improvement` is on in some versions, off in others | off by default | |
    | judges on test data | on the selection split | test data is for official scores alone |
    | `num_epochs` 1 | `num_steps` 5, more with `num_epochs` | one rule for all trainers: equal steps for data of any size |
    | the last state is the result | the best judged one is also reported | |
    | scores every judgement again | judges a state once | |
    """  # noqa: E501

    name = "Minibatch"
    summary = "Moves to the proposal of each minibatch, always or only if it is better there."
    source = "OpenTrace, MinibatchAlgorithm; Cheng, Nie, Swaminathan: Trace, arXiv:2406.16218"
    params: tuple[Param, ...] = (
        NUM_STEPS,
        NUM_EPOCHS,
        TRAIN_BATCH_SIZE,
        Param("ensure_improvement", False, bool, "reject a proposal that is not better on the same minibatch"),
        Param(
            "improvement_threshold",
            0.0,
            float,
            "improvement that must be exceeded, in units of the score",
            minimum=0.0,
            when={"ensure_improvement": (True,)},
        ),
        EVAL_FREQUENCY,
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size")

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the last state.

        Raises:
            StopTraining: passed on.
        """
        threshold = search.params["improvement_threshold"] if search.params["ensure_improvement"] else None
        return (yield from Descent(search, threshold).run())


class Descent(Walk):
    """A search that holds one state and moves.

    Args:
        threshold: what a proposal must be better by on the minibatch it comes of; None: it need not be.
    """

    def __init__(self, search: Search, threshold: float | None) -> None:
        super().__init__(search)
        self._threshold = threshold

    def run(self) -> Generator[Step, None, State]:
        step, state = 0, self.population.seed
        while self.more(step):
            step += 1
            state = yield from self._iterate(step, state)
        yield from self.judge(step, state, "the last state, judged on all examples")
        return dict(state.state)

    def _iterate(self, step: int, state: Candidate) -> Generator[Step, None, Candidate]:
        minibatch = self.minibatches.take()
        told = self.population.explore(state, minibatch)
        yield self.line(step, state, told.rollouts, "train", accepted=True, reason="run on the minibatch")
        children, following = [], state
        calls = self.population.calls(state, told, step, "c0", 1)
        with contextlib.closing(self.population.successors(calls)) as proposed:
            for child in proposed:
                children.append(child)
                if self._threshold is None or (yield from self._improves(step, minibatch, state, told, child)):
                    following = child
        yield from self.judge_now(step, following)
        self.tell(step, [state], children, [following])
        return following

    def _improves(
        self, step: int, minibatch: tuple[int, ...], state: Candidate, told: Explored, child: Candidate
    ) -> Generator[Step, None, bool]:
        assert self._threshold is not None
        rollouts = self.population.judge(child, minibatch, "train")
        improves = self.population.mean(rollouts) - self.population.mean(told.rollouts) > self._threshold
        reason = f"{'better' if improves else 'not better'} than {state.id} on the minibatch"
        yield self.line(step, child, rollouts, "train", accepted=improves, reason=reason)
        return improves
