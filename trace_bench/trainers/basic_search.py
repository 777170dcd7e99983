"""BasicSearch: several proposals from one minibatch, the best of them or none."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, OtherThan, Param, Search, State, Step
from trace_bench.trainers.classic import EVAL_FREQUENCY, NUM_STEPS, TRAIN_BATCH_SIZE, Walk
from trace_bench.trainers.common_params import NUM_EPOCHS, NUM_THREADS, VERBOSE

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate


class BasicSearch:
    """Hill climbing. One state competes with several proposals from one minibatch. The best of them is the next state.

    ### What a step does
    1. **Run.** The state runs on the next minibatch of `train_batch_size` training examples.
    2. **Propose.** One backward pass of the whole minibatch, then `num_proposals` model calls with the same prompt.
    3. **Compare.** All proposals are scored on the same examples of the selection split: all examples, or a new sample
       of `validate_examples` in each step. With a sample the state is scored again. Without one its mean is known.
    4. **Keep the best.** Of equal means the newest wins, so that the search can cross a plateau. Proposals are judged
       in order. `accepted` is true for a proposal that leads when it is judged. The last accepted one is the next
       state.
    5. **Judge**, with samples only. The state is scored on all examples every `eval_frequency` steps and after the
       last.

    The final state is the last one held. A step costs up to `b + p·v` evaluations and `p` calls for minibatches of `b`,
    `p` proposals and `v` examples to validate on. Samples add `v` evaluations and the judgements.

    ### Where it differs from OpenTrace
    | OpenTrace (`BasicSearchAlgorithm`) | here | why |
    |---|---|---|
    | scores on the whole validation set | `validate_examples` can select samples | |
    | of equal means the earliest proposal wins, the held state comes last | the newest wins, the held state comes last | |
    | scores a known proposal again | drops it | |
    | scores the held state in the first step | has its scores from step 0 | |
    """  # noqa: E501

    name = "BasicSearch"
    summary = "Keeps the best of one state and several proposals from it."
    source = "OpenTrace, BasicSearchAlgorithm"
    params: tuple[Param, ...] = (
        NUM_STEPS,
        NUM_EPOCHS,
        TRAIN_BATCH_SIZE,
        Param("num_proposals", 4, int, "proposals in a step", minimum=1),
        Param(
            "validate_examples",
            0,
            int,
            "examples of the selection split that compare a step's states, a new sample in each step; 0: all",
            minimum=0,
        ),
        replace(EVAL_FREQUENCY, when={"validate_examples": OtherThan((0,))}),
        NUM_THREADS,
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", "validate_examples", first_step=("num_proposals",))

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the last state held.

        Raises:
            StopTraining: passed on.
        """
        validate = search.params["validate_examples"]
        climb = Climb(search, search.params["num_proposals"], validate)
        climb.say_if_idle(validate, "validate_examples")
        return (yield from climb.run())


class Climb(Walk):
    """A search that holds one state and goes on with the best of it and its proposals.

    Args:
        proposals: for each minibatch. validate: examples to compare on; 0: all of the selection split.
        batches: minibatches in a step; each gives proposals of its own.
    """

    def __init__(self, search: Search, proposals: int, validate: int, batches: int = 1) -> None:
        super().__init__(search)
        self._proposals, self._validate, self._batches = proposals, validate, batches

    def run(self) -> Generator[Step, None, State]:
        step, state = 0, self.population.seed
        while self.more(step):
            step += 1
            state = yield from self._iterate(step, state)
        yield from self.judge(step, state, "the last state, judged on all examples")
        return dict(state.state)

    def _iterate(self, step: int, state: Candidate) -> Generator[Step, None, Candidate]:
        calls = []
        for j in range(self._batches):
            told = self.population.explore(state, self.minibatches.take())
            place = "c0" if self._batches == 1 else f"c0.b{j}"
            calls += self.population.calls(state, told, step, place, self._proposals)
        sample = self.sample(self._validate)
        children: list[Candidate] = []
        leader, best = state, 0.0
        with contextlib.closing(self.population.children(calls)) as proposed:
            for child in proposed:
                if not children:  # without a child there is nothing to compare with
                    best = yield from self.score(step, state, sample, "held, scored on the step's sample")
                children.append(child)
                rollouts = self.population.judge(child, sample)
                mean = self.population.mean(rollouts)
                leads = mean >= best
                reason = f"{'at least as good as' if leads else 'worse than'} {leader.id}"
                yield self.line(step, child, rollouts, accepted=leads, reason=reason)
                if leads:
                    leader, best = child, mean
        if sample != self.everything:
            yield from self.judge_now(step, leader)
        self.tell(step, [state], children, [leader])
        return leader
