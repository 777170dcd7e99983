"""Runs are found by what people type, and told in one line each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.analysis.folders import RUN, entry, make_run, row
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.records.job_states import RunProgress, job_lines, last_step
from trace_bench.records.reading import read_manifest
from trace_bench.records.runs import (
    AmbiguousRun,
    RunLine,
    all_runs,
    describe,
    find_job,
    find_run,
    run_id_of,
)

OTHER = "20260202-030405-0123abcd"


def told(run: RunLayout, running: bool = False) -> RunLine:
    return describe(run, running=running)


# ------------------------------------------------------------------------------------------------------- finding


def test_a_run_is_found_by_id_folder_prefix_and_as_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    for name, started in (
        (RUN, "2026-01-02T03:04:05Z"),
        (OTHER, "2026-02-02T03:04:05Z"),
        ("mine", "2025-01-01T00:00:00Z"),
    ):
        make_run(runs, name, started=started)  # fmt: skip
    for text, wanted in (
        (RUN, RUN),
        ("202601", RUN),
        ("m", "mine"),
        ("latest", OTHER),
        (str(runs / RUN), RUN),
        (f"{runs}/mine/", "mine"),
    ):
        assert find_run(text, runs).run_id == wanted, text
    monkeypatch.chdir(runs / "mine")
    assert find_run(".", runs).run_id == "mine"
    monkeypatch.chdir(runs)
    assert find_run("mine", Path("runs")).run_id == "mine", "its folder, without a slash"
    assert [run.run_id for run in all_runs(runs)] == [OTHER, RUN, "mine"]


def start_again(run: RunLayout, when: str, *, lines: int = 0) -> None:
    """Add a start of another controller to the journal, and so many lines after it."""
    with run.events.open("a") as file:
        file.write(json.dumps({"t": when, "event": "run.start"}) + "\n")
        file.write((json.dumps({"t": when, "event": "job.retry"}) + "\n") * lines)


def test_the_latest_run_is_the_one_that_was_started_or_continued_last(tmp_path: Path) -> None:
    old = make_run(tmp_path, "old", started="2026-01-01T00:00:00Z")
    make_run(tmp_path, "newer", started="2026-02-01T00:00:00Z")
    make_run(tmp_path, "plan", started=None)
    manifest = tmp_path / "plan" / "meta" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("2026-01-02T03:04:05.5Z", "2026-12-31T00:00:00.5Z"))
    assert [run.run_id for run in all_runs(tmp_path)] == ["newer", "old", "plan"], "it never started"
    start_again(old, "2026-03-01T00:00:00Z")
    assert find_run("latest", tmp_path).run_id == "old"
    with old.events.open("a") as file:
        file.write('{"t":"2026-03-02T00:00:00Z","event":"run.st')
    assert find_run("latest", tmp_path).run_id == "old", "the journal's torn end says nothing"


def test_the_last_start_is_known_though_the_journal_went_on_for_long(tmp_path: Path) -> None:
    """The end of the journal is read, and where it has no start the manifest's beginning: every start writes it."""
    old = make_run(tmp_path, "old", started="2026-01-01T00:00:00Z")
    make_run(tmp_path, "newer", started="2026-02-01T00:00:00Z")
    start_again(old, "2026-03-01T00:00:00Z", lines=3000)
    old.manifest.write_text(old.manifest.read_text().replace("2026-01-01T00:00:00.5Z", "2026-03-01T00:00:00.5Z"))
    assert find_run("latest", tmp_path).run_id == "old"


def test_a_run_that_goes_on_is_the_latest(tmp_path: Path) -> None:
    old = make_run(tmp_path, "old", started="2026-01-01T00:00:00Z")
    make_run(tmp_path, "newer", started="2026-02-01T00:00:00Z")
    with lock_run(old):
        assert [run.run_id for run in all_runs(tmp_path)] == ["old", "newer"]
        assert find_run("latest", tmp_path).run_id == "old"
    assert find_run("latest", tmp_path).run_id == "newer"


def test_an_id_is_preferred_to_longer_ones_that_begin_with_it(tmp_path: Path) -> None:
    make_run(tmp_path, "mine")
    make_run(tmp_path, "mine-2")
    assert find_run("mine", tmp_path).run_id == "mine"
    with pytest.raises(
        AmbiguousRun, match=r"'min' is the beginning of 2 runs in .* \(mine.*, mine.*\); give more of it"
    ):
        find_run("min", tmp_path)


