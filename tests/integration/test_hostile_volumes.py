"""Volumes of real containers, filled by a trainer's process: what comes out of each, through the engine's own archive.

The forms that no engine makes of a volume are in ``tests/execution/test_hostile_volumes.py``.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import run
from tests.integration.files import check_files
from trace_bench.artifacts.layout import RunLayout

pytestmark = pytest.mark.docker
REFUSED = {
    "link_to_a_folder": "symbolic link",
    "link_to_nothing": "symbolic link",
    "link_that_climbs": "symbolic link",
    "link_in_a_folder": "symbolic link",
    "hard_link": "hard link",
    "a_fifo": "fifo",
    "no_text": "",  # engines differ in what they make of such a name
    "a_command_for_terminals": "control character",
    "from_the_right": "control character",
    "two_cases": "differ by case only",
    "two_compositions": "differ by case only",
    "a_backslash": "backslash",
    "a_long_path": "longer than 1024 bytes",
}
TAKEN = (
    "honest", "a_socket", "a_device", "a_sparse_file", "set_ids", "attributes", "another_time", "long_names",
    "instead_of_files", "words",
)  # fmt: skip


@pytest.fixture(scope="module")
def result(
    request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """One run with a job for every deed that a collected test is about."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = {each.get("deed") for each in params}
    deeds = [deed for deed in (*REFUSED, *TAKEN) if deed in asked] or ["honest"]
    tasks = [{"id": "internal:volumes", "eval_kwargs": {"deed": deed}} for deed in deeds]
    small = {"memory": "256m", "disk": "8m", "tmp": "16m", "pids": 128}
    yield run(
        tmp_path_factory.mktemp("volumes"), images, tasks=tasks, trainers=["NoOp"], sandbox=small, max_workers=2,
        retries=0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def rows(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["eval_kwargs"]["deed"]: row for row in result["jobs"]}


@pytest.mark.parametrize("deed", REFUSED)
def test_what_no_job_may_leave_is_refused_and_kept(
    deed: str, rows: dict[str, dict[str, Any]], result: dict[str, Any]
) -> None:
    row = rows[deed]
    assert (row["status"], row["failure_boundary"], row["failure_kind"]) == ("failed", "trainer", "bad_output"), row
    assert REFUSED[deed] in row["feedback"] and row["feedback"].isprintable()
    assert row["score_best"] is None
    evidence = RunLayout(Path(result["folder"])).job(row["job_id"]).attempt(1) / "evidence"
    assert (evidence / "error.json").is_file() and (evidence / "stream.head").stat().st_size > 512


@pytest.mark.parametrize("deed", TAKEN)
def test_what_does_no_harm_is_taken_and_changes_no_score(
    deed: str, rows: dict[str, dict[str, Any]], result: dict[str, Any]
) -> None:
    row = rows[deed]
    assert (row["status"], row["failure_kind"], row["score_best"]) == ("ok", None, -2.0), row["feedback"]
    job = RunLayout(Path(result["folder"])).job(row["job_id"])
    if deed == "instead_of_files":
        assert job.stdout.read_text().count("DENIED") == 8


def test_what_was_left_is_plain_files_that_are_ours(result: dict[str, Any]) -> None:
    root = Path(result["folder"])
    assert check_files(root) > 4 * len(result["jobs"])
    for path in root.rglob("*"):
        status = path.lstat()
        assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode), path
        assert not status.st_mode & 0o7022, path
    failed = any(row["status"] == "failed" for row in result["jobs"])
    assert result["code"] == int(failed) and "Traceback" not in result["stderr"]
