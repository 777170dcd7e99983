"""Every trainer searches in a sandbox: one run, a job for each, answers from the stub model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import history, run
from tests.integration.files import check_files
from tests.integration.test_replay import assert_equal, replay

pytestmark = pytest.mark.docker

SEARCHES: dict[str, tuple[dict[str, Any], int]] = {
    "Minibatch": ({"num_steps": 4, "ensure_improvement": True}, 4),
    "BasicSearch": ({"num_steps": 2, "num_proposals": 3, "num_threads": 3}, 6),
    "BeamSearch": ({"max_depth": 2, "beam_width": 2, "num_proposals": 2, "max_history_size": 4}, 6),
    "UCBSearch": ({"num_steps": 4, "max_buffer_size": 2, "ucb_exploration_constant": 0.1}, 4),
    "SequentialSearch": ({"num_steps": 2, "num_proposals": 2}, 4),
    "SequentialUpdate": ({"num_steps": 4, "validate_proposals": False}, 4),
    "BestOfN": ({"num_steps": 4}, 4),
    "RandomProposals": ({"num_steps": 6}, 0),
}
"""Parameters of each trainer, and the model calls that they come to."""
BASELINES = ("BestOfN", "RandomProposals")
"""Their steps have a candidate each, and no event."""


@pytest.fixture(scope="module")
def all_of_them(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    trainers = [{"id": name, "params": params} for name, (params, _) in SEARCHES.items()]
    folder = tmp_path_factory.mktemp("trainers")
    done = run(folder, images, tasks=["internal:numeric_param"], trainers=trainers, seeds=[1], max_workers=2)
    assert done["code"] == 0, done["stderr"]
    return done


def row_of(done: dict[str, Any], trainer: str) -> dict[str, Any]:
    (row,) = [row for row in done["jobs"] if row["trainer_id"] == trainer]
    return row


@pytest.mark.parametrize("trainer", SEARCHES)
def test_a_trainer_searches_and_its_best_state_is_scored_as_it_says(all_of_them: dict[str, Any], trainer: str) -> None:
    row = row_of(all_of_them, trainer)
    assert (row["status"], row["stop_reason"], row["score_initial"]) == ("ok", "completed", -3.0)
    lines = history(all_of_them, row)
    assert row["score_best"] == pytest.approx(max(line["score"] for line in lines)) and row["score_best"] > -3.0
    assert row["score_best"] == pytest.approx(lines[-1]["best_score"])
    assert [lines[0][key] for key in ("step", "candidate", "parents", "reason")] == [0, "seed", [], "start"]
    known = {"seed"}
    for line in lines[1:]:
        assert set(line["parents"]) <= known and (line["parents"] or line["candidate"] == "seed")
        known.add(line["candidate"])


@pytest.mark.parametrize("trainer", SEARCHES)
def test_it_asks_the_model_as_often_as_its_parameters_say(all_of_them: dict[str, Any], trainer: str) -> None:
    row = row_of(all_of_them, trainer)
    log = Path(all_of_them["folder"], "jobs", row["job_id"], "llm.jsonl")
    assert len(log.read_text().splitlines()) == SEARCHES[trainer][1]


@pytest.mark.parametrize("trainer", [name for name in SEARCHES if name not in BASELINES])
def test_each_of_its_steps_is_an_event(all_of_them: dict[str, Any], trainer: str) -> None:
    params, _ = SEARCHES[trainer]
    folder = Path(all_of_them["folder"], "jobs", row_of(all_of_them, trainer)["job_id"])
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    steps = [event for event in events if event.get("event", event.get("kind")) == "search.step"]
    assert len(steps) == params.get("num_steps", params.get("max_depth"))


def test_the_files_of_the_run_are_whole(all_of_them: dict[str, Any]) -> None:
    assert check_files(all_of_them["folder"]) > 15 * len(SEARCHES)


@pytest.mark.slow
def test_the_run_is_repeated_from_its_cassettes(all_of_them: dict[str, Any], images: Path, tmp_path: Path) -> None:
    assert_equal(all_of_them["folder"], replay(all_of_them["folder"], tmp_path, images))
