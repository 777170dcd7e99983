"""Where training was ended is written down without a clock, and a replay ends at the same place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.worker.host import Outcome, WorkerProcess
from tests.worker.support import run
from trace_bench.artifacts.contract import StopPoint
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.worker.control_stream import Message

STEPS = """
class Trainer(Trainer):
    def train(self, problem, params, context):
        i = 0
        while True:
            state = {"x": float(i % 7)}
            rollouts = context.evaluate(state, [0], "train")
            record(context, step=i, candidate=f"c{i}", parent=None, state=state, rollouts=rollouts, split="train")
            i += 1
            PAUSE
"""
HANGS = STEPS.replace("PAUSE", "time.sleep(60 if i == 3 else 0)")


def replayed(folder: Path, code: str, place: dict[str, Any], **options: Any) -> Outcome:
    """The same job in mode replay, in which limits on time are there and do not count."""
    return run(folder, code, over={"mode": "replay", "stop_at": place}, timeout=40, **options)


def place_of(got: Outcome) -> dict[str, Any]:
    assert got.result is not None, got.stderr
    WorkerResult.model_validate(got.result)
    place = got.result["stop_point"]
    StopPoint.model_validate(place)
    assert isinstance(place, dict)
    return place


def timeless(got: Outcome) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in got.history]


def assert_same_end(first: Outcome, again: Outcome) -> None:
    assert first.result is not None and again.result is not None, again.stderr
    for key in ("status", "stop_reason", "stop_point", "scores", "evaluations", "llm_calls"):
        assert again.result[key] == first.result[key], key
    assert (first.result["failure"] or {}).get("kind") == (again.result["failure"] or {}).get("kind")
    assert timeless(again) == timeless(first)
    assert again.states == first.states


def test_a_job_that_came_to_its_end_has_no_stop_point(tmp_path: Path) -> None:
    got = run(tmp_path)
    assert got.result is not None and got.result["stop_point"] is None


def test_a_timeout_that_the_trainer_heard_is_replayed_without_a_clock(tmp_path: Path) -> None:
    code = STEPS.replace("PAUSE", "time.sleep(0.02)")
    first = run(tmp_path, code, limits={"job_timeout": 0.5})
    place = place_of(first)
    assert place["reason"] == "timeout" and not place["killed"]
    assert len(first.history) <= place["checks"] <= 2 * len(first.history)
    quick = STEPS.replace("PAUSE", "pass")
    assert_same_end(first, replayed(tmp_path, quick, place, limits={"job_timeout": 0.0001}))


def test_a_budget_of_seconds_ends_a_replay_at_the_same_place(tmp_path: Path) -> None:
    first = run(tmp_path, STEPS.replace("PAUSE", "time.sleep(0.02)"), over={"budget": {"seconds": 0.4}})
    assert place_of(first)["reason"] == "budget" and first.result and first.result["status"] == "ok"
    assert_same_end(first, replayed(tmp_path, STEPS.replace("PAUSE", "time.sleep(0.01)"), place_of(first)))


def test_an_interruption_is_replayed_at_the_same_place(tmp_path: Path) -> None:
    def stop(worker: WorkerProcess, message: Message) -> None:
        if message.type == "history" and message.header["line"]["step"] == 5:
            worker.send(worker.mailbox.pack("stop", {"reason": "interrupted"}))

    first = run(tmp_path, STEPS.replace("PAUSE", "time.sleep(0.02)"), on_message=stop)
    assert place_of(first)["reason"] == "interrupted"
    assert_same_end(first, replayed(tmp_path, STEPS.replace("PAUSE", "pass"), place_of(first)))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A job whose training did not listen, and was killed."""
    return run(tmp_path_factory.mktemp("killed"), HANGS, limits={"job_timeout": 0.5}, timeout=40)


def test_training_that_did_not_listen_and_was_killed_is_killed_there_again(tmp_path: Path, killed: Outcome) -> None:
    place = place_of(killed)
    assert place == {"reason": "timeout", "checks": 6, "calls": 0, "killed": True}
    assert "final" not in killed.states
    assert_same_end(killed, replayed(tmp_path, HANGS, place, limits={"job_timeout": 0.5}))


def test_a_killed_trainer_that_is_quicker_now_goes_no_further(tmp_path: Path, killed: Outcome) -> None:
    assert_same_end(killed, replayed(tmp_path, STEPS.replace("PAUSE", "pass"), place_of(killed)))


def test_a_call_under_way_when_training_was_killed_is_made_again(tmp_path: Path) -> None:
    code = """
    class Trainer(Trainer):
        def train(self, problem, params, context):
            context.chat([{"role": "user", "content": "one"}], slot=Slot(0, "a"))
            context.chat([{"role": "user", "content": "two"}], slot=Slot(1, "a"))
            time.sleep(60)
    """

    def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
        return 200, b'{"choices": []}', {}

    first = run(tmp_path, code, limits={"job_timeout": 0.5}, timeout=40, answer=answer)
    assert place_of(first) == {"reason": "timeout", "checks": 2, "calls": 2, "killed": True}
    again = replayed(tmp_path, code, place_of(first), answer=answer)
    assert_same_end(first, again)
    assert len(again.requests) == 2


def test_a_call_that_training_was_ended_at_ends_a_replay_there(tmp_path: Path) -> None:
    """The gateway says so of calls that the recording does not hold, as training had been ended."""
    code = """
    class Trainer(Trainer):
        def train(self, problem, params, context):
            context.chat([{"role": "user", "content": "one"}], slot=Slot(0, "a"))
            return {"x": 5.0}
    """

    def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
        return 429, b'{"error": {"code": "training_stopped"}}', {}

    place = {"reason": "interrupted", "checks": 9, "calls": 0, "killed": False}
    got = replayed(tmp_path, code, place, answer=answer)
    assert got.result is not None and got.result["stop_reason"] == "interrupted"
    assert got.states["final"] == {"x": 0.0}
