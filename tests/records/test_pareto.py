"""``pareto.json`` from histories, honest ones and others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.artifacts.samples import HISTORY
from trace_bench.artifacts.contract import MetricSpec, ObjectiveSpec
from trace_bench.artifacts.derived import ParetoFront
from trace_bench.records import pareto
from trace_bench.records.pareto import pareto_front

LOSS = MetricSpec(direction="minimize", failure=9.0, reference=4.0)
HITS = MetricSpec(direction="maximize", failure=0.0)
OBJECTIVE = ObjectiveSpec(
    score_direction="maximize", metrics={"loss": LOSS, "hits": HITS}, pareto_metrics=("loss", "hits")
)
JOB = "0123456789ab"


def line(number: int, loss: float, hits: float, **changed: Any) -> dict[str, Any]:
    metrics = {"score": 0.5, "loss": loss, "hits": hits, "undeclared": 1.0}
    return {**HISTORY, "step": number, "candidate": f"c{number}", "metrics": metrics, "comparable": True,
            "parameters": {"guess": float(number)}, **changed}  # fmt: skip


def front_of(tmp_path: Path, lines: list[dict[str, Any]], objective: ObjectiveSpec = OBJECTIVE) -> ParetoFront | None:
    path = tmp_path / "state_history.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return pareto_front(path, JOB, objective)


def test_it_has_the_states_that_no_other_dominates_best_first_on_the_first_metric(tmp_path: Path) -> None:
    values = [(3.0, 1.0), (2.0, 1.0), (1.0, 0.5), (2.5, 3.0), (2.0, 1.0)]
    found = front_of(tmp_path, [line(i, *value) for i, value in enumerate(values)])
    assert found is not None
    assert [(p.candidate, p.line, p.step) for p in found.points] == [
        ("c2", 3, 2), ("c1", 2, 1), ("c4", 5, 4), ("c3", 4, 3),
    ]  # fmt: skip
    assert found.points[0].metrics == {"score": 0.5, "loss": 1.0, "hits": 0.5}
    assert found.points[0].parameters == {"guess": 2.0}
    assert (found.candidates, found.left_out, found.split) == (5, 0, "validate")
    assert found.metrics == {"loss": "minimize", "hits": "maximize"}
    # Loss from the task's 4; hits from the worst of all candidates, 0.5.
    assert found.reference == {"loss": 4.0, "hits": 0.5}
    assert found.reference_from == {"loss": "task", "hits": "worst"}
    assert found.hypervolume == 1.5 * 2.5 + 0.5 * 0.5


def test_a_reference_of_the_config_goes_before_the_tasks(tmp_path: Path) -> None:
    objective = OBJECTIVE.model_copy(update={"references": {"loss": 10.0, "hits": 0.0}})
    found = front_of(tmp_path, [line(0, 1.0, 2.0)], objective)
    assert found is not None and found.hypervolume == 18.0
    assert set(found.reference_from.values()) == {"config"}


def test_the_score_may_be_traded_in_its_own_direction(tmp_path: Path) -> None:
    objective = OBJECTIVE.model_copy(update={"pareto_metrics": ("score", "loss"), "score_direction": "minimize"})
    one, two = line(0, 1.0, 0.0), line(1, 1.0, 0.0)
    two["metrics"]["score"] = 0.25
    found = front_of(tmp_path, [one, two], objective)
    assert found is not None and [p.candidate for p in found.points] == ["c1"]


def test_only_states_that_were_judged_on_all_of_the_split_count_and_each_once(tmp_path: Path) -> None:
    lines = [
        line(0, 3.0, 1.0),
        line(1, 0.0, 9.0, comparable=False),
        line(2, 0.0, 9.0, split="train"),
        line(3, 0.0, 9.0, parameters={"guess": 0.0}),
        line(4, 0.0, 9.0, metrics={"loss": 0.0}),
    ]
    found = front_of(tmp_path, lines)
    assert found is not None and [p.candidate for p in found.points] == ["c0"]
    assert (found.candidates, found.left_out) == (1, 2)


@pytest.mark.parametrize(
    "objective",
    [ObjectiveSpec(), OBJECTIVE.model_copy(update={"pareto_metrics": ("loss",)}),
     OBJECTIVE.model_copy(update={"pareto_metrics": ("loss", "strange")})],
)  # fmt: skip
def test_without_two_metrics_there_is_none(tmp_path: Path, objective: ObjectiveSpec) -> None:
    assert front_of(tmp_path, [line(0, 1.0, 1.0)], objective) is None


def test_without_a_history_or_a_state_that_counts_there_is_none(tmp_path: Path) -> None:
    assert pareto_front(tmp_path / "none.jsonl", JOB, OBJECTIVE) is None
    assert front_of(tmp_path, [line(0, 1.0, 1.0, comparable=False)]) is None


def test_hostile_numbers_and_broken_ends_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "state_history.jsonl"
    lines = [line(0, 1e308, -1e308), line(1, -1e308, 1e308), line(2, -1e308, -1e308), line(3, 5e-324, -5e-324)]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines) + '{"step": 1, "cand')
    found = pareto_front(path, JOB, OBJECTIVE)
    assert found is not None and [p.candidate for p in found.points] == ["c1"] and found.hypervolume is None
    assert json.loads(found.model_dump_json())["reference"] == {"loss": 4.0, "hits": -1e308}


def test_too_many_candidates_and_too_large_a_front_are_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pareto, "MOST_CANDIDATES", 8)
    monkeypatch.setattr(pareto, "MOST_POINTS", 5)
    found = front_of(tmp_path, [line(i, float(i), float(i)) for i in range(10)])
    assert found is not None and len(found.points) == 5 and (found.candidates, found.left_out) == (8, 2 + 3)
    assert found.hypervolume is None
    monkeypatch.setattr(pareto, "MOST_BYTES", 10)
    found = front_of(tmp_path, [line(i, 1.0, 1.0) for i in range(2)])
    assert found is not None and [p.parameters for p in found.points] == [None, None]
