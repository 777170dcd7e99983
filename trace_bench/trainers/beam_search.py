"""BeamSearch: a few states side by side, each with several proposals; the best of all go on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, OtherThan, Param, Search, State, Step
from trace_bench.trainers.classic import EVAL_FREQUENCY, TRAIN_BATCH_SIZE, Walk
from trace_bench.trainers.common_params import NUM_THREADS, VERBOSE, bound

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate


class BeamSearch:
    """Holds `beam_width` states. Each state gets its own proposals. The best states and proposals are the next beam.

    ### What a step does
    A step is one depth. The first beam is the start alone.

    1. **Expand.** Each state of the beam runs on its own minibatch of `train_batch_size` training examples. One
       backward pass and `num_proposals` model calls follow for each state. All calls of a depth can overlap.
    2. **Score.** The states of the beam, then all proposals in order, are scored on one sample of
       `validation_dataset_size` examples of the selection split. Each depth draws a new sample, without replacement.
    3. **Select.** The `beam_width` highest means are the next beam, best first, of equal means the newest. `accepted`
       is true for a proposal that is among them when it is judged. Later proposals can still replace it (`kept` of the
       event `search.step`). A rejected proposal stays rejected.
    4. **Judge.** Every `eval_frequency` depths the first state of the beam is scored on all examples of the selection
       split, once.

    After the last depth all states of the beam are judged on all examples. The final state is the best of them, of
    equal ones the newest.

    A depth costs up to `w·b + (w + w·p)·v` evaluations and `w·p` calls for a beam of `w`, minibatches of `b`, `p`
    proposals and samples of `v`. Judgements cost extra.

    ### History
    With `max_history_size`, each prompt begins with the latest kept states, at most that many. Each state has the mean
    for which it was kept, in the task's units. They are in the order of their depths, the best state of a depth last. A
    state that several depths kept is listed for each, as their samples differ. This is `BeamsearchHistoryAlgorithm` of
    OpenTrace, where the default is 10.

    ### Where it differs from OpenTrace
    | OpenTrace (`BeamsearchAlgorithm`) | here | why |
    |---|---|---|
    | `BeamSearch` of experimental is PrioritySearch with a memory of the beam's size | the algorithm of `BeamsearchAlgorithm` | a beam has depths; for the other, use PrioritySearch with `long_term_memory_size` |
    | of equal means the first expanded wins | the newest wins | the search can cross a plateau |
    | scores a known proposal again; copies can fill the beam | drops it | |
    | scores a beam once for each time it is listed | once in a depth | |
    | ignores a failing evaluation | it has the task's failure score, or ends the job | |
    | judges only the final state on all examples | judges the first of the beam too, by `eval_frequency` | a budget can end the search before the last depth |
    | test data every `test_frequency` depths | the selection split | test data is for official scores alone |
    | appends the history to the feedback | puts it before the prompt | |
    """  # noqa: E501

    name = "BeamSearch"
    summary = "Keeps a beam of the best states and proposals."
    source = "OpenTrace, BeamsearchAlgorithm and BeamsearchHistoryAlgorithm"
    params: tuple[Param, ...] = (
        bound("max_depth", 2, "steps: expansions of the beam", aliases=("num_steps",)),
        Param("beam_width", 3, int, "states in the beam", minimum=1),
        Param("num_proposals", 4, int, "proposals for each state of the beam", minimum=1),
        TRAIN_BATCH_SIZE,
        Param(
            "validation_dataset_size",
            5,
            int,
            "examples of the selection split that compare a depth's states, a new sample in each depth; 0: all",
            minimum=0,
        ),
        Param(
            "max_history_size",
            0,
            int,
            "latest kept states, with scores, at the start of each prompt; 0: none",
            minimum=0,
        ),
        replace(EVAL_FREQUENCY, when={"validation_dataset_size": OtherThan((0,))}),
        NUM_THREADS,
        VERBOSE,
    )
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", "validation_dataset_size", first_step=("num_proposals",))

    def search(self, search: Search) -> Generator[Step, None, State]:
        """Return the best state of the last beam.

        Raises:
            StopTraining: passed on.
        """
        return (yield from _Beam(search).run())


@dataclass(frozen=True)
class _Scored:
    """A candidate with its oriented mean on the sample of a depth."""

    candidate: Candidate
    mean: float

    @property
    def rank(self) -> tuple[float, int]:
        """Higher goes first."""
        return self.mean, self.candidate.created


class _Beam(Walk):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._width: int = self.params["beam_width"]
        self._size: int = self.params["validation_dataset_size"]
        self._kept: list[_Scored] = []
        self.say_if_idle(self._size, "validation_dataset_size")

    def run(self) -> Generator[Step, None, State]:
        beam, depth = [self.population.seed], 0
        while self.search.endless or depth < self.params["max_depth"]:
            depth += 1
            beam = yield from self._expand(depth, beam)
        final = []
        for candidate in beam:
            mean = yield from self.judge(depth, candidate, "in the last beam, judged on all examples")
            final.append(_Scored(candidate, mean))
        return dict(max(final, key=lambda scored: scored.rank).candidate.state)

    def _expand(self, depth: int, beam: list[Candidate]) -> Generator[Step, None, list[Candidate]]:
        explored, calls = beam, []
        sample = self.sample(self._size)
        for i, candidate in enumerate(beam):
            told = self.population.explore(candidate, self.minibatches.take(), self._history())
            calls += self.population.calls(candidate, told, depth, f"c{i}", self.params["num_proposals"])
        ranking: list[_Scored] = []
        children: list[Candidate] = []
        with contextlib.closing(self.population.children(calls)) as proposed:
            for child in proposed:
                if not children:  # without a child there is nothing to compare with
                    for candidate in beam:
                        mean = yield from self.score(depth, candidate, sample, "of the beam, on the depth's sample")
                        ranking.append(_Scored(candidate, mean))
                children.append(child)
                rollouts = self.population.judge(child, sample)
                ranking.append(scored := _Scored(child, self.population.mean(rollouts)))
                ranking.sort(key=lambda scored: scored.rank, reverse=True)
                place = ranking.index(scored) + 1
                del ranking[self._width :]
                yield self.line(
                    depth, child, rollouts, accepted=place <= self._width, reason=f"place {place} in the beam so far"
                )
        if children:
            beam = [scored.candidate for scored in ranking]
            self._remember(ranking)
        if sample != self.everything:
            yield from self.judge_now(depth, beam[0])
        self.tell(depth, explored, children, beam)
        return beam

    def _remember(self, ranking: list[_Scored]) -> None:
        size = self.params["max_history_size"]
        self._kept = [*self._kept, *reversed(ranking)][-size:] if size else []

    def _history(self) -> str:
        """What prompts say of the states that were kept last; nothing where none is remembered."""
        if not self._kept:
            return ""
        better = "higher" if self.search.problem.direction == "maximize" else "lower"
        told = (
            f"The best values so far, oldest first, with their mean scores on validation examples ({better} is better):"
        )
        score = self.population.orientation.oriented
        lines = [json.dumps({"values": dict(k.candidate.state), "score": score(k.mean)}) for k in self._kept]
        return "\n".join([told, *lines])
