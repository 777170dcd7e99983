"""Runs candidates through the graph, and turns feedback into proposals with an optimizer.

Graph work is serial, under the graph's lock, and ends in a prompt of plain data. Proposals are made from prompts, on
any thread: what an optimizer does with a prompt depends on nothing but the prompt, the slot and the model's answers.
Whatever there is to tell of it is told in the order of slots.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Protocol

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Slot, State, StopTraining, TrainContext
from trace_bench.trainers.guides import DEFAULT_GUIDE
from trace_bench.trainers.judge import LLMJudge
from trace_bench.trainers.optimizer_graph import View, view_of
from trace_bench.trainers.optimizers import OPTIMIZER_INFOS, resolve_optimizer
from trace_bench.trainers.prompts import Ask, AskModel, Explored, Past, Prompt, Proposal, Seen, Told
from trace_bench.worker.evaluate import mean_score
from trace_bench.worker.graph import load
from trace_bench.worker.memo import Memo
from trace_bench.worker.minibatch_graph import MinibatchGraph, Traced
from trace_bench.worker.problem import Problem, Value

__all__ = ["Ask", "Explored", "Optimizer", "Past", "Prompt", "Proposer"]


class Optimizer(Protocol):
    """Turns feedback into a proposal. Made once for a search, from its arguments; it keeps nothing between calls."""

    def word(self, view: View) -> Prompt:
        """What the model is to be asked, as plain data. The graph is open, and its lock held."""

    def propose(self, prompt: Prompt, ask: AskModel, slot: Slot) -> Proposal:
        """Ask the model, once or several times, and read the answers. May run on any thread.

        Each call has a slot of its own: `slot` with another attempt number. A bad answer is an event of the proposal,
        and is not asked for again; errors of `ask` are passed on.
        """


class Proposer:
    """Runs candidates through the graph, and turns feedback into proposals.

    Args:
        num_threads: proposals asked for at a time. More of them overlap, and change nothing else.
        memo: what the search knows of its states; None for one of its own.

    Attributes:
        history: what was explored so far, in order; optimizers that learn from the whole search are shown of it.

    Raises:
        TrainerError: `TrainContext.optimizer` or its arguments cannot be taken, or trace-opt is missing.
    """

    def __init__(self, problem: Problem, context: TrainContext, num_threads: int = 1, memo: Memo | None = None) -> None:
        name, self._kwargs = resolve_optimizer(context.optimizer, context.optimizer_kwargs)
        load()
        module, _, made_by = OPTIMIZER_INFOS[name].entry.partition(":")
        self._optimizer: Optimizer = getattr(importlib.import_module(module), made_by)(self._kwargs)
        self._problem = problem
        self._context = context
        self._memo = Memo(context) if memo is None else memo
        self._num_threads = num_threads
        self._warned: set[tuple[str, str]] = set()
        self.history: list[Seen] = []
        self._judge = _judge(problem, context)

    def explore(
        self,
        state: Mapping[str, Value],
        indices: Sequence[int],
        past: Past = (),
        context: str = "",
        only: Collection[str] | None = None,
    ) -> Explored:
        """Run `state` on the training examples `indices`, send their feedback back once, and word the prompt.

        Args:
            context: what else the model is told, word for word, before it is asked for an answer; may be empty.
            only: names of the parameters that may change; the others are shown as inputs. None: all that are trainable.

        Raises:
            TrainerError: `only` names what is no trainable parameter.
            StopTraining: passed on.
            TaskError: the task's own code failed.
        """
        names = {p.name for p in self._problem.trainable}
        if only is not None and (unknown := sorted(set(only) - names)):
            raise TrainerError(f"{unknown[0]!r} is no trainable parameter; there are {', '.join(sorted(names))}.")
        told = Told(
            past=past,
            history=tuple(self.history),
            context=context,
            only=frozenset(names if only is None else only),
            objective=self._kwargs["objective"] or self._problem.objective,
        )
        outside = None
        if self._problem.agent is None:
            outside = self._memo.evaluate(state, list(indices), "train")
        with MinibatchGraph(self._problem, state, self._context.programs) as graph:
            traced = []
            if outside is not None:
                traced = [graph.evaluated(rollout) for rollout in outside]
            else:
                for index in indices:
                    self._context.check()
                    self._memo.count(state, index, "train")
                    traced.append(graph.run(self._problem.train[index]))
                    self._memo.keep(state, index, "train", traced[-1].rollout)
            if self._judge is not None:
                traced = [self._judged(self._judge, t, index, state) for t, index in zip(traced, indices, strict=True)]
            return Explored(tuple(t.rollout for t in traced), self._prompt(graph, traced, state, told))

    def _judged(self, judge: LLMJudge, traced: Traced, index: int, state: Mapping[str, Value]) -> Traced:
        """`traced` with the judge's words for feedback."""
        self._context.check()
        response = traced.target._data if self._problem.agent else state[self._problem.trainable[0].name]
        feedback = judge.feedback(self._problem.train[index], response, traced.rollout)
        return replace(traced, rollout=replace(traced.rollout, feedback=feedback))

    def _prompt(
        self, graph: MinibatchGraph, traced: Sequence[Traced], state: Mapping[str, Value], told: Told
    ) -> Prompt | None:
        view = view_of(graph, *graph.batch(traced), state, told)
        if not view.variables:
            return None
        score = mean_score([t.rollout for t in traced])
        better = score if self._problem.direction == "maximize" else -score
        values = {graph.parameters[p.name].py_name: state[p.name] for p in self._problem.trainable}
        self.history.append(Seen(values, view.feedback, better))
        return self._optimizer.word(view)

    def proposals(self, asks: Sequence[Ask]) -> Generator[State | None, None, None]:
        """The state that comes of each of `asks`, in order; None where nothing does, which an event explains.

        All calls are made before the first state is given, so that what had been spent when a child was recorded does
        not depend on the number of threads either.

        Raises:
            StopTraining: passed on, after the states that came before it. What has been yielded until then is the same
                for any number of threads, but for a budget that ends at another call.
        """
        if self._num_threads == 1:
            yield from self._given(_made(self.propose, asks))
            return
        executor = ThreadPoolExecutor(self._num_threads, thread_name_prefix="proposals")
        try:
            futures = [executor.submit(self.propose, ask) for ask in asks]
            done, left = wait(futures, return_when=FIRST_EXCEPTION)
            if all(isinstance(future.exception(), StopTraining | None) for future in done):
                wait(left)  # which calls a stop came before is part of the record; of a failure nothing is kept
            yield from self._given(futures)
        finally:
            executor.shutdown(cancel_futures=True)

    def _given(self, futures: Sequence[Future[Proposal]]) -> Generator[State | None, None, None]:
        for future in futures:
            self._context.check()
            yield self._told(future.result())

    def propose(self, ask: Ask) -> Proposal:
        """One proposal, whose events are not told yet; may run on any thread. Errors of calls are passed on."""
        return self._optimizer.propose(ask.prompt, self._ask, ask.slot)

    def _ask(
        self,
        messages: Sequence[Mapping[str, str]],
        slot: Slot,
        variables: Sequence[Mapping[str, Any]] = (),
        **request: Any,
    ) -> Mapping[str, Any]:
        self._memo.stall.asked()
        return self._context.chat([dict(m) for m in messages], slot=slot, variables=variables, **request)

    def _told(self, proposal: Proposal) -> State | None:
        """The state of `proposal`, once its events are told."""
        for kind, fields in proposal.events:
            self._context.event(kind, **fields)
            if kind == "proposal.rejected":
                self._warn(fields["variable"], fields["reason"])
        return proposal.state

    def _warn(self, name: str, why: str) -> None:
        """One warning for each variable is enough to look at the events."""
        kind = "bounds" if "bounds" in why else "type"
        known = {p.name for p in self._problem.trainable}
        if name in known and (name, kind) not in self._warned:
            self._warned.add((name, kind))
            self._context.warn(
                f"a proposed value of {name} was rejected: {why}. Further ones are events (proposal.rejected) only."
            )


def _judge(problem: Problem, context: TrainContext) -> LLMJudge | None:
    """Who words the feedback in place of the task's own guide; None if nobody does."""
    if context.guide == DEFAULT_GUIDE:
        return None
    return LLMJudge(problem, context.chat, context, context.guide_kwargs)


def _made(propose: Callable[[Ask], Proposal], asks: Sequence[Ask]) -> list[Future[Proposal]]:
    """What comes of `asks`, one after the other, up to the first error."""
    made: list[Future[Proposal]] = []
    for ask in asks:
        future: Future[Proposal] = Future()
        made.append(future)
        try:
            future.set_result(propose(ask))
        except Exception as error:
            future.set_exception(error)
            break
    return made
