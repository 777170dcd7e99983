"""How much the tests try, and what they say at the end: which groups ran. They fail if a group that was required did
not."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.recorded import copied, recorded, recorded_result
from tests.small import small
from tests.thinning import INVARIANTS
from tests.unflushed import flush_nothing

__all__ = ["copied", "recorded", "recorded_result", "small"]

# A machine that is busy draws examples slowly; that says nothing about the code.
settings.register_profile("trace-bench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trace-bench")

GROUPS = ("docker", "modal", "gpu", "lean", "slow")
LEAST, PART = 6, 5
"""Without --full, properties are tried on one example in `PART`, and on `LEAST` at least."""
ROW, SHARE = 4, 3
"""Without --full, one in `SHARE` of a row of `ROW` or more parameters is tried. The others are slow, as are those that
the row marks itself, if it does. Not so in `tests.thinning.INVARIANTS`."""
_ran: Counter[str] = Counter()
_skipped: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trace-bench")
    group.addoption(
        "--full", action="store_true", help="try properties on all examples, and every task on all instances"
    )
    group.addoption("--at-most", type=float, metavar="SECONDS", help="skip the tests that do not begin in this time")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    rows: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.relative_to(config.rootpath).as_posix() not in INVARIANTS:
            rows[item.nodeid.partition("[")[0]].append(item)
    for row in rows.values():
        if len(row) >= ROW and not any(item.get_closest_marker("slow") for item in row):
            for number, item in enumerate(row):
                if number % SHARE:
                    item.add_marker(pytest.mark.slow)
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > LEAST:
            test._hypothesis_internal_use_settings = settings(own, max_examples=max(LEAST, own.max_examples // PART))


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """True under --full: a test that goes through very many cases takes all of them then, and else one in a few."""
    return bool(request.config.getoption("--full"))


def pytest_collection_finish() -> None:
    """Leave what was imported out of the looks for garbage that follow: a twentieth of the time."""
    gc.collect()
    gc.freeze()


_began = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    limit = item.config.getoption("--at-most")
    if limit is not None and time.monotonic() - _began > limit:
        pytest.skip(f"did not begin within the {limit:g} seconds of --at-most")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--full"):
        flush_nothing()
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
