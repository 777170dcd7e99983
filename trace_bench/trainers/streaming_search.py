"""StreamingPrioritySearch: PrioritySearch without rounds of evaluation: scores come from the stream of minibatches."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trace_bench.trainers.base import Costs, Param, Rollout, Search, State, Step
from trace_bench.trainers.priority_engine import LOOP, MEMORY, RANKING, RUNNING, PriorityEngine, Told

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate
    from trace_bench.trainers.population import Call


_STREAMED = {
    "num_candidates": Param(
        "num_candidates",
        4,
        int,
        "candidates run in one step: the best one, untested children, and the highest priorities",
        minimum=2,
        aliases=("ps_candidates",),
    ),
    "num_proposals": Param(
        "num_proposals",
        1,
        int,
        "proposals for each chosen pair of candidate and minibatch",
        minimum=1,
        aliases=("ps_proposals",),
    ),
}
"""With one candidate a step there would be no room for a child to be tested in."""


class StreamingPrioritySearch:
    """PrioritySearch that does not evaluate a child when it is proposed. The child goes into the memory untested, with
    the highest priority. The minibatches of the steps that explore it give its scores and the feedback for the
    optimizer. So the search makes many more proposals than PrioritySearch for the same number of evaluations, but
    decides by fewer scores.

    ### What a step does
    With `C` candidates, `B` minibatches, `P` proposals and the exploration ratio `r`:

    1. **Explore.** The candidate of highest mean score (unless `use_best_candidate_to_explore` is false), and then the
       highest priorities, `C` together. Untested candidates come before all others, the newest first.
    2. **Run.** Each on the same `B` minibatches of training data. Each candidate on each minibatch is a line of
       `state_history.jsonl` (split `train`, `reason` `stream`).
    3. **Report** the candidate with the highest mean score, the result if the search ended here. If it was not yet
       scored on the whole selection split, it is scored now, as a line with the `reason` `report`. These scores count
       into its mean. Only candidates that were scored on the whole split can become the best state.
    4. **Choose.** Of the pairs of explored candidate and minibatch, `K = max(1, ⌊C·r / P⌋)` are drawn without
       replacement. The probability of a pair is proportional to `exp(priority / T)`, where `T` is
       `exploration_temperature`. With `T` 0 the pairs of highest priority are chosen, of equal ones the earlier. If
       there are at most `K` pairs, all are chosen.
    5. **Propose.** `P` proposals for each chosen pair. A step makes at most `C·r` children, so that the next step can
       run all of them. If `P` is higher, fewer are proposed, with a warning.
    6. **Rank.** Explored candidates return to the memory with their priority, children enter untested.

    The priority of a tested candidate is that of [PrioritySearch](#prioritysearch), by `score_function`. `ucb` suits
    this search, as candidates differ in their numbers of runs. The final state is the best one that was reported. A
    step costs `C·B` minibatch runs, `K·P` model calls, and at most one evaluation on the whole selection split.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | scores nothing on the validation set | the reported candidate, once | official scores are of the selection split; a lucky minibatch must not become the best state |
    | `K` grows in the first steps, as there are too few proposals to fill the memory | `K` is fixed | all pairs are chosen then |
    | numpy's global generator chooses | the job's seed | |
    | an untested candidate has the highest possible score as its priority | infinity | it is explored first with any score range |
    """  # noqa: E501  # rows of tables

    name = "StreamingPrioritySearch"
    summary = "PrioritySearch that scores candidates only on the minibatches of their exploration."
    source = "OpenTrace (experimental), StreamingPrioritySearch"
    params: tuple[Param, ...] = (
        *(_STREAMED.get(p.name, p) for p in LOOP),
        *MEMORY,
        *RANKING,
        Param(
            "exploration_ratio",
            0.5,
            float,
            "children of one step, as a fraction of `num_candidates`; the next step's other runs are of tested "
            "candidates",
            minimum=0.0,
            maximum=1.0,
        ),
        Param(
            "exploration_temperature",
            1.0,
            float,
            "T of exp(priority / T), the weight of a candidate in the draw for children; 0: the highest priorities",
            minimum=0.0,
        ),
        *RUNNING,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs(first_step=("num_batches", "num_proposals"))

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the best state that was reported.

        Raises:
            StopTraining: passed on.
        """
        return (yield from StreamingEngine(search).run())


class StreamingEngine(PriorityEngine):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._random = search.random("pairs")
        self._everything = {e.id for e in getattr(search.problem, search.selection)}
        self._judged: set[int] = set()
        most = max(1, math.floor(self.params["num_candidates"] * self.params["exploration_ratio"]))
        self._proposals = min(self.params["num_proposals"], most)
        self._pairs = max(1, most // self._proposals)
        if self._proposals < self.params["num_proposals"]:
            search.log.warn(
                f"num_proposals is {self.params['num_proposals']}, and num_candidates × exploration_ratio allows "
                f"{most} children a step; {most} are asked for."
            )

    def seen(self, candidate: Candidate, rollouts: Sequence[Rollout], split: str) -> None:
        if split == self.search.selection and self._everything <= {r.example_id for r in rollouts}:
            self._judged.add(candidate.created)

    def report(self, step: int, told: Told) -> Iterable[Step]:
        yield self.population.step(
            step, told.candidate, told.explored.rollouts, "train", reason="stream", **self.extra(step, told.candidate)
        )

    def settle(self, step: int, explored: Sequence[Candidate]) -> Iterable[Step]:
        best = self.population.best()
        if best.created not in self._judged:
            rollouts = self.population.judge(best)
            self.seen(best, rollouts, self.search.selection)
            yield self.population.step(step, best, rollouts, reason="report", **self.extra(step, best))

    def calls(self, step: int, told: Sequence[Told]) -> list[Call]:
        chosen = list(told)
        if len(told) > self._pairs:
            keys = softmax_keys(
                [self.priority(one.candidate, step) for one in told],
                self.params["exploration_temperature"],
                [self._random.random() for _ in told],
            )
            ranked = sorted(range(len(told)), key=lambda i: (-keys[i], i))
            chosen = [told[i] for i in sorted(ranked[: self._pairs])]
        calls: list[Call] = []
        for one in chosen:
            calls += self.population.calls(one.candidate, one.explored, step, one.place, self._proposals)
        return calls

    def judge(self, step: int, child: Candidate) -> Iterable[Step]:
        """It is scored when it is explored."""
        return ()

    def priority(self, candidate: Candidate, iterations: int) -> float:
        return super().priority(candidate, iterations) if candidate.scores else math.inf

    def extra(self, step: int, candidate: Candidate) -> Mapping[str, Any]:
        return {**super().extra(step, candidate), "scores": len(candidate.scores)}

    def result(self) -> State | None:
        return None


def softmax_keys(priorities: Sequence[float], temperature: float, uniform: Sequence[float]) -> list[float]:
    """Keys whose `k` highest are a draw of `k` without replacement with probabilities ``softmax(priorities / T)``.

    The Gumbel-top-k trick: `priorities` over `temperature`, plus ``-ln(-ln u)`` for each of `uniform` in [0, 1). With a
    temperature of 0 the priorities themselves.
    """
    if temperature == 0:
        return list(priorities)
    top = max(priorities)
    noise = [-math.log(-math.log(max(u, math.ulp(0.0)))) for u in uniform]
    return [(p - top) / temperature + g for p, g in zip(priorities, noise, strict=True)]
