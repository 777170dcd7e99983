"""GEPA-UCB: GEPA with parents chosen by an upper confidence bound."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, Step
from trace_bench.trainers.common_params import UCB_CONSTANT
from trace_bench.trainers.gepa_params import gepa_params

if TYPE_CHECKING:
    from trace_bench.trainers.gepa import Chosen, Gepa
    from trace_bench.trainers.gepa_merge import Member


class GEPAUCB:
    """[GEPA-Base](#gepa-base) with another choice of the parent: candidates are the arms of a bandit.

    The parent is the candidate with the highest upper confidence bound, of equal bounds the newest:

    `mean + c * span * sqrt(ln(t + 2) / (v + 1))`

    `mean` is over the Pareto set, c is `ucb_exploration_constant`, t the number of iterations so far, and v the number
    of times that the candidate was a parent. `span` is the highest minus the lowest mean of all candidates. All else is
    as in GEPA-Base.

    The `extra` of a line has the parent's bound (`parent_ucb`) and the number of times it was a parent before
    (`parent_chosen`).

    | | OpenTrace | here |
    |---|---|---|
    | parent | drawn by examples won, as in its other two | highest upper confidence bound |
    | candidates kept | 16, by (examples won, mean) | all, as a low bound excludes a candidate anyway |
    | all else | as its Base | as GEPA-Base |

    The paper has no such variant. The algorithm follows the name.
    """

    name = "GEPA-UCB"
    summary = "GEPA with the parent of highest upper confidence bound instead of one from the Pareto front."
    source = "Agrawal et al.: GEPA, arXiv:2507.19457; OpenTrace, GEPAUCBSearch; Auer et al.: UCB1 (2002)"
    params: tuple[Param, ...] = gepa_params("num_search_iterations", 20, UCB_CONSTANT)
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", runs=2)

    def search(self, search: Search) -> Generator[Step, None, None]:
        """End with the best state recorded.

        Raises:
            StopTraining: passed on.
        """
        from trace_bench.trainers.gepa import Gepa

        variant = _HighestBound(search.params["ucb_exploration_constant"])
        gepa = Gepa(search, variant, search.params["num_search_iterations"])
        yield from gepa.run()


class _HighestBound:
    """One parent, of highest bound; everyone stays."""

    def __init__(self, constant: float) -> None:
        self._constant = constant

    def parents(self, gepa: Gepa, step: int) -> list[Chosen]:
        from trace_bench.trainers.candidates import spread, upper_confidence_bound
        from trace_bench.trainers.gepa import Chosen

        span = spread(m.mean for m in gepa.pool)

        def bound(member: Member) -> float:
            return upper_confidence_bound(member.mean, member.chosen + 1, step + 1, self._constant, span)

        parent = max(gepa.pool, key=lambda m: (bound(m), m.created))
        return [Chosen(parent, {"parent_ucb": bound(parent), "parent_chosen": parent.chosen})]

    def keep(self, gepa: Gepa, new: Sequence[Member]) -> list[Member]:
        return [*gepa.pool, *new]
