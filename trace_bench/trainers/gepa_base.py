"""GEPA-Base: GEPA as in its paper."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, Step
from trace_bench.trainers.gepa_params import gepa_params

if TYPE_CHECKING:
    import random

    from trace_bench.trainers.gepa import Chosen, Gepa
    from trace_bench.trainers.gepa_merge import Member


class GEPABase:
    """Reflective evolution with a Pareto front of candidates, as in the paper.

    The **Pareto set** is the selection split, or `pareto_subset_size` examples of it that are drawn once. The start and
    each accepted candidate are scored on it. An iteration is a reflection or a merge.

    **Reflection**, one model call:

    1. *Parent.* For each example of the Pareto set, all candidates that share the best score win it. A candidate is
       covered if, on each example that it wins, another remaining candidate wins too. Covered candidates are removed,
       the lowest mean first, of equal means the oldest. One of the others is drawn, with a probability proportional to
       the number of its wins.
    2. *Module.* The parent's next trainable parameter, round robin. A child continues at its parent's position (of two
       parents, the further one). The proposal can change this parameter only. The others are inputs of the prompt, and
       a value for them in the answer is ignored (event `proposal.unknown_variables`).
    3. *Minibatch.* The next `train_batch_size` training examples of a shuffled pass. The last minibatch of a pass can
       have fewer. The parent runs on it, then one backward pass and one proposal follow. If the parent has the best
       score of the task's range on each example, no model is asked (event `proposal.skipped`).
    4. *Gate.* The child runs on the same minibatch. It is accepted **only if its sum is strictly better** than its
       parent's. Otherwise it is recorded as rejected, on the training split, and forgotten. If it is proposed again, it
       is tried again.
    5. An accepted child is scored on the whole Pareto set.

    **Merge**, no model call. Every `merge_every`-th iteration is a merge if there is a pair to merge, and a reflection
    otherwise. Two candidates can be merged if neither is an ancestor of the other and they have a common ancestor whose
    mean is not better than either's. The newest such ancestor is used. Each parameter comes from the side that changed
    it since the ancestor. If both changed it, it comes from the side with the better mean, of equal means the newer.
    The result must be new. A pair is drawn at random from all that can be merged, and each result is tried once. The
    merged candidate runs on at most 5 examples of the Pareto set. They are divided equally among examples on which one
    parent is better, the other is better, and both are equal. The merged candidate is accepted if its sum is not worse
    than the better parent's. It is then scored on the whole Pareto set.

    **Answer**: the best mean over the whole selection split, of equal means the oldest. With a smaller Pareto set, a
    candidate that is better on it than all before is judged on the rest of the split at once, as a second line of the
    history. The answer is the best of these candidates, so it never rests on a sample alone.

    **Cost** of a reflection with minibatches of b and a Pareto set of n: 1 call, 2b evaluations, and n if accepted.
    Cost of a merge: at most 5 evaluations, and n if accepted.

    **History**: the `extra` of a reflection has `module`, `parent_minibatch_score`, `minibatch_score`, `parent_wins`
    (number of examples that the parent won) and `front` (number of candidates in the draw). The `extra` of a merge has
    `ancestor`, `parent_subsample_score` (of the better parent) and `subsample_score`.

    | | paper | OpenTrace | here |
    |---|---|---|---|
    | acceptance | strictly better on the minibatch | every child | as in the paper |
    | winner of an example | all with the best score | the first of them | as in the paper |
    | covered candidates | removed | kept, with a weight of at least 1 | removed |
    | one proposal changes | one module | all parameters | one module |
    | merge | by ancestor, not worse | a coin for each parameter, better than both | as in the paper |
    | candidates kept | all | 16 | all |
    | Pareto set | split off the training data | 24 examples | the selection split |
    | defaults | b = 3, to a budget | b = 2, 100 iterations | b = 3, 20 iterations, or to the job's budget |

    Without validation data the minibatches come from the Pareto set, while the paper keeps the two apart. Two rules
    follow the authors' own code: several candidates together can cover one, and a merge is tested on a subsample.
    """

    name = "GEPA-Base"
    summary = (
        "GEPA as in its paper: parents from a Pareto front, one module at a time, a gate on the minibatch, merges."
    )
    source = "Agrawal et al.: GEPA, arXiv:2507.19457"
    params: tuple[Param, ...] = gepa_params("num_iters", 20)
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", runs=2)

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
