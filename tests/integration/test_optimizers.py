"""Every optimizer in containers: with the stub model, and with a model that gives one bad answer after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run
from tests.integration.files import check_files, values_in
from tests.integration.test_replay import assert_equal, replay
from trace_bench.trainers.optimizers import OPTIMIZERS

pytestmark = pytest.mark.docker

SEARCH = {"num_steps": 2, "num_candidates": 1, "num_proposals": 2, "num_threads": 4}
MB = "${essay} " * 10_000
"""Of the hundred characters that a rule's pattern finds in the prompt."""
NO_PYTHON = "def encode(text:\n    return text\n"
RIGHT = """from itertools import groupby


def encode(text):
    return "".join(f"{letter}{len(list(run))}" for letter, run in groupby(text))
"""
CALLS = {"OptoPrimeMulti": 4 * 6, "TextGrad": 4 * 2}
"""Of four proposals, where it is not one for each: five answers and a choice; one edge and one rewrite."""


def job_of(done: dict[str, Any], optimizer: str) -> dict[str, Any]:
    (row,) = (row for row in done["jobs"] if row["resolved_optimizer"] == optimizer)
    return dict(row)


def kept(done: dict[str, Any], row: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return values_in(Path(done["folder"], "jobs", row["job_id"], name))


@pytest.fixture(scope="module")
def stub_run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    trainers = [{"id": "PrioritySearch", "optimizer": name, "params": SEARCH} for name in OPTIMIZERS]
    folder = tmp_path_factory.mktemp("stub")
    return run(folder, images, tasks=["internal:numeric_param"], trainers=trainers, seeds=[5])


@pytest.mark.slow
def test_each_optimizer_changes_the_parameter_and_pays_for_each_call(stub_run: dict[str, Any]) -> None:
    assert stub_run["code"] == 0, stub_run["stderr"]
    assert check_files(stub_run["folder"]) > 15
    for name in OPTIMIZERS:
        row = job_of(stub_run, name)
        assert (row["status"], row["stub_inert"]) == ("ok", False), name
        calls = kept(stub_run, row, "llm.jsonl")
        assert len(calls) == CALLS.get(name, 4), name
        assert len({call["slot"] for call in calls}) == len(calls), name
        steps = history(stub_run, row)
        assert len({json.dumps(step["parameters"]) for step in steps}) >= 4, name  # the start and its children


def tagged(name: str, value: str) -> str:
    return f"<reasoning>r</reasoning>\n<variable>\n<name>{name}</name>\n<value>\n{value}\n</value>\n</variable>"


def improved(value: str) -> str:
    return f"<IMPROVED_VARIABLE>{value}</IMPROVED_VARIABLE>"


@pytest.mark.slow
def test_searches_of_several_calls_for_a_proposal_are_replayed_to_the_bit(
    stub_run: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    again = replay(stub_run["folder"], tmp_path, images)
    assert_equal(stub_run["folder"], again)
    assert again["report"]["jobs"] == len(OPTIMIZERS)


ESSAY = "(?P<essay>You .{96})"
BOMB = '<!DOCTYPE l [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
OLD = "${variables.code}"
BAD: dict[str, list[tuple[Any, str]]] = {
    "OptoPrime": [
        (MB, "proposal.unusable"),
        ('{"reasoning": "r", "suggestion": {"code0": "def', "proposal.unusable"),
        ({"suggestion": {"score0": 1}}, "proposal.unknown_variables"),
        ({"suggestion": {"code0": OLD}}, "proposal.dropped"),
        ({"suggestion": {"code0": ["a", "list"]}}, "proposal.rejected"),
        ({"suggestion": {"code0": " "}}, "proposal.rejected"),
        ("TERMINATE", "proposal.terminate"),
        ({"suggestion": {"code0": NO_PYTHON}}, ""),
        ({"suggestion": {"code0": RIGHT}}, ""),
    ],
    "OptoPrimeV2": [
        (MB, "proposal.unusable"),
        ("<variable><name>code0</name><value>def encode(text): return text", "proposal.unusable"),
        (tagged("score0", "1"), "proposal.unknown_variables"),
        (tagged("code0", OLD), "proposal.dropped"),
        (tagged("code0", "<![CDATA[<![CDATA[ ]]>]]>"), ""),  # taken as it stands, and no Python
        (BOMB + tagged("code0", "&b;"), ""),
        (tagged("code0", ""), "proposal.rejected"),
        ("TERMINATE", "proposal.terminate"),
        (tagged("code0", RIGHT), ""),
    ],
    "TextGrad": [
        (MB, "proposal.unusable"),
        ("<IMPROVED_VARIABLE>def encode(text): return text", "proposal.unusable"),
        (improved(OLD), "proposal.dropped"),
        (improved(" "), "proposal.unusable"),
        (improved(NO_PYTHON), ""),
        (improved(RIGHT), ""),
    ],
}
"""Answers in the order of steps, and the event that says what was wrong; none where it is a candidate."""
NOTHING_LEFT = ("proposal.unknown_variables", "proposal.rejected")
"""Events of an answer here after which no value is left: it counts as unusable, too."""


def script(folder: Path) -> Path:
    """A model that gives the k-th answer in the k-th step, by what the prompt of an optimizer asks for."""
    asks = {
        "OptoPrime": "following json format",
        "OptoPrimeV2": "one <variable> for each",
        "TextGrad": "IMPROVED_VARIABLE",
    }
    rules = [
        {
            "match": {"contains": asks[name], "regex": ESSAY, "number": number},
            "text" if isinstance(answer, str) else "json": answer,
        }
        for name, answers in BAD.items()
        for number, (answer, _) in enumerate(answers, start=1)
    ]
    path = folder / "bad.yaml"
    path.write_text(json.dumps({"rules": [*rules, {"match": {"contains": "gradient", "regex": ESSAY}, "text": MB}]}))
    return path


@pytest.fixture(scope="module")
def bad_run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bad")
    params = {"num_candidates": 1, "num_proposals": 1}
    trainers = [
        {"id": "PrioritySearch", "optimizer": name, "params": {**params, "num_steps": len(answers)}}
        for name, answers in BAD.items()
    ]
    llm = {"model": f"scripted:{script(folder)}"}
    return run(folder, images, tasks=["internal:code_param"], trainers=trainers, seeds=[5], llm=llm)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", BAD)
def test_bad_answers_cost_proposals_are_told_in_order_and_end_no_job(bad_run: dict[str, Any], optimizer: str) -> None:
    assert bad_run["code"] == 0, bad_run["stderr"]
    row = job_of(bad_run, optimizer)
    assert (row["status"], row["score_best"]) == ("ok", 1.0)  # the right program came last
    assert max(call["completion_tokens"] for call in kept(bad_run, row, "llm.jsonl")) > 250_000, "a megabyte"
    events = [e for e in kept(bad_run, row, "events.jsonl") if e["event"].startswith("proposal.")]
    due = [
        (step, each)
        for step, (_, event) in enumerate(BAD[optimizer], 1)
        for each in ((event, "proposal.unusable") if event in NOTHING_LEFT else (event,))
        if event
    ]
    assert [(step_of(e), e["event"]) for e in events] == due
    steps = {step["step"]: step for step in history(bad_run, row)}
    assert sorted(steps) == [0, *(n for n, (_, event) in enumerate(BAD[optimizer], 1) if not event)]
    failed = list(steps.values())[1:-1]
    assert failed and all(step["extra"]["failures"] and "SyntaxError" in step["extra"]["feedback"] for step in failed)


def step_of(event: dict[str, Any]) -> int:
    return int(event["slot"].split(";")[0].removeprefix("step="))
