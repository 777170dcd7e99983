"""The budget of a run: exact under parallel jobs, over controllers, and larger when the user wants it larger."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, entries, journal, read, table
from tests.execution.peer import answered_by
from tests.execution.supervisor import Script
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.usage import usage_of
from trace_bench.artifacts.writers import Journal
from trace_bench.audit.verify import audit
from trace_bench.config.models import RunBudgetConfig
from trace_bench.gateway.base import ProviderReply, ProviderRequest
from trace_bench.planning.run_budget import RunBudget, Spent, limits_of, spent_before
from trace_bench.records.calls import read_calls


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Eight jobs of three calls each, four at a time."""
    made = Bench(tmp_path, config={"seeds": [1, 2], "max_workers": 4})
    made.backend.script = lambda job_id, number: Script(calls=3)
    return made


def run_budget(**limits: float) -> dict[str, Any]:
    return {"budget": {"run": limits}}


def by_id(rows: tuple[Results, ...]) -> Mapping[str, Results]:
    return {row.job_id: row for row in rows}


def test_all_jobs_together_make_exactly_as_many_calls(bench: Bench) -> None:
    result = bench.run(**run_budget(calls=10))
    rows = result.rows
    assert sum(row.llm_calls for row in rows) == 10
    assert {row.status for row in rows} == {"ok", "skipped"}
    for row in rows:
        if row.status == "skipped":
            assert (row.llm_calls, row.feedback) == (0, "the run's budget of 10 calls is used up")
        elif row.cut_by_run_budget:
            assert row.stop_reason == "budget" and row.llm_calls < 3
        else:
            assert (row.stop_reason, row.llm_calls) == ("completed", 3)
    assert any(row.cut_by_run_budget for row in rows), "ten is no multiple of three"
    assert any(row.status == "skipped" for row in rows)
    summary = read(result.layout.summary)
    assert summary["llm_calls"] == 10
    assert summary["cut_by_run_budget"] == sum(row.cut_by_run_budget for row in rows)
    reasons = {e["reason"] for e in entries(result.layout).values() if e["status"] == "not_executed"}
    assert reasons == {"the run's budget of 10 calls is used up"}
    assert read(result.layout.lock)["salt"] is None, "somebody may want to continue it"


def test_a_larger_budget_continues_the_run_and_pays_nothing_twice(bench: Bench) -> None:
    first = bench.run(**run_budget(calls=10))
    before = by_id(first.rows)
    second = bench.run(**run_budget(calls=100))
    assert second.run_id == first.run_id
    assert {(row.status, row.stop_reason, row.cut_by_run_budget) for row in second.rows} == {("ok", "completed", False)}
    assert [row.llm_calls for row in second.rows] == [3] * 8
    for row in second.rows:
        assert row.llm_reused == (before[row.job_id].llm_calls if before[row.job_id].cut_by_run_budget else 0)
    decided = entries(second.layout)
    for job_id, row in before.items():
        whole = row.status == "ok" and not row.cut_by_run_budget
        assert decided[job_id]["decision"] == ("reuse" if whole else "run")
        if row.cut_by_run_budget:
            assert decided[job_id]["decision_reason"] == "it was cut off by the run's budget"
    assert read(second.layout.lock)["salt"] is not None


def test_the_calls_of_finished_jobs_count_when_the_run_goes_on(bench: Bench) -> None:
    first = bench.run(**run_budget(calls=10))
    second = bench.run(**run_budget(calls=17))
    assert second.run_id == first.run_id
    assert sum(row.llm_calls for row in second.rows) == 17
    third = bench.run(**run_budget(calls=24))
    assert sum(row.llm_calls for row in third.rows) == 24
    assert third.ok


def test_the_same_budget_again_changes_no_result(bench: Bench) -> None:
    first = bench.run(**run_budget(calls=10))
    made = list(bench.backend.created)
    second = bench.run(**run_budget(calls=10))
    assert second.run_id == first.run_id
    assert bench.backend.created == made, "no sandbox was made"
    assert second.rows == first.rows
    reasons = {e["decision_reason"] for e in entries(second.layout).values() if e["decision"] == "reuse"}
    assert "cut off by the run's budget, which is still used up" in reasons


