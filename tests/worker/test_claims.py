"""What training says that a state scores is handed over beside what the scorer finds, of all three states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.worker.support import run
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.records.integrity import integrity_report

STEPS = """
class Trainer(Trainer):
    def train(self, problem, params, context):
        for i, (x, examples) in enumerate(WALK):
            state = {"x": x}
            rollouts = context.evaluate(state, examples, "train")
            record(context, step=i, candidate=f"c{i}", parent=None, state=state, rollouts=rollouts, split="train")
        return {"x": WALK[-1][0]}
"""


def claims(folder: Path, walk: list[tuple[float, list[int]]], code: str = STEPS) -> dict[str, Any]:
    got = run(folder, code.replace("WALK", repr(walk)))
    assert got.result is not None and got.result["status"] == "ok", got.result
    report = integrity_report(WorkerResult.model_validate(got.result))
    assert report.flags == () and set(report.found) == set(report.claims)
    assert all(report.claims[kind].score == report.found[kind] for kind in report.found)
    return {kind: (claim.score, claim.split, len(claim.examples)) for kind, claim in report.claims.items()}


def test_each_state_has_the_claim_that_was_made_of_it(tmp_path: Path) -> None:
    assert claims(tmp_path, [(0.0, [0]), (3.0, [0, 0]), (1.0, [0])]) == {
        "initial": (-3.0, "train", 1),
        "best": (0.0, "train", 2),
        "final": (-2.0, "train", 1),
    }


def test_a_state_that_training_never_tried_has_none(tmp_path: Path) -> None:
    assert set(claims(tmp_path, [(2.0, [0])])) == {"best", "final"}


def test_the_first_claim_of_the_initial_state_stays(tmp_path: Path) -> None:
    assert claims(tmp_path, [(0.0, [0]), (0.0, [0, 0, 0])])["initial"] == (-3.0, "train", 1)


def test_the_claim_of_the_initial_state_outlives_a_trainer_that_is_killed(tmp_path: Path) -> None:
    code = STEPS.replace('        return {"x"', '        import os; os.kill(os.getpid(), 9)\n        return {"x"')
    got = run(tmp_path, code.replace("WALK", "[(0.0, [0])]"))
    assert got.result is not None and got.result["status"] == "failed"
    assert set(got.result["integrity"]["claims"]) == {"initial", "best"}


def test_a_trainer_that_lies_is_found_out(tmp_path: Path) -> None:
    more = """
            import dataclasses
            lie = [dataclasses.replace(rollout, score=rollout.score + 1) for rollout in rollouts]
            record(context, step=i, candidate="liar", parent=None, state=state, rollouts=lie, split="train")
        return"""
    code = STEPS.replace("\n        return", more)
    got = run(tmp_path, code.replace("WALK", "[(1.0, [0])]"))
    assert got.result is not None
    result = WorkerResult.model_validate(got.result)
    assert integrity_report(result).flags == ("claim_differs",)
    assert result.scores.best is not None and result.scores.best.train == -2.0, "it is the scorer's"
