"""``attach``: a run of another process looks as it does there, while it goes on and afterwards."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.analysis.folders import entry, job_id, make_run, row
from tests.integration.cli import TASKS, cli, environment, write_config
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import Journal, write_json
from trace_bench.cli.attach import Clock, Watch, attach_command
from trace_bench.cli.run import DisplayOptions
from trace_bench.errors import ConfigError
from trace_bench.execution.events import (
    CandidateEvaluated,
    Event,
    JobFinished,
    JobQueued,
    JobRetried,
    JobStarted,
    RunStarted,
)

SEARCH = {"id": "PrioritySearch", "params_variants": [{"num_steps": 2}]}


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def _process(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return forked.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=environment())


def _config(folder: Path, seconds: float, **config: Any) -> str:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": seconds}}
    return str(write_config(folder, tasks=[task], trainers=[SEARCH], backend="local", run_id="mine", **config))


def _progress(stderr: str) -> list[str]:
    """The lines that say how a run goes on, without their times."""
    found = [line for line in stderr.splitlines() if re.match(r"(run|start|up|ok|failed|cut|skip|retry) ", line)]
    return sorted(re.sub(r"\d+\.\d s", "s", line) for line in found)


def _wait_for(condition: Any, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_a_run_looks_alike_from_another_terminal_and_once_it_is_over(
    tmp_path: Path, processes: list[subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(tmp_path, 0.05, seeds=[1, 2])
    controller = _process("run", "--config", config, "--root", str(TASKS), cwd=tmp_path)
    processes.append(controller)
    _wait_for((tmp_path / "runs" / "mine" / "events.jsonl").exists)
    where = str(tmp_path / "runs")
    watcher = _process("attach", "mine", "-v", "--runs-dir", where, cwd=tmp_path)
    processes.append(watcher)
    out, err = controller.communicate(timeout=60)
    seen_out, seen_err = watcher.communicate(timeout=60)
    assert controller.returncode == watcher.returncode == 0, seen_err
    assert seen_out == out and "2 of 2 jobs ok" in out
    assert set(_progress(err)) <= set(_progress(seen_err)) and len(_progress(err)) == 5
    assert len([line for line in seen_err.splitlines() if line.startswith("step ")]) >= 4
    assert attach_command("mine", tmp_path / "runs", DisplayOptions()) == 0
    later = capsys.readouterr()
    assert (later.out, _progress(later.err)) == (out, _progress(err))
    assert attach_command("mine", tmp_path / "runs", DisplayOptions(as_json=True)) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines if line["event"] != "job.step"] == [
        "run.start", *["job.start", "job.up", "job.end"] * 2, "run.end",
    ]  # fmt: skip
    assert (lines[0]["workers"], lines[-1]["exit_code"], lines[-1]["counts"]["ok"]) == (1, 0, 2)


def test_ctrl_c_leaves_the_run_alone_and_a_dead_controller_is_told(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    config = _config(tmp_path, 600.0)
    controller = _process("run", "--config", config, "--root", str(TASKS), cwd=tmp_path)
    processes.append(controller)
    journal = tmp_path / "runs" / "mine" / "events.jsonl"
    _wait_for(lambda: journal.exists() and "job.up" in journal.read_text())
    watchers = [_process("attach", "mine", cwd=tmp_path) for _ in range(2)]
    processes += watchers
    for watcher in watchers:
        assert watcher.stderr is not None and watcher.stderr.readline().startswith("run    mine")
    watchers[0].send_signal(signal.SIGINT)
    _, err = watchers[0].communicate(timeout=30)
    assert watchers[0].returncode == 130 and "the run continues" in err and "Traceback" not in err
    assert controller.poll() is None and watchers[1].poll() is None
    controller.kill()
    controller.communicate()
    _, err = watchers[1].communicate(timeout=30)
    assert watchers[1].returncode == 1 and "controller has died" in err and "--run-id mine" in err
    assert "skip " not in err, "what was cut off, or has not begun, is no ending"
    assert cli("cancel", "mine", cwd=tmp_path).returncode == 0


def test_what_was_skipped_failed_or_ended_the_run_is_said_as_run_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = row(1, status="failed", failure_boundary="task", failure_kind="build_error", feedback="No. Not at all.")
    entries = [entry(0), entry(1), entry(2, status="not_executed", reason="the engine went away")]
    run = make_run(tmp_path, "mine", rows=[row(0), failed], entries=entries, ended=False)
    with Journal(run.events) as journal:
        journal.append({"t": "2026-01-02T03:04:06Z", "event": "run.end", "error": "no engine", "exit_code": 3})
    assert attach_command("mine", tmp_path, DisplayOptions()) == 3
    out, err = capsys.readouterr()
    assert err.endswith("error: no engine\n") and "1 of 3 jobs ok, 1 failed, 1 skipped" in out
    assert "task: build_error: No.  [2/3]" in err and "the engine went away  [3/3]" in err
    assert attach_command("mine", tmp_path, DisplayOptions(quiet=True)) == 3
    assert capsys.readouterr().err == "error: no engine\n"


def test_that_a_run_was_interrupted_is_said_once(tmp_path: Path) -> None:
    cut = row(0, status="failed", failure_boundary="sandbox", failure_kind="interrupted", stop_reason="interrupted")
    run = make_run(tmp_path, "mine", planned=1, rows=[cut], ended=False)
    with Journal(run.events) as journal:
        end = {"event": "run.end", "error": "interrupted; 0 of 1 jobs", "exit_code": 130, "interrupted": True}
        journal.append({"t": "2026-01-02T03:04:06Z", **end})
    done = cli("attach", "mine", "-q", "--runs-dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "error: interrupted; 0 of 1 jobs\n")


def test_a_journal_without_an_exit_code_gives_it_away(tmp_path: Path) -> None:
    make_run(tmp_path, "whole", planned=1, rows=[row(0)])
    cut = row(0, status="failed", failure_boundary="sandbox", failure_kind="interrupted", stop_reason="interrupted")
    run = make_run(tmp_path, "cut", planned=1, rows=[cut], ended=False)
    with Journal(run.events) as journal:
        journal.append({"t": "2026-01-02T03:04:06Z", "event": "run.end", "interrupted": 1})
    assert attach_command("whole", tmp_path, DisplayOptions(quiet=True)) == 0
    assert attach_command("cut", tmp_path, DisplayOptions(quiet=True)) == 130


def test_what_has_not_begun_cannot_be_watched(tmp_path: Path) -> None:
    make_run(tmp_path, "mine", started=None)
    with pytest.raises(ConfigError, match="has not been started"):
        attach_command("mine", tmp_path, DisplayOptions())
    with pytest.raises(ConfigError, match="there is no run"):
        attach_command("yours", tmp_path, DisplayOptions())


def _append(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _begun(tmp_path: Path) -> RunLayout:
    run = make_run(tmp_path, "mine", planned=2, ended=False)
    _append(run.events, {"t": "2026-01-02T03:04:05Z", "event": "job.start", "job_id": job_id(0), "adopted": False})
    return run


def test_a_retry_starts_the_job_s_files_again_and_keeps_what_it_cost(tmp_path: Path) -> None:
    run, seen = _begun(tmp_path), list[Event]()
    job = run.job(job_id(0))
    watch = Watch(run, seen.append, Clock())
    assert watch.begin()
    _append(job.state_history, {"step": 1, "score": 0.0})
    watch.look()
    failed = row(0, status="failed", failure_boundary="sandbox", failure_kind="gone", feedback="It went.")
    write_json(job.attempt(1) / "results.json", failed)
    job.state_history.unlink()
    _append(job.state_history, *({"step": step, "score": 1.0} for step in (1, 2)))
    _append(run.events, {"t": "x", "event": "job.retry", "job_id": job_id(0), "attempt": 2})
    watch.look()
    evaluated = CandidateEvaluated
    assert [type(event) for event in seen[1:]] == [JobStarted, evaluated, JobRetried, evaluated, evaluated]
    assert isinstance(seen[3], JobRetried) and seen[3].row.failure_kind == "gone"


def test_a_job_that_waits_for_what_others_have_is_shown(tmp_path: Path) -> None:
    run, seen = _begun(tmp_path), list[Event]()
    _append(run.events, {"t": "x", "event": "lease.wait", "job_id": job_id(1), "host": "far"})
    _append(run.events, {"t": "x", "event": "lease.wait", "job_id": job_id(1), "host": None})
    assert Watch(run, seen.append, Clock()).begin()
    queued = [(event.job.job_id, event.host) for event in seen if isinstance(event, JobQueued)]
    assert queued == [(job_id(1), "far"), (job_id(1), "")]


def test_files_are_read_on_from_where_they_were_read_to_and_those_of_ended_jobs_no_more(tmp_path: Path) -> None:
    run, seen = _begun(tmp_path), list[Event]()
    history = run.job(job_id(0)).state_history
    watch = Watch(run, seen.append, Clock())
    watch.begin()
    _append(history, *({"step": step, "score": 1.0} for step in range(3)))
    watch.look()
    history.write_text(history.read_text().replace("1.0", "2.0"))  # a second look at these lines would show
    _append(history, {"step": 3, "score": 3.0})
    watch.look()
    steps = [(event.line["step"], event.line["score"]) for event in seen if isinstance(event, CandidateEvaluated)]
    assert steps == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 3.0)]
    write_json(run.job(job_id(0)).results, row(0))
    _append(run.events, {"t": "x", "event": "job.end", "job_id": job_id(0)})
    watch.look()
    assert isinstance(seen[-1], JobFinished)
    _append(history, {"step": 4, "score": 3.0})
    watch.look()
    assert isinstance(seen[-1], JobFinished)


def test_a_run_that_begins_while_a_watcher_waits_is_shown_from_its_newest_start_on(tmp_path: Path) -> None:
    run, seen = _begun(tmp_path), list[Event]()
    _append(
        run.events,
        {"t": "2026-01-02T03:05:05Z", "event": "run.start", "jobs": 2, "workers": 3, "continued": True},
        {"t": "2026-01-02T03:05:06Z", "event": "job.start", "job_id": job_id(1), "adopted": True},
    )
    with lock_run(run):
        watch = Watch(run, seen.append, Clock())
        watch.begin()
    begun, started = seen
    assert isinstance(begun, RunStarted) and (begun.workers, begun.continued) == (3, True)
    assert isinstance(started, JobStarted) and (started.job.job_id, started.adopted) == (job_id(1), True)


def test_a_clock_can_be_set_back() -> None:
    clock = Clock()
    now = clock()
    with clock.at("2026-01-02T03:04:05Z"):
        assert clock() < now - 3600
    with clock.at("nonsense"):
        assert clock() >= now
