"""GEPA-Beam: GEPA with a beam of candidates, each of which is reflected on in every iteration."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, Step
from trace_bench.trainers.common_params import NUM_THREADS
from trace_bench.trainers.gepa_params import gepa_params

if TYPE_CHECKING:
    from trace_bench.trainers.gepa import Chosen, Gepa
    from trace_bench.trainers.gepa_merge import Member

_BEAM_WIDTH = Param("beam_width", 2, int, "candidates kept from one iteration to the next", minimum=1)
_NUM_PROPOSALS = Param(
    "num_proposals", 1, int, "proposals for each member of the beam, from one backward pass", minimum=1
)


class GEPABeam:
    """[GEPA-Base](#gepa-base) with a beam in place of the Pareto front: all members of the beam are parents in every
    iteration.

    An iteration reflects on each member of the beam, the best first. Each member has its next module, its own
    minibatch, and `num_proposals` proposals from one backward pass. Each child must pass the gate of GEPA-Base against
    its parent, on its parent's minibatch. A child that passes is scored on the Pareto set. Then the beam becomes the
    best `beam_width` of the beam and the new candidates. They are ranked by mean over the Pareto set, then by the
    number of its examples on which none of the others is better, then the newest first. A merge is an iteration of its
    own, between two members of the beam. Answer and Pareto set are as in GEPA-Base.

    **Cost** of an iteration with w members, p proposals, minibatches of b and a Pareto set of n: `w·p` calls,
    `w·(p+1)·b` evaluations, and n for each accepted child. The calls overlap with `num_threads`.

    The `extra` of a line has the parent's place in the beam (`parent_rank`, from 1).

    | | OpenTrace | here |
    |---|---|---|
    | beam | none: one parent drawn by examples won, 16 candidates kept | `beam_width` members, all of them expanded |
    | rank | (examples won, mean) | (mean, examples won, newest) |
    | all else | as its Base | as GEPA-Base |

    The paper has no such variant. The algorithm follows the name.
    """

    name = "GEPA-Beam"
    summary = "GEPA that keeps a beam of the best candidates and reflects on each of them in every iteration."
    source = "Agrawal et al.: GEPA, arXiv:2507.19457; OpenTrace, GEPABeamPareto"
    params: tuple[Param, ...] = gepa_params(
        "num_search_iterations", 10, _BEAM_WIDTH, _NUM_PROPOSALS, threads=NUM_THREADS
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", first_step=("num_proposals",), runs=2)

    def search(self, search: Search) -> Generator[Step, None, None]:
        """End with the best state recorded.

        Raises:
            StopTraining: passed on.
        """
        from trace_bench.trainers.gepa import Gepa

        params = search.params
        variant = _Beam(params["beam_width"])
        yield from Gepa(search, variant, params["num_search_iterations"], params["num_proposals"]).run()


class _Beam:
    """Everyone in the pool is a parent; the best stay, the best first."""

    def __init__(self, width: int) -> None:
        self._width = width

    def parents(self, gepa: Gepa, step: int) -> list[Chosen]:
        from trace_bench.trainers.gepa import Chosen

        return [Chosen(member, {"parent_rank": rank}) for rank, member in enumerate(gepa.pool, 1)]

    def keep(self, gepa: Gepa, new: Sequence[Member]) -> list[Member]:
        from trace_bench.trainers.gepa_pareto import winners

        everyone = [*gepa.pool, *new]
        won = winners([m.scores for m in everyone])
        places = range(len(everyone))
        ranked = sorted(
            places,
            key=lambda k: (everyone[k].mean, sum(k in best for best in won), everyone[k].created),
            reverse=True,
        )
        return [everyone[k] for k in ranked[: self._width]]
