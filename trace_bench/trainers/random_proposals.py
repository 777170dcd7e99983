"""RandomProposals: states drawn at random, without a model; the baseline that says whether a model helps at all."""

from __future__ import annotations

import random
from collections.abc import Generator

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.common_params import bound
from trace_bench.worker.problem import Parameter, Value


class RandomProposals:
    """Draws every trainable parameter at random and scores the state on the whole selection split, without a model. The
    final state is the best scored one: the result of blind search with the same evaluations.

    A number with bounds is drawn uniformly between them. A program with a ladder is the starting one, or the one above
    or below it. Any other parameter is drawn from its value and its alternatives, each equally likely. A parameter
    without bounds and alternatives ends the job with an error. Draws depend on the job's seed alone, and can repeat a
    state.

    A step costs one evaluation of each example of the selection split.
    """

    name = "RandomProposals"
    summary = "Draws states at random, without a model."
    source = "none: the baseline of blind search"
    params: tuple[Param, ...] = (bound("num_steps", 10, "states to draw"),)
    uses_llm = False
    uses_graph = False
    costs = Costs(calls=0)

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the best state scored.

        Raises:
            StopTraining: passed on.
            TrainerError: a trainable parameter has neither bounds nor alternatives.
        """
        for parameter in search.problem.trainable:
            if parameter.bounds is None and not parameter.alternatives:
                raise TrainerError(
                    f"RandomProposals cannot draw {parameter.name!r}: it has no bounds and no alternatives."
                )
        chance = search.random("proposals")
        step = 0
        while search.endless or step < search.params["num_steps"]:
            step += 1
            state = {p.name: _drawn(chance, p) for p in search.problem.trainable}
            rollouts = search.evaluate(state, search.examples(search.selection), search.selection)
            yield Step(step, f"s{step}", ("seed",), state, tuple(rollouts), search.selection)
        return None


def _drawn(chance: random.Random, parameter: Parameter) -> Value:
    if parameter.bounds is not None:
        low, high = parameter.bounds
        return chance.randint(int(low), int(high)) if parameter.kind == "int" else chance.uniform(low, high)
    if parameter.ladder:
        at = parameter.ladder.index(parameter.value)
        return chance.choice(parameter.ladder[max(0, at - 1) : at + 2])
    return chance.choice([parameter.value, *parameter.alternatives])
