"""OpenEvolveTrainer: the search of the package openevolve."""

from __future__ import annotations

from collections.abc import Generator

from trace_bench.trainers.base import Costs, OtherThan, Param, Search, State, Step
from trace_bench.trainers.common_params import VERBOSE, bound

_ISLANDS = {"num_islands": OtherThan((1,))}
_PARAMS = (
    bound("iterations", 10, "iterations: one program each", aliases=("num_iters",)),
    Param("num_islands", 5, int, "populations that evolve in parallel", minimum=1),
    Param("population_size", 1000, int, "programs kept over all islands", minimum=2),
    Param("archive_size", 100, int, "best programs; exploitation draws parents from them", minimum=1),
    Param("feature_bins", 10, int, "cells of each axis (complexity, diversity) of the grid", minimum=1),
    Param("migration_interval", 50, int, "generations of an island between migrations", minimum=1, when=_ISLANDS),
    Param("migration_rate", 0.1, float, "fraction of an island that migrates, best first", minimum=0.0, maximum=1.0,
          when=_ISLANDS),
    Param("exploration_ratio", 0.2, float, "chance that a parent is any of its island", minimum=0.0, maximum=1.0),
    Param("exploitation_ratio", 0.7, float, "chance that a parent is from the archive", minimum=0.0, maximum=1.0),
    Param("num_top_programs", 3, int, "best programs of the island in a prompt", minimum=0),
    Param("num_diverse_programs", 2, int, "other programs in a prompt, for inspiration", minimum=0),
    Param("diff_based_evolution", True, bool, "request SEARCH/REPLACE blocks, not the whole program"),
    Param("train_batch_size", 1, int, "training examples with feedback in a prompt; 0: none", minimum=0,
          aliases=("batch_size",)),
    Param("max_tokens", 4096, int, "token limit of an answer", minimum=1),
    VERBOSE,
)  # fmt: skip


class OpenEvolveTrainer:
    """The search of the package `openevolve` (0.4.0): MAP-Elites over programs on several islands, with migration. The
    loop, the database, the prompts and the reading of answers are the package's own.

    * **Program**: the trainable parameters as one text. A single text or source is that text. Several parameters, or a
      number, are sections, each below a line `#### NAME ####`. The trainer reads the text and gives the values to the
      evaluator, which runs candidates in disposable processes. The package's own evaluator, which would import the
      program, is not used. Its process pool and signal handlers are not used either.
    * **Step**: an iteration. It costs one call, the selection split, and, with validation data, `train_batch_size`
      training examples for the feedback. As in the package with one worker, as many iterations are under way at a time
      as there are islands (at least 2). So the first ones all begin from the start.
    * **Fitness** is the mean score on the selection split. Higher is better. Scores that are minimized are negated.
    * **Answers** without a usable program, or without a change, are events, and cost their call. A known program is not
      scored again (`proposal.dropped`).
    * **Random**: the package's modules draw from a generator with the job's seed, and ids are numbered in order.
    * **Final state**: the package's best program, of equal ones the oldest.

    | | package | here |
    |---|---|---|
    | several workers | a process pool | one after the other, in order |
    | `temperature`, `top_p` | 0.7, none | the model's own, as they are part of the job's identity |
    | feedback | the evaluator's artifacts | the guide's, on training examples |
    | cascade, LLM feedback, novelty by embeddings, checkpoints | optional | not available |
    """

    name = "OpenEvolveTrainer"
    summary = "OpenEvolve: MAP-Elites over whole programs on islands, by its package."
    source = "package openevolve 0.4.0, after AlphaEvolve (arXiv:2506.13131)"
    params: tuple[Param, ...] = _PARAMS
    uses_llm = True
    uses_graph = False
    layer = "openevolve"
    costs = Costs("train_batch_size")

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Raises TrainerError where the package is missing. StopTraining is passed on."""
        from trace_bench.trainers.adapters.bridge import Bridge
        from trace_bench.trainers.adapters.openevolve_loop import Run

        bridge = Bridge("openevolve")
        return (yield from bridge.run(Run(search, bridge)))
