"""A search that is cut off goes on where it was: nothing that it has learnt is paid for, or evaluated, again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.faults import (
    SEARCH,
    Trial,
    Undisturbed,
    attempts_of,
    docker,
    matrix_config,
    meet,
    run_of,
    run_undisturbed,
)
from tests.integration.test_interruption import containers, wait_for
from tests.integration.test_replay import replay

pytestmark = pytest.mark.docker
KNOWN = 4
"""Evaluations that each job has made when it is cut off."""


def counted(folder: Path, **config: Any) -> Path:
    task = {"id": "internal:counted", "eval_kwargs": {"training": 0.15, "scoring": 0.6}}
    return matrix_config(folder, **{"tasks": [task], "trainers": [SEARCH], "seeds": [1, 2], **config})


def jobs_of(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted((run_of(folder) / "jobs").iterdir())}


def history_of(job: Path) -> list[dict[str, Any]]:
    lines = (job / "artifacts" / "state_history.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def events_of(job: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (job / "events.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == kind]


def opened(job: Path) -> int:
    """Candidate processes of training, in the last attempt."""
    report = json.loads((job / "job_meta.json").read_text())["integrity_report"]
    return int(report["candidates"]["train"]["opened"])


@pytest.fixture(scope="module")
def usual(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run when nothing happens to it."""
    folder = tmp_path_factory.mktemp("usual")
    run_undisturbed(folder, images, counted(folder))
    return folder


def test_curve_and_lineage_of_a_search_can_be_drawn_from_its_history_alone(usual: Path) -> None:
    for job in jobs_of(usual).values():
        lines = _lines(job)
        official = json.loads((job / "results.json").read_text())
        curve = [(line["evaluations"], line["best_score"]) for line in lines]
        assert curve == sorted(curve), "more evaluations, and never a worse best (higher is better here)"
        assert curve[-1] == (official["evaluations"], official["score_best"])
        for name in ("llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds", "step"):
            assert [line[name] for line in lines] == sorted(line[name] for line in lines), name
        assert lines[-1]["llm_calls"] == official["llm_calls"]
        known: set[str] = set()
        for line in lines:
            assert set(line["parents"]) <= known, "parents come before their children: no cycle"
            assert bool(line["parents"]) == (line["candidate"] != "seed"), "the seed alone has none"
            known.add(line["candidate"])
        assert lines[0]["candidate"] == "seed" and len(known) > 3


@pytest.mark.slow
def test_a_job_whose_sandbox_and_controller_die_goes_on_where_it_was(usual: Path, images: Path, tmp_path: Path) -> None:
    undisturbed = Undisturbed.of(usual)
    whole = {job_id: (history_of(job), opened(job)) for job_id, job in jobs_of(usual).items()}
    assert not list(usual.rglob("checkpoint.jsonl")), "a job that is ok has no use for it"

    trial = Trial(tmp_path / "disturbed", images, tmp_path / "disturbed" / "config.json")
    trial.folder.mkdir()
    counted(trial.folder)
    with trial.controller() as process:

        def learnt() -> bool:
            found = [p.read_bytes().count(b"\n") for p in (trial.folder / "runs").glob("*/jobs/*/checkpoint.jsonl")]
            return len(found) == 2 and min(found) > KNOWN

        wait_for(learnt)
        process.kill()
        for container in containers(run_of(trial.folder).name):
            docker("rm", "-f", container["Id"])
    first, _ = whole
    with trial.controller() as process:  # one of them is cut off once more, when there is only the scoring left
        meet(trial.folder, {first: ("score", lambda container: docker("kill", container))}, process)
        said = trial.ended(process)
        assert process.returncode == 0, said
    trial.check(undisturbed)
    for job_id, job in jobs_of(trial.folder).items():
        history, evaluations = whole[job_id]
        assert history_of(job) == history
        (resumed,) = events_of(job, "search.resumed")
        assert resumed["evaluations"] >= KNOWN
        assert opened(job) == evaluations - resumed["evaluations"], "what is known is not evaluated again"
        row = json.loads((job / "results.json").read_text())
        assert row["evaluations"] == evaluations and row["score_evaluations"] > 0
    again = jobs_of(trial.folder)[first]
    assert attempts_of(trial.folder, first)[-1]["number"] == 3 and opened(again) == 0
    assert [line["seconds"] for line in _lines(again)] == sorted(line["seconds"] for line in _lines(again))
    # What was known then is evaluated in a replay, and comes to the same.
    replayed = replay(run_of(trial.folder), tmp_path, images)
    assert replayed["report"]["differences"] == [] and replayed["code"] == 0, replayed["stderr"]


def _lines(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "artifacts" / "state_history.jsonl").read_text().splitlines()]
