"""Evaluates the start and changes nothing: the baseline of any search, and a check of the task."""

from __future__ import annotations

from collections.abc import Generator

from trace_bench.trainers.base import Param, Search, State, Step


class NoOp:
    """Evaluates the start once, as before any search: on the validation split, or on the training split of a task
    without validation data. It is recorded as step 0, candidate `seed`, and returned unchanged. This is the baseline
    that a search has to beat, and the cheapest check that a task builds and scores.
    """

    name = "NoOp"
    summary = "Evaluates the initial state and returns it unchanged."
    source = "none: the baseline"
    params: tuple[Param, ...] = ()
    uses_llm = False
    uses_graph = False

    def search(self, search: Search) -> Generator[Step, None, State]:
        """The loop has recorded the start already."""
        yield from ()
        return dict(search.start.state)