def test_a_run_called_latest_is_that_run(tmp_path: Path) -> None:
    make_run(tmp_path, "latest", started="2020-01-01T00:00:00Z")
    make_run(tmp_path, RUN)
    assert find_run("latest", tmp_path).run_id == "latest"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("20260102-030405-0123abce", f"there is no run '20260102-030405-0123abce' in .*; there are {RUN}"),
        ("stray", "stray: it has no meta/ with a manifest, so it is not a run"),
        ("./nowhere", "'./nowhere': no such folder"),
        ("", "the name of the run is empty; name a run by its folder, by its id in .*, or latest"),
        ("a\0b", "no such folder"),
        (
            "run.tar.gz",
            "run.tar.gz: it is a file, .* trace-bench import; there are",
        ),
        (__file__, "it is a file, and a run is a folder"),
        ("x" * 300, "there is no run"),
        ("/tmp", "it is not a run"),
    ],
)
def test_what_is_no_run_is_named(tmp_path: Path, text: str, said: str) -> None:
    make_run(tmp_path, RUN)
    (tmp_path / "stray").mkdir()
    (tmp_path / "run.tar.gz").write_bytes(b"")
    with pytest.raises(ConfigError, match=said):
        find_run(text, tmp_path)


def test_among_many_runs_the_nearest_is_named(tmp_path: Path) -> None:
    for number in range(8):
        make_run(tmp_path, f"{'abcdefgh'[number]}-sweep-{number}")
    with pytest.raises(ConfigError, match="did you mean 'c-sweep-2'"):
        find_run("cc-sweep-2", tmp_path)


def test_a_folder_without_runs_or_no_folder_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "runs"):
        with pytest.raises(ConfigError, match=f"^there are no runs in {folder}; trace-bench run makes one$"):
            find_run("latest", folder)
        with pytest.raises(
            ConfigError, match=f"^there is no run 'mine' in {folder}; there are no runs; trace-bench run makes one$"
        ):
            find_run("mine", folder)
        assert all_runs(folder) == []
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file; name the folder of your runs with --runs-dir"):
        all_runs(tmp_path / "file")


def test_a_job_is_found_by_its_beginning() -> None:
    known = ["0123456789ab", "01ffffffffff", "abcdefabcdef"]
    assert find_job("a", known, "r") == find_job("abcdefabcdef", known, "r") == "abcdefabcdef"
    with pytest.raises(ConfigError, match=r"'01' is the beginning of 2 jobs of run r \(0123456789ab, 01ffffffffff\)"):
        find_job("01", known, "r")
    with pytest.raises(ConfigError, match="there is no job 'zz' in run r; known are 0123456789ab"):
        find_job("zz", known, "r")
    with pytest.raises(ConfigError, match="trace-bench show r lists its jobs"):
        find_job("zz", [f"{n:012x}" for n in range(40)], "r")


def test_a_renamed_folder_is_found_by_its_name_and_its_sandboxes_by_the_manifests_id(tmp_path: Path) -> None:
    run = make_run(tmp_path, RUN)
    run.root.rename(tmp_path / "copy")
    assert run_id_of(RunLayout(tmp_path / "copy")) == RUN
    assert told(RunLayout(tmp_path / "copy")).run_id == "copy" == find_run("copy", tmp_path).run_id


# -------------------------------------------------------------------------------------------------------- states

OK, FAILED = row(0), row(1, status="failed", failure_boundary="candidate", failure_kind="bad")
INFRASTRUCTURE = row(1, status="failed", failure_boundary="sandbox", failure_kind="oom")
CUT = row(1, stop_reason="interrupted")


@pytest.mark.parametrize(
    ("rows", "started", "running", "state"),
    [
        ([OK, FAILED], "2026-01-02T03:04:05Z", False, "finished"),
        ([OK], "2026-01-02T03:04:05Z", False, "unfinished"),
        ([OK, CUT], "2026-01-02T03:04:05Z", False, "unfinished"),
        ([OK, INFRASTRUCTURE], "2026-01-02T03:04:05Z", False, "unfinished"),
        ([], None, False, "planned"),
        ([OK], "2026-01-02T03:04:05Z", True, "running"),
    ],
)
def test_states(tmp_path: Path, rows: list[Results], started: str | None, running: bool, state: str) -> None:
    run = make_run(tmp_path, planned=2, rows=rows, started=started)
    assert told(run, running).state == state


def test_a_line_counts_and_names(tmp_path: Path) -> None:
    entries = [entry(0), entry(1), entry(2, status="not_executed", reason="fail_fast"), entry(3)]
    rows = [row(0, cost_usd=0.25), FAILED]
    line = told(make_run(tmp_path, rows=rows, entries=entries, name="'a: b # c'"))
    assert (line.jobs, line.done, line.ok, line.failed, line.skipped) == (4, 2, 1, 1, 1)
    assert line.interrupted == 0
    assert (line.name, line.started_at, line.cost_usd) == ("a: b # c", "2026-01-02T03:04:05Z", 0.25)


