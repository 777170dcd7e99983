"""What is counted, what a budget lets through, and that both come out the same from a cassette."""

from __future__ import annotations

import itertools
import json
import math
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.conftest import STUB, OpenScope, chat, error
from trace_bench.artifacts.calls import LlmCall, LlmTry, Usage
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.usage import usage_of
from trace_bench.gateway.base import LlmRequest, ProviderError, ProviderReply, ProviderRequest, Refusal, SessionEnded
from trace_bench.gateway.estimates import estimate, tokens_of
from trace_bench.gateway.meter import NOTHING, Meter, RunMeter
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.records.calls import read_calls

HASH = "0" * 64
FIELDS = ("calls", "tries", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "reused")


class Scripted:
    """A paid provider that answers as it is told, and only when it is let: `gate` is open from the start."""

    name = "scripted"
    paid = True
    uses_hints = False
    quick = True

    def __init__(self, *replies: ProviderReply | ProviderError, seed: int | None = None) -> None:
        self._replies = list(replies)
        self._draws = random.Random(seed)
        self._lock = threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        self.at_work = threading.Semaphore(0)
        self.asked = 0

    def complete(self, request: ProviderRequest) -> ProviderReply:
        with self._lock:
            reply = self._replies[self.asked % len(self._replies)] if self._replies else self._any()
            self.asked += 1
        self.at_work.release()
        assert self.gate.wait(60)
        if isinstance(reply, ProviderError):
            raise reply
        return reply

    def _any(self) -> ProviderReply | ProviderError:
        draws = self._draws
        tries = tuple(LlmTry(status=503) for _ in range(draws.randrange(3)))
        kind = draws.random()
        if kind < 0.15:
            return ProviderError("it is down", tries=tries)
        if kind < 0.3:
            return ProviderReply(400, {"error": {}}, tries=(*tries, LlmTry(status=400)))
        prompt, completion = draws.randrange(10**6), draws.randrange(10**6)
        return ProviderReply(
            200, {}, prompt, completion, draws.choice([0.1, 0.3, 1e-9, 1e6, draws.random()]),
            inert=kind > 0.9, cached_tokens=draws.randrange(9), reasoning_tokens=draws.randrange(9),
            estimated=kind > 0.6, tries=(*tries, LlmTry(status=200)),
        )  # fmt: skip


def answer(tokens: int = 15, usd: float = 0.0) -> ProviderReply:
    return ProviderReply(200, {"tokens": tokens}, tokens - 1, 1, usd)


def at(phase: str, slot: str | None = None, **body: Any) -> LlmRequest:
    request = chat(slot, request_id=f"{phase}-{next(_ids)}", **body)
    return LlmRequest(request.id, request.method, request.path, request.headers, request.body, phase)


_ids = itertools.count(1)


# ------------------------------------------------------------------------------------------------------ what is counted


@given(seed=st.integers(0, 1 << 30))
def test_all_that_was_used_is_the_sum_over_the_cassette(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    cassette = tmp_path_factory.mktemp("traffic") / "llm.jsonl"
    draws, provider = random.Random(seed), Scripted(seed=seed)
    counted: Usage | None = None
    for attempt in (1, 2):
        with Gateway({"stub": provider}).open("0123456789ab", 7, STUB, cassette, attempt=attempt) as scope:
            if counted is not None:
                assert scope.usage() == counted, "an attempt goes on with the numbers of the last one"
            requests = [
                at(draws.choice(["train", "score", "strange"]), draws.choice([None, *"abc"]), text=draws.choice("xyz"))
                for _ in range(12)
            ]
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(scope.handle, requests))
            counted = scope.usage()
            by_phase = scope.usage_by_phase()
            assert scope.usage("train") == by_phase.get("train", Usage())
    lines = list(read_calls(cassette))
    draws.shuffle(lines)
    assert counted == usage_of(lines), "in whatever order"
    own = [line for line in lines if line.reused_from is None]
    assert counted.cost_usd == math.fsum(line.cost_usd for line in own)
    assert counted.total_tokens == sum(line.prompt_tokens + line.completion_tokens for line in own)
    assert counted.calls == sum(line.status < 500 for line in own)
    assert counted.tries == sum(len(line.tries) for line in own)
    assert set(by_phase) <= {"train", "score", "other"}
    for name in FIELDS:
        assert sum(getattr(usage, name) for usage in by_phase.values()) == getattr(counted, name)


