"""Exhausted memory and time in real containers: who ends, who goes on, whose fault it is, and on what evidence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, cli, environment, run, write_config
from tests.integration.files import check_files, paid_calls
from tests.integration.test_interruption import containers, wait_for
from tests.memory_group import memory_group
from trace_bench.artifacts.layout import RunLayout

pytestmark = pytest.mark.docker

SMALL = {"memory": "160m", "tmp": "256m", "disk": "64m", "pids": 96}
CANDIDATES = (
    "honest objects honest mapping honest touched honest swallow honest file honest memory_file honest killed honest"
)


def task(who: str = "none", deed: str = "none", candidates: str = "honest") -> dict[str, Any]:
    return {"id": "internal:limits", "eval_kwargs": {"who": who, "deed": deed, "candidates": candidates}}


def slow(value: str) -> Any:
    """One that others stand for."""
    return pytest.param(value, marks=pytest.mark.slow)


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


def slow_is_asked(request: pytest.FixtureRequest) -> bool:
    """True if a collected test of this module is slow: a fixture then prepares what those tests need."""
    own = request.node.nodeid.partition("::")[0]
    items = [item for item in request.session.items if item.nodeid.partition("::")[0] == own]
    return any(item.get_closest_marker("slow") for item in items)


@pytest.fixture(scope="module")
def exhausted(request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """One run in which each process of a sandbox uses up its memory, in each way that a collected test is about."""
    deeds = [("trainer", "objects"), ("trainer", "files"), ("trainer", "processes"), ("trainer", "cache")]
    deeds += [("scorer", "objects"), ("builder", "objects")]
    if slow_is_asked(request):
        deeds += [("trainer", "mapping"), ("trainer", "swallow")]
        deeds += [("scorer", deed) for deed in ("mapping", "files", "processes")]
    tasks = [*(task(who, deed) for who, deed in deeds), task(candidates=CANDIDATES)]
    yield Jobs(run(tmp_path_factory.mktemp("exhausted"), images, tasks=tasks, trainers=["NoOp"], sandbox=SMALL,
                   retries=2, max_workers=2, score_timeout=180))  # fmt: skip


@pytest.mark.parametrize("deed", ["objects", slow("mapping"), slow("swallow"), "files"])
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


@pytest.mark.parametrize("deed", ["objects", slow("mapping"), slow("files")])
def test_a_scorer_that_uses_up_the_memory_is_the_tasks_fault_and_not_tried_again(exhausted: Jobs, deed: str) -> None:
    row, seen = exhausted.row("scorer", deed), exhausted.evidence("scorer", deed)
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "out_of_memory"), row["feedback"]
    assert row["score_initial"] is None and row["score_best"] is None
    assert seen["worker"]["phases"]["train"]["oom_kills"] == 0 and seen["worker"]["phases"]["score"]["oom_kills"] >= 1


def test_a_builder_likewise(exhausted: Jobs) -> None:
    row = exhausted.row("builder", "objects")
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "out_of_memory"), row["feedback"]
    assert exhausted.evidence("builder", "objects")["worker"]["phases"]["build"]["signal"] == 9


@pytest.mark.parametrize("who", ["trainer", slow("scorer")])
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
    row, seen = exhausted.row("none", "none"), exhausted.evidence("none", "none")
    assert row["status"] == "ok", row["feedback"]
    scored = exhausted.scored("none", "none")
    words = dict(zip(CANDIDATES.split(), scored.values(), strict=False))
    for (score, feedback), word in zip(scored.values(), CANDIDATES.split(), strict=True):
        assert score == (1.0 if word == "honest" else 0.0), (word, feedback)
    assert "for want of memory" in words["objects"][1] and "for want of memory" in words["touched"][1]
    assert "for want of memory" not in words["mapping"][1] and "memory" in words["mapping"][1], "its own limit"
    assert "SIGKILL" in words["killed"][1]
    assert seen["oom_killed"] is True and seen["exit_code"] == 0


def test_none_of_it_is_tried_again_and_all_of_it_is_kept(exhausted: Jobs) -> None:
    for path in exhausted.layout.jobs.glob("*/job_meta.json"):
        attempts = json.loads(path.read_text())["attempts"]
        assert len(attempts) == 1 and attempts[0]["evidence"]["worker"]["memory"]["peak_bytes"] > 0


# ------------------------------------------------------------------------------------------------------------- time


@pytest.fixture(scope="module")
def late(request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """Limits on time, with all processors of the sandbox busy with a family of processes."""
    tasks = [task("none", "none", "busy"), task("scorer", "busy")]
    if slow_is_asked(request):
        tasks.append(task("trainer", "busy"))
    return Jobs(run(tmp_path_factory.mktemp("late"), images, tasks=tasks, trainers=["NoOp"], sandbox=SMALL,
                    retries=2, max_workers=2, job_timeout=2,
                    score_timeout=6 if slow_is_asked(request) else 3))  # fmt: skip


@pytest.mark.slow
def test_a_busy_family_of_the_trainer_ends_with_its_time_and_what_it_had_is_scored(late: Jobs) -> None:
    row = late.row("trainer", "busy")
    assert (row["failure_boundary"], row["failure_kind"]) == ("trainer", "job_timeout"), row["feedback"]
    assert row["score_initial"] == 1.0 and row["stop_reason"] == "timeout"
    assert late.evidence("trainer", "busy")["worker"]["phases"]["train"]["signal"] == 9


@pytest.mark.slow
def test_a_busy_family_of_the_scorer_ends_with_score_timeout(late: Jobs) -> None:
    row = late.row("scorer", "busy")
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "score_timeout"), row["feedback"]
    assert row["score_best"] is None, "no score of half a state"
    assert late.evidence("scorer", "busy")["exit_code"] == 0


@pytest.mark.slow
def test_a_busy_family_of_a_candidate_holds_up_neither_training_nor_scoring(late: Jobs) -> None:
    row, meta = late.row("none", "none"), late.meta("none", "none")
    assert (row["failure_boundary"], row["failure_kind"]) == ("trainer", "job_timeout"), row["feedback"]
    assert row["score_best"] is None
    assert [said for said in meta["warnings"] if said.startswith("score took more than score_timeout = ")]


@pytest.mark.slow
def test_a_budget_of_seconds_ends_a_busy_training_in_order(images: Path, tmp_path: Path) -> None:
    got = Jobs(run(tmp_path, images, tasks=[task("trainer", "busy")], trainers=["NoOp"], sandbox=SMALL,
                   budget={"seconds": 2}))  # fmt: skip
    row = got.row("trainer", "busy")
    assert (row["status"], row["stop_reason"], row["score_initial"]) == ("ok", "budget", 1.0), row["feedback"]


# ---------------------------------------------------------------------------------------- the controller's machine

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 2, "num_proposals": 2}}
MATRIX = {
    "tasks": [{"id": "internal:slow", "eval_kwargs": {"seconds": 0.3}}, "internal:numeric_param"],
    "trainers": [SEARCH], "seeds": [1, 2], "max_workers": 2,
}  # fmt: skip


def finished(folder: Path) -> dict[str, int]:
    found = {}
    for path in (folder / "runs").glob("*/jobs/*/results.json"):
        row = json.loads(path.read_text())
        if row["status"] == "ok" and row["stop_reason"] != "interrupted":
            found[path.parent.name] = path.stat().st_mtime_ns
    return found


def finish(folder: Path, home: Path, before: dict[str, int]) -> None:
    """The same command once more finishes, and does nothing again that was finished or paid."""
    config = str(folder / "config.json")
    done = cli("run", "--config", config, "--root", str(TASKS), home=home)
    assert done.returncode == 0, done.stderr
    after = finished(folder)
    assert {job: after[job] for job in before} == before and len(after) == 4
    (folder_of_run,) = (path for path in (folder / "runs").iterdir() if (path / "jobs").is_dir())
    assert len(paid_calls(folder_of_run)) == len(set(paid_calls(folder_of_run)))
    assert check_files(folder_of_run) > 0 and containers(folder_of_run.name) == []


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a control group")
def test_a_controller_that_is_killed_for_want_of_memory_loses_nothing(images: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, **MATRIX)
    with memory_group(512 << 20) as group:
        command = group.command(sys.executable, "-m", "trace_bench", "run", "--config", str(config),
                                "--root", str(TASKS))  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=environment(images))  # fmt: skip
        wait_for(lambda: finished(tmp_path))
        group.use_up()
        process.communicate(timeout=60)
    assert process.returncode == -9
    before = finished(tmp_path)
    assert 1 <= len(before) < 4
    finish(tmp_path, images, before)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize(
    "room", [120, pytest.param(40, marks=pytest.mark.slow), pytest.param(260, marks=pytest.mark.slow)]
)
def test_a_full_disk_of_the_runs_is_one_sentence_and_exit_code_3(images: Path, tmp_path: Path, room: int) -> None:
    """As it is planned, as a job starts, and as one is collected; every instant: tests/execution/test_full_disk.py."""
    runs = tmp_path / "runs"
    runs.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}k", "tmpfs", str(runs)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        config = write_config(tmp_path, **MATRIX)
        done = cli("run", "--config", str(config), "--root", str(TASKS), home=images)
        assert done.returncode == 3, done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and "no space left" in errors[0].lower() and "Traceback" not in done.stderr
        before = finished(tmp_path)
        assert all(json.loads(p.read_text())["score_best"] is not None for p in runs.glob("*/jobs/*/results.json"))
        subprocess.run(["mount", "-o", "remount,size=64m", str(runs)], check=True)
        finish(tmp_path, images, before)
    finally:
        subprocess.run(["umount", "-l", str(runs)], check=True)
