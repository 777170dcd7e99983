"""Ways of tampering with what a job came to: scores, tokens, states, history, calls, attempts, endings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.audit.forger import Forger, Forgery, forgery
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.writers import write_json
from trace_bench.artifacts.yamlio import read_state, write_state
from trace_bench.records.gaps import Gaps
from trace_bench.records.reading import last_result, read_meta, read_row

JOB_FORGERIES: list[Forgery] = []
finds: Callable[..., Any] = partial(forgery, JOB_FORGERIES)


# ------------------------------------------------------------------------------------------------------------ scores


@finds("derivation.results", "score_best")
def a_better_score_in_the_row_alone(forger: Forger) -> None:
    forger.row(score_best=500.0)


@finds("derivation.results", "score_best")
def a_better_score_in_the_row_and_all_tables(forger: Forger) -> None:
    forger.row(score_best=500.0)
    forger.tables()


@finds("derivation.results", "score_test")
def a_better_score_on_held_out_data(forger: Forger) -> None:
    forger.row(score_test=500.0)
    forger.tables()


@finds("derivation.results", "normalised")
def a_better_metric(forger: Forger) -> None:
    with forger.json(forger.good.results) as row:
        row["metrics_best"]["normalised"] = 1.0
    forger.tables()


@finds("derivation.results", "score_initial")
def a_worse_start(forger: Forger) -> None:
    forger.row(score_initial=1.0)
    forger.tables()


@finds("derivation.scores", "best")
def a_better_score_in_the_sandboxs_result_too(forger: Forger) -> None:
    with forger.json(forger.result) as result:
        result["scores"]["best"]["validate"] = 500.0
        result["scores"]["best"]["metrics"]["validate"]["score"] = 500.0
    with forger.json(forger.good.results) as row:
        row["score_best"] = row["metrics_best"]["score"] = 500.0
    forger.tables()


def better_examples(forger: Forger, by: float, split: str = "validate") -> float:
    """Every example of a split was better by `by`, in result and row; returns the mean that comes of it."""
    with forger.json(forger.result) as result:
        for state in ("best", "final"):
            scores = result["scores"][state]
            for example in scores["examples"]:
                if example["split"] == split:
                    example["score"] += by
                    example["metrics"]["score"] += by
            found = [example["score"] for example in scores["examples"] if example["split"] == split]
            scores[split] = scores["metrics"][split]["score"] = sum(found) / len(found)
    mean = float(scores[split])
    with forger.json(forger.good.results) as row:
        if split == "test":
            row["score_test"] = row["metrics_test"]["score"] = mean
        else:
            row["score_best"] = row["score_final"] = row["metrics_best"]["score"] = row["metrics_final"]["score"] = mean
    meta = read_meta(forger.good)
    assert meta is not None
    write_json(
        forger.good.results, Gaps.read(forger.run).put(read_row(forger.good.results), last_result(forger.good, meta))
    )
    return mean


def gaps_anew(forger: Forger) -> None:
    """The gaps of all rows and tables, from what yardsticks say now."""
    for job in forger.run.job_dirs():
        if (meta := read_meta(job)) is not None and meta.attempts:
            write_json(job.results, Gaps.read(forger.run).put(read_row(job.results), last_result(job, meta)))
    forger.tables()


@finds("derivation.scores", "best_known")
def a_best_known_score_that_no_table_has(forger: Forger) -> None:
    """It goes before the score of the reference program, so that gaps are whatever one likes."""
    with forger.json(forger.run.yardsticks) as found:
        for yardstick in found["yardsticks"]:
            yardstick["best_known"] = yardstick["reference"]
            for scores in yardstick["best_known"].values():
                scores |= {name: 0.99 * score for name, score in scores.items()}
    gaps_anew(forger)


@finds("derivation.integrity", "best")
def better_examples_too(forger: Forger) -> None:
    better_examples(forger, 1.0)
    forger.tables()


@finds("derivation.integrity", "claim_differs")
def better_examples_and_what_the_scorer_found(forger: Forger) -> None:
    mean = better_examples(forger, 1.0)
    with forger.json(forger.good.meta) as meta:
        meta["integrity_report"]["found"] |= {"best": mean, "final": mean}
    forger.tables()


def better_claims(forger: Forger, mean: float) -> None:
    """What training claimed, and the scorer found, is `mean`."""
    with forger.json(forger.result) as result, forger.json(forger.good.meta) as meta:
        for state in ("best", "final"):
            result["integrity"]["claims"][state]["score"] = mean
            meta["integrity_report"]["claims"][state]["score"] = meta["integrity_report"]["found"][state] = mean
    forger.row(score_claimed=mean)


@finds("derivation.states", "claims.best")
def better_examples_and_what_training_claimed(forger: Forger) -> None:
    better_claims(forger, better_examples(forger, 1.0))
    forger.tables()


@finds("derivation.integrity", "flags")
def a_flag_that_is_taken_away(forger: Forger) -> None:
    with forger.json(forger.result) as result, forger.json(forger.good.meta) as meta:
        signs = {"best": [{"kind": "attribute", "line": 1, "text": "x.__globals__"}]}
        result["integrity"]["signs"] = meta["integrity_report"]["signs"] = signs


@finds("derivation.integrity", "unchanged")
def a_scorer_that_was_changed_after_all(forger: Forger) -> None:
    with forger.json(forger.result) as result:
        result["integrity"]["scorer_files"]["unchanged"] = False


# ------------------------------------------------------------------------------------------------- what it has cost


@finds("derivation.results", "prompt_tokens")
def fewer_tokens_in_the_row(forger: Forger) -> None:
    with forger.json(forger.good.results) as row:
        row["prompt_tokens"] -= 1
        row["total_tokens"] -= 1
    forger.tables()


@finds("derivation.usage", "prompt_tokens")
def fewer_tokens_in_the_record_too(forger: Forger) -> None:
    fewer_tokens_in_the_row(forger)
    with forger.json(forger.good.meta) as meta:
        meta["usage"]["prompt_tokens"] -= 1
        meta["usage_by_phase"]["train"]["prompt_tokens"] -= 1


@finds("derivation.answers", "tokens")
def fewer_tokens_in_the_cassette_too(forger: Forger) -> None:
    fewer_tokens_in_the_record_too(forger)
    with forger.lines(forger.good.cassette) as calls:
        calls[0]["prompt_tokens"] -= 1


@finds("derivation.history", "prompt_tokens")
def fewer_tokens_in_the_answer_too(forger: Forger) -> None:
    fewer_tokens_in_the_cassette_too(forger)
    with forger.lines(forger.good.cassette) as calls:
        calls[0]["response"]["usage"]["prompt_tokens"] -= 1
        calls[0]["response"]["usage"]["total_tokens"] -= 1


@finds("derivation.usage", "prompt_tokens")
def tokens_that_late_calls_are_said_to_have_cost(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        for usage in (meta["usage"], *meta["usage_by_phase"].values()):
            usage["prompt_tokens"] = 0
        meta["warnings"].append("1 LLM call was under way when the job ended and came to no end in time")
        meta["attempts"][-1]["ended_at"] = meta["ended_at"]
        completion = meta["usage"]["completion_tokens"]
    forger.row(prompt_tokens=0, total_tokens=completion)
    forger.tables()


def cheaper(forger: Forger, **source: Any) -> None:
    """All calls cost nothing, as another one has paid for them."""
    with forger.lines(forger.good.cassette) as calls:
        for call in calls:
            call |= {"cost_usd": 0.0, **source}
    with forger.json(forger.good.meta) as meta:
        for usage in (meta["usage"], *meta["usage_by_phase"].values()):
            usage["cost_usd"] = 0.0
    with forger.lines(forger.good.state_history) as lines:
        for line in lines:
            line["cost_usd"] = 0.0
    forger.row(cost_usd=0.0)
    forger.tables()


@finds("derivation.cassette", "replayed_from")
def a_recording_that_is_said_to_have_paid(forger: Forger) -> None:
    cheaper(forger, replayed_from=1)


@finds("derivation.cassette", "unasked")
def calls_that_nobody_is_said_to_have_asked_for(forger: Forger) -> None:
    cheaper(forger, unasked=True)


@finds("derivation.prices", "llm_cache")
def a_cache_that_is_said_to_have_paid(forger: Forger) -> None:
    cheaper(forger, cached=True, tries=[])
    with forger.lines(forger.run.events) as events:
        starts = [n for n, event in enumerate(events) if event["event"] == "run.start"]
        del events[starts[1]]


@finds("derivation.prices", "tries")
def a_cache_that_was_asked_and_the_provider_too(forger: Forger) -> None:
    cheaper(forger, cached=True, tries=[{"status": 200, "seconds": 0.1}])


@finds("derivation.results", "cost_usd")
def a_lower_cost_in_the_row(forger: Forger) -> None:
    forger.row(cost_usd=0.001)
    forger.tables()


@finds("derivation.history", "cost_usd")
def a_lower_cost_in_cassette_record_and_row(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        for call in calls:
            call["cost_usd"] = 0.0
    with forger.json(forger.good.meta) as meta:
        meta["usage"]["cost_usd"] = meta["usage_by_phase"]["train"]["cost_usd"] = 0.0
    forger.row(cost_usd=0.0)
    forger.tables()


@finds("derivation.results", "evaluations")
def fewer_evaluations(forger: Forger) -> None:
    forger.row(evaluations=3)
    forger.tables()


@finds("derivation.history", "evaluations")
def fewer_evaluations_in_the_result_too(forger: Forger) -> None:
    fewer_evaluations(forger)
    with forger.json(forger.result) as result:
        result["evaluations"] = 3


# ------------------------------------------------------------------------------------------------ states and history


def shorter(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "code": state["code"] + "# and so on\n"}


@finds("derivation.states", "best_state.yaml")
def another_best_state(forger: Forger) -> None:
    write_state(forger.good.best_state, shorter(read_state(forger.good.best_state)))


@finds("derivation.history", "a state of the history")
def another_best_state_in_the_volume_too(forger: Forger) -> None:
    another_best_state(forger)
    with forger.json(forger.states) as states:
        states["best"] = shorter(states["best"])


@finds("derivation.states", "initial")
def another_start(forger: Forger) -> None:
    write_state(forger.good.initial_state, shorter(read_state(forger.good.initial_state)))
    with forger.json(forger.states) as states:
        states["initial"] = shorter(states["initial"])


@finds("derivation.states", "final_state.yaml")
def a_state_that_is_gone(forger: Forger) -> None:
    forger.good.final_state.unlink()


@finds("derivation.history", "best_score")
def a_better_candidate_in_the_history(forger: Forger) -> None:
    with forger.lines(forger.good.state_history) as lines:
        lines[1]["score"] = 600.0


@finds("derivation.history", "a state of the history")
def a_line_of_the_history_that_is_gone(forger: Forger) -> None:
    with forger.lines(forger.good.state_history) as lines:
        del lines[-1]


@finds("derivation.history", "")
def a_line_of_the_history_that_was_put_in(forger: Forger) -> None:
    with forger.lines(forger.good.state_history) as lines:
        lines.insert(1, {**lines[-1], "score": 1.0})


@finds("derivation.pareto", "pareto.json")
def a_better_front(forger: Forger) -> None:
    with forger.json(forger.good.pareto) as front:
        front["hypervolume"] += 100.0


# ----------------------------------------------------------------------------------------------------- the cassette


@finds("derivation.cassette", "request_hash")
def another_question_in_the_cassette(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        calls[0]["request"]["body"]["messages"][1]["content"] += " Be brief."


@finds("derivation.cassette", "n")
def a_call_that_is_gone(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        del calls[1]


@finds("derivation.usage", "calls")
def a_call_that_is_gone_and_the_others_numbered_anew(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        del calls[1]
        for number, call in enumerate(calls, start=1):
            call["n"] = number


@finds("derivation.usage", "calls")
def a_call_that_was_put_in(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        calls.append({**calls[-1], "n": len(calls) + 1, "request_id": "train-99"})


@finds("derivation.cassette", "n")
def calls_in_another_order(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        calls[0], calls[-1] = calls[-1], calls[0]


@finds("derivation.cassette", "t")
def calls_in_another_order_and_numbered_anew(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        calls[0], calls[-1] = calls[-1], calls[0]
        for number, call in enumerate(calls, start=1):
            call["n"] = number


@finds("derivation.cassette", "attempt")
def a_call_of_an_attempt_that_never_was(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        calls[-1]["attempt"] = 7


@finds("derivation.usage", "usage.calls")
def a_call_that_is_said_to_be_an_earlier_one(forger: Forger) -> None:
    """One call less to pay for."""
    with forger.lines(forger.good.cassette) as calls:
        calls[-1] |= {"reused_from": 1, "response": None}


# ------------------------------------------------------------------------------------------- attempts and endings


def no_failure(forger: Forger) -> None:
    with forger.json(forger.failed.meta) as meta:
        meta |= {"status": "ok", "failure": None, "stop_reason": "completed"}
        meta["attempts"][-1] |= {"status": "ok", "failure": None}
    forger.row(forger.failed, status="ok", failure_kind=None, failure_boundary=None, stop_reason="completed")


@finds("derivation.results", "status")
def a_failed_job_that_is_ok_in_its_row(forger: Forger) -> None:
    forger.row(forger.failed, status="ok", failure_kind=None, failure_boundary=None)
    forger.tables()


@finds("derivation.record", "status")
def a_failed_job_that_is_ok_everywhere_but_in_the_sandboxs_result(forger: Forger) -> None:
    no_failure(forger)
    forger.entry(forger.failed, status="ok", reason="completed")
    forger.tables()


@finds("conduct.journal", "job.end")
def a_failed_job_that_is_ok_everywhere_but_in_the_journal(forger: Forger) -> None:
    no_failure(forger)
    forger.entry(forger.failed, status="ok", reason="completed")
    with forger.json(forger.failed.attempt_out(2) / "result.json") as result:
        result |= {"status": "ok", "failure": None, "stop_reason": "completed"}
    forger.tables()


def blame(forger: Forger, boundary: str) -> None:
    with forger.json(forger.failed.meta) as meta:
        meta["failure"]["boundary"] = meta["attempts"][-1]["failure"]["boundary"] = boundary
    forger.row(forger.failed, failure_boundary=boundary)
    forger.tables()


@finds("conduct.journal", "finished")
def a_failure_that_is_laid_to_the_sandbox_and_so_left_out_of_means(forger: Forger) -> None:
    blame(forger, "sandbox")


@finds("conduct.attempts", "1")
def an_attempt_whose_folder_is_gone(forger: Forger) -> None:
    shutil.rmtree(forger.failed.attempt(1))


@finds("conduct.attempts", "")
def an_attempt_that_is_hidden(forger: Forger) -> None:
    """The first one, with all that was kept of it; the second one is said to be the first."""
    hide_an_attempt(forger, forger.failed)


def hide_an_attempt(forger: Forger, job: JobLayout) -> None:
    shutil.rmtree(job.attempt(1))
    with forger.json(job.meta) as meta:
        del meta["attempts"][0]


@finds("conduct.journal", "job.start")
def an_attempt_that_is_hidden_and_the_other_one_renamed(forger: Forger) -> None:
    hide_an_attempt(forger, forger.failed)
    forger.failed.attempt(2).rename(forger.failed.attempt(1))
    with forger.json(forger.failed.meta) as meta:
        meta["attempts"][0]["number"] = 1
    with forger.lines(forger.failed.cassette) as calls:
        for call in calls:
            call["attempt"] = 1


@finds("conduct.attempts", "")
def an_attempt_that_ended_before_it_began(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["attempts"][0]["ended_at"] = "2020-01-01T00:00:00Z"


@finds("derivation.seconds", "time_seconds")
def a_job_that_took_a_year(forger: Forger) -> None:
    forger.row(time_seconds=3e7)
    forger.tables()
