"""Trainers of a real checkout of OpenTrace, which OPENTRACE names, on one problem in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = os.environ.get("OPENTRACE", "")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="OPENTRACE names no checkout of OpenTrace")

OURS = """
import sys
sys.path[:0] = [path for path in sys.argv[1:3] if path]
from tests.trainers.memory_context import MemoryContext, numeric, seeded
from trace_bench.trainers.registry import load_trainer
import opto

context = MemoryContext(numeric(train=3, validate=2), None, seeded(1))
context.search(load_trainer(sys.argv[3]))
print(opto.__file__.startswith(sys.argv[1] or "?"), [(step.state, step.score) for step in context.steps])
"""

RUN = """
import sys
sys.path[:0] = sys.argv[1:3]
from tests.trainers.memory_context import MemoryContext, numeric, seeded
from trace_bench.trainers.base import Budget
from trace_bench.trainers.registry import load_trainer

trainer = load_trainer("opto:" + sys.argv[3])
bounds = {p.name: 2 for p in trainer.params if p.name in ("num_epochs", "num_search_iterations", "num_iters")}
context = MemoryContext(numeric(train=2, validate=2), None, seeded(1), budget=Budget())
context.search(trainer, **bounds)
print([step.state for step in context.steps], context.evaluations, context.stop_reason)
"""


def ran(name: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", RUN, CHECKOUT, root, name]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def last_line(name: str) -> str:
    done = ran(name)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


RUNNING = ["BasicSearchAlgorithm", "BeamsearchAlgorithm", "BeamsearchHistoryAlgorithm", "GEPAAlgorithmBase",
           "GEPABeamPareto", "GEPAUCBSearch", "MinibatchAlgorithm", "ParetobasedPS", "PrioritySearch",
           "UCBSearchAlgorithm"]  # fmt: skip


@pytest.mark.parametrize("name", RUNNING)
def test_it_runs_and_gives_the_same_steps_again(name: str) -> None:
    first = last_line(name)
    assert first.endswith("completed") and first.count("'x'") > 1
    assert last_line(name) == first


def test_an_abstract_one_is_refused_with_the_reason() -> None:
    assert "it is abstract (no forward of its own)" in ran("Minibatch").stderr


@pytest.mark.parametrize("name", ["PrioritySearch", "GEPA-Base", "UCBSearch", "Minibatch"])
def test_our_own_trainers_search_alike_where_opentrace_is_installed(name: str) -> None:
    root = str(Path(__file__).parents[2])
    lines = []
    for checkout in (CHECKOUT, ""):
        command = [sys.executable, "-c", OURS, checkout, root, name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.splitlines()[-1].partition(" "))
    assert [used for used, _, _ in lines] == ["True", "False"]
    assert lines[0][2] == lines[1][2] and lines[0][2].count("'x'") > 2
