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


def test_a_job_whose_sandbox_and_controller_die_goes_on_where_it_was(images: Path, tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.mkdir()
    undisturbed: Undisturbed = run_undisturbed(usual, images, counted(usual))
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


def _lines(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "artifacts" / "state_history.jsonl").read_text().splitlines()]
