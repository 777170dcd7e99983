"""SequentialSearch and SequentialUpdate: the priority search with a memory of one place."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.basic_search import Climb
from trace_bench.trainers.classic import EVAL_FREQUENCY, NUM_STEPS, TRAIN_BATCH_SIZE
from trace_bench.trainers.common_params import NUM_EPOCHS, NUM_THREADS, VERBOSE
from trace_bench.trainers.minibatch import Descent

NUM_BATCHES = Param("num_batches", 1, int, "minibatches in a step; each has its own proposals", minimum=1)


class SequentialSearch:
    """The priority search with one explored candidate and a memory of one place. After each step the best of the
    explored candidate and its proposals stays, and all others are forgotten.

    In OpenTrace the name means `PrioritySearch` with `num_candidates` 1 and `memory_size` 1. It is
    [BasicSearch](#basicsearch) with all examples to validate on, and several minibatches in a step.

    ### What a step does
    1. **Run.** The state runs on `num_batches` minibatches of `train_batch_size` training examples.
    2. **Propose.** One backward pass for each minibatch, then `num_proposals` model calls with the prompt made from it.
    3. **Compare.** Each proposal is scored on all examples of the selection split, in order.
    4. **Keep the best** by that mean, of equal ones the newest. `accepted` is true for a proposal that leads when it is
       judged. The last accepted one is the next state.

    The final state is the last one held, which is the best. A step costs up to `B·b + B·p·n` evaluations and `B·p`
    calls for `B` minibatches of `b`, `p` proposals of each and `n` examples of the selection split.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | without validation data scores proposals on their own minibatch | on all training examples | scores on different examples cannot be compared |
    | minibatch scores count into the explored candidate's mean | its mean is over the selection split alone | the same |
    | keeps a known proposal | drops it | |
    | `num_proposals` 1 | 2 | with 1 it is `SequentialUpdate` |
    | `validate_proposals` can be off | see `SequentialUpdate` | a choice among proposals needs scores |
    """  # noqa: E501

    name = "SequentialSearch"
    summary = "A priority search that keeps one candidate: the best of it and its proposals."
    source = "OpenTrace (experimental), SequentialSearch"
    params: tuple[Param, ...] = (
        NUM_STEPS,
        NUM_EPOCHS,
        NUM_BATCHES,
        TRAIN_BATCH_SIZE,
        Param("num_proposals", 2, int, "proposals for each minibatch", minimum=1),
        NUM_THREADS,
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", first_step=("num_batches", "num_proposals"))

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the last state held.

        Raises:
            StopTraining: passed on.
        """
        return (yield from Climb(search, search.params["num_proposals"], 0, search.params["num_batches"]).run())


class SequentialUpdate:
    """The priority search with one explored candidate, one proposal and a memory of one place: one update after
    another.

    In OpenTrace the name means `PrioritySearch` with `num_candidates`, `num_proposals` and `memory_size` 1.
    `validate_proposals` selects one of two algorithms:

    * **on** (OpenTrace's default): each proposal is scored on all examples of the selection split. It is the next state if
      its mean is not below its parent's. This is [SequentialSearch](#sequentialsearch) with one proposal for each of
      `num_batches` minibatches.
    * **off**: the newest proposal is the next state, with any score. This is [Minibatch](#minibatch) without
      `ensure_improvement`.

    Steps, judgements, costs and ties are those of the two. The final state is the last one held.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | `num_batches` with `validate_proposals` off | refused: without scores a step has one proposal | all other proposals would be lost |
    | the other differences | as in `SequentialSearch` and `Minibatch` | |
    """  # noqa: E501

    name = "SequentialUpdate"
    summary = "A priority search with one candidate and one proposal at a time."
    source = "OpenTrace (experimental), SequentialUpdate"
    params: tuple[Param, ...] = (
        NUM_STEPS,
        NUM_EPOCHS,
        replace(NUM_BATCHES, when={"validate_proposals": (True,)}, doc="minibatches in a step; one proposal for each"),
        TRAIN_BATCH_SIZE,
        Param("validate_proposals", True, bool, "reject a proposal that is worse on the selection split"),
        replace(EVAL_FREQUENCY, when={"validate_proposals": (False,)}),
        replace(NUM_THREADS, when={"validate_proposals": (True,)}),
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size")

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the last state held.

        Raises:
            StopTraining: passed on.
        """
        if search.params["validate_proposals"]:
            return (yield from Climb(search, 1, 0, search.params["num_batches"]).run())
        return (yield from Descent(search, None).run())
