"""Why answers of a model were unusable: from the events of a real run to `results`, `show` and the report."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.cli.commands.results import results
from trace_bench.cli.commands.show import show
from trace_bench.records.answers import Answers, answers_of, answers_sentences, answers_text
from trace_bench.records.reading import read_rows
from trace_bench.report.content import Report, read_source
from trace_bench.report.markdown import markdown
from trace_bench.report.page import page
from trace_bench.worker.unusable import KINDS, counted

RUN_ID = "20260102-030405-unusable"
JSON = "following json format"
SCRIPT = {
    "rules": [
        {"match": {"contains": JSON, "step": 1}, "text": "I am sorry."},
        {"match": {"contains": JSON, "step": 2}, "json": {"suggestion": {"code0": ["a", "list"]}}},
        {"match": {"contains": JSON, "step": 3, "proposal": 0}, "json": {"suggestion": {"x0": 1}}},
        {"match": {"contains": JSON}, "set": {"code": {"alternative": 0}}},
    ],
    "default": {"text": "I would rather not."},
}
WHOLE = (
    "7 of 8 answers unusable: 2 without a program, 2 without JSON, 2 with invalid values, 1 with unknown names alone"
)
SEARCH = "PrioritySearch: 5 of 6 (2 without JSON, 2 with invalid values, 1 with unknown names alone)."
PROGRAMS = "FunSearch: 2 of 2 (2 without a program)."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunLayout, str]:
    """The run, and what it printed at its end; nobody may change it."""
    folder = tmp_path_factory.mktemp("unusable")
    (folder / "bad.yaml").write_text(json.dumps(SCRIPT))
    config = {
        "name": "unusable", "run_id": RUN_ID, "runs_dir": "runs", "mode": "stub", "backend": "local", "seeds": [1],
        "llm": {"model": "scripted:bad.yaml"}, "max_workers": 2,
        "tasks": [{"id": "llm4ad:optimization/knapsack_construct", "eval_kwargs": {"n_instance": 3}}],
        "trainers": [
            {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 1, "num_proposals": 2}},
            {"id": "FunSearch", "params": {"num_steps": 1, "samples_per_prompt": 2}},
        ],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    done = cli("run", "--config", "config.json", cwd=folder)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return RunLayout(folder / "runs" / RUN_ID), done.stdout


@pytest.fixture
def run(made: tuple[RunLayout, str]) -> RunLayout:
    return made[0]


def told(capsys: pytest.CaptureFixture[str], run: RunLayout, form: str = "table") -> str:
    """What ``trace-bench results`` prints."""
    options: dict[str, Any] = {"by": "task,trainer", "where": None, "unprotected": False, "level": 0.95}
    results(str(run.root), runs_dir=run.root.parent, form=form, **options)
    return capsys.readouterr().out


def shown(capsys: pytest.CaptureFixture[str], run: RunLayout, job: str | None = None) -> str:
    """What ``trace-bench show`` prints."""
    show(str(run.root), job, run.root.parent)
    return capsys.readouterr().out


def row_of(run: RunLayout, trainer: str) -> Results:
    return next(row for row in read_rows(run) if row.trainer_id == trainer)


def test_each_event_has_a_kind_and_the_row_counts_them(run: RunLayout) -> None:
    row = row_of(run, "PrioritySearch")
    events = [json.loads(line) for line in run.job(row.job_id).events.read_text().splitlines()]
    unusable = [event for event in events if event["event"] == "proposal.unusable"]
    assert [event["kind"] for event in unusable] == ["no_json"] * 2 + ["invalid_value"] * 2 + ["unknown_names"]
    assert all(event["reason"] and event["slot"] for event in unusable)
    assert row.search_answers == 6
    assert row.unusable_answers == counted(events) == {"no_json": 2, "unknown_names": 1, "invalid_value": 2}
    with run.results_csv.open(newline="") as lines:
        written = {line["trainer_id"]: line for line in csv.DictReader(lines)}
    assert json.loads(written["PrioritySearch"]["unusable_answers"]) == row.unusable_answers
    assert written["FunSearch"]["search_answers"] == "2"


def test_the_end_of_the_run_results_and_show_say_why(
    made: tuple[RunLayout, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, ended = made
    assert WHOLE in ended
    for text in (told(capsys, run), told(capsys, run, "md"), shown(capsys, run)):
        assert WHOLE in text and SEARCH in text and PROGRAMS in text, text
    of_job = shown(capsys, run, row_of(run, "FunSearch").job_id)
    assert "2 of 2 answers unusable: 2 without a program" in of_job and "without JSON" not in of_job
    found = json.loads(told(capsys, run, "json"))
    searches = {one["trainer"]: (one["answers"], one["unusable"]) for one in found["answers"]}
    assert searches["FunSearch"] == (2, {"no_program": 2}) and searches["PrioritySearch"][0] == 6
    assert {one["keys"]["trainer"]: one["proposals"]["unusable"] for one in found["groups"]} == {
        "PrioritySearch": 5,
        "FunSearch": 2,
    }


@pytest.mark.parametrize("text_of", [page, markdown])
def test_the_report_says_why(run: RunLayout, text_of: Callable[[Report], str]) -> None:
    text = text_of(Report.of([read_source(run)]))
    assert WHOLE in text and ": 2 of 2 (2 without a program)." in text


def test_runs_of_versions_without_the_counts_have_the_reasons_of_their_events(
    run: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = RunLayout(tmp_path / "runs" / RUN_ID)
    shutil.copytree(run.root, old.root)
    for job in old.job_dirs():
        row = json.loads(job.results.read_text())
        del row["search_answers"], row["unusable_answers"]
        job.results.write_text(json.dumps(row))
        events = [json.loads(line) for line in job.events.read_text().splitlines()]
        for event in events:
            event.pop("kind", None)
        job.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    text = told(capsys, old)
    assert "7 answers unusable: 2 without a program, 2 without JSON, " in text
    assert "FunSearch: 2 (2 without a program)." in text
    assert "7 answers unusable" in shown(capsys, old)


def test_an_event_of_an_earlier_version_is_classified_by_its_reason() -> None:
    def kinds(*reasons: str, event: str = "proposal.unusable") -> dict[str, int]:
        return counted({"event": event, "reason": reason} for reason in reasons)

    assert kinds("the answer holds no JSON object (the answer was cut off at max_tokens)") == {"cut_off": 1}
    assert kinds("the message is empty", "of x0: there is nothing between <A> and </A>") == {"empty": 2}
    assert kinds("the answer holds no code block", event="summary.unusable") == {"no_program": 1}
    assert kinds("the answer holds no <variable>", "the answer has no tags") == {"no_tags": 2}
    assert kinds('the answer has no "suggestion" object', 'of the choice: the answer holds no "choice"; …') == {
        "no_suggestion": 2
    }
    assert kinds("a sentence of somebody else") == {"other": 1}
    assert kinds("the message is empty", event="proposal.rejected") == {}


@pytest.mark.parametrize("kind", [["a", "list"], "\x1b[2J", None, 7])
def test_a_kind_that_a_sandbox_made_up_counts_as_another_reason(kind: Any) -> None:
    assert counted([{"event": "proposal.unusable", "kind": kind}, {"event": ["proposal.unusable"]}]) == {"other": 1}
    assert counted([]) == {} and set(KINDS) > {"other"}


def test_the_sentence_has_a_remedy_and_no_total_that_is_not_known() -> None:
    cut = Answers(60, {"no_program": 3, "cut_off": 9})
    assert answers_sentences({"EoH": cut}) == [
        "12 of 60 answers unusable: 9 cut off, 3 without a program.",
        "Raise max_tokens of the trainer or of its optimizer.",
    ]
    assert answers_text(cut + Answers(None, {"empty": 1})) == (
        "13 answers unusable: 9 cut off, 3 without a program, 1 empty"
    )
    assert answers_text(Answers(2, {"empty": 3})) == "3 answers unusable: 3 empty", "a total that is too small is none"
    assert answers_sentences({"EoH": Answers(60)}) == []


def test_a_killed_job_is_counted_by_its_events(run: RunLayout) -> None:
    row = row_of(run, "FunSearch").model_copy(update={"search_answers": None, "unusable_answers": None})
    assert answers_of(row, run.job(row.job_id)) == Answers(None, {"no_program": 2})
    assert answers_of(None, run.job("0" * 12)) == Answers()
