"""The benchmark of many sandboxes: its bound holds for every order, and it comes to its end."""

from __future__ import annotations

import importlib.util
import itertools
import random
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "perf"


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bounds", FOLDER / "bounds.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    return found


def best(bounds: Any, jobs: list[float], starts: list[Any], limits: Any) -> float:
    """The earliest end over all orders of the jobs."""
    return min(bounds.schedule(order, starts, limits) for order in itertools.permutations(jobs))


def test_no_order_of_the_jobs_is_over_before_the_bound(bounds: Any) -> None:
    rng = random.Random(0)
    met = 0
    for _ in range(300):
        jobs = [rng.choice([0.0, 1.0, 2.5, 7.0, 20.0]) for _ in range(rng.randint(1, 5))]
        starts = [bounds.Start(rng.choice([0.1, 0.6, 4.0]), rng.random() < 0.25) for _ in range(40)]
        limits = bounds.Limits(rng.choice([0.5, 2.0, 5.0]), rng.randint(1, 6), rng.randint(1, 4))
        bound = bounds.lower_bound(jobs, starts, limits)
        earliest = best(bounds, jobs, starts, limits)
        assert bound.seconds <= earliest + 1e-9, (jobs, starts, limits)
        met += bound.seconds > 0.95 * earliest
    assert met > 60, "and it is no loose one"


def test_where_creations_alone_limit_the_longest_first_reach_the_bound(bounds: Any) -> None:
    rng = random.Random(1)
    for _ in range(50):
        jobs = [rng.uniform(0.0, 10.0) for _ in range(5)]
        starts = [bounds.Start(0.5, False)] * 5
        limits = bounds.Limits(2.0, 100, 100)
        longest_first = bounds.schedule(sorted(jobs, reverse=True), starts, limits)
        bound = bounds.lower_bound(jobs, starts, limits)
        assert bound.binds in ("creations", "longest")
        assert bound.seconds == pytest.approx(longest_first) == pytest.approx(best(bounds, jobs, starts, limits))


def test_each_limit_is_reckoned_as_by_hand(bounds: Any) -> None:
    quick, slow, failing = bounds.Start(0.5, False), bounds.Start(2.0, False), bounds.Start(1.0, True)
    lone = bounds.Limits(1.0, 100, 100)
    # Created at 0, 1 and 2 s, of which the second fails: the second job is created at 2 s.
    assert bounds.lower_bound([3.0, 3.0], [quick, failing, quick], lone) == (5.5, 0.08, 0.02, 3.5, 3)
    assert bounds.schedule([3.0, 3.0], [quick, failing, quick], lone) == 5.5
    # One sandbox at a time: its seconds one after the other, those that fail among them.
    single = bounds.Limits(100.0, 1, 100)
    assert bounds.lower_bound([3.0, 3.0], [quick, failing, slow], single).sandboxes == 9.5
    assert bounds.schedule([3.0, 3.0], [quick, failing, slow], single) == 9.5
    # One start at a time.
    narrow = bounds.Limits(100.0, 100, 1)
    assert (
        bounds.lower_bound([0.0] * 3, [slow] * 3, narrow).seconds
        == 6.0
        == bounds.schedule([0.0] * 3, [slow] * 3, narrow)
    )
    with pytest.raises(ValueError, match="2 jobs need more"):
        bounds.needed(2, [quick, failing])


@pytest.mark.slow
def test_it_runs_and_what_it_says_adds_up() -> None:
    command = [
        sys.executable,
        str(FOLDER / "scale.py"),
        "--jobs",
        "20",
        "--speedup",
        "20",
        "--seed",
        "3",
        "--only",
        "modal",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    said = done.stdout
    assert number(said, "jobs that are ok") == 20 and "20 of 20" in said
    assert number(said, "makespan") >= number(said, "bound")
    assert number(said, "the same jobs in the order given, at no cost") >= number(said, "bound") - 0.05
    assert number(said, "controller, processor time") > 0
    assert said.count("threads") == 4
    needed = re.search(r"([\d,]+) creations \((\d+) fail", said)
    assert needed is not None and int(needed[1]) == 20 + int(needed[2]) == number(said, "creations")
    assert number(said, "  SandboxTerminateV2") >= 1.0 > number(said, "calls of the service") - 20


def number(text: str, what: str) -> float:
    """The first number after the words `what` at the beginning of a line."""
    found = re.search(rf"^{re.escape(what)} +([\d.,]+)", text, re.MULTILINE)
    assert found is not None, (what, text)
    return float(found[1].replace(",", ""))
