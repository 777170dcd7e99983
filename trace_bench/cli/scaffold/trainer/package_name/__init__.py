"""TrainerName: a hill climb that asks a model for better values."""

import json
from collections.abc import Generator, Sequence

from trace_bench.trainers.answers import Unusable, Variable, cast, content, pick, suggestion
from trace_bench.trainers.base import Param, Rollout, Search, Slot, State, Step

PROMPT = """# Objective
{objective}

# Values now
{values}

# What they score ({direction} it)
{feedback}

Answer with JSON alone: {{"suggestion": {{"NAME": VALUE}}}}, with better values for one or more of the names.
"""


class TrainerName:
    """Asks a model for new values of the best state so far, and keeps them if they score better.

    A step costs one model call, a few evaluations on training examples, and one on each example of the selection split.
    """

    name = "TrainerName"
    summary = "Asks for one change of the best state in each step, and keeps what is better."
    source = "none: an example"
    params = (
        Param("num_steps", 5, int, "model calls", minimum=1),
        Param("num_examples", 3, int, "training examples whose feedback the model sees", minimum=1),
    )
    uses_llm = True
    uses_graph = False

    def search(self, search: Search) -> Generator[Step, None, None]:
        """Yield a step for every state that is judged. Let `StopTraining` pass: it ends the search in order."""
        split, better = search.selection, search.problem.better
        best, state, score = "seed", dict(search.start.state), mean(search.start.rollouts)
        for step in range(1, search.params["num_steps"] + 1):
            proposed = self.propose(search, step, state)
            if proposed is None:
                continue
            rollouts = search.evaluate(proposed, search.examples(split), split)
            improves = better(mean(rollouts), score)
            reason = f"{'better' if improves else 'not better'} than {best}"
            yield Step(step, f"s{step}", (best,), proposed, tuple(rollouts), split, accepted=improves, reason=reason)
            if improves:
                best, state, score = f"s{step}", proposed, mean(rollouts)

    def propose(self, search: Search, step: int, state: State) -> State | None:
        """Ask the model for a change of `state`; None if the answer cannot be used or changes nothing."""
        rollouts = search.evaluate(state, search.examples("train")[: search.params["num_examples"]], "train")
        variables = [Variable(p.name, p, state[p.name]) for p in search.problem.trainable]
        prompt = PROMPT.format(
            objective=search.problem.objective,
            values=json.dumps({variable.prompt_name: variable.value for variable in variables}, indent=2),
            direction=search.problem.direction,
            feedback="\n".join(f"{rollout.score:g}: {rollout.feedback}" for rollout in rollouts),
        )
        # The slot names the call by its place in the search, so that a run can be replayed. The headers tell the stub
        # model what it may change. No provider sees them.
        response = search.chat(
            [{"role": "user", "content": prompt}],
            slot=Slot(step, "best"),
            variables=[variable.header() for variable in variables],
        )
        try:
            values, _ = pick(suggestion(content(response)) or {}, variables)
            named = [p for p in search.problem.trainable if p.name in values]
            changes = {p.name: cast(p, values[p.name], search.reader) for p in named}
        except Unusable as problem:
            search.log.event("proposal.unusable", step=step, kind=problem.kind, reason=str(problem))
            return None
        proposed = {**state, **changes}
        return None if proposed == state else proposed


def mean(rollouts: Sequence[Rollout]) -> float:
    """The mean score of `rollouts`."""
    return sum(rollout.score for rollout in rollouts) / len(rollouts)
