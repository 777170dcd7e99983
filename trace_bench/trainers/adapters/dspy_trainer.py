"""DSPyTrainer: the prompt optimizers of the package dspy."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from trace_bench.trainers.base import Param, Search, State, Step
from trace_bench.trainers.common_params import VERBOSE


def _for(*optimizers: str) -> Mapping[str, tuple[Any, ...]]:
    return {"dspy_optimizer": optimizers}


_PARAMS = (
    Param(
        "dspy_optimizer",
        "mipro",
        str,
        "DSPy optimizer",
        choices=("mipro", "copro", "simba", "gepa", "mipro_demos", "bootstrap"),
    ),
    Param(
        "max_bootstrapped_demos",
        4,
        int,
        "largest number of demos of a state",
        minimum=1,
        when=_for("mipro_demos", "bootstrap"),
        later=True,
    ),
    Param(
        "metric_threshold",
        1.0,
        float,
        "least score of a demo's answer, from 0 (worst of the task's range) to 1 (best)",
        minimum=0.0,
        maximum=1.0,
        when=_for("mipro_demos", "bootstrap"),
        later=True,
    ),
    Param(
        "demo_parameter",
        "",
        str,
        "text parameter for the demos; empty: the task's only one",
        when=_for("mipro_demos", "bootstrap"),
        later=True,
    ),
    Param(
        "num_candidates",
        6,
        int,
        "mipro: proposed instructions; mipro_demos: instructions and sets of demos; simba: programs sampled, "
        "and built, in a step; 1 counts as 2",
        minimum=1,
        when=_for("mipro", "simba", "mipro_demos"),
    ),
    Param(
        "num_trials",
        0,
        int,
        "combinations to try; 0: the package's recommendation for `num_candidates`",
        minimum=0,
        when=_for("mipro", "mipro_demos"),
    ),
    Param(
        "minibatch_size",
        35,
        int,
        "examples of a trial, if the selection split has more than 50",
        minimum=1,
        when=_for("mipro", "mipro_demos"),
    ),
    Param(
        "init_temperature",
        1.0,
        float,
        "temperature of the calls that propose",
        minimum=0.0,
        maximum=2.0,
        when=_for("mipro", "copro", "mipro_demos"),
    ),
    Param("breadth", 10, int, "instructions proposed at a time", minimum=2, when=_for("copro")),
    Param(
        "depth",
        3,
        int,
        "rounds of proposals, each with the scores of earlier rounds",
        minimum=1,
        when=_for("copro"),
    ),
    Param("max_steps", 8, int, "steps", minimum=1, when=_for("simba")),
    Param("bsize", 32, int, "training examples of a step, or all if there are fewer", minimum=1, when=_for("simba")),
    Param(
        "max_metric_calls",
        0,
        int,
        "scored examples, in the package's count; 0: set by `auto`",
        minimum=0,
        endless=0,
        when=_for("gepa"),
    ),
    Param(
        "auto",
        "light",
        str,
        "size of the search; budget: until a budget ends",
        choices=("light", "medium", "heavy", "budget"),
        endless="budget",
        when={**_for("gepa"), "max_metric_calls": (0,)},
    ),
    Param("reflection_minibatch_size", 3, int, "training examples of a reflection", minimum=1, when=_for("gepa")),
    Param(
        "candidate_selection_strategy",
        "pareto",
        str,
        "candidate for reflection",
        choices=("pareto", "current_best"),
        when=_for("gepa"),
    ),
    Param(
        "component_selector",
        "round_robin",
        str,
        "parameters that a reflection changes: one after the other, or all",
        choices=("round_robin", "all"),
        when=_for("gepa"),
    ),
    Param("use_merge", True, bool, "merge candidates that are good at different examples", when=_for("gepa")),
    VERBOSE,
)


class DSPyTrainer:
    """An optimizer of the package `dspy` (3.4.1): MIPROv2, COPRO, SIMBA, GEPA or BootstrapFewShot. The task is a DSPy
    program with one predictor for each trainable parameter. The predictor's *instructions* are the parameter's value as
    text. A run of the program on an example evaluates that state.

    * **Target**: instructions; with `mipro_demos` (MIPROv2) demos too; with `bootstrap` (BootstrapFewShot) demos alone.
      Text parameters suit it best. Numbers and source are tried too. An instruction that is not a valid value of its
      parameter scores as a failure, costs no evaluation, and is an event (`proposal.rejected`). White space around an
      instruction is dropped, and tabs become spaces, as in dspy.
    * **Demos** (few-shot examples) are training examples that the start answers with a score of at least
      `metric_threshold`. A demo has the query and the agent's answer, never the reference. `bootstrap` takes the first
      `max_bootstrapped_demos` of them and asks no model. `mipro_demos` draws sets of different sizes, and combines them
      with proposed instructions. Demos follow the instruction in the value of one text parameter (`demo_parameter`), so
      that the agent and the scorer read one text:

      ```text
      INSTRUCTION

      Examples:

      --- Example 1 ---
      Query: QUERY
      Response: ANSWER
      ```

      A task can reserve a place for demos: a text parameter with an empty value. `mipro_demos` proposes an instruction
      for that parameter too. A query or an answer must be a text or a number of at most 2000 characters to be a demo.
      A task is refused without a trainable text, an agent, a score range, or validation examples. Without validation
      examples, states would be compared on the examples in their demos.
    * **Step**: consecutive scores of one state on one split. mipro, mipro_demos, bootstrap and copro compare states on
      the selection split. simba and gepa learn from training examples. simba's winners are judged on the selection
      split at the end. dspy does not report the parents of a program, so parents are empty.
    * **Cost**: a state is scored on an example once, as with dspy's own cache. `bootstrap` runs training examples until
      it has its demos. `mipro_demos` does so up to `num_candidates - 1` times. If the agent asks a model, no run is
      remembered, and each is made and paid for again. A step of simba takes at most `2 * num_candidates + 1` times
      `bsize` evaluations. It takes all of them only if scores are samples (`deterministic = false` in `task.toml`).
    * **End**: with a budget of the job and no size of the search, gepa continues until the budget ends. The others end
      by themselves. mipro, mipro_demos and bootstrap choose among a given number of candidates. copro copies the
      results of all earlier rounds, so each round takes longer.
    * **Scores** are scaled, as dspy expects scores from 0. If the task states its range, they are scaled to 0 (worst)
      to 1 (best). Otherwise 0.5 is the start's mean, 1.5 is better by the size of that mean, and lower ones end at 0.
    * **Answers** that dspy cannot read are requested again in JSON mode. If that fails too, the search ends with a
      warning, and the recorded steps count.
    * **Random**: the job's seed. Evaluations and calls are made one at a time, in order.

    | | dspy | here |
    |---|---|---|
    | demos of simba | optimized | none: `max_demos` is 0 |
    | `max_labeled_demos` (references as answers) | 4 or 16 | 0: a trainer does not show references |
    | `metric_threshold` | none: any score that is not 0 | 1.0, the best of the task's range |
    | `teacher` of demos | any program | the start |
    | `max_rounds` of BootstrapFewShot | 1 by default | 1 |
    | prefixes of output fields | optimized by copro | have no effect |
    | `prompt_model`, `task_model`, `reflection_lm`, teachers | any | the job's model |
    | SIMBA with fewer examples than `bsize` | an error | `bsize` is the number of examples |
    | `minibatch` of MIPROv2 | on | on if the selection split has more than 50 examples, as with `auto` |
    | `auto` of MIPROv2 | light | `num_candidates` and `num_trials`, by default those of light |
    | perfect score of GEPA | 1.0 | the best of the task's range; without a range, nothing is skipped |
    """

    name = "DSPyTrainer"
    summary = "MIPROv2, COPRO, SIMBA, GEPA or BootstrapFewShot of DSPy: parameters are instructions of its predictors."
    source = "package dspy 3.4.1; MIPROv2: Opsahl-Ong et al., arXiv:2406.11695; GEPA: Agrawal et al., arXiv:2507.19457"
    params: tuple[Param, ...] = _PARAMS
    uses_llm = True
    uses_graph = False
    costs = None
    layer = "dspy"

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Raises TrainerError where the package is missing. StopTraining is passed on."""
        from trace_bench.trainers.adapters.bridge import Bridge
        from trace_bench.trainers.adapters.dspy_loop import Run

        bridge = Bridge("dspy")
        return (yield from bridge.run(Run(search, bridge)))
