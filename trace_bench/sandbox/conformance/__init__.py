"""Checks of what every backend must do, which can be run on any backend.

With pytest, one test a check::

    pytest.register_assert_rewrite("trace_bench.sandbox.conformance")
    from trace_bench.sandbox.conformance import CHECKS, Lab

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_mine(check):
        lab = Lab(MyBackend(), "my-image-with-python3")
        if reason := check.lacking(lab):
            pytest.skip(reason)
        check.run(lab)

or ``trace-bench doctor --conformance --backend mine --image my-image-with-python3``. The checks are assertions: they
mean nothing under ``python -O``, which is refused.

A check is a public function of a module of this package that takes a `Lab` and nothing else. Its name is the rule.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox.conformance import files, finding, life, limits, streams, trouble
from trace_bench.sandbox.conformance.lab import Check, Lab

__all__ = ["CHECKS", "Check", "Lab", "Outcome", "examine"]


def _all() -> Iterator[Check]:
    for module in (limits, streams, life, files, finding, trouble):
        for name, value in vars(module).items():
            if isinstance(value, Check):  # of `lab.needs`
                yield value
            elif inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                yield from [Check(value)] if list(inspect.signature(value).parameters) == ["lab"] else []


CHECKS: tuple[Check, ...] = tuple(_all())


@dataclass(frozen=True)
class Outcome:
    """The result of one check; `detail` is the reason if it did not pass."""

    check: str
    state: Literal["passed", "failed", "skipped"]
    detail: str = ""


def examine(lab: Lab, checks: Iterable[Check] = CHECKS) -> Iterator[Outcome]:
    """Run `checks` one after another, then remove what they have left.

    Raises:
        EnvironmentUnavailable: assertions are turned off.
    """
    if not __debug__:
        raise EnvironmentUnavailable("under python -O the checks check nothing; run them without -O.")
    try:
        for check in checks:
            reason = check.lacking(lab)
            if reason is not None:
                yield Outcome(check.name, "skipped", reason)
                continue
            try:
                check.run(lab)
            except Exception as error:
                yield Outcome(check.name, "failed", _in_one_line(error))
            else:
                yield Outcome(check.name, "passed")
    finally:
        lab.sweep()


def _in_one_line(error: Exception) -> str:
    """The error with its place, in one line. An assertion without a message is shown as its source line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(str(error).split()) or (place.line or "")
    return f"{type(error).__name__}: {words} ({place.name}, line {place.lineno})"
