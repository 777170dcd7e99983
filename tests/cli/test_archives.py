"""export, import, rebuild, diff, rm and gc on the command line: what they print, refuse and exit with."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from tests import forked
from tests.analysis.folders import make_run, row
from tests.integration.cli import cli, environment
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.reproduce import open_recording
from trace_bench.cli.commands.diff import diff
from trace_bench.cli.commands.export import export
from trace_bench.cli.commands.gc import gc, seconds
from trace_bench.cli.commands.import_ import import_
from trace_bench.cli.commands.rebuild import rebuild as rebuild_command
from trace_bench.cli.commands.rm import rm
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.records.archive import pack
from trace_bench.records.tables import write_files_index

EXPORT = {"table": None, "where": None, "unfinished": False, "force": False,
          "as_json": False}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """A finished run of one job."""
    made = make_run(tmp_path / "runs", rows=[row(0)], planned=1)
    write_files_index(made)
    return made


def test_a_run_goes_to_another_machine_and_is_the_same_there(recorded: RunLayout, tmp_path: Path) -> None:
    told = cli("export", str(recorded.root), "-o", "run.tar.gz", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, ""), told.stderr
    lines = dict(line.split(maxsplit=1) for line in told.stdout.splitlines())
    assert lines["sha256"] == subprocess.run(
        ["sha256sum", "run.tar.gz"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()[0]  # fmt: skip
    done = cli("import", "run.tar.gz", "--runs-dir", "there", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["run_id"], found["digest"], found["already"]) == (recorded.run_id, lines["digest"], False)
    assert lines["run"].endswith(f"({found['files']} files, {found['bytes']} bytes)")
    checked = cli("rebuild", "latest", "--runs-dir", "there", "--check", "--jobs", cwd=tmp_path)
    assert checked.returncode == 0 and "all" in checked.stdout


def test_export_refuses_in_a_sentence(run: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("")
    text = str(run.root)
    for output, options, said in (
        ("out", {}, "unknown extension; use one of .tar.gz, .tgz, .tar, .parquet, .csv"),
        (".", {}, "it is not a file"),
        ("there.csv", {}, "it exists; name another file, or overwrite it with --force"),
        (f"{text}/x.tar", {}, "it lies in the run itself"),
        ("x.csv", {"table": "score"}, "there is no table 'score'.*scores"),
        ("x.csv", {"where": "nonsense"}, "is no condition"),
        ("x.tar", {"where": "seed=1"}, "an archive is of the whole run"),
    ):
        place = tmp_path / output
        with pytest.raises(ConfigError, match=said):
            export(text, place, runs_dir=Path("runs"), **{**EXPORT, **options})  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "there.csv"]


def test_only_a_finished_run_that_nobody_works_in_is_archived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "runs", rows=[row(0)], planned=2)
    run.salt.write_text("secret")
    with pytest.raises(ConfigError, match="it is not finished; continue it, or export it as it is with --unfinished"):
        export(str(run.root), tmp_path / "x.tar", runs_dir=Path("runs"), **EXPORT)  # type: ignore[arg-type]
    with lock_run(run), pytest.raises(ConfigError, match="a controller is at work in it"):
        export(str(run.root), tmp_path / "x.tar", runs_dir=Path("runs"), **{**EXPORT, "unfinished": True})  # type: ignore[arg-type]
    assert not (tmp_path / "x.tar").exists()
    export(str(run.root), tmp_path / "x.tar", runs_dir=Path("runs"), **{**EXPORT, "unfinished": True})  # type: ignore[arg-type]
    assert capsys.readouterr().err == "left out: meta/.salt\n"
    assert b"secret" not in (tmp_path / "x.tar").read_bytes()


def test_an_archive_with_a_key_in_it_is_warned_of(
    run: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "zq-very-secret-val")
    export(str(run.root), tmp_path / "x.tar", runs_dir=Path("runs"), **EXPORT)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
    for name, text in (("own.txt", "it is zq-very-secret-val"), ("form.txt", "a ghp_" + "a1" * 18)):
        (run.jobs / name).write_text(text)
    export(str(run.root), tmp_path / "y.tar", runs_dir=Path("runs"), **EXPORT)  # type: ignore[arg-type]
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: 2 files")]
    assert len(warned) == 1 and "jobs/form.txt, jobs/own.txt; do not share it" in warned[0]


def test_folders_deeper_than_any_stack_are_walked(run: RunLayout, tmp_path: Path) -> None:
    folders = [run.jobs]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    (folders[-1] / "link").symlink_to("/etc")
    try:
        assert pack(run, tmp_path / "x.tar").left_out == (run.relative(folders[-1] / "link"),)
        with pytest.raises(ConfigError, match="which no run contains"):
            open_recording(str(run.root), tmp_path)
    finally:
        (folders[-1] / "link").unlink()
        for folder in reversed(folders[1:]):
            folder.rmdir()


def test_a_table_of_a_part_of_a_run(recorded: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {**EXPORT, "where": "trainer=NoOp,seed=1", "as_json": True}
    export(str(recorded.root), tmp_path / "x.parquet", runs_dir=Path("runs"), **options)  # type: ignore[arg-type]
    told, frame = json.loads(capsys.readouterr().out), pd.read_parquet(tmp_path / "x.parquet")
    assert (told["jobs"], told["rows"]) == (3, len(frame)) and set(frame["trainer_id"]) == {"NoOp"}


def test_a_history_that_breaks_its_schema_is_a_sentence(copied: RunLayout, tmp_path: Path) -> None:
    path = next(copied.jobs.glob("*/artifacts/state_history.jsonl"))
    path.write_text('{"step": "many", "score": {}}\n')
    for name in ("x.csv", "x.parquet"):
        with pytest.raises(HarnessError, match="trace-bench audit names it"):
            export(str(copied.root), tmp_path / name, runs_dir=Path("runs"), **{**EXPORT, "table": "steps"})  # type: ignore[arg-type]
        assert not list(tmp_path.glob("*x.*"))


def test_import_refuses_limits_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="whole numbers from 1 on"):
        import_(tmp_path / "x", tmp_path, max_bytes=0)


def test_rebuild_exits_with_1_where_a_check_finds_something(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    text = {"jobs": False, "every": False, "as_json": False}
    rebuild_command(str(run.root), runs_dir=Path("runs"), check=False, **text)
    capsys.readouterr()
    assert rebuild_command(str(run.root), runs_dir=Path("runs"), check=True, **text) == 0
    run.leaderboard.write_text("forged\n")
    assert rebuild_command(str(run.root), runs_dir=Path("runs"), check=True, **text) == 1
    out = capsys.readouterr().out
    assert "differs    leaderboard.csv\n" in out and "are not what they follow from" in out
    with lock_run(run), pytest.raises(ConfigError, match="a controller is at work in it"):
        rebuild_command(str(run.root), runs_dir=Path("runs"), check=False, **text)
    assert run.leaderboard.read_text() == "forged\n"


def test_diff_says_what_two_jobs_differ_in(recorded: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = sorted(job.job_id for job in recorded.job_dirs())
    diff([f"{recorded.root}/jobs/{jobs[0]}/", f"{recorded.root}/{jobs[1][:6]}"], runs_dir=Path("runs"), every=True,
                 as_json=False)  # fmt: skip
    first = capsys.readouterr().out
    diff([str(recorded.root), jobs[0], jobs[1]], runs_dir=Path("runs"), every=True, as_json=False)
    assert capsys.readouterr().out == first and "\ngiven\n" in first and "\ncame out\n" in first
    diff([str(recorded.root), jobs[0], jobs[0]], runs_dir=Path("runs"), every=False, as_json=False)
    assert "nothing differs, times apart" in capsys.readouterr().out
    diff([jobs[0], jobs[1][:6]], runs_dir=recorded.root.parent, every=True, as_json=False)
    assert capsys.readouterr().out == first
    with pytest.raises(ConfigError, match="there is no job 'zz' in run"):
        diff([jobs[0], "zz"], runs_dir=recorded.root.parent, every=True, as_json=False)
    for wrong in ([jobs[0]], [jobs[0], f"x/{jobs[1]}"], [str(recorded.root)] * 4, ["/", "/"]):
        with pytest.raises(ConfigError, match="name two jobs"):
            diff(wrong, runs_dir=Path("runs"), every=False, as_json=False)


def test_hostile_values_are_shown_harmless(copied: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = list(copied.job_dirs())[:2]
    path = other.results
    path.write_text(path.read_text().replace('"feedback": "', '"feedback": "\\u001b[2J'))
    diff([str(copied.root), one.job_id, other.job_id], runs_dir=Path("runs"), every=False, as_json=False)
    assert "\x1b" not in capsys.readouterr().out


def test_rm_removes_what_it_is_told_and_nothing_else(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_run(run.root.parent, "other", rows=[row(0)], planned=1)
    with pytest.raises(ConfigError, match="there is no run 'none'"):
        rm(["other", "none"], yes=True, runs_dir=run.root.parent, as_json=False)
    with (
        lock_run(other),
        pytest.raises(ConfigError, match="at work in it; wait until it has ended, or"),
    ):
        rm(["other"], yes=True, runs_dir=run.root.parent, as_json=False)
    assert other.manifest.exists()
    rm(["other", "other"], yes=True, runs_dir=run.root.parent, as_json=True)
    (told,) = json.loads(capsys.readouterr().out)
    assert told["run_id"] == "other" and told["bytes"] > 1000
    assert [path.name for path in run.root.parent.iterdir()] == [run.run_id]


def test_rm_asks_on_a_terminal_and_refuses_without_one(run: RunLayout) -> None:
    refused = cli("rm", run.run_id, "--runs-dir", str(run.root.parent))
    assert (refused.returncode, refused.stderr) == (2, "error: rm asks on a terminal; without one, give --yes\n")
    for answer, gone in (("\n", False), ("y\n", True)):
        leader, follower = pty.openpty()
        command = ["rm", run.run_id, "--runs-dir", str(run.root.parent)]
        with forked.start(*command, stdin=follower, stderr=subprocess.PIPE, env=environment(None)) as process:
            os.close(follower)
            os.write(leader, answer.encode())
            assert process.stderr is not None and "Remove it for good? [y/N]" in process.stderr.read()
        os.close(leader)
        assert (process.returncode, run.root.exists()) == ((0, False) if gone else (2, True))


def test_rm_refuses_while_sandboxes_of_the_run_exist(run: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sandbox:
        labels = {"trace-bench.run": run.run_id}  # noqa: RUF012

    monkeypatch.setattr("trace_bench.cli.sandboxes.own_sandboxes", lambda _: [Sandbox()])
    with pytest.raises(ConfigError, match=f"1 sandboxes of run {run.run_id} exist; .* trace-bench clean --run"):
        rm([run.run_id], yes=True, runs_dir=run.root.parent, as_json=False)
    assert run.root.exists()


def test_gc_says_what_would_go_and_then_removes_it(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    job = run.job(row(0).job_id)
    job.checkpoint.write_bytes(b"x" * (1 << 20))
    write_files_index(run)
    gc(runs_dir=run.root.parent, dry_run=True)
    seen = capsys.readouterr()
    assert f"1.0 MiB  {job.checkpoint}  (the checkpoint of a finished run)" in seen.out and job.checkpoint.exists()
    assert seen.out.endswith("1.0 MiB in 1 places would be free\n") and "docker image prune" in seen.err
    gc(runs_dir=run.root.parent, as_json=True)
    seen = capsys.readouterr()
    assert json.loads(seen.out)["bytes"] == 1 << 20 and not job.checkpoint.exists()
    assert f"the digest is another one now: {run.run_id}" in seen.err


def test_ages_are_numbers_with_a_unit() -> None:
    assert [seconds(text) for text in ("30d", "1.5h", "2 W", "10s")] == [2592000, 5400, 1209600, 10]
    for text in ("", "30", "d", "-1d", "30 days", "1e3d", "\x1b"):
        with pytest.raises(ConfigError, match="write 30d, 12h or 2w"):
            seconds(text)
    with pytest.raises(ConfigError, match="--keep"):
        gc(keep=-1, dry_run=True)


def test_a_secret_of_this_environment_is_in_no_table_that_is_written(copied: RunLayout, tmp_path: Path) -> None:
    secret = "not-for-a-table-4711"
    path = next(copied.job_dirs()).results
    path.write_text(
        path.read_text()
        .replace('"feedback":"', f'"feedback":"{secret} ')
        .replace('"feedback": "', f'"feedback": "{secret} ')
    )
    assert secret in path.read_text()
    for known in ("", secret):
        for name in ("jobs.csv", "jobs.parquet"):
            done = cli(
                "export", str(copied.root), "-o", name, "--table", "jobs", "--force", cwd=tmp_path, SOME_TOKEN=known
            )
            assert done.returncode == 0, done.stderr
            read = pd.read_csv if name.endswith("csv") else pd.read_parquet
            assert (secret in read(tmp_path / name).to_csv()) == (not known)
