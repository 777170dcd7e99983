"""POLCA: PrioritySearch over an epsilon-net of candidates, with a model that sums up the search for the optimizer."""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Costs, OtherThan, Param, Rollout, Search, Slot, State, Step, StopTraining
from trace_bench.trainers.priority_engine import LOOP, MEMORY, RANKING, RUNNING, VALIDATE_AGAIN, PriorityEngine

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate
    from trace_bench.trainers.epsilon_net import Distance

SUMMARY_TOKENS = 4096
"""Limit on the tokens of one summary."""


class POLCA:
    """[PrioritySearch](#prioritysearch) with two additions. An *epsilon-net* drops a child near to known candidates
    before it is evaluated. A *summarizer*, a model call, summarizes the results of candidates for the prompts of the
    next proposals. With `epsilon` 0 and without `use_summarizer` it is PrioritySearch.

    ### The epsilon-net
    After all children of a step are proposed, the net consists of the candidates in the memories and the explored ones.
    Then children join the net one after the other. The next is the child whose distance to the nearest member of the
    net is largest, of equal ones the earlier. It joins if that distance is more than `epsilon`. Otherwise this child
    and all remaining ones are dropped (event `proposal.dropped` with the reason `near`, the nearest candidate and the
    distance). Children that joined are evaluated in slot order. `distance` in their `extra` is their distance when they
    joined, and `accepted` is true.

    | `embedding_model` | distance of two candidates |
    |---|---|
    | `none` | from 0 (equal) to 1, the largest of all trainable parameters. Each has the form `x / (x + s)`. Number: x is the difference, s 1 % of the width of its bounds, or without bounds of the larger magnitude. Code: x is the number of changed tokens, s is 4; comments and layout do not count, and if only numbers changed, the largest of their distances counts. Text: x is the number of changed words, s 10 % of the words |
    | `job` | the L2 distance of embeddings of `name: value`, one parameter after the other. The job's model must answer on `/v1/embeddings`, in one call for each step (slot `step=3;candidate=embedding`), with its cost. A chat-only model fails the job with a message |

    With the default `epsilon` of 0.1 a number must move by more than 0.11 % of its range, a program must change by a
    token or by 0.11 % in a number, and a text by more than 1 % of its words.

    ### The summarizer
    With `use_summarizer`, one model call precedes a step if the last summary is at least `summary_frequency` steps old
    (slot `step=3;candidate=summary`). The prompt has the previous summary and at most five candidates that no summary
    has described yet, drawn with the job's seed. Each is shown with its parameters and its best and worst rollout on
    *training* examples (input, score, feedback). The text between `<summary>` and `</summary>` in the answer goes into
    the prompts of all proposals until the next summary. The event `search.summary` has the text. An answer without such
    a text is the event `summary.unusable`, and the previous summary stays. No call is made without such a candidate, as
    in the first step of a task with validation data: no candidate has run on a training example.

    A step costs as much as one of PrioritySearch, without the evaluations of dropped children, plus at most one
    embedding call and one summary. If a budget ends during the proposals, the earlier children are still compared and
    evaluated, as far as the budget allows.

    ### Where it differs from the paper and from OpenTrace
    | paper, OpenTrace (experimental) | here | why |
    |---|---|---|
    | embeddings of a Gemini model | the distance of values, or embeddings of the job's own model | a job has one model, part of its identity |
    | the summarizer can use another model than the optimizer | the job's model | the same |
    | summaries also cover rollouts on validation data | training data alone | examples that select candidates must not teach them |
    | draws one rollout with a score above 0 and one at or below 0 | the best and the worst | scores have no common zero |
    | makes the summary after the step's minibatches ran | before | |
    | ignores an error of the model | a provider's failure fails the job; an unusable answer is an event | |
    """  # noqa: E501  # rows of tables

    name = "POLCA"
    summary = "PrioritySearch that drops children too near to others, and summarizes the search for the optimizer."
    source = "Ren, Nie, Xie, Cheng: POLCA, arXiv:2603.14769; OpenTrace (experimental), POLCA"
    params: tuple[Param, ...] = (
        *LOOP,
        *MEMORY,
        *RANKING,
        *VALIDATE_AGAIN,
        Param(
            "epsilon",
            0.1,
            float,
            "distance that a child must exceed from each member of the net; 0: no filter, no embedding",
            minimum=0.0,
        ),
        Param(
            "embedding_model",
            "none",
            str,
            "distance of candidates: of values (`none`), or of embeddings by the job's model (`job`)",
            choices=("none", "job"),
            when={"epsilon": OtherThan((0,))},
        ),
        Param("use_summarizer", False, bool, "add a model's summary of results to the prompts of proposals"),
        Param(
            "summary_frequency",
            1,
            int,
            "least number of steps between summaries",
            minimum=1,
            when={"use_summarizer": (True,)},
        ),
        *RUNNING,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", "validation_batch", first_step=("num_batches", "num_proposals"))

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the state of highest mean score.

        Raises:
            StopTraining: passed on.
            TrainerError: the embeddings cannot be compared.
        """
        return (yield from PolcaEngine(search).run())


class PolcaEngine(PriorityEngine):
    def __init__(self, search: Search) -> None:
        from trace_bench.trainers.summarizer import Summarizer, Trajectory

        super().__init__(search)
        self.accepted = True if self.params["epsilon"] else None
        self._vectors: dict[int, Sequence[float]] = {}
        self._distance: dict[int, float] = {}
        self._summarizer = Summarizer(search.problem, search.random("summaries"))
        self._summary_due = 1
        self._trajectories: dict[int, Trajectory] = {}

    # -- the epsilon-net -------------------------------------------------------------------------------------------

    def admit(self, step: int, explored: Sequence[Candidate], children: Iterator[Candidate]) -> Iterable[Candidate]:
        if not self.accepted:
            return children
        return self._admitted(step, explored, children)

    def _admitted(self, step: int, explored: Sequence[Candidate], children: Iterator[Candidate]) -> Iterator[Candidate]:
        """Those of all children together that join the net. A stop among the proposals waits for those before it: they
        are paid for."""
        proposed: list[Candidate] = []
        stop: StopTraining | None = None
        try:
            proposed.extend(children)
        except StopTraining as caught:
            stop = caught
        if proposed:
            yield from self._apart(step, explored, proposed)
        if stop is not None:
            raise stop

    def _apart(self, step: int, explored: Sequence[Candidate], children: Sequence[Candidate]) -> list[Candidate]:
        """Those of `children` that join the net; the others are dropped."""
        from trace_bench.trainers.distances import state_distance
        from trace_bench.trainers.epsilon_net import farthest_first, nearest

        there = {c.created: c for c in (*self.long_term, *self.short_term, *explored)}
        members = [there[created] for created in sorted(there)]
        apart: Distance = math.dist
        if self.params["embedding_model"] == "none":
            apart = functools.partial(state_distance, self.search.problem.trainable)
            points: list[Any] = [c.state for c in (*members, *children)]
        else:
            points = self._embed(step, [*members, *children])
        net, new = points[: len(members)], points[len(members) :]
        try:
            joined = farthest_first(new, net, self.params["epsilon"], apart)
        except ValueError as error:
            raise TrainerError(
                "the embeddings of two candidates have different lengths; set embedding_model to none."
            ) from error
        admitted = [children[i] for i in sorted(joined)]
        after, points = [*members, *admitted], [*net, *(new[i] for i in sorted(joined))]
        for i, child in enumerate(children):
            if i in joined:
                self._distance[child.created] = joined[i]
            else:
                distance, index = nearest(new[i], points, apart)
                self.search.log.event(
                    "proposal.dropped", candidate=child.id, reason="near", same_as=after[index].id, distance=distance
                )
        return admitted

    def _embed(self, step: int, candidates: Sequence[Candidate]) -> list[Sequence[float]]:
        """A vector for each of `candidates`; one call for those of which none is known."""
        from trace_bench.trainers.epsilon_net import text_of

        known = dict(self._vectors)
        missing = [c for c in candidates if c.created not in known]
        texts = [text_of(c.state) for c in missing]
        vectors = self._ask(texts, Slot(step, "embedding")) if texts else []
        known.update({c.created: vector for c, vector in zip(missing, vectors, strict=True)})
        self._vectors = {c.created: known[c.created] for c in candidates}
        return [known[c.created] for c in candidates]

    def _ask(self, texts: Sequence[str], slot: Slot) -> list[list[float]]:
        from trace_bench.worker.phases import PhaseFailure

        try:
            return self.search.embed(texts, slot=slot)
        except PhaseFailure as failure:
            remedy = "POLCA asked the job's model for embeddings; with embedding_model none it needs no model"
            raise PhaseFailure(failure.boundary, failure.kind, f"{failure.message} ({remedy})") from failure

    def extra(self, step: int, candidate: Candidate) -> Mapping[str, Any]:
        distance = self._distance.get(candidate.created)
        return {**super().extra(step, candidate), **({} if distance is None else {"distance": distance})}

    # -- the summarizer --------------------------------------------------------------------------------------------

    def seen(self, candidate: Candidate, rollouts: Sequence[Rollout], split: str) -> None:
        from trace_bench.trainers.summarizer import Trajectory

        if split == "train":
            before = self._trajectories.get(candidate.created)
            self._trajectories[candidate.created] = Trajectory(
                candidate.state, (*(before.rollouts if before else ()), *rollouts)
            )

    def context(self, step: int, explored: Sequence[Candidate]) -> str:
        from trace_bench.trainers.answer_reading import unusable
        from trace_bench.trainers.answers import Unusable

        if not self.params["use_summarizer"]:
            return ""
        keys: list[int] = []
        if step >= self._summary_due:
            keys, messages = self._summarizer.request(self._trajectories)
        if keys:
            self._summary_due = step + self.params["summary_frequency"]
            slot = Slot(step, "summary")
            response = self.search.chat(messages, slot=slot, max_tokens=SUMMARY_TOKENS)
            about = [c.id for c in self.population if c.created in keys]
            try:
                text = self._summarizer.read(response)
            except Unusable as why:
                kind, fields = unusable(slot, why, response, "summary")
                self.search.log.event(kind, **fields)
            else:
                self.search.log.event("search.summary", step=step, about=about, text=text)
        return self._summarizer.context
