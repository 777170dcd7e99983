"""BestOfN: proposals for the start alone; the baseline that says what a model finds without a search."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.classic import TRAIN_BATCH_SIZE
from trace_bench.trainers.common_params import NUM_THREADS, bound


class BestOfN:
    """Asks the model repeatedly to improve the start, and returns the best answer: the result of the model without a
    search. No answer is improved further.

    ### What a step does
    1. **Run.** The start runs on the next minibatch of `train_batch_size` training examples.
    2. **Propose.** One backward pass, then one model call.
    3. **Score.** A new state is scored on the whole selection split.

    A step costs up to `b + v` evaluations and one call for minibatches of `b` and `v` examples to validate on.
    """

    name = "BestOfN"
    summary = "Asks for improvements of the start alone, and keeps the best."
    source = "none: the baseline of repeated sampling"
    params: tuple[Param, ...] = (
        bound("num_steps", 10, "steps: one proposal each"),
        TRAIN_BATCH_SIZE,
        NUM_THREADS,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size")

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the best state scored.

        Raises:
            StopTraining: passed on.
        """
        from trace_bench.trainers.population import Population

        population = Population(search)
        minibatches = population.minibatches(search.params["train_batch_size"])
        step = 0
        while search.endless or step < search.params["num_steps"]:
            step += 1
            explored = population.explore(population.seed, minibatches.take())
            calls = population.calls(population.seed, explored, step, "c0", 1)
            with contextlib.closing(population.children(calls)) as children:
                for child in children:
                    yield population.step(step, child, population.judge(child))
        return None
