"""Where files lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import RunLayout, schema_of

JOB = "0123456789ab"


def test_paths_are_those_of_the_design(tmp_path: Path) -> None:
    run = RunLayout(tmp_path / "20260102-030405-0123abcd")
    job = run.job(JOB)
    assert {run.relative(path) for path in (
        run.config_snapshot, run.manifest, run.lock, run.env, run.git, run.files_index, run.events, run.results_csv,
        run.summary, run.leaderboard, run.leaderboard_md,
        job.meta, job.results, job.events, job.stdout, job.cassette, job.attempt(2),
        job.attempt_out(2), job.initial_state, job.best_state, job.final_state, job.state_history, job.tb,
    )} == {
        "meta/config.snapshot.yaml", "meta/manifest.json", "meta/lock.json", "meta/env.json", "meta/git.json",
        "meta/files_index.json", "events.jsonl", "results.csv", "summary.json", "leaderboard.csv", "leaderboard.md",
        *(f"jobs/{JOB}/{name}" for name in (
            "job_meta.json", "results.json", "events.jsonl", "stdout.log", "llm.jsonl", "attempts/2", "attempts/2/out",
            "artifacts/initial_state.yaml", "artifacts/best_state.yaml", "artifacts/final_state.yaml",
            "artifacts/state_history.jsonl", "tb",
        )),
    }  # fmt: skip
    assert run.run_id == "20260102-030405-0123abcd"


@pytest.mark.parametrize("name", ["..", "../../etc", "ABCDEF012345", "0123", "", "0123456789ab/"])
def test_a_job_id_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="12 hex digits"):
        RunLayout(tmp_path).job(name)


def test_only_job_folders_are_listed(tmp_path: Path) -> None:
    run = RunLayout(tmp_path).make()
    for name in ("bbbbbbbbbbbb", "aaaaaaaaaaaa", "notes", "AAAAAAAAAAAA"):
        (run.jobs / name).mkdir()
    (run.jobs / "cccccccccccc").write_text("a file")
    assert [job.job_id for job in run.job_dirs()] == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("summary.json", "summary"),
        ("events.jsonl", "event"),
        ("meta/lock.json", "lock"),
        (f"jobs/{JOB}/results.json", "results"),
        (f"jobs/{JOB}/llm.jsonl", "llm_call"),
        (f"jobs/{JOB}/artifacts/state_history.jsonl", "history"),
        (f"jobs/{JOB}/attempts/1/out/result.json", "result"),
        (f"jobs/{JOB}/attempts/1/out/extra/result.json", None),
        (f"jobs/{JOB}/stdout.log", None),
        ("results.csv", None),
    ],
)
def test_each_file_knows_its_schema(path: str, name: str | None) -> None:
    assert schema_of(path) == name
    assert name is None or name in schema.names()
