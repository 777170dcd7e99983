"""What ``run`` prints: on pipes, as JSON, as a plan; and its options."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import refused
from tests.cli.sample_run import LAYOUT, NASTY, failed, job, row, skipped
from tests.console import here
from tests.integration.cli import TASKS, Done, cli, environment, result_of, start, write_config
from tests.integration.test_interruption import wait_for
from trace_bench.cli.displays import name_of
from trace_bench.cli.outcome import counts_text, print_outcome
from trace_bench.cli.plan_page import print_plan

TASK = "internal:numeric_param"
SHORT = {"id": "PrioritySearch", "params": {"num_steps": 1}}
FAILING = {"tasks": ["internal:multi_param"], "job_timeout": 1e-6}
"""A job that fails whatever its trainer does."""


def _config(folder: Path, **config: Any) -> tuple[str, ...]:
    path = write_config(folder, **{"tasks": [TASK], "trainers": ["NoOp"], **config})
    return ("run", "--config", str(path), "--backend", "local")


def _events(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_nothing_is_wrapped_or_coloured_in_a_pipe(tmp_path: Path) -> None:
    variant = {"num_steps": 1, "num_candidates": 2, "num_proposals": 3}
    run = _config(tmp_path, trainers=[{"id": "NoOp"}, {"id": "PrioritySearch", "params_variants": [variant]}])
    done = cli(*run, COLUMNS="40", TERM="xterm-256color", FORCE_COLOR="1", home=tmp_path)
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    starts = [line for line in done.stderr.splitlines() if line.startswith("start  ")]
    assert len(starts) == 2 and all(line.endswith("seed 123") for line in starts)


def test_the_plain_command_does_not_import_rich(tmp_path: Path) -> None:
    program = (
        "import sys; from trace_bench.cli import main; sys.argv[1:] = sys.argv[1:]\n"
        "try:\n    main()\nexcept SystemExit:\n    print('rich' in sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *_config(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert done.stderr.splitlines()[-1] == "False"


def test_json_lines_of_a_run_and_of_its_continuation(tmp_path: Path) -> None:
    run = (*_config(tmp_path, seeds=[1, 2], trainers=["NoOp", SHORT], run_id="mine"), "--json")
    first = _events(cli(*run))
    ids = [entry["job_id"] for entry in first[0]["jobs"]]
    assert len(set(ids)) == 4
    assert (first[0]["event"], first[-1]["event"]) == ("run.start", "run.end")
    for job_id in ids:
        kinds = [event["event"] for event in first if event.get("job_id") == job_id]
        assert (kinds[0], kinds[-1]) == ("job.start", "job.end") and set(kinds[1:-1]) <= {"job.up", "job.step"}
    assert any(event["event"] == "job.step" for event in first)
    assert all(event["t"] <= later["t"] for event, later in pairwise(first))
    assert first[-1]["counts"] == {"ok": 4, "failed": 0, "interrupted": 0, "skipped": 0} and first[-1]["ok"]

    second = _events(cli(*run))
    assert [event["event"] for event in second] == ["run.start", *["job.reuse"] * 4, "run.end"]
    assert second[0]["continued"] and {entry["decision"] for entry in second[0]["jobs"]} == {"reuse"}
    assert second[-1]["token_totals"] == first[-1]["token_totals"]


def test_json_says_what_failed_and_what_was_left_out(tmp_path: Path) -> None:
    run = _config(tmp_path, **FAILING, seeds=[1, 2, 3], fail_fast=True)
    done = cli(*run, "--json")
    events = [event for event in _events(done) if event["event"] != "job.step"]
    assert done.returncode == 1
    assert [event["event"] for event in events[1:]] == [
        *("job.start", "job.up", "job.end", "job.skip", "job.skip", "run.end")
    ]
    assert events[3]["row"]["status"] == "failed" and "fail_fast" in events[4]["row"]["feedback"]
    assert events[-1]["counts"] == {"ok": 0, "failed": 1, "interrupted": 0, "skipped": 2}
    assert (events[-1]["exit_code"], events[-1]["error"]) == (1, None)


def test_an_interrupted_run_says_how_to_continue(tmp_path: Path) -> None:
    released = tmp_path / "released"
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 60.0, "until": str(released)}}
    run = (*_config(tmp_path, tasks=[task], seeds=[1, 2], run_id="mine"), "--root", str(TASKS), "--json")
    process = start(*run, home=tmp_path / "home")
    assert process.stdout is not None and process.stderr is not None
    lines = [process.stdout.readline() for _ in range(3)]  # as they happen, not at the end
    assert [json.loads(line)["event"] for line in lines[1:]] == ["job.start", "job.up"]
    process.send_signal(signal.SIGINT)
    said = process.stderr.readline()
    assert said.startswith("stopping: running jobs end in order"), said
    released.touch()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    end = json.loads(out.splitlines()[-1])
    assert (end["event"], end["interrupted"], end["exit_code"]) == ("run.end", True, 130)
    assert end["counts"] == {"ok": 0, "failed": 0, "interrupted": 1, "skipped": 1}
    assert err.splitlines()[-1] == f"error: {end['error']}" and "the same command continues the run" in end["error"]
    assert result_of(cli(*run).stdout)["ok"]


@pytest.mark.slow
def test_what_an_interrupted_run_came_to_is_printed(tmp_path: Path) -> None:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 3.0}}
    run = (*_config(tmp_path, tasks=[TASK, task], run_id="mine"), "--root", str(TASKS), "--force")
    process = start(*run, home=tmp_path / "home")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("start") and "internal:slow" in line:
            break
    journal = tmp_path / "runs" / "mine" / "events.jsonl"
    wait_for(lambda: journal.read_text().count('"job.up"') == 2)  # before that it would be none of the interrupted
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "1 of 2 jobs ok, 1 interrupted" in out, out + err
    assert "--run-id mine --resume auto, without --force, continues the run" in err.splitlines()[-1]


def test_an_error_in_the_middle_ends_the_json_lines(tmp_path: Path) -> None:
    run = (*_config(tmp_path, run_id="mine"), "--json")
    (tmp_path / "runs" / "mine" / "events.jsonl").mkdir(parents=True)  # the journal cannot be opened
    done = cli(*run)
    assert done.returncode == 3 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    first, end = _events(done)
    assert (first["event"], end["event"], end["exit_code"], end["ok"]) == ("run.start", "run.end", 3, False)
    assert done.stderr == f"error: {end['error']}\n" and "events.jsonl" in end["error"]


def test_a_dry_run_leaves_nothing_behind(tmp_path: Path) -> None:
    run = _config(tmp_path, seeds=[1, 2], run_id="mine")
    home, before = tmp_path / "home", _tree(tmp_path)
    done = cli(*run, "--dry-run", home=home, HOME=str(home))
    assert done.returncode == 0, done.stderr
    first, second, empty, summary, name, _ = done.stdout.splitlines()
    assert first.split()[0] == "run" and TASK in first and "seed 1" in first and "seed 2" in second and empty == ""
    assert summary == "2 jobs: 2 to run" and name.split(maxsplit=1) == ["run", "mine (new)"]
    plan = json.loads(cli(*run, "--dry-run", "--json", home=home, HOME=str(home)).stdout)
    assert [entry["job_id"] for entry in plan["jobs"]] == [first.split()[1], second.split()[1]]
    assert (plan["run_id"], plan["manifest"], plan["continued"]) == ("mine", None, False)
    assert _tree(tmp_path) == before, "neither folder nor lock nor state"


@pytest.mark.docker
def test_a_dry_run_builds_no_image_and_keeps_no_state(tmp_path: Path) -> None:
    places = {name: str(tmp_path / name.lower()) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    done = cli("run", "smoke.yaml", "--backend", "docker", "--dry-run", cwd=tmp_path, home=tmp_path / "own", **places)
    assert done.returncode == 0, done.stderr
    assert "core  to be built" in done.stdout and "llm4ad  to be built" in done.stdout
    assert "run         a new one" in done.stdout and list(tmp_path.iterdir()) == []


def test_a_dry_run_of_a_run_that_is_there_touches_nothing(tmp_path: Path) -> None:
    run = _config(tmp_path, seeds=[1, 2], run_id="mine")
    assert cli(*run).returncode == 0
    before = _tree(tmp_path)
    plan = json.loads(cli(*run, "--dry-run", "--json").stdout)
    assert _tree(tmp_path) == before
    assert plan["counts"] == {"run": 0, "adopt": 0, "reuse": 2, "skip": 0} and plan["continued"]
    assert all(entry["reason"] for entry in plan["jobs"]) and plan["manifest"]
    again = json.loads(cli(*run, "--dry-run", "--json", "--force").stdout)
    assert again["counts"]["run"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--force", "--resume", "failed"), "--force runs every job again, and --resume failed does not"),
        (("--force", "--resume", "auto"), "--force runs every job again, and --resume auto does not"),
        (("-q", "-v"), "--verbose and --quiet contradict each other; give one of them"),
        (("--json", "-vv"), "--verbose and --json contradict each other; give one of them"),
        (("--resume", "maybe"), "option --resume: resume must be one of 'auto', 'failed', 'none', not 'maybe'"),
        (("--job-timeout", "-1"), "--job-timeout must be 0 (no limit) or more, not -1; see trace-bench run --help"),
        (("--job-timeout", "soon"), "--job-timeout must be a number of seconds, not 'soon'"),
        (("--job-timeout", "nan"), "--job-timeout must be a finite number of seconds, or 0 for no limit, not nan"),
        (("--job-timeout", "inf"), "--job-timeout must be a finite number of seconds, or 0 for no limit, not inf"),
        (("--n-concurrent", "0"), "option --max-workers: max_workers must be at least 1"),
        (("--output-dir", ""), "option --runs-dir: runs_dir must not be empty"),
        (("--resume", "failed"), "no run of this config below "),
        (("--resume", "failed", "--run-id", "zzz"), "resume is failed, but there is no run zzz below "),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    text = refused(*_config(tmp_path), *arguments)
    assert said in text, text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json"]


def _tree(folder: Path) -> dict[str, int]:
    """Every file and folder below `folder`, with the time of its last change."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def _snapshot(folder: Path, run: tuple[str, ...], *arguments: str) -> dict[str, Any]:
    import yaml

    done = here(*run, "--json", *arguments)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    found: dict[str, Any] = yaml.safe_load(
        (Path(result_of(done.stdout)["folder"]) / "meta" / "config.snapshot.yaml").read_text()
    )
    return found


