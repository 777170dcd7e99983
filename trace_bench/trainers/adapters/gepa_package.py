"""GEPATrainer: the search of the package gepa, by the paper's authors."""

from __future__ import annotations

from collections.abc import Generator

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.common_params import VERBOSE, bound

_PARAMS = (
    bound("num_iters", 20, "iterations: one reflection, or one merge, each", aliases=("gepa_iters",)),
    Param(
        "max_metric_calls",
        0,
        int,
        "stop after the iteration that reaches this many scored examples, in the package's count; 0: no limit",
        minimum=0,
        endless=0,
    ),
    Param(
        "reflection_minibatch_size",
        3,
        int,
        "training examples of a reflection, and of the comparison of child and parent",
        minimum=1,
        aliases=("gepa_train_bs",),
    ),
    Param(
        "candidate_selection_strategy",
        "pareto",
        str,
        "candidate for reflection",
        choices=("pareto", "current_best", "epsilon_greedy", "top_k_pareto"),
    ),
    Param(
        "module_selector",
        "round_robin",
        str,
        "parameters that a reflection changes: one after the other, or all",
        choices=("round_robin", "all"),
    ),
    Param(
        "acceptance_criterion",
        "strict_improvement",
        str,
        "condition for a child's judgement on the whole selection split",
        choices=("strict_improvement", "improvement_or_equal"),
    ),
    Param(
        "skip_perfect_score",
        True,
        bool,
        "do not reflect on a minibatch with the task's best score on each example",
    ),
    Param("use_merge", False, bool, "merge candidates that are good at different examples"),
    Param("max_merge_invocations", 5, int, "largest number of accepted merges", minimum=0, when={"use_merge": (True,)}),
    Param("max_tokens", 0, int, "token limit of an answer; 0: the provider's", minimum=0),
    VERBOSE,
)


class GEPATrainer:
    """The search of the package `gepa` (0.1.4), unchanged. It keeps a pool of candidates. Each iteration chooses a
    candidate that wins on some example, and runs it on a minibatch of training examples. A model rewrites the candidate
    from their feedback. A child that is better on that minibatch is scored on the whole selection split and joins the
    pool.

    * **Step**: an iteration. It costs a minibatch for the parent, one call for each parameter that is changed, a
      minibatch for the child, and the selection split if the child is accepted.
    * **Recorded**: each child that was run. A rejected child is recorded with its minibatch (`accepted: false`), an
      accepted one with the selection split. `extra` holds the sums on the minibatch that decided.
    * **Parameters as texts**: a text parameter is an *instruction* in the package's own prompt. For numbers and source
      the prompt describes the parameter instead. An answer without a usable value is an event, and costs its call.
    * **Random**: the package's generator gets the job's seed. Evaluations and calls are made one at a time, in order.

    | | paper | package | here |
    |---|---|---|---|
    | feedback | traces of modules | an adapter's | the guide's, with the score and its direction; the agent's response is not shown |
    | perfect score | | 1.0 | the best of the task's score range; without a range, nothing is skipped |
    | merge | | needs 5 validation examples that both parents were scored on | or all examples of a task with fewer than 5 |
    | | | draws a common ancestor by its score | by its score above a failure's, plus 1, as scores can be negative |
    | budget | rollouts | `max_metric_calls` | `max_metric_calls`, `num_iters`, and the job's own budget |
    | evaluation of the start | counted | counted | counted by the package, and paid once, as step 0 |
    | a failing model | | asked again for each task | a failure of the job at `provider`, as for every trainer |
    """  # noqa: E501

    name = "GEPATrainer"
    summary = "GEPA by its authors' package: reflection on minibatches, a Pareto front over examples."
    source = "Agrawal et al.: GEPA, arXiv:2507.19457; package gepa 0.1.4"
    params: tuple[Param, ...] = _PARAMS
    uses_llm = True
    uses_graph = False
    costs = Costs("reflection_minibatch_size", runs=2)
    layer = "gepa"

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Raises TrainerError where the package is missing. StopTraining is passed on."""
        from trace_bench.trainers.adapters.bridge import Bridge
        from trace_bench.trainers.adapters.gepa_loop import Run

        bridge = Bridge("gepa")
        return (yield from bridge.run(Run(search, bridge)))
