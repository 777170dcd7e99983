"""A job whose states are given is scored, and nothing is trained: a scorer as fresh as ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import run
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.worker.reports import given_states

TRAINS = """
class Trainer(Trainer):
    def train(self, problem, params, context):
        raise AssertionError("nothing is to be trained")

def build(context):
    held_out = ["h"] if context.test_seed is not None else []
    guide = lambda query, response, reference: (-abs(float(response) - 3.0), "off")
    return problem(guide, test=examples(held_out))
"""


def given(states: dict[str, Any]) -> dict[str, Any]:
    return {"over": {"states_given": True}, "states": json.dumps(states).encode()}


def test_the_states_that_are_given_are_scored_and_nothing_is_trained(tmp_path: Path) -> None:
    states = {"initial": {"x": 0.5}, "best": {"x": 2.0}, "final": {"x": 4.0}}
    got = run(tmp_path, TRAINS, **given(states))
    assert got.result is not None, got.stderr
    result = WorkerResult.model_validate(got.result)
    assert result.status == "ok" and result.stop_reason is None and result.evaluations == 0
    scores = result.scores
    assert scores.initial and scores.best and scores.final
    assert (scores.initial.train, scores.best.train, scores.final.train) == (-2.5, -1.0, -1.0)
    assert scores.best.test == -1.0, "the held-out seed is there while it is scored"
    assert got.states == {"initial": {"x": 0.0}, "best": {"x": 2.0}, "final": {"x": 4.0}}, "the start as it is built"
    assert {line.get("phase") for line in got.events if line["event"] == "phase.start"} == {"build", "score"}
    assert got.history == []


@pytest.mark.parametrize(("state", "kind"), [({"y": 1.0}, "bad_state"), ({"x": "one"}, "bad_state"), ({}, "bad_state")])
def test_a_state_that_is_none_of_the_problem_fails_the_job(tmp_path: Path, state: dict[str, Any], kind: str) -> None:
    got = run(tmp_path, TRAINS, **given({"best": state}))
    assert got.result is not None and got.result["failure"]["kind"] == kind


def test_states_come_off_the_end_of_the_message() -> None:
    states = b'{"best":{"x":1.0}}'
    assert given_states({"states_bytes": len(states)}, b"task" + states) == (b"task", {"best": {"x": 1.0}})
    assert given_states({}, b"task") == (b"task", {})
    for wrong in (b'{"worst":{"x":1.0}}', b'{"best":[1]}', b'{"best":{"x":true}}', b"[]"):
        with pytest.raises(ValueError, match="state"):
            given_states({"states_bytes": len(wrong)}, wrong)
