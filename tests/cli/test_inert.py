"""What the stub model could change nothing of is said below the leaderboard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from trace_bench.cli.outcome import inert_sentence


def rows(*inert: tuple[str, bool]) -> Any:
    return [SimpleNamespace(trainer_id=name, stub_inert=is_inert) for name, is_inert in inert]


def test_trainers_and_jobs_are_named() -> None:
    assert inert_sentence(rows(("NoOp", False), ("PrioritySearch", False))) == ""
    one = inert_sentence(rows(("GEPATrainer", True), ("NoOp", False)))
    assert one.startswith("The stub model is inert for GEPATrainer: the scores of 1 job say")
    assert "inert for A, B: the scores of 3 jobs" in inert_sentence(rows(("B", True), ("A", True), ("A", True)))