def test_options_stand_above_the_config(tmp_path: Path) -> None:
    run = _config(tmp_path, job_timeout=5, trainers=[{"id": "NoOp", "logger": "ConsoleLogger"}])
    elsewhere = str(tmp_path / "elsewhere")
    found = _snapshot(tmp_path, run, "--n-concurrent", "3", "--output-dir", elsewhere, "--job-timeout", "0")
    assert (found["max_workers"], found["runs_dir"], found["job_timeout"]) == (3, elsewhere, None)
    found = _snapshot(tmp_path, run, "--job-timeout", "7.5", "--logger", "off", "--force", "--resume", "none")
    assert (found["job_timeout"], found["trainers"][0]["logger"], found["resume"]) == (7.5, "none", "none")
    found = _snapshot(tmp_path, run, "--logger", "config")
    assert (found["job_timeout"], found["trainers"][0]["logger"]) == (5, "ConsoleLogger")


def test_verbose_adds_candidates_and_very_verbose_the_output(tmp_path: Path) -> None:
    run = (
        *_config(tmp_path, trainers=[{"id": "PrioritySearch", "params": {"num_steps": 1, "verbose": True}}]),
        "--force",
    )
    plain, verbose, very = (cli(*run, *extra) for extra in ((), ("-v",), ("-vv",)))
    assert plain.returncode == verbose.returncode == very.returncode == 0
    assert "step   " not in plain.stderr and " train | " in very.stderr and " train | " not in verbose.stderr
    for done in (verbose, very):
        assert "step   " in done.stderr and "build.end" in done.stderr and "train.end" in done.stderr


