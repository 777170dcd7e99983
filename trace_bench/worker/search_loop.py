"""Run a trainer: score its start, record each step, and stop it in order. All trainers run in this loop.

A trainer is a generator of steps (`training.Trainer.search`). What it calls in between (evaluations, model calls)
raises `StopTraining` once a budget is used up or a stop was asked for; what it has yielded until then counts.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from trace_bench.errors import TrainerError
from trace_bench.worker.answer_text import READER
from trace_bench.worker.memo import Memo
from trace_bench.worker.problem import Problem
from trace_bench.worker.stall import Stall, Stalled
from trace_bench.worker.training import (
    ChatModel,
    Search,
    State,
    Step,
    StopTraining,
    TrainContext,
    Trainer,
    is_endless,
    selection_of,
)

PROPOSER = "trace_bench.trainers.proposer"
"""Where `Proposer` is, by name: the worker runs trainers and optimizers without knowing any."""


def run_search(
    trainer: Trainer, problem: Problem, params: Mapping[str, Any], context: TrainContext
) -> tuple[State, str]:
    """Run `trainer` to its end: its final state, and why it ended (``completed`` or the reason of `StopTraining`).

    A search that is stopped ends with the best state it has recorded.

    Raises:
        TrainerError: nothing to change or to learn from; or from the trainer. PhaseFailure, TaskError: passed on.
    """
    try:
        known = getattr(trainer, "params", ())
        params = {**{p.name: p.default for p in known if p.later}, **params}
        stall = Stall(is_endless(known, params))
        memo = Memo(context, stall=stall)
        start = _start(problem, context, memo)
        proposer = None
        if trainer.uses_graph:
            threads = params.get("num_threads", 1)
            proposer = importlib.import_module(PROPOSER).Proposer(problem, context, threads, memo)
        search = Search(
            problem=problem,
            params=params,
            seed=context.seed,
            budget=context.budget,
            start=start,
            evaluate=memo.evaluate,
            proposer=proposer,
            chat=_watched(context.chat, stall),
            embed=context.embed,
            log=context,
            programs=context.programs,
            extra_dir=context.extra_dir,
            knows=memo.knows,
            endless=stall.endless,
            reader=getattr(context, "reader", READER),  # contexts in tests of other packages have none
        )
        steps = trainer.search(search)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return (dict(context.best_state) if end.value is None else end.value), "completed"
            context.record(step)
    except Stalled as stop:
        context.event("search.stalled", calls=stall.calls, requests=stall.requests)
        return dict(context.best_state), stop.reason
    except StopTraining as stop:
        return dict(context.best_state), stop.reason


def _watched(chat: ChatModel, stall: Stall) -> ChatModel:
    """`chat`, for the search's own thread: each call is counted by `stall`, which may end the search before it."""

    def watched(messages: list[dict[str, str]], **request: Any) -> dict[str, Any]:
        stall.check()
        stall.asked()
        return chat(messages, **request)

    return watched


def _start(problem: Problem, context: TrainContext, memo: Memo) -> Step:
    """Score the initial state on all examples of the selection split, and record it."""
    if not problem.trainable:
        raise TrainerError("a search needs a trainable parameter, and this problem has none.")
    if not problem.train:
        raise TrainerError("a search needs training examples, and this problem has none.")
    split = selection_of(problem)
    state = problem.initial_state()
    rollouts = memo.evaluate(state, range(len(getattr(problem, split))), split)
    start = Step(0, "seed", (), state, tuple(rollouts), split, reason="start")
    context.record(start)
    return start
