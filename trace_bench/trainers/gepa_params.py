"""Parameters that GEPA-Base, GEPA-UCB and GEPA-Beam share."""

from __future__ import annotations

from dataclasses import replace

from trace_bench.trainers.base import Param
from trace_bench.trainers.common_params import NUM_THREADS, VERBOSE, bound

MINIBATCH = 3
"""Examples, as in the paper."""
ONE_AT_A_TIME = replace(NUM_THREADS, doc="no effect: an iteration has one proposal")


def gepa_params(iterations: str, default: int, *own: Param, threads: Param = ONE_AT_A_TIME) -> tuple[Param, ...]:
    """The shared parameters around `own`; the number of iterations is called `iterations`."""
    names = ("num_iters", "num_search_iterations")
    return (
        bound(
            iterations,
            default,
            "iterations: a reflection on each chosen parent, or one merge",
            aliases=("gepa_iters", *(name for name in names if name != iterations)),
        ),
        *own,
        Param(
            "train_batch_size",
            MINIBATCH,
            int,
            "examples in the minibatch that compares parent and child",
            minimum=1,
            aliases=("gepa_train_bs", "batch_size"),
        ),
        Param(
            "merge_every",
            5,
            int,
            "iterations between attempts to merge two candidates; 0: never",
            minimum=0,
            aliases=("gepa_merge_every",),
        ),
        Param(
            "pareto_subset_size",
            0,
            int,
            "examples of the selection split in the Pareto set; 0: all",
            minimum=0,
            aliases=("gepa_pareto_subset",),
        ),
        threads,
        VERBOSE,
    )