def line(n: int = 1, **fields: Any) -> LlmCall:
    whole = {
        "n": n, "t": "2026-01-02T03:04:05Z", "request_id": f"train-{n}", "phase": "train", "slot": None,
        "request_hash": HASH, "request": None, "status": 200, "provider": "p", "model": "m", **fields,
    }  # fmt: skip
    return LlmCall.model_validate(whole)


def test_each_kind_of_line_counts_as_what_it_is() -> None:
    spent = {"prompt_tokens": 10, "completion_tokens": 5, "cost_usd": 0.25}
    usage = usage_of([
        line(1, **spent, tries=(LlmTry(status=429), LlmTry(status=200)), cached_tokens=4, reasoning_tokens=2),
        line(2, reused_from=1),
        line(3, **{**spent, "cost_usd": 0.0}, cached=True),
        line(4, status=400, tries=(LlmTry(status=400),)),
        line(5, status=502, tries=(LlmTry(status=503), LlmTry())),
        line(6, inert=True, estimated=True),
        line(7, status=429, refused=True),
        line(8, status=403, refused=True),
    ])  # fmt: skip
    assert usage == Usage(
        calls=4, tries=5, prompt_tokens=20, completion_tokens=10, cached_tokens=4, reasoning_tokens=2, cost_usd=0.25,
        reused=1, cached=1, inert=1, estimated=1, refused=1,
    )  # fmt: skip


def test_cents_add_up_exactly() -> None:
    meter = Meter(Budget(), before=[line(n, cost_usd=0.1) for n in range(1, 11)])
    assert sum([0.1] * 10) != 1.0
    assert meter.usage().cost_usd == 1.0


def test_a_call_without_an_answer_gives_its_place_back(open_scope: OpenScope) -> None:
    provider = Scripted(ProviderError("down"), answer(), answer())
    scope = open_scope(provider=provider, budget=Budget(calls=2))
    assert [scope.handle(at("train")).status for _ in range(4)] == [502, 200, 200, 429]
    assert scope.usage().refused == 1


# ------------------------------------------------------------------------------------------- what a budget lets through


def in_parallel(scope: Scope, number: int, **body: Any) -> list[int]:
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(lambda _: scope.handle(at("train", **body)).status, range(number)))


@pytest.mark.parametrize(
    ("budget", "most"), [(Budget(tokens=1000), 1100), (Budget(usd=1.0), 1.1), (Budget(calls=7), 7)]
)
def test_parallel_calls_pass_a_limit_by_one_answer_at_most(open_scope: OpenScope, budget: Budget, most: float) -> None:
    """Each answer is as long as the request allows, 100 tokens with it, and costs a dime."""
    scope = open_scope(provider=Priced(answer(100, 0.1)), budget=budget)
    statuses = in_parallel(scope, 40)
    usage = scope.usage()
    if budget.calls is not None:
        assert usage.calls == most
    elif budget.tokens is not None:
        assert budget.tokens <= usage.total_tokens < most
    else:
        assert budget.usd is not None
        assert budget.usd <= usage.cost_usd < most
    assert usage.refused == statuses.count(429) == 40 - usage.calls


class Priced(Scripted):
    def estimate(self, request: ProviderRequest) -> tuple[int, float | None]:
        return 100, 0.1


def test_without_a_price_the_tokens_so_far_tell_it(open_scope: OpenScope) -> None:
    provider = Scripted(answer(1000, 1.0))
    scope = open_scope(provider=provider, budget=Budget(usd=5.5))
    assert scope.handle(at("train")).status == 200
    in_parallel(scope, 30, max_tokens=975)
    assert 5.5 <= scope.usage().cost_usd <= 6.5


