"""Reports how far an evaluation of many examples is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trace_bench.worker.evaluate import mean_score
from trace_bench.worker.phases import Link
from trace_bench.worker.training import Rollout

EVENT = "evaluation"
_LINES = 10
"""Events of one evaluation, at most."""


class Progress:
    """Sends an event with the number of examples and their mean score each time that another tenth is done.

    Args:
        state: which state it is; empty in training.
        check: called between rounds; it may raise to end the evaluation.
    """

    def __init__(self, link: Link, split: str, state: str = "", check: Callable[[], None] | None = None) -> None:
        self._link = link
        self._fields = {"split": split, **({"state": state} if state else {})}
        self._check = check
        self._said = 0

    def __call__(self, found: Sequence[Rollout], number: int) -> None:
        if self._check is not None:
            self._check()
        done = _LINES * len(found) // number
        if found and done > self._said:
            self._said = done
            mean = mean_score(found)
            self._link.send(
                "event", kind=EVENT, fields={**self._fields, "evaluated": len(found), "of": number, "mean": mean}
            )
