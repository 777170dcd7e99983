"""GEPA-Base: GEPA as in its paper."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Param, Search, Step
from trace_bench.trainers.gepa_params import gepa_params

if TYPE_CHECKING:
    import random

    from trace_bench.trainers.gepa import Chosen, Gepa
    from trace_bench.trainers.gepa_merge import Member


class GEPABase:
    """Reflective evolution with a Pareto front of candidates, as in the paper.

    The **Pareto set** is the selection split (or `pareto_subset_size` examples of it, drawn once). Each candidate that
    is accepted is scored on it; step 0 has scored the start. An iteration is a reflection, or now and then a merge.

    **Reflection**, one model call:

    1. *Parent.* For each example of the Pareto set, all candidates that share the best score win it. Candidates that
       the others cover (on each example they win, another one that is left wins, too) are removed, the weakest by mean
       first, of equally weak ones the oldest. Of those left, one is drawn with a probability proportional to the
       examples it wins.
    2. *Module.* The parent's next trainable parameter, round robin; a child goes on where its parent stands (of two,
       the further one). The proposal may change this parameter only: the others are inputs of the prompt, and a value
       for them in the answer is ignored (event `proposal.unknown_variables`).
    3. *Minibatch.* The next `train_batch_size` training examples of a shuffled pass; the last of a pass may be fewer.
       The parent runs on it, one backward pass, one proposal. If the parent has exactly the best score of the task's
       range on each of them, nothing can be gained, and no model is asked (event `proposal.skipped`).
    4. *Gate.* The child runs on the same minibatch. It is accepted **only if its sum is strictly better** than its
       parent's; otherwise it is recorded as rejected, on the training split, and forgotten: proposed again, it is
       tried again.
    5. An accepted child is scored on the whole Pareto set.

    **Merge**, no model call: in each `merge_every`-th iteration, where there is one to try; otherwise the iteration is
    a reflection. Two candidates, neither an ancestor of the other, are merged over a common ancestor (the newest that
    will do) whose mean is no better than either's: each parameter comes from the side that changed it since the
    ancestor; where both did, from the side of better mean, of equal ones the newer. The result must be new, so one
    side alone has changed something. A pair is drawn at random from all that can be merged; each result is tried once.
    The merged candidate runs on at most 5 examples of the Pareto set, in equal parts where one parent is better, where
    the other is, and where they are equal. It is accepted if its sum is no worse than that of the better parent there,
    and then scored on the whole Pareto set.

    **Answer**: the best mean over all of the selection split, of equal ones the oldest. With a smaller Pareto set, a
    candidate that is better on it than all before is judged on the rest of the split at once, as a second line of the
    history; the answer is the best of these, so it is at no time only as good as a sample.

    **Cost** of a reflection with minibatches of b and a Pareto set of n: 1 call, 2b evaluations, and n if accepted; of
    a merge: at most 5 evaluations, and n if accepted.

    **History**: the `extra` of a line tells the `module`, `parent_minibatch_score` and `minibatch_score`, and of the
    draw `parent_wins` (examples that the parent won) and `front` (candidates that could be drawn); of a merge the
    `ancestor`, `parent_subsample_score` (of the better parent) and `subsample_score`.

    | | paper | OpenTrace | here |
    |---|---|---|---|
    | acceptance | strictly better on the minibatch | every child | strictly better on the minibatch |
    | who wins an example | all with the best score | the first of them | all with the best score |
    | covered candidates | removed | kept, with weight 1 at least | removed |
    | one proposal changes | one module | all parameters | one module |
    | merge | by ancestor, not worse | a coin for each parameter, better than both | by ancestor, not worse |
    | candidates kept | all | 16 | all |
    | Pareto set | split off the training data | 24 examples | the selection split |
    | defaults | b = 3, to a budget | b = 2, 100 iterations | b = 3, 20 iterations, or to the job's budget |

    Without validation data the minibatches come from the Pareto set, where the paper keeps the two apart. That a
    covered candidate is covered by several others together, and the subsample of a merge, follow the authors' own
    code.
    """

    name = "GEPA-Base"
    summary = (
        "GEPA as in its paper: parents from a Pareto front, one module at a time, a gate on the minibatch, merges."
    )
    source = "Agrawal et al.: GEPA, arXiv:2507.19457"
    params: tuple[Param, ...] = gepa_params("num_iters", 20)
    uses_llm = True
    uses_graph = True

    def search(self, search: Search) -> Generator[Step, None, None]:
        """End with the best state recorded.

        Raises:
            StopTraining: passed on.
        """
        from trace_bench.trainers.gepa import Gepa

        yield from Gepa(search, _FromTheFront(search.random("parents")), search.params["num_iters"]).run()


class _FromTheFront:
    """One parent, drawn by the examples it wins; everyone stays."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng

    def parents(self, gepa: Gepa, step: int) -> list[Chosen]:
        from trace_bench.trainers.gepa import Chosen
        from trace_bench.trainers.gepa_pareto import wins

        won = wins([m.scores for m in gepa.pool], [m.mean for m in gepa.pool])
        (drawn,) = self._random.choices(list(won), weights=list(won.values()))
        return [Chosen(gepa.pool[drawn], {"parent_wins": won[drawn], "front": len(won)})]

    def keep(self, gepa: Gepa, new: Sequence[Member]) -> list[Member]:
        return [*gepa.pool, *new]
