"""A job is answered as it was answered when it was recorded, and told when it asks something else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import STUB, chat, error
from tests.gateway.test_server import CountingProvider
from trace_bench.artifacts import schema
from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import Boundary, HarnessError
from trace_bench.gateway.base import LlmRequest, Provider, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.recorded import RecordedCalls, read_calls
from trace_bench.gateway.replay import RecordedJob, ReplayProvider, unasked
from trace_bench.gateway.response_cache import ResponseCache
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.gateway.stub import StubProvider

JOB = "0123456789ab"


class Answers:
    """A provider that gives what is listed, one after another: a status, or a refusal of the gateway's own."""

    name, paid, uses_hints, quick = "answers", False, False, True

    def __init__(self, *given: int | Refusal) -> None:
        self._given = list(given)

    def complete(self, request: ProviderRequest) -> ProviderReply:
        given = self._given.pop(0)
        if isinstance(given, Refusal):
            raise given
        return ProviderReply(given, {"left": len(self._given)}, 3, 2, 0.125)


def open_at(path: Path, provider: Provider, *, attempt: int = 1, budget: Budget | None = None) -> Scope:
    return Gateway({"stub": provider}).open(JOB, 7, STUB, path, budget, attempt=attempt)


def replay_of(recorded: Path, folder: Path, *, stopped: bool = False, attempt: int = 1) -> Scope:
    return open_at(folder / "again.jsonl", ReplayProvider(lambda _: RecordedJob(recorded, stopped)), attempt=attempt)


def bodies(scope: Scope, *requests: LlmRequest) -> list[tuple[int, Any]]:
    found = [scope.handle(request) for request in requests]
    return [(response.status, json.loads(response.body)) for response in found]


def lines(path: Path) -> list[dict[str, Any]]:
    return list(read_journal(path).lines)


def test_the_calls_of_one_phase_alone_are_made_again(cassette: Path, tmp_path: Path) -> None:
    """What scoring asked as training had asked it before has an answer of its own."""
    with open_at(cassette, CountingProvider()) as scope:
        bodies(scope, chat(None, request_id="train-1", text="q"))
        scored = bodies(scope, replace(chat(None, request_id="score-2", text="q"), phase="score"))
    again = replace(chat(None, request_id="score-1", text="q"), phase="score")
    alone = ReplayProvider(lambda _: RecordedJob(cassette, phase="score"))
    with open_at(tmp_path / "alone.jsonl", alone) as scope:
        assert bodies(scope, again) == scored
    with replay_of(cassette, tmp_path) as scope:
        assert bodies(scope, again) != scored
    assert not list(RecordedCalls(cassette, "build").answers())


def test_slots_are_answered_in_any_order_with_the_recorded_figures(cassette: Path, tmp_path: Path) -> None:
    asked = [chat(f"step={i}", request_id=f"train-{i}", text=f"q{i}") for i in range(4)]
    with open_at(cassette, CountingProvider()) as scope:
        first = dict(zip(range(4), bodies(scope, *asked), strict=True))
        spent = scope.usage()
    with replay_of(cassette, tmp_path) as again:
        for i in (2, 0, 3, 1):
            assert bodies(again, asked[i]) == [first[i]]
        assert again.usage() == spent and spent.cost_usd == 1.0
    old, new = lines(cassette), lines(tmp_path / "again.jsonl")
    assert [line["replayed_from"] for line in new] == [3, 1, 4, 2]
    assert {line["provider"] for line in new} == {"replay"}
    for line in new:
        schema.validate("llm_call", line)
        source = old[line["replayed_from"] - 1]
        for key in (
            "prompt_tokens",
            "completion_tokens",
            "cost_usd",
            "latency",
            "tries",
            "sent",
            "response",
            "request",
        ):
            assert line[key] == source[key], key


def test_answers_of_the_response_cache_are_told_from_paid_ones_again(cassette: Path, tmp_path: Path) -> None:
    asked = chat("step=0", request_id="train-0")
    for path in (tmp_path / "first.jsonl", cassette):
        provider = CountingProvider()
        with Gateway({"stub": provider}, cache=ResponseCache(tmp_path / "kept")).open(JOB, 7, STUB, path) as scope:
            told, spent = bodies(scope, asked), scope.usage()
    assert (spent.calls, spent.cached, spent.cost_usd) == (1, 1, 0.0)
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, asked) == told and again.usage() == spent