def test_force_begins_the_run_again_with_its_whole_budget(bench: Bench) -> None:
    first = bench.run(**run_budget(calls=10))
    again = bench.run(**run_budget(calls=10), run_id=first.run_id, resume="none")
    assert sum(row.llm_calls for row in again.rows) == 10
    assert all(row.llm_reused == 0 for row in again.rows)


def test_a_job_that_force_has_no_budget_left_for_keeps_no_earlier_result(bench: Bench) -> None:
    first = bench.run(**run_budget(calls=10))
    bench.backend.script = lambda job_id, number: Script(calls=10)
    again = bench.run(**run_budget(calls=10), run_id=first.run_id, resume="none", max_workers=1)
    assert [(row.status, row.llm_calls) for row in again.rows] == [("ok", 10), *[("skipped", 0)] * 7]
    kept = [again.layout.job(row.job_id).attempt(1) / "results.json" for row in first.rows if row.status == "ok"]
    assert all(path.is_file() for path in kept), "it can still be looked at"
    assert {c.claim: c.verdict for c in audit(again.layout).claims}["conduct.journal"] == "verified"
    bench.backend.script = lambda job_id, number: Script(calls=3)
    whole = bench.run(**run_budget(calls=100), run_id=first.run_id)
    assert {row.status for row in whole.rows} == {"ok"}
    assert sum(row.llm_calls for row in whole.rows) == 10 + 7 * 3
    assert sum(row.llm_reused for row in whole.rows) == 0


def test_jobs_that_were_cut_off_are_not_ranked(bench: Bench) -> None:
    result = bench.run(**run_budget(calls=10))
    ranked = result.layout.leaderboard.read_text()
    for row in result.rows:
        if row.cut_by_run_budget:
            assert row.score_best is not None
            assert row.job_id not in ranked
    assert sum(int(line.split(",")[7]) for line in ranked.splitlines()[1:]) == sum(
        row.status == "ok" and not row.cut_by_run_budget for row in result.rows
    )


class Tokens:
    """A paid provider whose answers have ten tokens and cost a dime. All calls of the first four jobs meet in it."""

    name = "tokens"
    paid = True
    uses_hints = False
    quick = True

    def __init__(self) -> None:
        self.asked = 0
        self._lock = threading.Lock()

    def complete(self, request: ProviderRequest) -> ProviderReply:
        with self._lock:
            self.asked += 1
        return ProviderReply(200, {"answer": 1}, 7, 3, 0.1)