@pytest.mark.parametrize("planned", [3, 16])
def test_failures_are_listed_and_counted(planned: int, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job(n) for n in range(planned)]
    rows = [row(jobs[0]), skipped(jobs[1]), *(failed(each, feedback=f"{NASTY}. More") for each in jobs[2:])]
    print_outcome(LAYOUT, rows, planned)
    lines = capsys.readouterr().out.splitlines()
    assert f"1 of {planned} jobs ok, {planned - 2} failed, 1 skipped" in lines
    listed = [line for line in lines if line.startswith("failed")]
    assert len(listed) == min(planned - 2, 10) and all(line.isprintable() for line in listed)
    assert "task: build_error: " in listed[0] and "More" not in listed[0]
    more = [line for line in lines if line.startswith("and ")]
    assert more == ([f"and 4 more: trace-bench show {LAYOUT.root}"] if planned == 16 else [])
    assert [line.split()[0] for line in lines[-4:]] == ["run", "folder", "results", "leaderboard"]


def test_the_leaderboard_of_unprotected_jobs_is_not_in_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(job(1)).model_copy(update={"integrity": "unprotected"})]
    print_outcome(LAYOUT, rows, 1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"leaderboard {LAYOUT.leaderboard}  (unprotected jobs are left out of it)"
    print_outcome(LAYOUT, [row(job(1))], 1)
    assert capsys.readouterr().out.splitlines()[-1] == f"leaderboard {LAYOUT.leaderboard}"


def test_what_was_spent_is_said_where_anything_was(capsys: pytest.CaptureFixture[str]) -> None:
    cheap = row(job(1)).model_copy(update={"cost_usd": 0.0000153, "llm_tries": 2})
    free = row(job(1)).model_copy(update={"cost_usd": 0.0, "llm_tries": 0})

    def said(*arguments: Any, **options: Any) -> list[str]:
        print_outcome(LAYOUT, *arguments, **options)
        return [line for line in capsys.readouterr().out.splitlines() if "USD" in line]

    of = f"{cheap.llm_calls} calls, {cheap.total_tokens} tokens, 0.000015 USD"
    assert said([cheap], 1) == [f"spent       {of}"]
    assert said([cheap], 1, taken="recorded") == [f"recorded    {of}"]
    assert said([free], 1) == []
    asked = free.model_copy(update={"llm_tries": 1})
    assert said([asked], 1)[0].endswith(" 0.0000 USD"), "a provider was asked, at a price that is not known"


def test_jobs_without_a_row_count_as_skipped() -> None:
    assert counts_text([row(job(1))], 3) == "1 of 3 jobs ok, 2 skipped"
    cut = row(job(1)).model_copy(update={"cut_by_run_budget": True})
    assert counts_text([cut], 2) == "1 of 2 jobs ok (1 cut off by the run's budget), 1 skipped"
    assert counts_text([row(job(1), stop_reason="interrupted")], 1) == "0 of 1 jobs ok, 1 interrupted"


def test_a_plan_is_safe_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan([job(1, task_id=NASTY, variant=NASTY, reason=NASTY, decision="skip"), job(2)], {"run": LAYOUT.run_id})
    first, second, *_ = lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines) and "2 jobs: 1 to run, 1 to skip" in lines
    assert first.startswith("skip  000000000001") and second.startswith("run   000000000002")


def test_a_plan_and_its_lines_name_models_but_the_stub(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan([job(1, model="gpt-x"), job(2)], {})
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.split()[5] == "gpt-x" and second.split()[5] == "stub"
    print_plan([job(1), job(2)], {})
    assert "stub" not in capsys.readouterr().out
    assert "  gpt-x  seed 7" in name_of(job(1, model="gpt-x")) and "stub" not in name_of(job(1))
