"""ParetobasedPS: PrioritySearch that explores the Pareto front of scores by example."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import Param, Search, State, Step
from trace_bench.trainers.priority_engine import LOOP, MEMORY, RUNNING, VALIDATE_AGAIN, PriorityEngine

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

Example = tuple[str, str]
"""(split, id)."""


class ParetobasedPS:
    """PrioritySearch that explores candidates which are best at something, instead of those that are best on average: a
    candidate that alone solves one example is worth a child, however poor it is elsewhere. After `ParetobasedPS` of
    OpenTrace (experimental), whose idea is GEPA's (Agrawal et al., arXiv:2507.19457).

    ### Who is explored
    For each example of the selection split (validation, else training), the *best set* of that example holds the
    candidates of the memory whose mean score on it is highest, all of them where several are equal. `W(c)` are the
    examples whose best set holds `c`.

    1. Candidates with an empty `W` are out.
    2. `b` is out if there is an `a` with `W(b) ⊊ W(a)`: best wherever `b` is, and somewhere else, too. Of candidates
       with equal `W` none goes out for the other. What is left is the front.
    3. If the front has more than `num_candidates`, `front_selection` chooses:

    | `front_selection` | who |
    |---|---|
    | `mean` | those of highest mean score; of equal ones the newest |
    | `wins` | drawn without replacement, `c` with weight `\\|W(c)\\|`, by the job's seed |

    With `validation_batch` a candidate has a part in the examples only that it was scored on.

    A front smaller than `num_candidates` is explored as it is. All the rest is [PrioritySearch](#prioritysearch)'s:
    minibatches, proposals, evaluation, memories, the answer, the cost. The priority by which a memory of limited size
    forgets is the mean score; there is no other use of it, and so no `score_function`.

    `search.step` is preceded by an event `search.front` with the front and how many examples each of it wins;
    `front_size` in a step's `extra` is the size of the front that its parent was taken from.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | best sets over the training inputs; a candidate that never saw one has 0 there | over the selection split, which everybody was scored on | a score that is not there is no score |
    | inputs that are equal count once | each example counts | two examples may differ in their reference alone |
    | the front is cut off by mean score | the same by default; `wins` draws as GEPA does | |
    """  # noqa: E501  # rows of tables

    name = "ParetobasedPS"
    summary = "PrioritySearch that explores the candidates which are best on some example."
    source = "OpenTrace (experimental), ParetobasedPS; Agrawal et al.: GEPA, arXiv:2507.19457"
    params: tuple[Param, ...] = (
        *LOOP,
        *MEMORY,
        Param(
            "front_selection",
            "mean",
            str,
            "who is explored of a front larger than num_candidates: the highest mean scores, or drawn by wins",
            choices=("mean", "wins"),
        ),
        *VALIDATE_AGAIN,
        *RUNNING,
    )
    uses_llm = True
    uses_graph = True

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
