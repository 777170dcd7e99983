"""What every backend must do, as checks that anybody can run on a backend of their own.

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
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox.conformance import files, finding, life, limits, streams, trouble
from trace_bench.sandbox.conformance.lab import Check, Lab

__all__ = ["CHECKS", "Check", "Lab", "Outcome", "examine"]


def _all() -> Iterator[Check]:
    modules = (limits, streams, life, files, finding, trouble)
    listed: Iterable[Check | Callable[[Lab], None]]
    for listed in (module.CHECKS for module in modules):
        for check in listed:
            yield check if isinstance(check, Check) else Check(check)


CHECKS: tuple[Check, ...] = tuple(_all())


@dataclass(frozen=True)
class Outcome:
    """What one check came to; `detail` is the reason where it did not pass."""

    check: str
    state: Literal["passed", "failed", "skipped"]
    detail: str = ""


def examine(lab: Lab, checks: Iterable[Check] = CHECKS) -> Iterator[Outcome]:
    """Run `checks` one after another; what they leave is removed at the end.

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
                yield Outcome(check.name, "failed", _told(error))
            else:
                yield Outcome(check.name, "passed")
    finally:
        lab.sweep()


def _told(error: Exception) -> str:
    """The error, or the assertion that has no words of its own, in one line with its place."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(str(error).split()) or (place.line or "")
    return f"{type(error).__name__}: {words} ({place.name}, line {place.lineno})"
