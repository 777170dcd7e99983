"""TextGradTrainer: textual gradient descent with the package textgrad."""

from __future__ import annotations

from collections.abc import Generator

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.common_params import NUM_EPOCHS, VERBOSE, bound

_PARAMS = (
    bound("num_steps", 5, "steps: one minibatch, one backward pass, one update of each parameter"),
    NUM_EPOCHS,
    Param("train_batch_size", 3, int, "examples in a minibatch", minimum=1, aliases=("batch_size",)),
    Param("constraints", [], list, "constraints on each update, as sentences"),
    Param("ensure_improvement", False, bool, "reject a new state whose mean on the selection split is not better"),
    Param(
        "improvement_threshold",
        0.0,
        float,
        "improvement of the mean that must be exceeded, in the task's units",
        minimum=0.0,
        when={"ensure_improvement": (True,)},
    ),
    Param("max_tokens", 2000, int, "token limit of an answer", minimum=1),
    VERBOSE,
)


class TextGradTrainer:
    """Textual gradient descent with the package `textgrad` (0.1.8). Each trainable parameter is a `Variable`, and the
    evaluation of one example is a function of all of them. `backward` asks the model for feedback on each parameter.
    `TextualGradientDescent` rewrites the parameter with that feedback.

    * **Step**: a minibatch of training examples is scored. With *b* examples and *p* parameters, *b·p* calls ask for
      gradients and *p* calls for updates. Then the new state is judged on the whole selection split. A known or
      unchanged state is not judged again (`proposal.dropped`).
    * **Next state**: the new state, better or not. With `ensure_improvement` it is the next state only if
      `mean(new) > mean(old) + improvement_threshold`, where higher is better.
    * **Answers** without the tags, or without a valid value of the parameter, do not change the parameter. Each is an
      event and costs its call. An empty gradient is used unchanged.
    * **Random**: minibatches, from the job's seed. Gradients appear in prompts in the order of their creation. The
      package keeps them in sets, whose order differs from process to process.
    * **Final state**: the best one.

    | | package | here |
    |---|---|---|
    | loss | any, mostly a model's judgement | the guide's score and feedback, with the direction of the score |
    | values in prompts | the first and last ten words | in full |
    | several parameters | one optimizer; an unreadable answer ends the step | one optimizer for each parameter |
    | `gradient_memory` | kept, and used in no prompt | not available |
    | engine | a client for each provider, with a cache on disk | the job's model |
    """

    name = "TextGradTrainer"
    summary = "Textual gradient descent, with the package's own variables, backward pass and optimizer."
    source = "Yuksekgonul et al.: TextGrad, arXiv:2406.07496; package textgrad 0.1.8"
    params: tuple[Param, ...] = _PARAMS
    uses_llm = True
    uses_graph = False
    costs = Costs("train_batch_size", calls=4)
    layer = "textgrad"

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Raises TrainerError where the package is missing. StopTraining is passed on."""
        from trace_bench.trainers.adapters.bridge import Bridge
        from trace_bench.trainers.adapters.textgrad_loop import Run

        bridge = Bridge("textgrad")
        return (yield from bridge.run(Run(search, bridge)))
