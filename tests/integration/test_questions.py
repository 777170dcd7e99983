"""Questions of a data set's fixture, in containers: asked of a provider over HTTP, and replayed without it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import OpenAIServer
from tests.integration.cli import cli, result_of, run
from tests.integration.files import check_files
from tests.integration.test_replay import assert_equal
from trace_bench.suites.hf.agents import TEMPLATES

pytestmark = pytest.mark.docker

ROWS = Path(__file__).parents[2] / "benchmarks/hf/fixtures/openai--gsm8k"
GOLD = {
    row["question"]: row["answer"].rpartition("#### ")[2]
    for split in ("train", "test")
    for row in map(json.loads, (ROWS / f"{split}.jsonl").read_text().splitlines())
}
SIZES = {"fixture": True, "num_train": 3, "num_validate": 3, "num_test": 4}
TRAINERS = [{"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 1}},
            {"id": "BasicSearch", "params": {"num_proposals": 2, "num_epochs": 1}}]  # fmt: skip


def answered(body: Mapping[str, Any]) -> str:
    """A provider's model: it knows half of the answers, and all of them where it is asked to think; to an optimizer it
    proposes that."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    found = [question for question in GOLD if question in prompt]
    if "#Variables" in prompt:
        return json.dumps({"reasoning": "Think.", "answer": "", "suggestion": {"prompt_template": TEMPLATES[3]}})
    (question,) = found
    knows = "step by step" in prompt or hashlib.sha256(question.encode()).digest()[0] % 2
    number = GOLD[question] if knows else "12345"
    return f"Let me see.\nThe answer is {number}."


@pytest.fixture(scope="module")
def recorded(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("questions")
    with OpenAIServer(answered) as server:
        model = {"provider": "openai", "base_url": server.url, "model": "gpt-x", "api_key_env": "MY_KEY"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MY_KEY", "sk-of-this-test-0123456789")
            done = run(
                folder, images, mode="real", llms=[model], seeds=[1], max_workers=2, trainers=TRAINERS,
                tasks=[{"id": "hf:gsm8k", "eval_kwargs": SIZES}],
            )  # fmt: skip
        prompts = [json.dumps(asked.body) for asked in server.requests]
    assert done["code"] == 0, done["stderr"]
    yield {**done, "prompts": prompts}


def test_a_better_prompt_is_found_and_judged_on_held_out_questions(recorded: dict[str, Any]) -> None:
    assert check_files(recorded["folder"]) > 20
    for row in recorded["jobs"]:
        assert row["status"] == "ok" and row["eval_kwargs"]["fixture"] is True
        assert row["score_best"] == 1.0 and row["score_test"] == 1.0, "the model knows all if it is to think"
    asked = [prompt for prompt in recorded["prompts"] if "#Variables" not in prompt]
    assert asked and not any("A right answer" in prompt for prompt in asked)
    told = "".join(prompt for prompt in recorded["prompts"] if "#Variables" in prompt)
    held_out = {json.loads(line)["question"] for line in (ROWS / "test.jsonl").read_text().splitlines()}
    assert "A right answer" in told and not any(question in told for question in held_out)


def test_it_comes_out_equal_without_the_provider(recorded: dict[str, Any], images: Path, tmp_path: Path) -> None:
    done = cli("run", "--replay", recorded["folder"], "--runs-dir", str(tmp_path), "--json", home=images)
    assert done.returncode == 0, done.stderr
    again = {**result_of(done.stdout), "code": done.returncode, "stderr": done.stderr}
    again["report"] = json.loads(Path(again["folder"], "meta", "replay.json").read_text())
    assert_equal(recorded["folder"], again)


def test_a_budget_of_the_run_that_ends_while_answers_are_scored_leaves_a_mean_of_what_was_scored(
    images: Path, tmp_path: Path
) -> None:
    eval_kwargs = {**SIZES, "num_validate": 1, "num_train": 1, "num_test": 6, "asked_at_once": 1}
    done = run(tmp_path, images, tasks=[{"id": "hf:gsm8k", "eval_kwargs": eval_kwargs}], trainers=["NoOp"],
               seeds=[1], budget={"calls": 1, "run": {"calls": 4}})  # fmt: skip
    (row,) = done["jobs"]
    assert row["status"] == "ok", row
    events = next(Path(done["folder"]).glob("jobs/*/events.jsonl")).read_text()
    assert re.search(r"budget ended while the initial state was scored: \d of 6 examples of test count", events)
