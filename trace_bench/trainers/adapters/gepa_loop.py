"""The package gepa on one search: its adapter, its callbacks, and the model that reflects. See `gepa_package`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.trainers.adapters.bridge import Bridge
from trace_bench.trainers.adapters.foreign import Foreign, Unanswered
from trace_bench.trainers.adapters.imports import importing
from trace_bench.trainers.answers import Unusable
from trace_bench.trainers.base import Rollout, Search, Slot, State
from trace_bench.trainers.population import state_key
from trace_bench.worker.graph_nodes import clipped

with importing("gepa"):
    from gepa import optimize
    from gepa.core.adapter import EvaluationBatch
    from gepa.proposer.reflective_mutation.reflection_lm import ReflectionProposal, StatelessReflectionLM

TEMPLATE = """{objective}

{what} Its current value is:
```
<curr_param>
```

What came of it on some examples, with feedback:
```
<side_info>
```

Find a better value for `{name}`. Provide it, and nothing else, within ``` blocks."""


@dataclass(frozen=True)
class Item:
    """One example of a split, for the package an opaque thing.

    Attributes:
        judging: it is of the package's validation set, which may be the training set again.
    """

    split: str
    index: int
    judging: bool = False


class Items:
    """The package's data loader over examples, whose ids begin at `first`: its cache knows an example by its id alone,
    and would take a training example's score for that of the validation example with the same number."""

    def __init__(self, items: Sequence[Item], first: int = 0) -> None:
        self._items = dict(enumerate(items, first))

    def __len__(self) -> int:
        return len(self._items)

    def all_ids(self) -> list[int]:
        return list(self._items)

    def fetch(self, ids: Sequence[int]) -> list[Item]:
        return [self._items[i] for i in ids]


class Run:
    """Callable once, on the framework's thread: the whole search. It is the package's adapter, callback and logger."""

    propose_new_texts = None
    """The package reads it: an adapter may propose by itself, and this one does not."""

    def __init__(self, search: Search, bridge: Bridge) -> None:
        self._search = search
        self._foreign = Foreign(search, bridge)
        # A merge draws ancestors with their scores as weights, which have to be above zero.
        self._shift = 1.0 - self._foreign.failure if search.params["use_merge"] else 0.0
        self.iteration = 0
        self._names = ["seed"]
        """Of the pool's candidates, by the package's index."""
        self._parents: tuple[str, ...] = ()
        self._place = "p0"
        self._child: tuple[State, list[Rollout]] | None = None
        self._sums = {"parent": 0.0, "child": 0.0}
        self._merged: State = {}
        self._scored: dict[tuple[object, str], dict[int, Rollout]] = {}

    def __call__(self) -> State:
        search, params, foreign = self._search, self._search.params, self._foreign
        perfect = foreign.bounds[1] + self._shift if foreign.bounds is not None else None
        judges = [Item(search.selection, i, judging=True) for i in search.examples(search.selection)]
        names = ("candidate_selection_strategy", "reflection_minibatch_size", "module_selector", "use_merge",
                 "acceptance_criterion", "max_merge_invocations")  # fmt: skip
        result = optimize(
            seed_candidate=foreign.start,
            trainset=Items(
                [Item("train", i) for i in search.examples("train")],
                0 if search.selection == "train" else len(judges),
            ),
            valset=Items(judges),
            adapter=self,
            reflection_strategy=_Reflection(self, foreign),
            callbacks=[self],
            stop_callbacks=[lambda state: 0 < params["num_iters"] <= state.i + 1],
            max_metric_calls=params["max_metric_calls"] or None,
            merge_val_overlap_floor=min(5, len(judges)),
            skip_perfect_score=params["skip_perfect_score"] and perfect is not None,
            perfect_score=perfect,
            logger=self,
            seed=search.seed,
            **{name: params[name] for name in names},
        )
        return foreign.read(result.best_candidate)

    def log(self, message: str) -> None:
        """The package's logger."""
        if self._search.params["verbose"]:
            print(clipped(message, 400), flush=True)  # noqa: T201

    # The package's adapter.

    def evaluate(self, batch: Sequence[Item], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Scores of `candidate` on `batch`, higher is better."""
        foreign = self._foreign
        state = foreign.read(candidate)
        split = batch[0].split
        rollouts = foreign.evaluate(state, split, [item.index for item in batch])
        known = self._scored.setdefault((state_key(state), split), {})
        known.update((item.index, rollout) for item, rollout in zip(batch, rollouts, strict=True))
        if not batch[0].judging:
            self._child = (state, rollouts)
        scores = [foreign.score(rollout) + self._shift for rollout in rollouts]
        return EvaluationBatch(outputs=rollouts, scores=scores, trajectories=list(zip(batch, rollouts, strict=True)))

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """What the model is told of each example, for each parameter that it is to change."""
        found: dict[str, list[dict[str, Any]]] = {}
        for name in components_to_update:
            others = {other: clipped(text) for other, text in candidate.items() if other != name}
            found[name] = [self._record(item, rollout, others) for item, rollout in eval_batch.trajectories]
        return found

    def _record(self, item: Item, rollout: Rollout, others: Mapping[str, str]) -> dict[str, Any]:
        problem = self._search.problem
        query = getattr(problem, item.split)[item.index].query
        better = "higher" if problem.direction == "maximize" else "lower"
        record: dict[str, Any] = {} if query is None else {"Inputs": clipped(str(query))}
        if others:
            record["Other parameters"] = dict(others)
        record["Score"] = f"{rollout.score:.10g} ({better} is better)"
        record["Feedback"] = rollout.feedback
        return record

    # The package's callbacks.

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        self.iteration = event["iteration"]
        self._place = "p0"

    def on_candidate_selected(self, event: Mapping[str, Any]) -> None:
        self._parents = (self._names[event["candidate_idx"]],)

    def on_evaluation_end(self, event: Mapping[str, Any]) -> None:
        who = "child" if event["candidate_idx"] is None else "parent"
        self._sums[who] = sum(score - self._shift for score in event["scores"])

    def on_candidate_rejected(self, event: Mapping[str, Any]) -> None:
        assert self._child is not None, "what is rejected has been run"
        state, rollouts = self._child
        self._tell(self._parents, state, rollouts, "train", False, "no better than its parent on the minibatch")

    def on_merge_attempted(self, event: Mapping[str, Any]) -> None:
        self._place, self._merged = "merge", self._foreign.read(event["merged_candidate"])

    def on_merge_rejected(self, event: Mapping[str, Any]) -> None:
        state = self._merged
        rollouts = [r for _, r in sorted(self._scored[state_key(state), self._search.selection].items())]
        parents = [self._names[index] for index in event["parent_ids"]]
        self._tell(parents, state, rollouts, self._search.selection, False, "worse than its better parent")

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        if event["candidate_idx"] == 0:
            return  # the start, which is step 0
        parents = [self._names[index] for index in event["parent_ids"]]
        rollouts = [rollout for _, rollout in sorted(event["outputs_by_val_id"].items())]
        state = self._foreign.read(event["candidate"])
        why = "no worse than its parents" if self._place == "merge" else "good enough on the minibatch"
        name = self._tell(parents, state, rollouts, self._search.selection, True, why)
        self._names.append(name)

    def _tell(
        self,
        parents: Sequence[str],
        state: State,
        rollouts: Sequence[Rollout],
        split: str,
        accepted: bool,
        reason: str,
    ) -> str:
        name = f"s{self.iteration}.{self._place}"
        sums = {f"minibatch_{of}": total for of, total in self._sums.items()} if self._place != "merge" else {}
        self._foreign.tell(self.iteration, name, parents, state, rollouts, split, accepted, reason, **sums)
        return name


class _Reflection(StatelessReflectionLM):  # type: ignore[misc]
    """Asks for each parameter by itself, and proposes usable values only: what is unusable is an event."""

    def __init__(self, run: Run, foreign: Foreign) -> None:
        self._run, self._foreign = run, foreign
        self._calls = 0
        problem = foreign.search.problem
        templates = {
            p.name: TEMPLATE.format(objective=problem.objective, what=foreign.describe(p.name), name=p.name)
            for p in problem.trainable
            if p.kind != "text"
        }
        super().__init__(self._answer, templates)

    def reflect_many(self, jobs: list[Any]) -> list[Any]:
        return [(self._propose(*job), self) for job in jobs]

    def _propose(self, candidate: dict[str, str], dataset: Any, names: list[str]) -> Any:
        proposal = ReflectionProposal({})
        for name in names:
            slot = Slot(self._run.iteration, name)
            self._slot = slot
            try:
                ((one, _),) = super().reflect_many([(candidate, dataset, [name])])
                value = self._foreign.value(name, one.new_texts[name])
            except Unanswered:
                continue
            except Unusable as why:
                self._foreign.rejected(slot, why)
                self._foreign.unusable(slot, why)
                continue
            proposal.new_texts[name] = self._foreign.texts({name: value})[name]
        return proposal

    def _answer(self, prompt: str) -> str:
        limit = self._foreign.search.params["max_tokens"]
        request = {"max_tokens": limit} if limit else {}
        return self._foreign.ask([{"role": "user", "content": prompt}], self._slot, **request)