def test_the_answer_of_another_slot_is_not_taken(cassette: Path, tmp_path: Path) -> None:
    """Identical requests of several proposals had different answers."""
    asked = [chat(f"proposal={i}", request_id=f"train-{i}") for i in range(2)]
    with open_at(cassette, CountingProvider()) as scope:
        first = bodies(scope, *asked)
    assert first[0] != first[1]
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, *reversed(asked)) == list(reversed(first))


def test_equal_requests_without_slots_get_the_answers_in_their_order(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        first = bodies(scope, *[chat(None, request_id=f"train-{i}") for i in range(3)])
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, *[chat(None, request_id=f"train-{i}") for i in range(3)]) == first
        (status, body), *_ = bodies(again, chat(None, request_id="train-3"))
        assert status == 400 and "recorded 3 times" in body["error"]["message"]


def test_a_later_attempt_of_the_replay_goes_on_with_what_was_answered(cassette: Path, tmp_path: Path) -> None:
    asked = [chat(None, request_id=f"train-{i}") for i in range(3)]
    with open_at(cassette, CountingProvider()) as scope:
        first = bodies(scope, *asked)
        spent = scope.usage()
    with replay_of(cassette, tmp_path) as died:
        assert bodies(died, *asked[:2]) == first[:2]
    with replay_of(cassette, tmp_path, attempt=2) as again:
        assert bodies(again, *asked) == first
        assert again.usage().calls == spent.calls and again.usage().cost_usd == spent.cost_usd


def test_a_replay_is_a_recording_too(cassette: Path, tmp_path: Path) -> None:
    asked = [chat(slot, request_id=f"train-{i}", text=f"q{i}") for i, slot in enumerate(("a", None, "b", None))]
    with open_at(cassette, CountingProvider()) as scope:
        first = bodies(scope, *asked)
    with replay_of(cassette, tmp_path) as again:
        bodies(again, *asked)
    (tmp_path / "twice").mkdir()
    with replay_of(tmp_path / "again.jsonl", tmp_path / "twice") as twice:
        assert bodies(twice, *asked) == first


# ------------------------------------------------------------------------------------------------------- attempts


def test_lines_of_all_attempts_count_and_reused_ones_are_followed(cassette: Path, tmp_path: Path) -> None:
    provider = CountingProvider()
    with open_at(cassette, provider) as cut:
        bodies(cut, chat("a", request_id="train-1"), chat(None, request_id="train-2"))
    whole = [chat("a", request_id="train-1"), chat(None, request_id="train-2"), chat("b", request_id="train-3")]
    with open_at(cassette, provider, attempt=2) as scope:
        first = bodies(scope, *whole)
        spent = scope.usage()
    assert spent.reused == 2
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, *whole) == first
        assert again.usage().calls == spent.calls


def test_an_adopted_sandbox_goes_on_in_the_middle(cassette: Path, tmp_path: Path) -> None:
    provider = CountingProvider()
    asked = [chat(None, request_id=f"train-{i}", text=f"q{i % 2}") for i in range(1, 5)]
    with open_at(cassette, provider) as killed:
        first = bodies(killed, *asked[:2])
    with open_at(cassette, provider, attempt=2) as heir:
        first += bodies(heir, *asked[2:])
        spent = heir.usage()
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, *asked) == first
        assert again.usage() == spent


def test_another_attempt_whose_calls_overlap_is_not_taken_for_an_adopted_one(cassette: Path, tmp_path: Path) -> None:
    provider = CountingProvider()
    with open_at(cassette, provider) as cut:
        bodies(cut, chat("a", request_id="train-1"), chat("gone", request_id="train-2"))
    with open_at(cassette, provider, attempt=2) as scope:
        bodies(scope, chat("b", request_id="train-2"), chat("a", request_id="train-1"))
    recorded = RecordedCalls(cassette)
    assert [entry.n for entry in recorded.of_failed_attempts()] == [2] and set(recorded.slots) == {"a", "b"}


def test_what_failed_attempts_paid_for_is_carried_over(cassette: Path, tmp_path: Path) -> None:
    provider = CountingProvider()
    with open_at(cassette, provider) as cut:
        bodies(cut, chat("a", request_id="train-1"), chat("never again", request_id="train-2"))
    with open_at(cassette, provider, attempt=2) as scope:
        bodies(scope, chat("a", request_id="train-1"))
        spent = scope.usage()
    with replay_of(cassette, tmp_path) as again:
        bodies(again, chat("a", request_id="train-1"))
        again.carry_over(unasked(RecordedJob(cassette), again.replayed))
        assert (again.usage().calls, again.usage().cost_usd) == (spent.calls, spent.cost_usd) == (2, 0.5)
        again.carry_over(unasked(RecordedJob(cassette), again.replayed))
        assert again.usage().calls == 2, "once only"
    new = lines(tmp_path / "again.jsonl")
    assert [(line["replayed_from"], line["unasked"]) for line in new] == [(1, False), (2, True)]
    for line in new:
        schema.validate("llm_call", line)
    with replay_of(cassette, tmp_path, attempt=2) as later:
        assert later.usage().calls == 2
        assert bodies(later, chat("never again", request_id="train-9"))[0][0] == 400, "nobody may have it now"


