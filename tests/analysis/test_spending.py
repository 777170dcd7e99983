"""What is said below a table whose searches did not spend the same, or had no room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.artifacts.samples import RESULTS
from trace_bench.analysis.spending import Spending, no_room_sentence, spending_sentences, spread_sentence
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results

FAR = {"EoH": (227, 40), "PrioritySearch": (18, 39)}


def rows_of(spent: dict[str, tuple[float, float]], **change: Any) -> list[Results]:
    """One job of each trainer, with (calls, evaluations)."""
    return [
        Results.model_validate({
            **RESULTS, "job_id": f"{place:012x}", "trainer_id": trainer, "llm_calls": calls, "evaluations": evaluations,
            "resolved_trainer_kwargs": {"num_steps": 5}, "stop_reason": "completed", **change,
        })
        for place, (trainer, (calls, evaluations)) in enumerate(spent.items())
    ]  # fmt: skip


def said(spent: dict[str, tuple[float, float]], **change: Any) -> str:
    return " ".join(spending_sentences(None, rows_of(spent, **change)))


def test_searches_that_no_budget_ended_and_that_spent_differently_are_told_apart() -> None:
    text = said(FAR)
    assert (
        text
        == "EoH asked the model 227 times a job, PrioritySearch asked 18 times: set --budget to compare on equal terms."
    )


def test_a_budget_that_ends_them_all_makes_them_equal_in_one_kind() -> None:
    assert said({"EoH": (60, 70), "PrioritySearch": (60, 200)}, stop_reason="budget") == ""
    assert said({"EoH": (60, 100), "PrioritySearch": (9, 98)}, stop_reason="budget") == ""
    same_dollars = {"cost_usd": 1.0, "total_tokens": 5}
    assert said({"EoH": (60, 70), "PrioritySearch": (9, 200)}, stop_reason="budget", **same_dollars) == ""


def test_a_budget_that_not_all_reach_is_no_common_one() -> None:
    rows = rows_of({"EoH": (60, 70), "PrioritySearch": (18, 39)})
    rows[0] = rows[0].model_copy(update={"stop_reason": "budget"})
    (text,) = spending_sentences(None, rows)
    assert text.endswith(
        "PrioritySearch asked 18 times: not all reach the budget, and a smaller one compares on equal terms."
    )


def test_spending_that_is_equal_by_chance_in_one_kind_alone_is_no_equal_terms() -> None:
    assert said(FAR), "the evaluations are nearly the same, and no budget had them so"
    assert said({"EoH": (20, 40), "PrioritySearch": (18, 39)}) == ""


def test_who_asks_no_model_is_compared_by_evaluations() -> None:
    text = said({"RandomProposals": (0, 10), "PrioritySearch": (18, 39)})
    assert text.startswith("PrioritySearch made 39 evaluations a job, RandomProposals made 10: ")


def test_a_baseline_without_a_search_is_not_compared() -> None:
    rows = rows_of(FAR)
    rows[0] = rows[0].model_copy(update={"trainer_id": "NoOp", "llm_calls": 0, "resolved_trainer_kwargs": {}})
    assert spending_sentences(None, rows) == []


def test_jobs_that_failed_and_tasks_of_one_configuration_say_nothing() -> None:
    assert said(FAR, status="failed", failure_kind="x", failure_boundary="trainer") == ""
    rows = rows_of(FAR)
    assert spending_sentences(None, [rows[0], rows[1].model_copy(update={"task_id": "internal:other"})]) == []


def test_variants_and_models_are_named_where_they_differ() -> None:
    rows = rows_of({"a": (50, 5), "b": (5, 5)}, trainer_id="EoH")
    rows = [row.model_copy(update={"variant": f"num_steps={n}"}) for n, row in enumerate(rows)]
    assert spending_sentences(None, rows)[0].startswith(
        "EoH num_steps=0 asked the model 50 times a job, EoH num_steps=1 asked 5 times"
    )


def test_the_names_of_a_comparison_are_its_parts() -> None:
    rows = rows_of(FAR)
    jobs = [Spending(name, "task", row) for name, row in zip(("old", "new"), rows, strict=True)]
    assert spread_sentence(jobs).startswith("old asked the model 227 times a job, new asked 18 times")


@pytest.mark.parametrize(
    ("lines", "reason", "found"),
    [
        ([{"candidate": "seed", "parents": []}], "budget", True),
        ([{"candidate": "seed", "parents": []}, {"candidate": "s1", "parents": ["seed"]}], "budget", False),
        ([{"candidate": "seed", "parents": []}], "completed", False),
    ],
)
def test_a_search_that_its_budget_ended_before_it_judged_a_proposal_is_named(
    tmp_path: Path, lines: list[dict[str, Any]], reason: str, found: bool
) -> None:
    (row,) = rows_of({"EoH": (1, 5)}, stop_reason=reason)
    run = RunLayout(tmp_path)
    history = run.job(row.job_id).state_history
    history.parent.mkdir(parents=True)
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = no_room_sentence([(row, run.job(row.job_id))])
    expected = (
        "1 job judged no proposal before its budget ended, so that its score is that of the start (EoH): "
        "a larger budget lets them search."
    )
    assert text == (expected if found else "")
    assert spending_sentences(run, [row]) == ([expected] if found else [])