@pytest.mark.parametrize(("limits", "calls"), [({"tokens": 100}, 10), ({"usd": 0.95}, 10), ({"tokens": 101}, 11)])
def test_tokens_and_dollars_are_overrun_by_one_answer_at_most(
    bench: Bench, limits: dict[str, float], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Tokens()
    answered_by(monkeypatch, provider)
    result = bench.run(**run_budget(**limits))
    assert provider.asked == calls
    assert sum(row.total_tokens for row in result.rows) == 10 * calls
    assert {row.feedback for row in result.rows if row.status == "skipped"} == {
        f"the run's budget of {next(iter(limits.values()))} {next(iter(limits))} is used up"
    }


def test_a_job_that_was_under_way_when_its_controller_died_is_counted_once(bench: Bench) -> None:
    plan = bench.records(**run_budget(calls=10))
    sandbox = bench.sandbox(plan, plan.jobs[0])
    bench.converse(plan, plan.jobs[0], sandbox, until="history")  # one call was answered
    result = bench.run(**run_budget(calls=10))
    assert result.run_id == plan.run_id
    assert sum(row.llm_calls for row in result.rows) == 10


def test_when_the_time_is_up_running_jobs_end_in_order_and_no_other_starts(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="hangs")
    result = bench.run(**run_budget(seconds=1.5), max_workers=2)
    ran = [row for row in result.rows if row.status == "ok"]
    assert len(ran) == 2
    assert all(row.stop_reason == "budget" and row.cut_by_run_budget for row in ran)
    assert all(row.score_best is not None for row in ran), "they are scored"
    assert {row.feedback for row in result.rows if row.status == "skipped"} == {
        "the run's budget of 1.5 seconds is used up"
    }
    bench.backend.script = lambda job_id, number: Script()
    made = len(bench.backend.created)
    again = bench.run(**run_budget(seconds=1.5))
    assert again.run_id == result.run_id and len(bench.backend.created) == made
    more = bench.run(**run_budget(seconds=600))
    assert more.run_id == result.run_id and more.ok


def test_the_seconds_of_all_controllers_count(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / "run").make()
    with Journal(layout.events) as lines:
        for second, event in [(0, "run.start"), (10, "job.start"), (100, "run.start"), (103, "run.end")]:
            said = {"seconds": 3.0} if event == "run.end" else {}
            lines.append({"t": f"2026-01-02T03:{second // 60:02d}:{second % 60:02d}Z", "event": event, **said})
    spent = spent_before(layout, (), RunBudgetConfig(seconds=20))
    assert spent.seconds == 13.0
    now = [50.0]
    budget = RunBudget(RunBudgetConfig(seconds=20), spent, clock=lambda: now[0])
    assert budget.used_up() is None
    budget.begin()
    now[0] = 56.5
    assert budget.used_up() is None
    now[0] = 57.0
    assert budget.used_up() == "the run's budget of 20 seconds is used up"
    with Journal(layout.events) as lines:
        lines.append({"t": "2026-01-02T04:00:00Z", "event": "run.start", "afresh": True})
        lines.append({"t": "2026-01-02T04:00:02Z", "event": "run.end"})
    assert spent_before(layout, (), RunBudgetConfig(seconds=20)).seconds == 2.0


def test_what_a_killed_controller_says_of_its_seconds_counts_and_not_the_clock(tmp_path: Path) -> None:
    """The clock was set forward by a day while it was at work, and back before the next one."""
    layout = RunLayout(tmp_path / "run").make()
    with Journal(layout.events) as lines:
        for t, event, seconds in [("02T00:00:00", "run.start", 0.0), ("03T00:00:07", "job.start", 7.0),
                                  ("01T00:00:00", "run.start", 0.0), ("01T00:00:02", "job.end", 2.0)]:  # fmt: skip
            lines.append({"t": f"2026-01-{t}Z", "event": event, "seconds": seconds})
    assert spent_before(layout, (), RunBudgetConfig(seconds=20)).seconds == 9.0


def test_every_line_of_the_journal_says_how_long_the_controller_was_at_work(bench: Bench) -> None:
    said = [line["seconds"] for line in journal(bench.run().layout)]
    assert said == sorted(said) and said[-1] > said[0] >= 0


def test_a_damaged_cassette_is_noted_and_counts_nothing(bench: Bench) -> None:
    first = bench.run(**run_budget(calls=10))
    whole = next(row for row in first.rows if row.stop_reason == "completed")
    bench_layout = first.layout.job(whole.job_id)
    bench_layout.cassette.write_text("no json\n{}\n")
    plan = bench.plan(**run_budget(calls=100))
    assert any(whole.job_id in warning and "does not count" in warning for warning in plan.warnings)
    assert whole.job_id not in plan.spent.jobs


def test_a_run_without_a_budget_reads_no_cassette_again(bench: Bench) -> None:
    bench.run()
    assert bench.plan(run_id=bench.runs()[0].name).spent == Spent()


@pytest.mark.parametrize(("mode", "calls"), [("stub", 5), ("replay", None)])
def test_a_replay_has_no_budget_of_its_run(bench: Bench, mode: str, calls: int | None) -> None:
    config = bench.load(**run_budget(calls=5)).model_copy(update={"mode": mode})
    assert limits_of(config).calls == calls


# ------------------------------------------------------------------------------------------------- totals that agree


def test_every_table_agrees_with_the_cassettes_to_the_token(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over attempts that failed, retries, answers that were refused, and calls that were answered again."""
    monkeypatch.setattr("trace_bench.execution.job_runner.FIRST_PAUSE", 0.01)
    answered_by(monkeypatch, Uneven())
    bench.backend.script = lambda job_id, number: Script(calls=5, ends="dies" if number == 1 else "done")
    result = bench.run(retries=2)
    assert {row.status for row in result.rows} == {"ok"}
    columns = {row["job_id"]: row for row in table(result.layout)}
    lines = []
    for row in result.rows:
        job = result.layout.job(row.job_id)
        calls = list(read_calls(job.cassette))
        lines += calls
        usage = usage_of(calls)
        assert usage.reused >= 4, "the first attempt's answers were given again"
        meta = read(job.meta)
        assert Usage.model_validate(meta["usage"]) == usage
        assert Usage.model_validate(meta["usage_by_phase"]["train"]) == usage
        assert read(job.results)["cost_usd"] == usage.cost_usd
        for column, value in {
            "llm_calls": usage.calls, "llm_tries": usage.tries, "llm_reused": usage.reused,
            "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens, "reasoning_tokens": usage.reasoning_tokens,
            "total_tokens": usage.total_tokens, "cost_usd": usage.cost_usd,
        }.items():  # fmt: skip
            assert json.loads(columns[row.job_id][column]) == value, column
    whole = usage_of(lines)
    summary = read(result.layout.summary)
    assert summary["token_totals"] == {
        "prompt": whole.prompt_tokens, "completion": whole.completion_tokens, "cached": whole.cached_tokens,
        "reasoning": whole.reasoning_tokens, "total": whole.total_tokens,
    }  # fmt: skip
    assert (summary["llm_calls"], summary["llm_tries"]) == (whole.calls, whole.tries)
    assert summary["cost_usd"] == pytest.approx(whole.cost_usd, rel=1e-15)
    assert any(line["event"] == "job.retry" for line in journal(result.layout))


class Uneven:
    """Other tokens, prices, tries and refusals for each question."""

    name = "uneven"
    paid = True
    uses_hints = False
    quick = True

    def complete(self, request: ProviderRequest) -> ProviderReply:
        from trace_bench.artifacts.calls import LlmTry

        n = int(request.request_hash[:4], 16)
        tries = (*[LlmTry(status=429, seconds=0.1)] * (n % 3), LlmTry(status=200, seconds=0.2))
        if n % 11 == 0:
            return ProviderReply(400, {"error": {"message": "no"}}, tries=tries)
        return ProviderReply(
            200, {"n": n}, n % 97, n % 89, 0.1 * (n % 7) + 1e-9, cached_tokens=n % 5, reasoning_tokens=n % 3,
            estimated=n % 2 == 0, tries=tries,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------- the response cache


def test_a_run_that_keeps_answers_gives_them_to_the_next_one(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    provider = Tokens()
    answered_by(monkeypatch, provider)
    first = bench.run(max_workers=1)
    assert not (tmp_path / "home").exists(), "it is off unless asked for"
    assert provider.asked == 24
    second = bench.run(max_workers=1, llm_cache=True, name="another")
    paid = provider.asked - 24
    third = bench.run(max_workers=1, llm_cache=True, name="a third")
    assert provider.asked == 24 + paid, "all of it was there"
    assert first.run_id != second.run_id != third.run_id
    assert [row.llm_cached for row in third.rows] == [3] * 8
    assert [row.cost_usd for row in third.rows] == [0.0] * 8
    assert [row.total_tokens for row in third.rows] == [row.total_tokens for row in first.rows]
    assert read(third.layout.summary)["llm_cached"] == 24
    forced = bench.run(max_workers=1, llm_cache=True, name="a third", run_id=third.run_id, resume="none")
    assert [row.llm_cached for row in forced.rows] == [0] * 8
