"""Exhausted memory and time in real containers: who ends, who goes on, whose fault it is, and on what evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import run
from trace_bench.artifacts.layout import RunLayout

pytestmark = pytest.mark.docker

SMALL = {"memory": "160m", "tmp": "256m", "disk": "64m", "pids": 96}
CANDIDATES = ("honest objects honest mapping honest touched honest swallow honest family honest bomb honest "
              "file honest memory_file honest pipes honest killed honest")  # fmt: skip


def task(who: str = "nobody", deed: str = "none", candidates: str = "honest") -> dict[str, Any]:
    return {"id": "internal:limits", "eval_kwargs": {"who": who, "deed": deed, "candidates": candidates}}


class Jobs:
    """A run's jobs by who did what."""

    def __init__(self, got: dict[str, Any]) -> None:
        self.layout = RunLayout(Path(got["folder"]))
        self.stderr = got["stderr"]
        self._rows = {(r["eval_kwargs"]["who"], r["eval_kwargs"]["deed"]): r for r in got["jobs"]}

    def row(self, who: str, deed: str) -> dict[str, Any]:
        return self._rows[who, deed]

    def meta(self, who: str, deed: str) -> dict[str, Any]:
        return json.loads(self.layout.job(self.row(who, deed)["job_id"]).meta.read_text())

    def evidence(self, who: str, deed: str) -> dict[str, Any]:
        (attempt,) = self.meta(who, deed)["attempts"]
        return attempt["evidence"]

    def scored(self, who: str, deed: str) -> dict[str, tuple[float, str]]:
        """Score and feedback by the id of the example of the initial state."""
        job = self.layout.job(self.row(who, deed)["job_id"])
        result = json.loads((job.attempt_out(1) / "result.json").read_text())
        return {e["id"]: (e["score"], e["feedback"]) for e in result["scores"]["initial"]["examples"]}


@pytest.fixture(scope="module")
def exhausted(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """One run in which each process of a sandbox uses up its memory, in each way."""
    tasks = [task(who, deed) for who in ("trainer", "scorer") for deed in ("objects", "mapping", "files", "processes")]
    tasks += [task("builder", "objects"), task("trainer", "swallow"), task("trainer", "cache")]
    tasks += [task(candidates=CANDIDATES)]
    yield Jobs(run(tmp_path_factory.mktemp("exhausted"), images, tasks=tasks, trainers=["NoOp"], sandbox=SMALL,
                   retries=2, max_workers=2, score_timeout=180))  # fmt: skip


@pytest.mark.parametrize("deed", ["objects", "mapping", "swallow", "files"])
def test_a_trainer_that_uses_up_the_memory_is_named_by_evidence_and_its_start_is_scored(
    exhausted: Jobs, deed: str
) -> None:
    row, seen = exhausted.row("trainer", deed), exhausted.evidence("trainer", deed)
    assert (row["failure_boundary"], row["failure_kind"]) == ("trainer", "out_of_memory"), row["feedback"]
    assert "for want of memory: the sandbox may use 160 MiB" in row["feedback"]
    assert row["score_initial"] == 1.0, "what it had come to is scored"
    assert seen["state"] == "exited" and seen["exit_code"] == 0 and seen["oom_killed"] is True
    assert seen["worker"]["phases"]["train"]["signal"] == 9 and seen["worker"]["phases"]["train"]["oom_kills"] >= 1
    assert seen["worker"]["phases"]["score"] == {"code": 0, "signal": None, "oom_kills": 0}
    assert seen["worker"]["memory"]["limit_bytes"] == 160 << 20


@pytest.mark.parametrize("deed", ["objects", "mapping", "files"])
def test_a_scorer_that_uses_up_the_memory_is_the_tasks_fault_and_not_tried_again(exhausted: Jobs, deed: str) -> None:
    row, seen = exhausted.row("scorer", deed), exhausted.evidence("scorer", deed)
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "out_of_memory"), row["feedback"]
    assert row["score_initial"] is None and row["score_best"] is None
    assert seen["worker"]["phases"]["train"]["oom_kills"] == 0 and seen["worker"]["phases"]["score"]["oom_kills"] >= 1


def test_a_builder_likewise(exhausted: Jobs) -> None:
    row = exhausted.row("builder", "objects")
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "out_of_memory"), row["feedback"]
    assert exhausted.evidence("builder", "objects")["worker"]["phases"]["build"]["signal"] == 9


@pytest.mark.parametrize("who", ["trainer", "scorer"])
def test_of_a_family_of_processes_the_largest_end_and_its_head_goes_on(exhausted: Jobs, who: str) -> None:
    row, seen = exhausted.row(who, "processes"), exhausted.evidence(who, "processes")
    assert row["status"] == "ok" and row["score_initial"] == 1.0, row["feedback"]
    phase = {"trainer": "train", "scorer": "score"}[who]
    assert seen["oom_killed"] is True and seen["worker"]["phases"][phase]["oom_kills"] >= 1, "which is no failure"


def test_pages_of_files_cost_nobody_anything(exhausted: Jobs) -> None:
    seen = exhausted.evidence("trainer", "cache")
    assert exhausted.row("trainer", "cache")["status"] == "ok" and seen["oom_killed"] is False
    assert seen["worker"]["memory"]["oom_kills"] == 0


def test_a_candidate_that_uses_up_the_memory_fails_alone(exhausted: Jobs) -> None:
    row, seen = exhausted.row("nobody", "none"), exhausted.evidence("nobody", "none")
    assert row["status"] == "ok", row["feedback"]
    scored = exhausted.scored("nobody", "none")
    words = dict(zip(CANDIDATES.split(), scored.values(), strict=False))
    for (score, feedback), word in zip(scored.values(), CANDIDATES.split(), strict=True):
        assert score == (1.0 if word in ("honest", "pipes") else 0.0), (word, feedback)
    assert "for want of memory" in words["objects"][1] and "for want of memory" in words["touched"][1]
    assert "for want of memory" not in words["mapping"][1] and "memory" in words["mapping"][1], "its own limit"
    assert "SIGKILL" in words["killed"][1]
    assert seen["oom_killed"] is True and seen["exit_code"] == 0


def test_none_of_it_is_tried_again_and_all_of_it_is_kept(exhausted: Jobs) -> None:
    for path in exhausted.layout.jobs.glob("*/job_meta.json"):
        attempts = json.loads(path.read_text())["attempts"]
        assert len(attempts) == 1 and attempts[0]["evidence"]["worker"]["memory"]["peak_bytes"] > 0