def test_a_job_that_was_cut_off_is_neither_ok_nor_done(tmp_path: Path) -> None:
    killed = row(2, status="failed", stop_reason="interrupted", failure_boundary="harness", failure_kind="interrupted")
    line = told(make_run(tmp_path, rows=[OK, CUT, killed]))
    assert (line.ok, line.failed, line.interrupted, line.done, line.state) == (1, 0, 2, 1, "unfinished")


def test_a_plan_knows_how_many_jobs_it_has(tmp_path: Path) -> None:
    line = told(make_run(tmp_path, planned=7, started=None))
    assert (line.jobs, line.done, line.started_at) == (7, 0, None)


def test_a_run_that_just_began_is_running(tmp_path: Path) -> None:
    line = told(RunLayout(tmp_path / "new").make(), running=True)
    assert (line.state, line.jobs, line.damage) == ("running", 0, None)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("manifest", None, "manifest.json: it is missing"),
        ("manifest", "{}", "manifest.json: it does not begin like a manifest"),
        ("manifest", "cut", "manifest.json: the file is truncated"),
        ("lock", "{", "lock.json: it is not JSON"),
        ("lock", None, "lock.json: it is missing"),
        ("summary", '{"run_id": 1}', "summary.json: "),
        ("events", "what\n", "events.jsonl, line 1: it is not JSON"),
    ],
)
def test_damage_is_told_and_not_raised(tmp_path: Path, file: str, content: str | None, said: str) -> None:
    run = make_run(tmp_path, rows=[OK])
    path: Path = getattr(run, file)
    if content == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif content is None:
        path.unlink()
    else:
        path.write_text(content)
    line = told(run)
    assert line.state == "damaged" and line.damage and said in line.damage and str(path) in line.damage
    assert all_runs(tmp_path) == [run]


# ---------------------------------------------------------------------------------------------------------- jobs


def states(run: RunLayout, running: bool) -> list[str]:
    manifest = read_manifest(run)
    assert manifest is not None
    return [line.state for line in job_lines(run, manifest, RunProgress.of(run), running=running)]


def test_each_job_has_a_state(tmp_path: Path) -> None:
    rows = [
        row(0),
        row(1, status="failed", failure_boundary="task", failure_kind="bad"),
        row(2, stop_reason="interrupted"),
    ]
    killed = row(3, status="failed", failure_boundary="harness", failure_kind="interrupted")
    entries = [*(entry(n) for n in range(5)), entry(5, status="not_executed", reason="cancelled")]
    run = make_run(tmp_path, rows=[*rows, killed], entries=entries)
    assert states(run, running=False) == ["ok", "failed", "interrupted", "interrupted", "planned", "skipped"]


def test_a_job_that_started_and_did_not_end_runs_as_long_as_its_controller(tmp_path: Path) -> None:
    run = make_run(tmp_path, planned=2, rows=[row(0)], ended=False)
    with run.events.open("a") as file:
        line = {"t": "2026-01-02T03:04:06Z", "event": "job.start", "job_id": entry(1).job_id}
        file.write(json.dumps(line) + "\n")
    assert states(run, running=True) == ["ok", "running"]
    assert states(run, running=False) == ["ok", "interrupted"]


def test_a_result_of_an_earlier_start_is_not_this_ones(tmp_path: Path) -> None:
    old = row(1, status="failed", failure_boundary="sandbox", failure_kind="oom")
    run = make_run(tmp_path, entries=[entry(0, decision="reuse"), entry(1, decision="run")], rows=[row(0), old])
    with run.events.open("a") as file:
        file.write('{"t":"2026-01-03T03:04:06Z","event":"run.start"}\n')
    assert states(run, running=True) == ["ok", "planned"]
    assert states(run, running=False) == ["ok", "failed"]
    progress = RunProgress.of(run)
    assert (progress.first_started_at, progress.started_at) == ("2026-01-02T03:04:05Z", "2026-01-03T03:04:06Z")
    assert progress.ended_at is None


def test_the_last_step_is_the_newest_whole_line_of_this_attempt(tmp_path: Path) -> None:
    job = make_run(tmp_path, rows=[row(0)]).job(row(0).job_id).make()
    job.meta.write_text("{}")
    assert last_step(job) is None
    job.state_history.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert last_step(job) == {"step": 2}
    os.utime(job.state_history, (1, 1))
    assert last_step(job) is None, "it is of an attempt before the record was written"


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, planned=1, rows=[row(0)])
    run.job(row(0).job_id).results.write_text("{}")
    with pytest.raises(HarnessError, match=r"results\.json: "):
        states(run, running=False)
