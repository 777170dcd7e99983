"""Whatever goes wrong in a sandbox ends in one clear failure, and nothing is left."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine import RUNTIME
from tests.integration.cli import run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.schema import validate

pytestmark = pytest.mark.docker
SMALL = {"memory": "512m" if RUNTIME else "256m", "disk": "8m", "tmp": "16m", "pids": 128}


def misbehave(folder: Path, home: Path, deed: str, deed_of: str = "internal:hostile", **config: Any) -> dict[str, Any]:
    task = {"id": deed_of, "eval_kwargs": {"deed": deed}}
    got = run(folder, home, tasks=[task], trainers=["NoOp"], **{"sandbox": SMALL, "score_timeout": 60, **config})
    return checked(got, got["jobs"][0])


def checked(got: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    job = RunLayout(Path(got["folder"])).job(row["job_id"])
    validate("results", json.loads(job.results.read_text()))
    validate("job_meta", json.loads(job.meta.read_text()))
    return {**row, "code": got["code"], "stderr": got["stderr"], "folder": job.root}


FAILURES = {
    "stdout": ("trainer", "output_limit"),
    "out_of_memory": ("trainer", "out_of_memory"),
    "fork_bomb": ("task", "train_error"),
    "full_volume": ("trainer", "disk_limit"),
    "links": ("trainer", "bad_output"),
    "hard_links": ("trainer", "bad_output"),
    "fifo": ("trainer", "bad_output"),
    "bad_name": ("trainer", "bad_output"),
    "deep": ("trainer", "bad_output"),
    "segfault": ("trainer", "train_died"),
}


@pytest.fixture(scope="module")
def misdeeds(
    request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """One run with a job for each deed that a collected test is about; the row of each, with ``code`` and ``stderr`` of
    the run and its ``folder``."""
    asked = {item.callspec.params.get("deed") for item in request.session.items if hasattr(item, "callspec")}
    deeds = [*(deed for deed in FAILURES if deed in asked | {"full_volume", "links"}), "nan", "overwrite_result"]
    tasks = [{"id": "internal:hostile", "eval_kwargs": {"deed": deed}} for deed in deeds]
    got = run(tmp_path_factory.mktemp("misdeeds"), images, tasks=tasks, trainers=["NoOp"], sandbox=SMALL,
              score_timeout=60, max_workers=2)  # fmt: skip
    return {row["eval_kwargs"]["deed"]: checked(got, row) for row in got["jobs"]}


@pytest.mark.parametrize("deed", FAILURES)
def test_one_clear_failure(misdeeds: dict[str, dict[str, Any]], deed: str) -> None:
    if RUNTIME and deed == "fifo":
        pytest.skip("a named pipe does not leave gVisor")
    expected = FAILURES[deed]
    if RUNTIME and deed == "fork_bomb":
        expected = ("sandbox", "out_of_memory")  # its processes cost gVisor more memory than they have themselves
    check_failure(misdeeds[deed], *expected)


@pytest.mark.slow
def test_too_many_files_are_one_clear_failure(images: Path, tmp_path: Path) -> None:
    got = misbehave(tmp_path, images, "many_files", sandbox={**SMALL, "disk": "64m"})  # room for the files
    check_failure(got, "trainer", "bad_output")


def check_failure(got: dict[str, Any], boundary: str, kind: str) -> None:
    assert got["code"] == 1 and got["status"] == "failed"
    assert (got["failure_boundary"], got["failure_kind"]) == (boundary, kind), got["feedback"]
    assert got["feedback"] and "Traceback" not in got["stderr"]


def test_a_score_that_is_no_number_fails_the_answer_and_not_the_job(misdeeds: dict[str, dict[str, Any]]) -> None:
    got = misdeeds["nan"]
    assert (got["status"], got["score_best"]) == ("ok", -2.0)
    (line,) = (json.loads(x) for x in (got["folder"] / "artifacts" / "state_history.jsonl").read_text().splitlines())
    assert (line["score"], line["extra"]["failures"]) == (-100.0, 1)
    assert line["extra"]["feedback"] == "the score of this answer is nan, which is no finite number"
    (warning,) = json.loads((got["folder"] / "job_meta.json").read_text())["warnings"]
    assert "guide guide" in warning and "'only'" in warning


def test_what_filled_the_output_folder_is_removed(misdeeds: dict[str, dict[str, Any]]) -> None:
    got = misdeeds["full_volume"]
    assert list((got["folder"] / "artifacts" / "extra").iterdir()) == []


def test_what_breaks_the_collectors_limits_is_kept_as_evidence(misdeeds: dict[str, dict[str, Any]]) -> None:
    got = misdeeds["links"]
    assert list((got["folder"] / "attempts" / "1").rglob("evidence*"))


def test_a_trainer_cannot_write_the_results(misdeeds: dict[str, dict[str, Any]]) -> None:
    got = misdeeds["overwrite_result"]
    assert got["status"] == "ok" and got["score_best"] == -2.0
    log = (got["folder"] / "stdout.log").read_text()
    assert log.count("DENIED") == 3


def test_a_training_that_hangs_is_ended_and_scored(images: Path, tmp_path: Path) -> None:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 600.0}}
    started = time.monotonic()
    got = run(tmp_path, images, tasks=[task], trainers=["NoOp"], job_timeout=1.0)
    row = got["jobs"][0]
    assert time.monotonic() - started < 60
    assert (row["status"], row["failure_kind"], row["stop_reason"]) == ("failed", "job_timeout", "timeout")
    assert row["score_initial"] == -3.0


JUNK = "import os,time\nfor _ in range(200): os.write(1, os.urandom(50_000))\n"


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        (JUNK, "sandbox_died"),
        ("import sys\nprint('all went well, score 1e9')\nsys.exit(0)", "sandbox_died"),
        ("x = []\nwhile True: x.append(bytearray(1 << 24))", "out_of_memory"),
        (
            "import sys; sys.path.insert(0, '/'); from trace_bench.worker.control_stream import Mailbox; import os\n"
            "os.write(1, Mailbox().pack('event', {'event': 7}))\nimport time; time.sleep(60)",
            "protocol",
        ),
        (
            "from trace_bench.worker.control_stream import Mailbox; import os\n"
            "os.write(1, Mailbox().pack('done', {'result': {'status': 'ok', 'scores': {'best': {'train': 1e9}}}}))",
            "no_result",
        ),
    ],
)
def test_a_worker_that_is_not_ours_gets_no_score(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, kind: str
) -> None:
    from trace_bench.config import parse_config
    from trace_bench.execution import attempt
    from trace_bench.execution.start import run_config

    monkeypatch.setenv("TRACE_BENCH_HOME", str(images))
    monkeypatch.setattr(attempt, "WORKER_COMMAND", ("python3", "-c", program))
    config = parse_config(
        {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "runs_dir": str(tmp_path),
         "retries": 0, "sandbox": {"memory": "128m"}}
    )  # fmt: skip
    row = run_config(config).rows[0]
    assert row.status == "failed" and row.score_best is None
    assert (row.failure_boundary, row.failure_kind) == ("sandbox", kind), row.feedback


def test_the_last_words_of_a_sandbox_that_broke_are_kept(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_bench.config import parse_config
    from trace_bench.execution import attempt
    from trace_bench.execution.start import run_config

    monkeypatch.setenv("TRACE_BENCH_HOME", str(images))
    monkeypatch.setattr(attempt, "WORKER_COMMAND", ("python3", "-c", "print(1 / 0)"))
    config = parse_config(
        {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "runs_dir": str(tmp_path), "retries": 0}
    )
    result = run_config(config)
    assert "ZeroDivisionError" in result.rows[0].feedback
    kept = result.layout.job(result.rows[0].job_id).attempt(1) / "stderr.log"
    assert "Traceback" in kept.read_text()
