"""Answers that outlive their run: who gets which, and what they count as."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import chat
from tests.gateway.test_server import CountingProvider
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.artifacts.writers import read_journal
from trace_bench.gateway.response_cache import ResponseCache, clear
from trace_bench.gateway.server import Gateway, Scope

MODEL = ModelRef(id="m", provider="openai", model="gpt-9", sampling={"temperature": 1.0})


class Jobs:
    """Opens scopes of jobs, each of a run of its own, on one cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "llm-cache"
        self.provider = CountingProvider()

    def open(
        self,
        run: str,
        *,
        provider: CountingProvider | None = None,
        seed: int = 7,
        model: ModelRef = MODEL,
        fresh: bool = False,
        budget: Budget | None = None,
        attempt: int = 1,
    ) -> Scope:
        cache = ResponseCache(self.cache, fresh=fresh)
        gateway = Gateway({model.id: provider or self.provider}, cache=cache)
        return gateway.open("0123456789ab", seed, model, self.cassette(run), budget, attempt=attempt)

    def cassette(self, run: str) -> Path:
        return self.folder / run / "llm.jsonl"

    def lines(self, run: str) -> tuple[dict[str, Any], ...]:
        return read_journal(self.cassette(run)).lines


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path)


def ask(scope: Scope, slot: str | None = None, **body: Any) -> int:
    response = scope.handle(chat(slot, **{"model": "m", **body}))
    assert response.status == 200, response.body
    number: int = json.loads(response.body)["answer"]
    return number


def test_a_later_run_gets_the_answers_of_the_first_and_pays_nothing(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        assert [ask(scope), ask(scope), ask(scope, "step=0")] == [1, 2, 3]
        paid = scope.usage()
    with jobs.open("second") as scope:
        assert [ask(scope), ask(scope), ask(scope, "step=0")] == [1, 2, 3], "two samples stay two"
        assert ask(scope) == 4
        found = scope.usage()
    assert len(jobs.provider.asked) == 4
    assert (paid.calls, paid.cached, paid.cost_usd) == (3, 0, 0.75)
    assert (found.calls, found.cached, found.cost_usd, found.total_tokens) == (4, 3, 0.25, 60)
    kept = jobs.lines("second")
    assert [(line["cached"], line["cost_usd"], line["tries"]) for line in kept[:3]] == [(True, 0.0, [])] * 3
    assert kept[0]["request"] == jobs.lines("first")[0]["request"]
    assert kept[3]["cached"] is False


def test_calls_and_tokens_of_the_cache_count_against_a_budget_and_dollars_do_not(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        assert [ask(scope) for _ in range(3)] == [1, 2, 3]
    for run, budget, served in (
        ("calls", Budget(calls=2), 2),
        ("tokens", Budget(tokens=30), 2),
        ("usd", Budget(usd=0.01), 3),
    ):
        with jobs.open(run, budget=budget) as scope:
            statuses = [scope.handle(chat(None, model="m")).status for _ in range(3)]
            assert statuses == [200] * served + [429] * (3 - served)
    assert len(jobs.provider.asked) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 8},
        {"model": MODEL.model_copy(update={"model": "gpt-8"})},
        {"model": MODEL.model_copy(update={"provider": "azure"})},
        {"model": MODEL.model_copy(update={"sampling": {"temperature": 0.5}})},
    ],
)
def test_another_seed_or_model_is_another_answer(jobs: Jobs, other: dict[str, Any]) -> None:
    with jobs.open("first") as scope:
        assert ask(scope) == 1
    with jobs.open("second", **other) as scope:
        assert ask(scope) == 2


