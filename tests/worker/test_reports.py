"""What a phase reports is checked before anything is done with it."""

from __future__ import annotations

from typing import Any

import pytest

from trace_bench.worker import reports


@pytest.mark.parametrize("kind", ["train.end", "job.end", "failure", "score", "", "x" * 101, None, 5, ["a"]])
def test_a_trainer_cannot_send_the_supervisors_or_the_scorers_events(kind: object) -> None:
    with pytest.raises(ValueError, match="event"):
        reports.event_kind("train", kind)


def test_other_events_are_a_phases_own() -> None:
    assert reports.event_kind("train", "proposal.rejected") == "proposal.rejected"
    assert reports.event_kind("score", "score") == "score"


@pytest.mark.parametrize(
    "values",
    [None, [], {"x": None}, {"x": True}, {"x": [1]}, {"x": float("nan")}, {"x": float("inf")}, {"x": "\ud800"},
     {"x": "y" * 1000}],
)  # fmt: skip
def test_a_state_holds_text_and_finite_numbers_of_a_bounded_size(values: object) -> None:
    with pytest.raises(ValueError, match="state"):
        reports.state(values, 1000)


@pytest.mark.parametrize(
    "message",
    [{}, {"evaluations": "many", "stop_reason": "completed"}, {"evaluations": -1, "stop_reason": "completed"},
     {"evaluations": float("inf"), "stop_reason": "completed"}, {"evaluations": True, "stop_reason": "completed"},
     {"evaluations": 1, "stop_reason": {"a": 1}}, {"evaluations": 1, "stop_reason": "bored"}, {"evaluations": 1}],
)  # fmt: skip
def test_an_odd_result_of_training_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        reports.result("train", message, 1000)


def test_what_a_phase_has_written_is_counted() -> None:
    allowance = reports.Allowance(100)
    allowance.take({"x": "y" * 50})
    with pytest.raises(ValueError, match="more than 100 bytes"):
        allowance.take({"x": "y" * 50})


@pytest.mark.parametrize("score", [10**400, float("nan"), float("-inf"), True, "1", None])
def test_a_claim_is_a_finite_number(score: object) -> None:
    with pytest.raises(ValueError, match="claim"):
        reports.claim({"score": score, "split": "train", "examples": []})


@pytest.mark.parametrize("boundary", ["sandbox", "harness", "provider", "elsewhere", None])
def test_a_phase_cannot_say_that_its_failure_was_infrastructures(boundary: object) -> None:
    """Which would be tried again, and would never count."""
    for kind in ("train_error", "relay"):
        message = {"boundary": boundary, "kind": kind, "message": "it was not me"}
        found = reports.failure(message, "trainer", provider_failed=False, has_gpus=True)
        assert found["boundary"] == "trainer"


@pytest.mark.parametrize(("boundary", "kind"), [("provider", "provider_error"), ("task", "x")])
def test_it_can_say_what_else_failed(boundary: str, kind: str) -> None:
    message = {"boundary": boundary, "kind": kind, "message": "so it is"}
    assert reports.failure(message, "trainer", provider_failed=True, has_gpus=False)["boundary"] == boundary


def test_only_a_sandbox_with_gpus_can_lose_one() -> None:
    message = {"boundary": "sandbox", "kind": reports.DEVICE_LOST, "message": "it does not answer"}
    for has_gpus, boundary in ((True, "sandbox"), (False, "task")):
        assert reports.failure(message, "task", provider_failed=False, has_gpus=has_gpus)["boundary"] == boundary


@pytest.mark.parametrize("kind", sorted(reports.RESERVED_KINDS))
def test_a_phase_cannot_say_that_its_failure_was_no_ending(kind: str) -> None:
    """A job that was interrupted is in no mean, and is run again."""
    with pytest.raises(ValueError, match=kind):
        reports.failure(
            {"boundary": "trainer", "kind": kind, "message": "not me"}, "trainer", provider_failed=True, has_gpus=True
        )
