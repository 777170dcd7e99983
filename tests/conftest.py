"""How much the tests try, and what they say at the end: which groups ran. They fail if a group that was required did
not."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.recorded import copied, recorded, recorded_result
from tests.small import small

__all__ = ["copied", "recorded", "recorded_result", "small"]

# A machine that is busy draws examples slowly; that says nothing about the code.
for name, examples in (("default", 12), ("full", 150)):
    settings.register_profile(name, deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

GROUPS = ("docker", "modal", "gpu", "lean", "slow")
_ran: Counter[str] = Counter()
_skipped: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trace-bench")
    group.addoption("--full", action="store_true", help="try more examples of each property")


def pytest_collection_finish() -> None:
    """Leave what was imported out of the looks for garbage that follow: a twentieth of the time."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full"):
        settings.load_profile("full")
    # A shell that runs the tests in the background has them, and all that they start, ignore Ctrl-C; nohup a hang-up.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    for group in GROUPS:
        if item.get_closest_marker(group) is None:
            continue
        if report.skipped and report.when in ("setup", "call"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            _skipped[group][reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            _ran[group] += 1
    return report


def _lost() -> list[str]:
    """Required groups of which nothing ran, or of which tests were skipped for want of what they need."""
    required = [g for g in os.environ.get("TRACE_BENCH_REQUIRE", "").split(",") if g]
    return [g for g in required if not _ran[g] or any("no engine" in reason.lower() for reason in _skipped[g])]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("groups")
    for group in GROUPS:
        skipped = sum(_skipped[group].values())
        terminalreporter.line(f"{group:8} {_ran[group]} ran, {skipped} skipped")
        for reason, count in _skipped[group].items():
            terminalreporter.line(f"         {count} x {reason}")
    for group in _lost():
        terminalreporter.line(f"REQUIRED BUT NOT RUN: {group}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _lost() and not session.config.option.collectonly:
        session.exitstatus = 1
