"""Runs in real containers are repeated from their cassettes, and end where they ended."""

from __future__ import annotations

import csv
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, cli, result_of, run, start, write_config
from tests.integration.files import check_files
from tests.integration.test_interruption import SEARCH as LONG
from tests.integration.test_interruption import calls, slow_config, wait_for

pytestmark = pytest.mark.docker

EVERY = ["internal:numeric_param", "internal:asking", "llm4ad:circle_packing", "trace_examples:opentrace_greeting"]
SIZES = {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}
SEARCH = {"id": "PrioritySearch", "params_variants": [SIZES, {**SIZES, "num_threads": 4}]}
FOUR_THREADS = {"id": "PrioritySearch", "params": {**SIZES, "num_threads": 4}}
THREADS = {"id": "PrioritySearch", "params": {**SIZES, "num_proposals": 4, "num_threads": 4}}
TIMES = {"run_id", "time_seconds", "train_seconds"}


def rows(folder: str | Path) -> list[dict[str, str]]:
    """``results.csv`` but for times."""
    with Path(folder, "results.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]


def replay(recorded: str | Path, folder: Path, home: Path, *arguments: str) -> dict[str, Any]:
    done = cli(
        "run", "--replay", str(recorded), "--root", str(TASKS), "--runs-dir", str(folder / "again"), "--json",
        *arguments, home=home,
    )  # fmt: skip
    assert done.stdout.startswith("{"), (done.returncode, done.stderr)
    found = {**result_of(done.stdout), "code": done.returncode, "stderr": done.stderr}
    found["report"] = json.loads(Path(found["folder"], "meta", "replay.json").read_text())
    return found


def assert_equal(recorded: str | Path, again: dict[str, Any]) -> None:
    assert again["report"]["differences"] == [] and again["code"] == 0, again["stderr"]
    assert rows(again["folder"]) == rows(recorded)
    assert again["report"]["exact"] == again["report"]["equal"] == again["report"]["jobs"] > 0


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that lies where it was not made, and cannot be written. Under --full it has jobs of one thread too."""
    trainer = SEARCH if request.config.getoption("--full") else FOUR_THREADS
    folder = tmp_path_factory.mktemp("recorded")
    done = run(folder, images, tasks=EVERY, trainers=[trainer], seeds=[1], max_workers=2)
    assert done["code"] == 0, done["stderr"]
    return Path(shutil.move(done["folder"], tmp_path_factory.mktemp("elsewhere") / "copy"))


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.slow), "4"])
def test_a_run_comes_out_equal_with_any_number_of_workers(
    recorded: Path, images: Path, tmp_path: Path, workers: str
) -> None:
    again = replay(recorded, tmp_path, images, "--max-workers", workers)
    assert_equal(recorded, again)
    count = len(rows(recorded))
    assert count >= len(EVERY) and f"{count} of {count} jobs came out equal (to the bit)" in again["stderr"]
    assert check_files(again["folder"]) > count * 10
    tests = [row["score_test"] for row in again["jobs"] if row["task_id"].endswith("greeting")]
    assert None not in tests and len(tests) == count // len(EVERY), "held-out data is the same"


def test_an_agent_with_a_client_of_its_own_is_answered_without_slots(recorded: Path) -> None:
    lines = [json.loads(line) for path in recorded.glob("jobs/*/llm.jsonl") for line in path.read_text().splitlines()]
    unslotted = [line for line in lines if line["slot"] is None]
    hashes = [line["request_hash"] for line in unslotted]
    assert {line["phase"] for line in unslotted} == {"train", "score"} and len(hashes) > 2 * len(set(hashes)) - 1


@pytest.mark.parametrize(
    ("budget", "trainer"),
    [
        ({"calls": 6}, THREADS),
        pytest.param({"calls": 3}, SEARCH, marks=pytest.mark.slow),
        pytest.param({"tokens": 2500}, SEARCH, marks=pytest.mark.slow),
        pytest.param({"tokens": 5000}, THREADS, marks=pytest.mark.slow),
    ],
)
def test_a_budget_ends_a_replay_where_it_ended_the_recording(
    images: Path, tmp_path: Path, budget: dict[str, int], trainer: dict[str, Any]
) -> None:
    done = run(tmp_path, images, tasks=["internal:numeric_param"], trainers=[trainer], seeds=[1, 2], budget=budget)
    assert {row["stop_reason"] for row in done["jobs"]} == {"budget"}, done["jobs"]
    assert_equal(done["folder"], replay(done["folder"], tmp_path, images))


def slow(folder: Path, home: Path, **config: Any) -> dict[str, Any]:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 0.3}}
    return run(folder, home, tasks=[task], trainers=[LONG], seeds=[1], **config)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "reason", "code"),
    [
        ({"budget": {"seconds": 2.0}}, "budget", 0),
        pytest.param({"job_timeout": 2.0}, "timeout", 1, marks=pytest.mark.slow),
    ],
)
def test_a_clock_ended_the_recording_and_is_not_asked_again(
    images: Path, tmp_path: Path, limit: dict[str, Any], reason: str, code: int
) -> None:
    done = slow(tmp_path, images, **limit)
    assert (done["code"], done["jobs"][0]["stop_reason"]) == (code, reason)
    assert_equal(done["folder"], replay(done["folder"], tmp_path, images))


@pytest.mark.slow
def test_an_interruption_is_repeated(images: Path, tmp_path: Path) -> None:
    config = slow_config(tmp_path, 0.3, "mine")
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(calls(tmp_path, "mine")) >= 3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    folder = tmp_path / "runs" / "mine"
    assert [row["stop_reason"] for row in rows(folder)] == ["interrupted"]
    assert_equal(folder, replay(folder, tmp_path, images))


@pytest.mark.slow
def test_a_job_that_was_adopted_in_the_middle_is_repeated_whole(images: Path, tmp_path: Path) -> None:
    config = slow_config(tmp_path, 0.3, "mine")
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    wait_for(lambda: len(calls(tmp_path, "mine")) >= 3)
    process.kill()
    process.communicate(timeout=30)
    done = cli("run", "--config", str(config), "--root", str(TASKS), home=images)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "mine"
    assert_equal(folder, replay(folder, tmp_path, images))


@pytest.mark.slow
def test_a_request_changed_in_the_cassette_is_told_with_the_difference(images: Path, tmp_path: Path) -> None:
    done = run(tmp_path, images, tasks=["internal:numeric_param"], trainers=[LONG], seeds=[1, 2])
    job_id = done["jobs"][0]["job_id"]
    cassette = Path(done["folder"], "jobs", job_id, "llm.jsonl")
    lines = [json.loads(line) for line in cassette.read_text().splitlines()]
    message = lines[4]["request"]["body"]["messages"][1]
    message["content"] = message["content"][:50] + "#" + message["content"][51:]
    cassette.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = replay(done["folder"], tmp_path, images)
    assert again["code"] == 1
    changed, other = again["jobs"]
    assert other["status"] == "ok" and changed["failure_kind"] == "not_recorded"
    assert changed["score_best"] is None and changed["score_initial"] is None
    said = changed["feedback"]
    assert lines[4]["slot"] in said and "line 5 (same slot): messages[1].content differs at character 50" in said
    (told,) = Path(again["folder"], "jobs", job_id, "attempts").glob("*/not_recorded.txt")
    assert "--- recorded" in told.read_text()
    assert "1 of 2 jobs came out equal" in again["stderr"] and f"differs     {job_id}  status" in again["stderr"]
    assert check_files(again["folder"]) > 10


@pytest.mark.slow
def test_a_config_that_asks_for_another_job_is_refused(images: Path, tmp_path: Path) -> None:
    done = run(tmp_path, images, tasks=["internal:numeric_param"], trainers=["NoOp"], seeds=[1], run_id="first")
    assert done["code"] == 0
    config = write_config(tmp_path, mode="replay", replay_from="first", tasks=["internal:numeric_param"],
                          trainers=["NoOp"], seeds=[2])  # fmt: skip
    refused = cli("run", "--config", str(config), home=images)
    assert refused.returncode == 2 and "its seed is 2, and was 1" in refused.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]
