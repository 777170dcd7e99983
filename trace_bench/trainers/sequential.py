"""SequentialSearch and SequentialUpdate: the priority search with a memory of one place."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from trace_bench.trainers.base import Param, Search, State, Step
from trace_bench.trainers.basic_search import Climb
from trace_bench.trainers.classic import EVAL_FREQUENCY, NUM_STEPS, TRAIN_BATCH_SIZE
from trace_bench.trainers.common_params import NUM_EPOCHS, NUM_THREADS, VERBOSE
from trace_bench.trainers.minibatch import Descent

NUM_BATCHES = Param("num_batches", 1, int, "minibatches in a step; each gives proposals of its own", minimum=1)


class SequentialSearch:
    """The priority search with one explored candidate and a memory of one place: after each step the best of what was
    explored and proposed stays, and all else is forgotten.

    The name is OpenTrace's, for `PrioritySearch` with `num_candidates` 1 and `memory_size` 1. By its own description it is
    the same as `BasicSearch` with one minibatch in a step and all examples to validate on; so it is here, and several
    minibatches are what it adds.

    ### What a step does
    1. **Run.** The state runs on `num_batches` minibatches of `train_batch_size` training examples.
    2. **Propose.** One backward pass for each minibatch, then `num_proposals` model calls with the prompt that comes of it.
    3. **Compare.** Each proposal is scored on all examples of the selection split, in order.
    4. **Keep the best**, by the mean on all examples of the selection split, and of equal ones the newest. `accepted` says
       whether one leads when its turn is over: the last accepted one is the next state.

    The final state is the last one held, which is the best. A step costs up to `B·b + B·p·n` evaluations and `B·p` calls for
    `B` minibatches of `b`, `p` proposals of each and `n` examples of the selection split.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | without validation data, proposals are scored on the minibatch they come of | on all training examples | scores on different examples do not compare |
    | minibatch scores of the explored candidate count into its mean | its mean is over the selection split alone | the same |
    | a proposal known already is kept | dropped (event `proposal.dropped`) | |
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

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the last state held.

        Raises:
            StopTraining: passed on.
        """
        return (yield from Climb(search, search.params["num_proposals"], 0, search.params["num_batches"]).run())


class SequentialUpdate:
    """The priority search with one explored candidate, one proposal and a memory of one place: one update after another.

    The name is OpenTrace's, for `PrioritySearch` with `num_candidates`, `num_proposals` and `memory_size` 1, where
    `validate_proposals` decides what it is:

    * **on** (as there by default): each proposal is scored on all examples of the selection split, and the search goes on
      with it if its mean is not below that of the state it comes of: [SequentialSearch](#sequentialsearch) with one proposal
      for each of `num_batches` minibatches.
    * **off**: the search always goes on with the newest proposal, whatever it scores: [Minibatch](#minibatch) without
      `ensure_improvement`. Every `eval_frequency` steps, and after the last, the state is judged on all examples; only what
      was judged can become the best state.

    The steps, costs and ties are those of the two. The final state is the last one held.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | `num_batches` and `validate_proposals` off together | refused: with nothing to choose by, there is one proposal in a step | all proposals but one would be thrown away |
    | the other differences | those of `SequentialSearch` and `Minibatch` | |
    """  # noqa: E501

    name = "SequentialUpdate"
    summary = "A priority search with one candidate and one proposal at a time."
    source = "OpenTrace (experimental), SequentialUpdate"
    params: tuple[Param, ...] = (
        NUM_STEPS,
        NUM_EPOCHS,
        replace(NUM_BATCHES, when={"validate_proposals": (True,)}, doc="minibatches in a step; one proposal of each"),
        TRAIN_BATCH_SIZE,
        Param("validate_proposals", True, bool, "go on only with a proposal that is no worse on the selection split"),
        replace(EVAL_FREQUENCY, when={"validate_proposals": (False,)}),
        replace(NUM_THREADS, when={"validate_proposals": (True,)}),
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the last state held.

        Raises:
            StopTraining: passed on.
        """
        if search.params["validate_proposals"]:
            return (yield from Climb(search, 1, 0, search.params["num_batches"]).run())
        return (yield from Descent(search, None).run())