# ------------------------------------------------------------------------------------------------------- refusals


def test_refusals_of_a_provider_are_given_again(cassette: Path, tmp_path: Path) -> None:
    asked = [chat("a", request_id=f"train-{i}") for i in range(3)]
    with open_at(cassette, Answers(400, 422, 200)) as scope:
        first = bodies(scope, *asked)
    assert [status for status, _ in first] == [400, 422, 200]
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, *asked) == first


def test_a_refusal_of_the_built_in_model_is_given_again(cassette: Path, tmp_path: Path) -> None:
    asked = chat(None, request_id="train-1", n=1000)
    with open_at(cassette, StubProvider()) as scope:
        first = scope.handle(asked)
    assert error(first)["code"] == "bad_n"
    with replay_of(cassette, tmp_path) as again:
        assert again.handle(asked) == first
        assert again.not_recorded() is None and again.usage().calls == 0


def test_a_failure_of_the_provider_is_not_repeated(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, Answers(200)) as scope:
        first = bodies(scope, chat("a", request_id="train-2"))
    (line,) = lines(cassette)
    failed = {**line, "status": 502, "response": {"error": {}}, "request_id": "train-1", "prompt_tokens": 0}
    cassette.write_text(json.dumps(failed) + "\n" + json.dumps({**line, "n": 2}) + "\n")
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, chat("a", request_id="train-1")) == first


@pytest.mark.parametrize("budget", [Budget(calls=2), Budget(tokens=25), Budget(usd=0.5)])
def test_the_end_of_a_budget_is_at_the_recorded_calls(cassette: Path, tmp_path: Path, budget: Budget) -> None:
    """Whatever order threads take this time: what was answered then is answered now, and nothing else."""
    asked = [chat(f"proposal={i}", request_id=f"train-{i}") for i in range(5)]
    with open_at(cassette, CountingProvider(), budget=budget) as scope:
        first = bodies(scope, *asked)
        spent = scope.usage()
    assert [status for status, _ in first] == [200, 200, 429, 429, 429]
    with replay_of(cassette, tmp_path) as again, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda request: bodies(again, request)[0], reversed(asked))) == list(reversed(first))
        assert again.usage() == spent and spent.refused == 3
    (refused,) = {line["response"]["error"]["code"] for line in lines(cassette) if line["refused"]}
    assert refused == "budget_exhausted"