def test_the_name_that_a_model_has_in_tables_does_not_matter(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        assert ask(scope, model="gpt-9") == 1
    with jobs.open("second", model=MODEL.model_copy(update={"id": "mine"})) as scope:
        assert ask(scope, model="gpt-9") == 1


def test_another_address_is_another_answer(jobs: Jobs) -> None:
    class Addressed(CountingProvider):
        def __init__(self, address: str) -> None:
            super().__init__()
            self.identity = {"base_url": address}

    for address, asked in (("https://a.example", 1), ("https://b.example", 1), ("https://a.example", 0)):
        provider = Addressed(address)
        with jobs.open(f"run-{address[8]}-{asked}", provider=provider) as scope:
            ask(scope)
        assert len(provider.asked) == asked


def test_another_request_slot_or_sample_is_another_answer(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        assert ask(scope, "step=0") == 1
    with jobs.open("second") as scope:
        assert ask(scope, "step=1") == 2
        assert ask(scope, "step=0", text="other") == 3
        assert ask(scope) == 4
        assert ask(scope, "#0") == 5, "a slot is no number of a sample"
        assert ask(scope, "step=0") == 1


def test_a_job_is_never_given_its_own_answer_as_another_sample(jobs: Jobs) -> None:
    """The first asking of attempt 1 failed, so that its second one, and its entry, is the first answer of attempt 2."""
    provider = CountingProvider(fail=1)
    with jobs.open("run", provider=provider) as scope:
        assert scope.handle(chat(None, model="m")).status == 502
        assert ask(scope) == 2
    with jobs.open("run", provider=provider, attempt=2) as scope:
        assert [ask(scope), ask(scope), ask(scope)] == [2, 3, 4]
    with jobs.open("later") as scope:
        assert sorted(ask(scope) for _ in range(4)) == [1, 2, 3, 4], "one of its own, and three of the other run"


def test_a_run_that_is_to_pay_again_gets_none_and_keeps_its_own(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        assert ask(scope, "step=0") == 1
    with jobs.open("forced", fresh=True) as scope:
        assert ask(scope, "step=0") == 2
    with jobs.open("later") as scope:
        assert ask(scope, "step=0") == 2, "the newest"


def test_only_answers_of_paid_providers_are_kept(jobs: Jobs) -> None:
    free = CountingProvider()
    free.paid = False
    for run, provider in (("free", free), ("refusals", CountingProvider(status=400))):
        with jobs.open(run, provider=provider) as scope:
            scope.handle(chat(None, model="m"))
    assert not list(jobs.cache.rglob("*.json"))


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", "another"])
def test_a_damaged_entry_is_as_good_as_none(jobs: Jobs, damage: str) -> None:
    with jobs.open("first") as scope:
        assert [ask(scope), ask(scope)] == [1, 2]
    one, two = sorted(jobs.cache.rglob("*.json"))
    for path, text in ((one, two.read_text()), (two, one.read_text())):
        path.write_text(text if damage == "another" else damage)
    with jobs.open("second") as scope:
        assert [ask(scope), ask(scope)] == [3, 4]
    with jobs.open("third") as scope:
        assert [ask(scope), ask(scope)] == [3, 4], "it is repaired"


def test_entries_are_the_owners_alone(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        ask(scope)
    found = [jobs.cache, *jobs.cache.rglob("*")]
    assert len(found) == 3
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in found)


def test_many_jobs_may_use_it_at_once(jobs: Jobs) -> None:
    scopes = [jobs.open(f"run-{n}") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda scope: [ask(scope, f"step={n}") for n in range(5)], scopes))
    with jobs.open("last") as scope:
        last = [ask(scope, f"step={n}") for n in range(5)]
    assert all(last[n] in {answer[n] for answer in answers} for n in range(5))
    assert len(list(jobs.cache.rglob("*.json"))) == 5


def test_clearing_removes_the_answers_and_nothing_else(jobs: Jobs) -> None:
    with jobs.open("first") as scope:
        ask(scope), ask(scope)
    mine = jobs.cache / "notes.json"
    mine.write_text("{}")
    assert clear(jobs.cache) == 2
    assert mine.exists()
    assert clear(jobs.cache) == clear(jobs.folder / "nowhere") == 0
    with jobs.open("second") as scope:
        assert ask(scope) == 3
