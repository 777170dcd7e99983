"""The live table, drawn on terminals that are none, and on one that is."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests import forked
from tests.cli.sample_run import NASTY, RUN_ID, STEP, Terminal, failed, job, row, skipped, start
from tests.integration.cli import TASKS, environment, write_config
from trace_bench.artifacts.calls import Usage
from trace_bench.cli.live import LiveTable, duration, picture
from trace_bench.cli.tally import Tally
from trace_bench.execution.events import (
    CandidateEvaluated,
    JobFinished,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    ModelCallDelayed,
    SandboxUp,
    UsageChanged,
)

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _drawn(tally: Tally, width: int = 100, height: int = 24) -> list[str]:
    console = Console(file=Terminal(), width=width, height=height, color_system=None)
    with console.capture() as captured:
        console.print(picture(tally, RUN_ID, width, height))
    return captured.get().splitlines()


def _tally(jobs: int, running: int, tasks: int = 1) -> Tally:
    planned = [job(n, task_id=f"internal:task{n % tasks}") for n in range(jobs)]
    tally = Tally(planned, workers=4, clock=lambda: 5.0)
    for each in planned[:running]:
        tally.apply(JobStarted(each, adopted=True))
        tally.apply(CandidateEvaluated(each, STEP))
    return tally


def test_the_picture_says_how_far_the_run_is() -> None:
    now = [100.0]
    jobs = [job(n, score_direction="minimize") for n in range(8)]
    tally = Tally(jobs, workers=2, clock=lambda: now[0])
    for each in jobs[:2]:
        tally.apply(JobStarted(each, adopted=True))
        now[0] += 10
        tally.apply(JobFinished(each, row(each, score_best=0.5 - each.seed / 100)))
    tally.apply(JobFinished(jobs[2], failed(jobs[2])))
    tally.apply(JobFinished(jobs[3], skipped(jobs[3])))
    tally.apply(JobStarted(jobs[4], adopted=True))
    tally.apply(CandidateEvaluated(jobs[4], STEP))
    now[0] += 4
    lines = _drawn(tally)
    assert lines[0] == f"run {RUN_ID}   elapsed 0:24   ETA 0:18   480 tokens   $1.2500"
    assert lines[1] == ("4/8 done   2 ok   1 failed   1 running   3 waiting   1 skipped")
    assert [line.split() for line in lines[2:]] == [
        [],
        ["task", "trainer", "seed", "step", "best", "cost", "s"],
        ["internal:numeric_param", "PrioritySearch", "7", "3", "-0.25", "↓", "$0.5000", "4"],
        [],
        ["task", "best", "trainer", "jobs"],
        ["internal:numeric_param", "0.43", "↓", "PrioritySearch", "3/8"],
    ]


def test_a_job_whose_model_call_waits_says_how_long_still_and_why() -> None:
    now = [100.0]
    tally = Tally([job(1)], workers=1, clock=lambda: now[0])
    tally.apply(JobStarted(job(1), adopted=True))
    tally.apply(ModelCallDelayed(job(1), 20.0, "m answered 429: slowly"))
    now[0] += 5
    assert "15 s for its model: m answered 429: slowly" in _drawn(tally, width=140)[4]
    now[0] += 15
    assert "waits" not in _drawn(tally, width=140)[3], "it is over"


def test_a_job_shows_its_host_and_what_the_gateway_says_it_cost_and_whether_it_is_up() -> None:
    jobs = [job(n) for n in range(3)]
    tally = Tally(jobs, workers=3, clock=lambda: 0.0)
    for each in jobs[:2]:
        tally.apply(JobStarted(each))
    tally.apply(CandidateEvaluated(jobs[0], STEP))
    tally.apply(SandboxUp(jobs[0], "far"))
    tally.apply(UsageChanged(jobs[0], Usage(calls=4, prompt_tokens=70, cost_usd=0.75)))
    tally.apply(CandidateEvaluated(jobs[0], STEP))
    lines = _drawn(tally, width=140)
    assert lines[0].endswith("70 tokens   $0.7500"), "the trainer's word does not count beside the gateway's"
    assert "1 running   1 starting   1 waiting" in lines[1]
    assert "host" in lines[3].split() and "far" in lines[4].split() and "$0.7500" in lines[4].split()
    assert lines[5].endswith("for its sandbox") and "$" not in lines[5]
    tally.apply(JobRetried(jobs[0], failed(jobs[0]), 2))
    assert "0 running   2 starting" in _drawn(tally, width=140)[1]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_numbers_are_whole_and_the_variant_is_cut_first(width: int) -> None:
    long = "num_steps=2,an_argument_with_a_very_long_name_indeed={}"
    jobs = [job(n, variant=long.format(n), seed=1234) for n in range(3)]
    tally = Tally(jobs, workers=4, clock=lambda: 1234.0)
    tally.apply(JobFinished(jobs[2], row(jobs[2], score_best=-0.000123456)))
    for each in jobs[:2]:
        tally.apply(JobStarted(each, adopted=True))
        tally.apply(CandidateEvaluated(each, {**STEP, "step": 123, "best_score": -0.000123456789}))
    lines = _drawn(tally, width=width)
    first, second = (line for line in lines if "123  -0.000123457 ↑  $0.5000  0" in line)
    for line in (first, second):
        task = "…numeric_param" if width == 80 else "internal:numeric_param  PrioritySearch  "
        assert line.startswith(task) and "  PrioritySearch  " in line and "  1234  " in line
    assert first != second, "the end of a variant stays"
    assert not any("num_steps=2" in line for line in lines), "all have it"
    assert any("-0.000123456 ↑  PrioritySearch" in line and line.rstrip().endswith("1/3") for line in lines)


def test_a_column_stays_while_it_has_nothing_to_say() -> None:
    tally = Tally([job(1)], workers=1)
    tally.apply(JobStarted(job(1), adopted=True))
    assert _drawn(tally)[3].split() == ["task", "trainer", "seed", "step", "best", "s"]


@pytest.mark.parametrize("height", range(25))
@pytest.mark.parametrize(("jobs", "running", "tasks"), [(40, 30, 20), (40, 1, 20), (40, 30, 1), (1, 1, 1), (1, 0, 1)])
def test_the_picture_fits_the_terminal(height: int, jobs: int, running: int, tasks: int) -> None:
    lines = _drawn(_tally(jobs, running, tasks), width=40, height=height)
    assert len(lines) <= height and all(len(line) <= 40 for line in lines)


def test_what_has_no_place_is_counted() -> None:
    lines = _drawn(_tally(40, 30, 20), height=23)
    shown = [sum("-0.25" in line for line in lines), sum(line.startswith("internal:") for line in lines)]
    more = [int(line.split()[2]) for line in lines if line.startswith("… and")]
    assert more == [30 - shown[0], 20 - (shown[1] - shown[0])] and len(lines) == 23


def test_a_small_terminal_shows_running_jobs_before_tasks() -> None:
    assert [line.split()[0] for line in _drawn(_tally(4, 1), height=5) if line] == [
        "run",
        "0/4",
        "task",
        "internal:task0",
    ]


def test_tasks_with_a_score_come_first_where_not_all_fit() -> None:
    tally = _tally(20, 0, 20)
    late = tally.jobs[19]
    tally.apply(JobFinished(late, row(late)))  # type: ignore[arg-type]
    lines = _drawn(tally, height=7)
    assert any(line.startswith("internal:task19") for line in lines)


def test_nothing_in_the_picture_acts_on_the_terminal() -> None:
    bad = job(1, task_id=NASTY + "[bold]", trainer_id=NASTY, variant="[red]" + NASTY)
    tally = Tally([bad, job(2)], workers=1)
    tally.apply(JobStarted(bad, adopted=True))
    lines = _drawn(tally, width=300)
    assert all(line.isprintable() for line in lines)
    assert any("[red]" in line and "[bold]" in line for line in lines), "no markup"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (61.9, "1:01"), (3600, "1:00:00"), (36_061, "10:01:01")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def _table() -> tuple[LiveTable, Terminal]:
    file = Terminal()
    console = Console(file=file, force_terminal=True, width=100, height=20, color_system=None, legacy_windows=False)
    return LiveTable(console=console), file


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_failures_stay_and_the_table_goes() -> None:
    table, file = _table()
    jobs = [job(n) for n in range(5)]
    table.notify(start(jobs, warnings=("a warning",)))
    table.notify(JobReused(jobs[0], row(jobs[0])))
    table.notify(JobStarted(jobs[1], adopted=False))
    table.notify(CandidateEvaluated(jobs[1], STEP))
    _until(lambda: "1 starting" in file.getvalue())
    table.notify(SandboxUp(jobs[1], ""))
    _until(lambda: "1 running" in file.getvalue())
    assert "PrioritySearch" in file.getvalue() and "1 running" in file.getvalue() and "-0.25 ↑" in file.getvalue()
    table.notify(JobRetried(jobs[1], failed(jobs[1], failure_boundary="sandbox", failure_kind="gone"), 2))
    table.notify(JobFinished(jobs[1], failed(jobs[1], feedback=NASTY + ". More")))
    table.notify(JobFinished(jobs[2], row(jobs[2], stop_reason="interrupted")))
    table.notify(JobSkipped(jobs[3], skipped(jobs[3])))
    table.alert("stopping")
    table.close(1)
    said = file.getvalue()
    assert said.count(HIDE) == said.count(SHOW) == 1 and said.index(HIDE) < said.index(SHOW)
    tail = _screen(said, 100)
    assert [line.split()[0] for line in tail if line] == ["warning:", "retry", "failed", "cut", "stopping"]
    assert any(line.startswith(f"cut    {jobs[2].job_id}  internal:numeric_param") for line in tail)
    assert "\x9b" not in said and "\x1b[2J" not in said


def test_a_notice_does_not_wait_for_a_locked_table() -> None:
    table, file = _table()
    table.notify(start([job(1)]))
    with table._lock:
        table.alert("stopping")  # as from a handler that interrupted the holder of the lock
    _until(lambda: "stopping" in file.getvalue())
    table.close(130)


def test_a_terminal_that_goes_away_ends_no_run() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    table = LiveTable(console=Console(file=Gone(), force_terminal=True, width=80, height=20))
    table.notify(start([job(1)]))
    table.notify(JobFinished(job(1), failed(job(1))))
    table.close(1)


def _screen(said: str, width: int) -> list[str]:
    """What a terminal of `width` columns shows after `said`, for the few commands that rich gives."""
    lines, at = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\n|\r)", said):
        if part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif match := re.fullmatch(r"\x1b\[(\d+)A", part):
            at = max(0, at - int(match[1]))
        elif part == "\x1b[2K":
            lines[at] = ""
        elif part and part != "\r" and not ESCAPES.fullmatch(part):
            lines[at] += part
    return lines


def _on_a_terminal(command: list[str], cwd: Path, *, stop_at: bytes | None = None, **env: str) -> tuple[int, str, str]:
    """Run with stderr on a terminal of 100 × 30, and interrupt it once the terminal has got `stop_at`; returns exit
    code, what the terminal got, and stdout."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    variables: dict[str, Any] = {**environment(), "TERM": "xterm", **env}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        variables.pop(name, None)
    said = b""
    pipes = {"stdin": follower, "stdout": subprocess.PIPE, "stderr": follower}
    with forked.start(*command, cwd=cwd, env=variables, **pipes) as process:
        os.close(follower)
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            said += chunk
            if stop_at is not None and stop_at in said:
                process.send_signal(signal.SIGINT)
                stop_at = None
        assert process.stdout is not None
        out = process.stdout.read()
        code = process.wait(timeout=60)
    os.close(leader)
    return code, said.decode(), out


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A run of two jobs that are over at once."""
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], seeds=[1, 2])
    return ["run", "--config", str(path), "--backend", "local"]


def test_a_run_on_a_terminal_leaves_it_clean(command: list[str], tmp_path: Path) -> None:
    code, said, out = _on_a_terminal(command, tmp_path)
    assert code == 0 and "2 of 2 jobs ok" in out and "\x1b" not in out
    assert said.count(HIDE) == said.count(SHOW) == 1 and "elapsed 0:0" in said
    assert [line for line in _screen(said, 100) if line] == []


def test_a_failure_stays_on_the_terminal(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=["internal:multi_param"], trainers=["NoOp"], job_timeout=1e-6)
    command = ["run", "--config", str(path), "--backend", "local"]
    code, said, out = _on_a_terminal(command, tmp_path)
    (line,) = [line for line in _screen(said, 100) if line.startswith("failed")]
    assert code == 1 and "internal:multi_param" in line and "0 of 1 jobs ok, 1 failed" in out


@pytest.mark.parametrize("extra", [("--json",), ("-q",), ("-v",), ("--dry-run",)])
def test_some_options_want_no_table(command: list[str], tmp_path: Path, extra: tuple[str, ...]) -> None:
    code, said, out = _on_a_terminal([*command, *extra], tmp_path)
    assert code == 0 and out and "\x1b" not in said


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_lines(command: list[str], tmp_path: Path, term: str) -> None:
    code, said, _ = _on_a_terminal(command, tmp_path, TERM=term)
    assert code == 0 and "[2/2]" in said and "\x1b" not in said


def test_a_terminal_without_the_letters_gets_escapes(command: list[str], tmp_path: Path) -> None:
    code, said, _ = _on_a_terminal(command, tmp_path, PYTHONIOENCODING="ascii")
    assert code == 0 and said.isascii() and "elapsed" in said


def test_ctrl_c_is_answered_above_the_table(tmp_path: Path) -> None:
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 1.0}}
    path = write_config(tmp_path, tasks=[task], trainers=["NoOp"], seeds=[1, 2], run_id="mine")
    command = ["run", "--config", str(path), "--backend", "local"]
    code, said, out = _on_a_terminal([*command, "--root", str(TASKS)], tmp_path, stop_at=b"1 running")
    assert code == 130 and "0 of 2 jobs ok, 1 interrupted, 1 skipped" in out
    assert said.count(HIDE) == said.count(SHOW) == 1 and "Traceback" not in said
    lines = [line for line in _screen(said, 100) if line]
    assert [line.split()[0] for line in lines] == ["stopping:", "cut", "error:"]


def test_an_error_of_the_run_comes_after_the_table(command: list[str], tmp_path: Path) -> None:
    """The journal cannot be opened: a folder is in its place."""
    runs = json.loads((tmp_path / "config.json").read_text())["runs_dir"]
    Path(runs, "broken", "events.jsonl").mkdir(parents=True)
    code, said, out = _on_a_terminal([*command, "--run-id", "broken"], tmp_path)
    assert code == 3 and out == "" and said.count(HIDE) == said.count(SHOW) == 1
    (line,) = [line for line in _screen(said, 100) if line]
    assert line.startswith("error: ") and "events.jsonl" in line


def test_several_models_have_a_column_and_one_has_none() -> None:
    for models, named in ((("gpt-x", "gpt-y"), True), (("gpt-x", "gpt-x"), False)):
        jobs = [job(n, model=model) for n, model in enumerate(models)]
        tally = Tally(jobs, workers=2, clock=lambda: 1.0)
        tally.apply(JobStarted(jobs[0], adopted=True))
        tally.apply(JobFinished(jobs[1], row(jobs[1])))
        lines = _drawn(tally)
        running, task = (line.split() for line in lines if line.startswith("task "))
        assert ("model" in running) == ("model" in task) == named
        assert any("gpt-x" in line for line in lines) == any("gpt-y" in line for line in lines) == named
