"""ParetobasedPS: PrioritySearch that explores the Pareto front of scores by example."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.priority_engine import LOOP, MEMORY, RUNNING, VALIDATE_AGAIN, PriorityEngine

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

Example = tuple[str, str]
"""(split, id)."""


class ParetobasedPS:
    """PrioritySearch that explores the candidates with the best score on some example, instead of the best average. A
    candidate that alone solves one example gets children, even if its mean is low. The idea is GEPA's.

    ### Which candidates are explored
    Each example of the selection split has a *best set*: all candidates of the memory that share the highest mean score
    on it. `W(c)` is the set of examples whose best set contains `c`.

    1. Candidates with an empty `W` are removed.
    2. `b` is removed if there is an `a` with `W(b) ⊊ W(a)`: `a` is best on all examples of `b`, and on another one.
       Candidates with equal `W` do not remove each other. The remaining ones are the front.
    3. If the front has more than `num_candidates`, `front_selection` chooses. A smaller front is explored in full.

    | `front_selection` | chosen candidates |
    |---|---|
    | `mean` | the highest mean scores, of equal ones the newest |
    | `wins` | drawn without replacement, `c` with weight `\\|W(c)\\|`, by the job's seed |

    With `validation_batch` a candidate counts only on the examples on which it was scored.

    Minibatches, proposals, evaluation, memories, answer and cost are those of [PrioritySearch](#prioritysearch). A
    memory of limited size forgets by the mean score. The priority has no other use here, so there is no
    `score_function`.

    Before `search.step`, an event `search.front` has the front and the number of examples that each member wins.
    `front_size` in a step's `extra` is the size of the front of its parent.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | best sets over the training inputs; a candidate without a score on one has 0 there | over the selection split, on which all candidates were scored | a missing score is not a score of 0 |
    | equal inputs count once | each example counts | two examples can differ in their reference alone |
    | the front is cut off by mean score | the same by default; `wins` draws as GEPA does | |
    """  # noqa: E501  # rows of tables

    name = "ParetobasedPS"
    summary = "PrioritySearch that explores candidates with the best score on some example."
    source = "OpenTrace (experimental), ParetobasedPS; Agrawal et al.: GEPA, arXiv:2507.19457"
    params: tuple[Param, ...] = (
        *LOOP,
        *MEMORY,
        Param(
            "front_selection",
            "mean",
            str,
            "reduction of a front larger than `num_candidates`: highest mean scores, or a draw by wins",
            choices=("mean", "wins"),
        ),
        *VALIDATE_AGAIN,
        *RUNNING,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", "validation_batch", first_step=("num_batches", "num_proposals"))

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the state of highest mean score.

        Raises:
            StopTraining: passed on.
        """
        return (yield from ParetoEngine(search).run())


class ParetoEngine(PriorityEngine):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        split = search.selection
        self._examples = [(split, e.id) for e in getattr(search.problem, split)]
        self._random = search.random("front")
        self._front_size = 0

    def select(self, step: int) -> list[Candidate]:
        memory = self.memory(step - 1)
        wins = front(list(memory), self._examples)
        members = [c for c in memory if c.created in wins]
        self._front_size = len(members)
        self.search.log.event("search.front", step=step, wins={c.id: len(wins[c.created]) for c in members})
        size = self.params["num_candidates"]
        if self.params["front_selection"] == "wins" and len(members) > size:
            explored = drawn(members, [len(wins[c.created]) for c in members], size, self._random)
        else:
            explored = sorted(members, key=lambda c: (c.mean, c.created), reverse=True)[:size]
        for candidate in explored:
            memory.remove(candidate)
        return explored

    def priority(self, candidate: Candidate, iterations: int) -> float:
        return candidate.mean

    def extra(self, step: int, candidate: Candidate) -> Mapping[str, Any]:
        return {**super().extra(step, candidate), "front_size": self._front_size}


def front(candidates: Sequence[Candidate], examples: Sequence[Example]) -> dict[int, frozenset[Example]]:
    """What each candidate of the Pareto front wins, by `Candidate.created`: it is among the best there.

    A candidate without a score on an example has no part in it. Scores are oriented: higher is better.
    """
    from trace_bench.trainers.candidates import oriented_mean

    won: dict[int, set[Example]] = {}
    for example in examples:
        means = {c.created: oriented_mean(c.by_example[example]) for c in candidates if c.by_example.get(example)}
        for created, mean in means.items():
            if mean == max(means.values()):
                won.setdefault(created, set()).add(example)
    return {
        created: frozenset(mine) for created, mine in won.items() if not any(mine < others for others in won.values())
    }


def drawn(
    candidates: Sequence[Candidate], weights: Sequence[float], number: int, rng: random.Random
) -> list[Candidate]:
    """`number` of `candidates`, drawn without replacement by weight."""
    left, weighing = list(candidates), list(weights)
    chosen = []
    for _ in range(number):
        (index,) = rng.choices(range(len(left)), weighing)
        chosen.append(left.pop(index))
        del weighing[index]
    return chosen