def test_a_call_that_only_an_estimate_keeps_out_waits_for_it(open_scope: OpenScope) -> None:
    provider = Scripted(answer(20), answer(80), answer(30))
    provider.gate.clear()
    scope = open_scope(provider=provider, budget=Budget(tokens=100))
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(scope.handle, at("train", max_tokens=5000))
        assert provider.at_work.acquire(timeout=60)
        second = pool.submit(scope.handle, at("train"))
        third = pool.submit(scope.handle, at("train"))
        assert not provider.at_work.acquire(timeout=0.1), "one call may use all that is left"
        provider.gate.set()
        assert first.result(60).status == 200, "it used less than it might have"
        statuses = {second.result(60).status, third.result(60).status}
    assert statuses in ({200}, {200, 429})
    assert scope.usage().total_tokens >= 100


def test_a_failed_call_lets_those_that_wait_for_it_go_on(open_scope: OpenScope) -> None:
    provider = Scripted(ProviderError("down"), answer())
    provider.gate.clear()
    scope = open_scope(provider=provider, budget=Budget(calls=1))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(scope.handle, at("train"))
        assert provider.at_work.acquire(timeout=60)
        second = pool.submit(scope.handle, at("train"))
        provider.gate.set()
        assert (first.result(60).status, second.result(60).status) == (502, 200)
    assert scope.usage().calls == 1


@pytest.mark.parametrize("whose", ["job", "run"])
def test_no_call_begins_after_the_session_has_ended_although_there_is_room_again(whose: str) -> None:
    """A call that waits may wake only after the call before it has given its room back."""
    limit = Budget(calls=1)
    meter = Meter(limit) if whose == "job" else Meter(Budget(), run=RunMeter(limit))
    under_way = meter.hold("train")
    meter.stop()
    under_way.settle(NOTHING)
    with pytest.raises(SessionEnded):
        meter.hold("train")


def test_what_a_cassette_holds_counts_against_the_budget() -> None:
    spent = [line(1, prompt_tokens=90, completion_tokens=10, cost_usd=0.5), line(2, reused_from=1)]
    for budget in (Budget(calls=1), Budget(tokens=100), Budget(usd=0.5)):
        with pytest.raises(Refusal, match=r"the job's budget of .* is used up; training ends here"):
            Meter(budget, before=spent).hold("train")
    for budget in (Budget(calls=2), Budget(tokens=101), Budget(usd=0.51)):
        Meter(budget, before=spent).hold("train")


def test_the_budget_of_a_job_is_that_of_its_search_and_the_runs_counts_scoring_too() -> None:
    """A search that has used it up is scored all the same, as every other is."""
    run = RunMeter(Budget(calls=3))
    meter = Meter(Budget(calls=1), run=run)
    meter.settle(meter.hold("score"), line(1, phase="score"))
    meter.settle(meter.hold("train"), line(2))
    with pytest.raises(Refusal, match="the job's budget of 1 calls"):
        meter.hold("train")
    assert not meter.cut_by_run
    meter.settle(meter.hold("score"), line(3, phase="score"))
    with pytest.raises(Refusal, match="the run's budget of 3 calls"):
        meter.hold("score")
    assert meter.cut_by_run and meter.usage().calls == 3
    again = Meter(Budget(calls=1), before=[line(1, phase="score"), line(2, phase="score")])
    again.hold("train")
    again.recover(line(3, phase="score"))


# ------------------------------------------------------------------------------------------------- the budget of a run


def scopes(folder: Path, run: RunMeter, number: int, provider: Scripted, budget: Budget | None = None) -> list[Scope]:
    gateway = Gateway({"stub": provider}, run_meter=run)
    jobs = [f"{n:012x}" for n in range(number)]
    return [gateway.open(job, 1, STUB, folder / f"{job}.jsonl", budget) for job in jobs]


