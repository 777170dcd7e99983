"""``ls``, ``show`` and ``logs`` on finished folders: what they print, and what they refuse."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path
from typing import Any, get_args

import pytest

from tests import forked
from tests.analysis.folders import RUN, entry, job_id, make_job, make_run, row
from tests.cli.conftest import refused
from tests.cli.test_docs import commands_of
from tests.integration.cli import REPOSITORY, cli, write_config
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.ls import ls
from trace_bench.records import runs as records
from trace_bench.records.job_states import JOB_STATES
from trace_bench.records.runs import State

HOSTILE = "\x1b[2J[red]gone[/red]\x9b31m\r\n"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def shown(*arguments: str, runs: Path, code: int = 0) -> str:
    done = cli(*arguments, "--runs-dir", str(runs))
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    assert "\x1b" not in done.stdout and "\x9b" not in done.stdout
    return done.stdout


def parsed(*arguments: str, runs: Path) -> Any:
    return json.loads(shown(*arguments, "--json", runs=runs))


# ------------------------------------------------------------------------------------------------------------ ls


def test_ls_has_a_line_for_each_run_the_newest_first(runs: Path) -> None:
    make_run(runs, RUN, rows=[row(n) for n in range(3)], name="first")
    make_run(runs, "later", rows=[row(0)], started="2026-03-01T00:00:00Z")
    make_run(runs, "plan", started=None)
    header, *lines = shown("ls", runs=runs).splitlines()
    assert header.split() == [
        "id", "name", "state", "jobs", "ok", "failed", "infra", "skipped", "interrupted", "flagged", "unprotected",
        "started", "cost", "replay", "of",
    ]  # fmt: skip
    assert [line.split()[:5] for line in lines] == [
        ["later", "-", "unfinished", "1/3", "1"],
        [RUN, "first", "finished", "3/3", "3"],
        ["plan", "-", "planned", "0/3", "0"],
    ]
    assert [line["run_id"] for line in parsed("ls", runs=runs)] == ["later", RUN, "plan"]


def test_ls_reads_and_prints_the_newest_runs_and_counts_the_others(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(25):
        make_run(runs, f"run-{n:02}", rows=[row(0)], started=f"2026-03-01T00:{n:02}:00Z")
    newest = [f"run-{n:02}" for n in reversed(range(25))]

    def listed(*arguments: str) -> tuple[list[str], str]:
        done = cli("ls", "--runs-dir", str(runs), *arguments)
        assert done.returncode == 0
        return [line.split()[0] for line in done.stdout.splitlines()[1:]], done.stderr

    assert listed() == (newest[:20], "and 5 more runs; --all shows them, -n N the newest N\n")
    assert listed("-n", "3") == (newest[:3], "and 22 more runs; --all shows them, -n N the newest N\n")
    assert listed("-n", "25") == listed("--all") == (newest, "")
    assert [line["run_id"] for line in parsed("ls", runs=runs)] == newest
    assert [line["run_id"] for line in parsed("ls", "-n", "2", runs=runs)] == newest[:2]
    assert cli("ls", "--all", "-n", "3", "--runs-dir", str(runs)).returncode == 2
    read: list[str] = []
    real = records.describe
    monkeypatch.setattr(records, "describe", lambda run, **more: read.append(run.run_id) or real(run, **more))
    ls(runs, newest=3)
    assert read == newest[:3]


def test_ls_and_show_say_that_a_run_is_a_replay(runs: Path) -> None:
    make_run(runs, "recorded", rows=[row(0)])
    run = make_run(runs, "again", rows=[row(0)])
    run.config_snapshot.write_text("name: a\nmode: replay\nreplay_from: /elsewhere/runs/recorded\n")
    header, *lines = shown("ls", runs=runs).splitlines()
    assert header.endswith("replay of") and {line.split()[0]: line.split()[-1] for line in lines} == {
        "again": "recorded",
        "recorded": "-",
    }
    assert {line["run_id"]: line["replay_of"] for line in parsed("ls", runs=runs)} == {
        "again": "recorded",
        "recorded": None,
    }
    assert "\nreplay of  recorded\n" in shown("show", "again", runs=runs)
    assert "replay of" not in shown("show", "recorded", runs=runs)


def test_show_counts_what_the_model_proposed(runs: Path) -> None:
    run = make_run(runs, rows=[row(0), row(1)])
    make_job(run, 0)
    job = run.job(job_id(0))
    job.events.write_text('{"t":1,"event":"proposal.dropped"}\n{"t":1,"event":"proposal.unusable"}\n')
    job.state_history.write_text('{"candidate":"a","parents":[]}\n{"candidate":"b","parents":["a"]}\n')
    assert "\nproposals  1 new, 1 duplicate, 1 unusable\n" in shown("show", RUN, runs=runs)
    assert "\nproposals    1 new, 1 duplicate, 1 unusable\n" in shown("show", RUN, job_id(0), runs=runs)
    assert "\nproposals    1 of 3 answers unusable: 1 cut off\n" in shown("show", RUN, job_id(1), runs=runs)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_lists_and_jobs_fit_the_terminal_and_rows_can_be_told_apart(runs: Path, columns: int) -> None:
    variants = [
        f"num_steps={steps},num_candidates={width},num_proposals={width}" for steps in (3, 6) for width in (1, 2)
    ]
    where = [{"trainer_id": "PrioritySearch", "variant": variant} for variant in variants]
    rows = [row(n, score_initial=-3.0, score_best=-0.0435037, score_test=-0.05, time_seconds=1234.5,
                total_tokens=123456, cost_usd=1.5, **where[n]) for n in range(4)]  # fmt: skip
    make_run(runs, rows=rows, entries=[entry(n, status="ok", **where[n]) for n in range(4)], name="a name " * 9)
    again = make_run(runs, "again-" + RUN, rows=rows, name="a name " * 9)
    again.config_snapshot.write_text(f"name: {'a name ' * 9}\nmode: replay\nreplay_from: /x/{RUN}\n")
    listed = on_a_terminal("ls", "--runs-dir", str(runs), columns=columns)
    text = on_a_terminal("show", RUN, "--runs-dir", str(runs), columns=columns)
    jobs, leaderboard = text.split("\n\n")[1:]
    for part in (listed, jobs, leaderboard):
        assert all(len(line.rstrip()) <= columns for line in part.splitlines()), part
    of_jobs = [line[14:] for line in jobs.splitlines() if line.startswith(tuple(map(job_id, range(4))))]
    ranked = [line[3:] for line in leaderboard.splitlines() if line.startswith("1  PrioritySearch")]
    for lines in (of_jobs, ranked):
        assert len(lines) == 4 and len({line.partition(" -")[0] for line in lines}) == 4, lines
    if columns == 80:
        assert "ns=3,nc=1,np=1" in text and "ns: num_steps, nc: num_candidates, np: num_proposals" in text


def test_ls_names_a_run_by_its_folder(runs: Path) -> None:
    make_run(runs, RUN, rows=[row(0)]).root.rename(runs / "renamed")
    (line,) = parsed("ls", runs=runs)
    assert line["run_id"] == "renamed"
    assert shown("ls", runs=runs).splitlines()[1].startswith("renamed ")
    assert shown("show", "renamed", runs=runs)


@pytest.mark.parametrize("columns", [80, 120])
def test_ls_on_a_terminal_has_short_times_and_only_counts_that_tell(runs: Path, columns: int) -> None:
    make_run(runs, RUN, rows=[row(n) for n in range(3)], name="a name " * 8)
    make_run(runs, "later", rows=[row(0)], started="2026-03-01T12:34:56Z")
    header, first, second = on_a_terminal("ls", "--runs-dir", str(runs), columns=columns).splitlines()
    assert header.split() == ["id", "name", "state", "jobs", "ok", "started"]
    assert first.split() == ["later", "-", "unfinished", "1/3", "1", "03-01", "12:34"]
    assert second.startswith(RUN + "  a name") and second.endswith("3/3   3  01-02 03:04") and len(second) <= columns
    make_run(runs, "cut", rows=[row(0, stop_reason="interrupted"), FAILED], planned=2, started="2025-03-01T12:34:56Z")
    header, *_, last = on_a_terminal("ls", "--runs-dir", str(runs), columns=120).splitlines()
    assert header.split() == ["id", "name", "state", "jobs", "ok", "failed", "interrupted", "started"]
    assert last.split()[-4:] == ["1", "1", "2025-03-01", "12:34"], "the year too, where it differs"


def test_ls_knows_that_a_controller_is_there(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)])
    with lock_run(run):
        assert parsed("ls", runs=runs)[0]["state"] == "running"
    assert parsed("ls", runs=runs)[0]["state"] == "unfinished"


def test_ls_goes_on_after_a_damaged_run(runs: Path) -> None:
    make_run(runs, "good", rows=[row(0)], planned=1)
    make_run(runs, "bad", rows=[row(0)]).summary.write_text("{")
    done = cli("ls", "--runs-dir", str(runs))
    assert done.returncode == 0
    assert {line.split()[0]: line.split()[2] for line in done.stdout.splitlines()[1:]} == {
        "good": "finished",
        "bad": "damaged",
    }
    assert done.stderr.startswith("damaged: ") and "summary.json: it is not JSON" in done.stderr


def test_ls_of_an_empty_folder_and_of_none(runs: Path) -> None:
    for _ in range(2):
        done = cli("ls", "--runs-dir", str(runs))
        assert (done.returncode, done.stdout) == (0, "") and f"there are no runs in {runs}" in done.stderr
        assert parsed("ls", runs=runs) == []
        said = refused("show", "latest", "--runs-dir", str(runs))
        assert said == f"error: there are no runs in {runs}; trace-bench run makes one"
        runs.mkdir(exist_ok=True)


def test_ls_reads_no_job(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)], planned=1)
    run.job(job_id(0)).results.write_text("damaged")
    assert parsed("ls", runs=runs)[0]["state"] == "finished"


# ---------------------------------------------------------------------------------------------------------- show

FAILED = row(1, status="failed", failure_boundary="candidate", failure_kind="bad", feedback="it broke")


def test_show_has_the_run_its_jobs_and_its_leaderboard(runs: Path) -> None:
    good = row(
        0, score_initial=-3.0, score_best=-0.5, score_test=-0.75, time_seconds=1.25, total_tokens=7, prompt_tokens=7
    )
    make_run(runs, rows=[good, FAILED], warnings=["mind this"], name="demo")
    text = shown("show", "latest", runs=runs)
    assert f"run        {RUN}  (demo)" in text and "state      unfinished" in text
    assert "jobs       3: 1 ok, 1 failed, 1 planned" in text and "failures   1 candidate:bad" in text
    assert "tokens     7 (7 in, 0 out) in 0 calls" in text and "warnings   mind this" in text
    table = text.split("\n\n")[1].splitlines()
    assert table[1].split() == [
        job_id(0), "internal:numeric_param", "NoOp", "0", "0", "ok", "-3", "→", "-0.5", "↑", "-0.75", "1.2", "7",
            "-",
    ]  # fmt: skip
    assert table[2].split()[5] == "failed" and table[2].endswith("candidate: bad: it broke")
    assert table[3].split()[5] == "planned"
    title, header, first, left_out = text.split("\n\n")[2].splitlines()
    assert title == "leaderboard" and first.split()[:3] == ["internal:numeric_param", "1", "NoOp"]
    assert first.split()[header.split().index("seeds")] == "1/2"
    assert left_out == "seeds: counted/total; excluded from means: 1 failed"
    assert "leaderboard" not in shown("show", "latest", "--status", "ok", runs=runs)


def test_times_are_of_one_form_and_a_plan_that_is_younger_is_left_out(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)], planned=1, started="2026-01-02T03:04:05.678901Z")
    assert "times      started 2026-01-02T03:04:05Z, ended 2026-01-02T03:04:05Z\n" in shown("show", RUN, runs=runs)
    document = json.loads(run.manifest.read_text())
    run.manifest.write_text(json.dumps({**document, "generated_at": "2026-01-02T03:00:00.123456Z"}))
    assert "times      planned 2026-01-02T03:00:00Z, started" in shown("show", RUN, runs=runs)
    make_run(runs, "plan", started=None)
    assert "times    planned 2026-01-02T03:04:05Z\n" in shown("show", "plan", runs=runs)


def test_a_reused_job_says_so_in_its_note(runs: Path) -> None:
    make_run(runs, rows=[row(0)], entries=[entry(0, status="ok", decision="reuse")])
    (line,) = [x for x in shown("show", RUN, runs=runs).splitlines() if x.startswith(job_id(0))]
    assert line.split()[5] == "ok" and line.endswith("  reused") and "(reused)" not in line
    (job,) = parsed("show", RUN, runs=runs)["jobs"]
    assert (job["status"], job["note"], job["row"]["status"]) == ("ok", "reused", "ok") and "state" not in job


def test_what_a_job_cost_and_that_its_budget_ended_it_are_in_its_line(runs: Path) -> None:
    cheap = row(0, cost_usd=0.0000153, stop_reason="budget", total_tokens=7, prompt_tokens=7)
    make_run(runs, rows=[cheap], planned=1)
    (line,) = [line for line in shown("show", "latest", runs=runs).splitlines() if line.startswith(job_id(0))]
    assert line.endswith("7  0.000015  ended by its budget")
    assert cli("ls", "--runs-dir", str(runs)).stdout.rstrip().endswith("  0.000015  -")


def test_show_limits_the_jobs_unless_all_are_asked_for(runs: Path) -> None:
    make_run(runs, planned=60, rows=[FAILED])
    done = cli("show", RUN, "--runs-dir", str(runs))
    assert done.stdout.count("planned") == 50 and "and 10 more jobs; --all shows them" in done.stderr  # one in the head
    assert shown("show", RUN, "--all", runs=runs).count("internal:numeric_param") == 60
    only = shown("show", RUN, "--status", "failed,ok", runs=runs)
    assert only.count("internal:numeric_param") == 1 and job_id(1) in only
    assert [job["job_id"] for job in parsed("show", RUN, "--status", "failed", runs=runs)["jobs"]] == [job_id(1)]
    assert len(parsed("show", RUN, runs=runs)["jobs"]) == 60


def test_show_marks_running_jobs_with_their_last_step(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)], ended=False)
    make_job(run, 1, status="running")
    run.job(job_id(1)).state_history.write_text('{"step": 4, "best_score": -0.123456789}\n')
    with run.events.open("a") as file:
        file.write(json.dumps({"t": "2026-01-02T03:04:06Z", "event": "job.start", "job_id": job_id(1)}) + "\n")
    with lock_run(run):
        (line,) = [x for x in shown("show", RUN, runs=runs).splitlines() if x.startswith(job_id(1))]
        (job,) = parsed("show", RUN, "--status", "running", runs=runs)["jobs"]
        head = shown("show", RUN, runs=runs)
    assert "running" in line and line.endswith("step 4, best so far -0.123457")
    assert job["step"] == {"step": 4, "best_score": -0.123456789} and job["status"] == "running"
    assert "in 0 calls, of jobs that have ended\n" in head and "USD, of jobs that have ended\n" in head
    assert "of jobs that have ended" not in shown("show", RUN, runs=runs)
    assert "cut off" in shown("show", RUN, "--status", "interrupted", runs=runs)


def test_what_a_sandbox_said_reaches_no_terminal_as_it_is(runs: Path) -> None:
    bad = FAILED.model_copy(update={"feedback": HOSTILE, "variant": HOSTILE})
    run = make_run(runs, rows=[bad], entries=[entry(1, variant=HOSTILE)], name='"\\e[2J"')
    make_job(run, 1, status="failed", variant=HOSTILE, warnings=[HOSTILE],
             failure={"boundary": "candidate", "kind": "bad", "message": HOSTILE})  # fmt: skip
    job = run.job(job_id(1))
    job.best_state.write_text('code: "\\e[2J"\n')
    job.stdout.write_bytes(HOSTILE.encode("latin-1") + b"\x1b]0;x\x07\ttab\n")
    job.events.write_text(json.dumps({"t": 1.5, "event": HOSTILE, HOSTILE: HOSTILE}) + "\n")
    for arguments in (["ls"], ["show", RUN], ["show", RUN, job_id(1)]):
        text = shown(*arguments, runs=runs)
        assert "\\x1b[2J" in text, arguments
    assert "\\x1b[2J" in shown("logs", RUN, job_id(1), "--events", runs=runs)
    assert "\\x1b]0;x\\x07\ttab\n" in shown("logs", RUN, job_id(1), runs=runs)


def test_show_of_a_job_has_all_about_it(runs: Path) -> None:
    run = make_run(runs, rows=[row(0, score_initial=-3.0, score_best=-0.5, stop_reason="completed")])
    make_job(run, 0, controls=[{"name": "apparmor", "wanted": "a profile", "in_force": False, "detail": "no AppArmor"}],
             warnings=["mind this"])  # fmt: skip
    run.job(job_id(0)).state_history.write_text('{"step": 1, "score": 0.5}\n{"torn')
    text = shown("show", RUN, "0000", runs=runs)
    for line in (
        f"job          {job_id(0)}",
        "trainer      NoOp, variant 0",
        "status       ok",
        "stop reason  completed",
        "validation   -3 → -0.5 ↑",
        "initial  -      -3          -",
        "best     -      -0.5        -0.75",
        "1        2026-01-02T03:04:05Z  -      ok      -",
        "apparmor  a profile  no AppArmor",
        "    -    return 1",
        "    +    return 2",
        "    0.0 → 2.5",
        f"  {run.job(job_id(0)).best_state}",
        "warnings     mind this",
    ):
        assert line in text.splitlines(), (line, text)
    assert "same" not in text, "a parameter that did not change"
    found = parsed("show", RUN, "0000", runs=runs)
    assert found["scores"]["best"]["test"] == -0.75 and set(found["change"]) == {"code", "guess"}
    assert found["history"] == [{"step": 1, "score": 0.5}]


def test_the_end_of_the_history_and_its_best_line_are_shown(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)])
    make_job(run, 0)
    scores = [0.1, 0.75, 0.123456789, 0.2, 0.3, 0.4, 0.5, 0.6]
    best = [0.1] + [0.75] * 7
    lines = [json.dumps({"step": n, "score": scores[n], "best_score": best[n]}) for n in range(8)]
    run.job(job_id(0)).state_history.write_text("\n".join(lines[:7]) + "\n")

    def table(*arguments: str) -> tuple[str, list[list[str]]]:
        text = shown("show", RUN, job_id(0), *arguments, runs=runs)
        title, _, *rows = next(part for part in text.split("\n\n") if part.startswith("history")).splitlines()
        return title, [line.split() for line in rows]

    title, rows = table()
    assert title == "history, the best and last 5 of 7; --all shows all"
    assert [line[0] for line in rows] == ["1", "2", "3", "4", "5", "6"]
    assert rows[0][3:] == ["0.75", "0.75", "-", "-"] and rows[1][3] == "0.123457"
    title, rows = table("--all")
    assert title == "history" and len(rows) == 7
    found = parsed("show", RUN, job_id(0), runs=runs)
    assert ([line["step"] for line in found["history"]], found["history_lines"]) == ([1, 2, 3, 4, 5, 6], 7)
    run.job(job_id(0)).state_history.write_text("\n".join(lines[1:7]) + "\n" + lines[1])
    assert table()[0] == "history, the best and last 5 of 7; --all shows all"
    run.job(job_id(0)).state_history.write_text(lines[0] + "\n" + lines[1])
    assert table()[0] == "history"


def test_the_last_lines_of_a_history_may_hold_the_best(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)])
    make_job(run, 0)
    run.job(job_id(0)).state_history.write_text(
        "".join(json.dumps({"step": n, "score": n, "best_score": n}) + "\n" for n in range(7))
    )
    assert "\nhistory, last 5 of 7; --all shows all\n" in shown("show", RUN, job_id(0), runs=runs)


def test_a_model_is_named_once(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)])
    make_job(run, 0, model={"id": "stub", "provider": "stub", "model": "stub"})
    assert "\nmodel        stub\n" in shown("show", RUN, job_id(0), runs=runs)
    make_job(run, 0, model={"id": "small", "provider": "openai", "model": "gpt-x"})
    assert "\nmodel        small (openai: gpt-x)\n" in shown("show", RUN, job_id(0), runs=runs)


@pytest.mark.parametrize(
    ("boundary", "remedy"), [("sandbox", "continue the run to try again"), ("task", "correct the task")]
)
def test_a_failed_job_says_where_and_what_to_do(runs: Path, boundary: str, remedy: str) -> None:
    bad = row(0, status="failed", failure_boundary=boundary, failure_kind="oom", feedback="too much")
    run = make_run(runs, rows=[bad])
    make_job(run, 0, status="failed", failure={"boundary": boundary, "kind": "oom", "message": "too much"})
    text = shown("show", RUN, job_id(0), runs=runs)
    assert f"failure      {boundary}: oom" in text and "message      too much" in text and remedy in text
    assert remedy in parsed("show", RUN, job_id(0), runs=runs)["failure"]["remedy"]


def test_a_job_without_a_folder_can_be_shown(runs: Path) -> None:
    make_run(runs, entries=[entry(0, status="not_executed", reason="fail_fast: job x failed")])
    text = shown("show", RUN, job_id(0), runs=runs)
    assert "status  skipped, fail_fast: job x failed" in text and "files" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nope"], "there is no run 'nope'"),
        (["show", RUN, "zz"], "there is no job 'zz'"),
        (["show", RUN, "--status", "done"], "--status: there is no status 'done'; use one of ok, failed, skipped,"),
        (["show", RUN, job_id(0), "--status", "ok"], "--status chooses among the jobs of a run"),
        (["logs", RUN, "zz"], "there is no job 'zz'"),
        (["logs", RUN, "--events"], "--events chooses between the two logs of a job"),
        (["logs", RUN, "--lines", "-1"], "--lines is -1"),
        (["cancel", RUN, "zz"], "there is no job 'zz'"),
    ],
)
def test_mistakes_are_one_line(runs: Path, arguments: list[str], said: str) -> None:
    make_run(runs, rows=[row(0)])
    assert said in refused(*arguments, "--runs-dir", str(runs))


def test_damage_is_one_sentence(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)])
    run.job(job_id(0)).results.write_text("{")
    assert "results.json: it is not JSON" in refused("show", RUN, "--runs-dir", str(runs), code=1)
    assert "results.json: it is not JSON" in refused("show", RUN, job_id(0), "--runs-dir", str(runs), code=1)
    assert job_id(1) in shown("show", RUN, job_id(1), runs=runs), "the other jobs can be looked at"
    run.manifest.unlink()
    assert "manifest.json: it is not there" in refused("show", RUN, "--runs-dir", str(runs))


def on_a_terminal(*arguments: str, columns: int, **env: str) -> str:
    leader, follower = pty.openpty()
    variables = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb", **env}
    with forked.start(*arguments, stdout=follower, env=variables) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                chunk = os.read(leader, 4096)
            except OSError:
                break
            said += chunk
        assert process.wait(timeout=30) == 0
    os.close(leader)
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 120])
def test_jobs_and_leaderboard_have_a_line_a_row_on_a_terminal(runs: Path, columns: int) -> None:
    change = [{"trainer_id": "PrioritySearch", "variant": f"num_steps=2,{'x' * 60}={n}"} for n in range(3)]
    failure = {"status": "failed", "failure_boundary": "candidate", "failure_kind": "bad", "feedback": "broke " * 30}
    rows = [row(n, score_initial=-3.0, score_best=-0.0435037 - n, time_seconds=1234.5, total_tokens=123456,
                **(failure if n == 2 else {}), **change[n]) for n in range(3)]  # fmt: skip
    make_run(runs, rows=rows, entries=[entry(n, status=rows[n].status, **change[n]) for n in range(3)])
    text = on_a_terminal("show", RUN, "--runs-dir", str(runs), columns=columns)
    jobs, leaderboard = (part.splitlines() for part in text.split("\n\n")[1:])
    jobs = [line.rstrip() for line in jobs]
    assert jobs[0] == "all: trainer PrioritySearch" and jobs[1] == "variants: all with num_steps=2"
    assert jobs[3] == "internal:numeric_param  higher is better"
    assert [line[:12] for line in jobs[4:7]] == [job_id(n) for n in range(3)]
    assert all(f"-3 → {-0.0435037 - n:.6g}  " in line + "  " for n, line in enumerate(jobs[4:7]))
    assert "candidate: ba" in jobs[6] and all("↑" not in line for line in jobs)
    assert (
        leaderboard[0] == "leaderboard" and leaderboard[1] == "all: optimizer OptoPrime, model stub, no held-out score"
    )
    assert all(len(line) <= columns for line in jobs + leaderboard)
    piped = shown("show", RUN, runs=runs)
    assert f"num_steps=2,{'x' * 60}=0" in piped and "-3 → -0.0435037 ↑" in piped, "a pipe's line has everything"


@pytest.mark.slow
def test_escapes_are_for_terminals_that_take_them(runs: Path) -> None:
    make_run(runs, rows=[row(0, score_best=1.0)])
    for command in (["ls"], ["show", RUN]):
        text = on_a_terminal(*command, "--runs-dir", str(runs), columns=80, TERM="xterm", NO_COLOR="")
        assert "\x1b[1m" in text and "──" in text
        for env in ({"TERM": "dumb"}, {"TERM": ""}, {"TERM": "xterm", "NO_COLOR": "1"}):
            text = on_a_terminal(*command, "--runs-dir", str(runs), columns=80, **env)
            assert "\x1b" not in text and "─" not in text, env


def test_small_lists_are_tables_on_a_terminal(tmp_path: Path) -> None:
    header, *lines = on_a_terminal("list-trainers", columns=80).splitlines()
    assert header.split() == ["trainer", "state"]
    (found,) = [line for line in lines if line.startswith("NoOp ")]
    assert found.split() == ["NoOp", "available"] and found.index("available") == header.index("state")
    header, *lines = on_a_terminal("images", "list", columns=80, TRACE_BENCH_HOME=str(tmp_path)).splitlines()
    assert header.split() == ["family", "state", "title"] and lines[0].split()[:3] == ["base", "not", "built"]
    assert header.index("state") == lines[0].index("not built") == lines[2].index("not built")


# ---------------------------------------------------------------------------------------------------------- logs


def test_logs_prints_the_journal_as_lines_and_as_json(runs: Path) -> None:
    make_run(runs, rows=[row(0)])
    text = shown("logs", RUN, runs=runs)
    assert text.splitlines()[1:3] == [
        f"2026-01-02T03:04:05Z  job.start    {job_id(0)}  adopted=false",
        f"2026-01-02T03:04:05Z  job.end      {job_id(0)}  status=ok",
    ]
    lines = [json.loads(line) for line in shown("logs", RUN, "--json", runs=runs).splitlines()]
    assert [line["event"] for line in lines] == ["run.start", "job.start", "job.end", "run.end"]
    assert shown("logs", RUN, "-n", "1", runs=runs).count("\n") == 1
    assert shown("logs", RUN, "-n", "0", runs=runs) == ""


def test_logs_of_a_job_are_its_output_or_its_events(runs: Path) -> None:
    run = make_run(runs, rows=[row(0)])
    job = run.job(job_id(0))
    job.stdout.write_bytes(b"one\r\ntwo \xff\nthree")
    job.events.write_text('{"t":0.25,"event":"build.end","what":"a b"}\nnot json\n')
    assert shown("logs", RUN, "00", runs=runs) == "one\ntwo \ufffd\nthree\n"
    assert shown("logs", RUN, "00", "-n", "1", runs=runs) == "three\n"
    first, *_ = shown("logs", RUN, "00", "--json", runs=runs).splitlines()
    assert json.loads(first) == {"job_id": job_id(0), "text": "one\r"}
    done = cli("logs", RUN, "00", "--events", "--runs-dir", str(runs))
    assert done.stdout == '    0.250  build.end    what="a b"\n' and "left out" in done.stderr and done.returncode == 0
    done = cli("logs", RUN, "01", "--runs-dir", str(runs))
    assert (done.returncode, done.stdout) == (0, "") and "has written no output" in done.stderr


def test_following_a_job_that_has_ended_without_a_word_waits_for_none(runs: Path) -> None:
    make_run(runs, rows=[row(0)])
    done = cli("logs", RUN, job_id(0), "-f", "--runs-dir", str(runs))
    assert (done.returncode, done.stderr) == (0, f"job {job_id(0)} has written no output\n")


def test_following_a_run_that_has_ended_prints_it_and_ends(runs: Path) -> None:
    make_run(runs, rows=[row(0)])
    assert shown("logs", RUN, "-f", runs=runs) == shown("logs", RUN, runs=runs)


def test_a_run_whose_folder_is_new_says_that_it_is_being_planned(runs: Path) -> None:
    run = RunLayout(runs / "new")
    with lock_run(run):
        assert "its controller is still planning" in refused("show", "new", "--runs-dir", str(runs))
        assert parsed("ls", runs=runs)[0]["state"] == "running"


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    search = {"id": "PrioritySearch", "params": {"num_steps": 1}}
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=[search], seeds=[1, 2], run_id="compare")
    assert cli("run", "--config", str(config), "--backend", "local", "--quiet").returncode == 0
    (first, _) = parsed("show", "compare", runs=tmp_path / "runs")["jobs"]
    commands = [c for c in commands_of("how-to/look-at-runs.md") if c != ["ps"]]
    assert len(commands) == 11
    for command in commands:
        done = cli(*(first["job_id"] if word == "JOB" else word for word in command), cwd=tmp_path)
        assert done.returncode == 0 and done.stdout + done.stderr, (command, done.stderr)
    page = (REPOSITORY / "docs" / "how-to" / "look-at-runs.md").read_text()
    for word in (*get_args(State), *JOB_STATES):
        assert f"`{word}`" in page, word


def test_jobs_of_several_models_are_told_apart(runs: Path) -> None:
    models = ["gpt-x", "gpt-y"]
    rows = [row(n, model=model, score_best=float(n)) for n, model in enumerate(models)]
    make_run(runs, rows=rows, entries=[entry(n, status="ok", model=model) for n, model in enumerate(models)])
    jobs, leaderboard = (part.splitlines() for part in shown("show", RUN, runs=runs).split("\n\n")[1:])
    place = jobs[0].split().index("model")
    assert [line.split()[place] for line in jobs[1:3]] == models
    assert sum("gpt-" in line for line in leaderboard) == 2, "no row mixes them"
    assert [line["model"] for line in parsed("show", RUN, runs=runs)["jobs"]] == models
