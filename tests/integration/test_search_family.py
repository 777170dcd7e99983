"""The searches of PrioritySearch's engine in containers: embeddings and summaries through the gateway, and replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, history, run
from tests.integration.files import check_files, values_in
from tests.integration.test_replay import assert_equal, replay

pytestmark = pytest.mark.docker

SIZES = {"num_steps": 4, "num_candidates": 2, "num_proposals": 2}
POLCA = {**SIZES, "epsilon": 0.5, "embedding_model": "job", "use_summarizer": True, "summary_frequency": 2}
TRAINERS = [
    {"id": "StreamingPrioritySearch", "params": {**SIZES, "num_steps": 6}},
    {"id": "ParetobasedPS", "params": SIZES},
    {"id": "POLCA", "params_variants": [POLCA, {**POLCA, "num_threads": 4}, {**SIZES, "epsilon": 0.0}]},
]
WHAT_COUNTS = ("score", "best_score", "parameters", "candidate", "step", "split", "accepted", "extra")
RULE = """rules:
  - name: summary
    match: {candidate: summary}
    text: "<summary>Go towards 3 (step ${step}).</summary>"

"""


@pytest.fixture(scope="module")
def done(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("family")
    script = (REPOSITORY / "configs" / "scripted" / "towards_best.yaml").read_text()
    (folder / "summing.yaml").write_text(script.replace("rules:\n", RULE, 1))
    found = run(
        folder, images, tasks=["internal:numeric_param"], trainers=TRAINERS, seeds=[1], max_workers=2,
        llm={"model": f"scripted:{folder / 'summing.yaml'}"},
    )  # fmt: skip
    assert found["code"] == 0, found["stderr"]
    return found


def jobs(done: dict[str, Any], trainer: str) -> list[dict[str, Any]]:
    return [row for row in done["jobs"] if row["trainer_id"] == trainer]


def calls(done: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    return values_in(Path(done["folder"], "jobs", row["job_id"], "llm.jsonl"))


def test_each_of_them_improves_the_start(done: dict[str, Any]) -> None:
    assert len(done["jobs"]) == 5 and check_files(done["folder"]) > 5 * 10
    assert {row["score_initial"] for row in done["jobs"]} == {-3.0}
    assert all(row["score_best"] > -1.0 for row in done["jobs"]), [row["score_best"] for row in done["jobs"]]


def test_embeddings_and_summaries_are_calls_with_slots_of_their_own_that_cost(done: dict[str, Any]) -> None:
    row = jobs(done, "POLCA")[0]
    made = calls(done, row)
    embedded = [c for c in made if c["request"]["path"] == "/v1/embeddings"]
    assert embedded and all(c["slot"].split(";")[1] == "candidate=embedding" for c in embedded)
    assert embedded[0]["request"]["body"]["input"][0].startswith("guess: ")
    summed = [c for c in made if ";candidate=summary;" in c["slot"]]
    assert [c["slot"].split(";")[0] for c in summed] == ["step=2", "step=4"], (
        "in step 1 nobody has run on a training example"
    )
    prompts = {
        c["slot"]: c["request"]["body"]["messages"][-1]["content"] for c in made if c not in [*embedded, *summed]
    }
    for slot, prompt in prompts.items():
        of = {"1": None, "2": 2, "3": 2, "4": 4}[slot.split(";")[0].removeprefix("step=")]
        assert (f"Go towards 3 (step {of})." in prompt) == (of is not None)
    assert all(c["cost_usd"] > 0 for c in summed)
    assert row["cost_usd"] == pytest.approx(sum(c["cost_usd"] for c in made))
    lines = history(done, row)
    assert lines[-1]["llm_calls"] <= len(made) == row["llm_calls"]


def test_history_says_what_each_of_them_decides_by(done: dict[str, Any]) -> None:
    (streaming,), (pareto,) = jobs(done, "StreamingPrioritySearch"), jobs(done, "ParetobasedPS")
    assert {line["reason"] for line in history(done, streaming)} == {"start", "stream", "report"}
    assert all(line["extra"]["front_size"] >= 1 for line in history(done, pareto)[1:])
    filtered, threads, plain = (history(done, row)[1:] for row in jobs(done, "POLCA"))
    assert all(line["accepted"] is True and line["extra"]["distance"] > 0.5 for line in filtered)
    assert all(line["accepted"] is None and "distance" not in line["extra"] for line in plain)
    assert [[line[key] for key in WHAT_COUNTS] for line in threads] == [
        [line[key] for key in WHAT_COUNTS] for line in filtered
    ]


@pytest.mark.slow
def test_they_come_out_equal_from_their_cassettes(done: dict[str, Any], images: Path, tmp_path: Path) -> None:
    assert_equal(done["folder"], replay(done["folder"], tmp_path, images, "--max-workers", "2"))