def test_refusals_do_not_fill_the_disk(cassette: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.gateway.calls.MAX_REFUSALS", 3)
    monkeypatch.setattr("trace_bench.gateway.replay.MAX_REFUSALS", 3)
    asked = [chat(f"proposal={i}", request_id=f"train-{i}") for i in range(9)]
    with open_at(cassette, CountingProvider(), budget=Budget(calls=1)) as scope:
        first = bodies(scope, *asked)
    assert len(lines(cassette)) == 4
    with replay_of(cassette, tmp_path, stopped=True) as again:
        assert [status for status, _ in bodies(again, *asked)] == [status for status, _ in first]
        assert again.not_recorded() is None


def test_calls_after_the_recorded_stop_are_told_so(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        bodies(scope, chat("a", request_id="train-1"))
    with replay_of(cassette, tmp_path, stopped=True) as again:
        (status, body), (changed, _) = bodies(again, chat("b"), chat("a", text="changed"))
        assert (status, body["error"]["code"]) == (429, "training_stopped")
        assert changed == 400, "a place that was reached is no place after the stop"


# ---------------------------------------------------------------------------------------------------- not recorded


def test_a_changed_request_ends_the_job_and_says_how_it_differs(cassette: Path, tmp_path: Path) -> None:
    text = "find x\n" + "line\n" * 50 + "score 3"
    with open_at(cassette, CountingProvider()) as scope:
        bodies(
            scope, chat("step=1", request_id="train-1", text="other"), chat("step=2", request_id="train-2", text=text)
        )
    with replay_of(cassette, tmp_path) as again:
        response = again.handle(chat("step=2", request_id="train-1", text=text.replace("score 3", "score 4")))
        assert (response.status, error(response)["code"]) == (400, "not_recorded")
        said = again.not_recorded()
        assert said is not None and said.boundary is Boundary.TRAINER
        assert "slot step=2" in str(said) and "line 2 (same slot)" in str(said)
        assert "messages[0].content differs at character 263" in str(said)
        assert "score 4'" in str(said) and "score 3'" in str(said) and len(str(said)) < 700
        assert "\n-  score 3\n+  score 4\n" in said.difference
        assert again.usage().calls == 0 and not again.provider_failures()


def test_the_nearest_request_is_found_where_no_slot_helps(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        bodies(
            scope, *[chat(None, request_id=f"train-{i}", text=t) for i, t in enumerate(("apples", "pears", "plums"))]
        )
    with replay_of(cassette, tmp_path) as again:
        again.handle(chat(None, text="pearls"))
        assert "nearest is line 2 (without a slot)" in str(again.not_recorded())


def test_an_empty_recording_holds_no_calls(tmp_path: Path, cassette: Path) -> None:
    open_at(cassette, CountingProvider()).close()
    with replay_of(cassette, tmp_path) as again:
        again.handle(chat("a"))
        assert "holds no calls" in str(again.not_recorded())


# ------------------------------------------------------------------------------------------------------------ files


def test_a_recording_is_read_and_never_written(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        bodies(scope, chat("a", request_id="train-1"))
    with cassette.open("a") as file:
        file.write('{"n": 2, "torn')
    before = cassette.read_bytes()
    cassette.chmod(0o444)
    with replay_of(cassette, tmp_path) as again:
        assert bodies(again, chat("a"))[0][0] == 200
    assert cassette.read_bytes() == before


def test_a_cassette_that_is_taken_away_meanwhile_is_no_score(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        bodies(scope, chat("a", request_id="train-1"), chat("b", request_id="train-2"))
    with replay_of(cassette, tmp_path) as again:
        assert again.handle(chat("a")).status == 200
        cassette.unlink()
        assert again.handle(chat("b")).status == 502
        (why,) = again.provider_failures()
        assert "llm.jsonl" in why


def _garbage(line: dict[str, Any]) -> str:
    return "garbage\n" + json.dumps({**line, "n": 2}) + "\n"


def _disordered(line: dict[str, Any]) -> str:
    return json.dumps({**line, "n": 2}) + "\n"


def _without_answer(line: dict[str, Any]) -> str:
    return json.dumps({**line, "response": None}) + "\n"


def _of_nothing(line: dict[str, Any]) -> str:
    failed = {**line, "status": 503}
    return json.dumps(failed) + "\n" + json.dumps({**line, "n": 2, "reused_from": 1}) + "\n"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_garbage, "line 1: it is not JSON"),
        (_disordered, "line 1: the lines are not in order"),
        (_without_answer, "line 1: it holds no answer"),
        (_of_nothing, "line 2: no answer on line 1"),
    ],
)
def test_a_damaged_recording_is_named_with_its_line(
    cassette: Path, damage: Callable[[dict[str, Any]], str], said: str
) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        bodies(scope, chat("a", request_id="train-1"))
    (line,) = lines(cassette)
    cassette.write_text(damage(line))
    with pytest.raises(HarnessError, match=said):
        RecordedCalls(cassette)


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"gone\.jsonl: No such file"):
        list(read_calls(tmp_path / "gone.jsonl"))


def test_few_indexes_are_held_at_a_time_and_none_is_lost(cassette: Path, tmp_path: Path) -> None:
    with open_at(cassette, CountingProvider()) as scope:
        first = bodies(scope, chat("a", request_id="train-1"), chat("b", request_id="train-2"))
    jobs = [f"{i:012x}" for i in range(4)]
    for job in jobs:
        shutil.copy(cassette, tmp_path / f"{job}.jsonl")
    provider = ReplayProvider(lambda job: RecordedJob(tmp_path / f"{job}.jsonl"), keep=2)
    gateway = Gateway({"stub": provider})
    scopes = [gateway.open(job, 7, STUB, tmp_path / f"new-{job}.jsonl") for job in jobs]
    for slot, answer in zip(("a", "b"), first, strict=True):
        for scope in scopes:
            assert bodies(scope, chat(slot)) == [answer]
    assert len(provider._indexes) == 2
    for scope in scopes:
        scope.close()