def test_jobs_share_the_budget_of_their_run_exactly(tmp_path: Path) -> None:
    run = RunMeter(Budget(calls=25))
    opened = scopes(tmp_path, run, 8, Scripted(answer()))
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda scope: [scope.handle(at("train")) for _ in range(6)], opened))
    flat = [response for of_job in responses for response in of_job]
    assert sum(response.status == 200 for response in flat) == 25
    assert sum(scope.usage().calls for scope in opened) == 25
    refused = next(response for response in flat if response.status == 429)
    assert error(refused)["code"] == "budget_exhausted"
    assert error(refused)["message"] == "the run's budget of 25 calls is used up; training ends here"
    assert run.used_up() == "the run's budget of 25 calls is used up"
    for scope in opened:
        assert scope.cut_by_run_budget == (scope.usage().calls < 6)
        scope.close()


def test_a_job_that_meets_its_own_budget_is_not_cut_by_the_run(tmp_path: Path) -> None:
    run = RunMeter(Budget(calls=10))
    (scope,) = scopes(tmp_path, run, 1, Scripted(answer()), Budget(calls=2))
    assert [scope.handle(at("train")).status for _ in range(3)] == [200, 200, 429]
    assert not scope.cut_by_run_budget
    assert run.used_up() is None
    scope.close()


def test_a_call_that_the_run_refuses_costs_the_job_nothing(tmp_path: Path) -> None:
    run = RunMeter(Budget(calls=0))
    (scope,) = scopes(tmp_path, run, 1, Scripted(answer()), Budget(calls=1))
    assert scope.handle(at("train")).status == 429
    assert scope.usage() == Usage(refused=1)
    scope.close()


def test_a_later_attempt_and_a_later_controller_count_a_job_once(tmp_path: Path) -> None:
    run = RunMeter(Budget(calls=5))
    gateway = Gateway({"stub": Scripted(answer())}, run_meter=run)
    cassette = tmp_path / "llm.jsonl"
    for attempt in (1, 2):
        with gateway.open("0123456789ab", 1, STUB, cassette, attempt=attempt) as scope:
            assert scope.handle(at("train", f"step={attempt}")).status == 200
            usage = scope.usage()
    assert usage.calls == 2
    heir = RunMeter(Budget(calls=5))
    heir.restore("0123456789ab", usage)
    with Gateway({"stub": Scripted(answer())}, run_meter=heir).open("0123456789ab", 1, STUB, cassette) as scope:
        assert [scope.handle(at("train", f"step={n}")).status for n in range(3, 7)] == [200, 200, 200, 429]


# ----------------------------------------------------------------------------------------------------------- estimates


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({}, 1),
        ({"a": "x" * 92}, 25),
        ({"max_tokens": 10}, 5 + 10),
        ({"max_completion_tokens": 10}, 7 + 10),
        ({"max_output_tokens": 10, "n": 3}, 8 + 30),
        ({"max_tokens": "10"}, 5),
        ({"max_tokens": -10}, 5),
        ({"max_tokens": True}, 5),
        ({"max_tokens": 10**30}, 12),
    ],
)
def test_the_estimate_of_a_body(body: dict[str, Any], tokens: int) -> None:
    assert tokens_of(body) == tokens


def test_the_models_own_limit_of_an_answer_counts_where_the_body_has_none() -> None:
    model = ModelRef(id="m", provider="p", model="m", sampling={"max_tokens": 500})
    for body, tokens in (({}, 501), ({"max_tokens": 7}, 4 + 7)):
        request = ProviderRequest("/v1/chat/completions", body, model, 1, HASH)
        assert estimate(Scripted(), request) == (tokens, None)
    assert estimate(Priced(), request) == (100, 0.1)


def test_exact_dollars_are_held_back() -> None:
    meter = Meter(Budget(usd=0.3))
    hold = meter.hold("train", usd=0.1)
    assert hold.expected.usd == Fraction(0.1)
    meter.settle(hold, line(cost_usd=0.1))
    assert json.loads(meter.usage().model_dump_json())["cost_usd"] == 0.1
