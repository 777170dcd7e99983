"""A run as it goes on, for pipes and programs."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from tests.cli.sample_run import LAYOUT, NASTY, RUN_ID, STEP, failed, job, row, skipped, start
from tests.integration.cli import REPOSITORY
from trace_bench.artifacts.records import Results
from trace_bench.cli.displays import Display, JsonLines, Lines, Output, first_sentence
from trace_bench.execution.events import (
    CandidateEvaluated,
    GapsMeasured,
    JobFinished,
    JobQueued,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    ModelCallDelayed,
    RunEnded,
    SandboxEvent,
    SandboxOutput,
    SandboxUp,
)

EVENTS = (
    "run.start", "job.reuse", "job.queue", "job.start", "job.up", "job.step", "job.wait", "job.retry", "job.end",
    "job.skip", "gaps.measure", "run.end",
)  # fmt: skip


def _whole_run(display: Display) -> None:
    """Every call of `Progress`, as the controller makes them."""
    jobs = [job(0, decision="reuse", reason="as before"), job(1), job(2, variant="x=1"), job(3)]
    display.notify(start(jobs, warnings=("a warning",)))
    display.notify(JobReused(jobs[0], row(jobs[0])))
    display.notify(JobQueued(jobs[1], "far"))
    display.notify(JobStarted(jobs[1], adopted=False))
    display.notify(JobStarted(jobs[2], adopted=True))
    display.notify(SandboxUp(jobs[1], "far"))
    display.notify(SandboxUp(jobs[2], ""))
    display.notify(SandboxEvent(jobs[1], {"t": 0.1, "event": "build.end", "parameters": ["x"]}))
    display.notify(SandboxEvent(jobs[1], {"t": 0.1, "event": "phase.start", "phase": "train"}))
    display.notify(CandidateEvaluated(jobs[1], STEP))
    display.notify(SandboxOutput(jobs[1], "train", "hello\nwor"))
    display.notify(ModelCallDelayed(jobs[1], 20.6, "m answered 429: slowly"))
    display.notify(JobRetried(jobs[2], failed(jobs[2], failure_boundary="sandbox", failure_kind="sandbox_died"), 2))
    display.notify(JobFinished(jobs[1], row(jobs[1])))
    display.notify(JobFinished(jobs[2], failed(jobs[2])))
    display.notify(JobSkipped(jobs[3], skipped(jobs[3])))
    display.notify(GapsMeasured(2))
    display.notify(RunEnded(RUN_ID, LAYOUT))
    display.close(1)


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def _json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_quiet_says_the_warnings_that_were_not_said_before(capsys: pytest.CaptureFixture[str]) -> None:
    _whole_run(Display())
    assert _lines(capsys) == ["warning: a warning"]
    _whole_run(Display(shown_warnings=("a warning",)))
    assert _lines(capsys) == []


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    _whole_run(Lines())
    name = "internal:numeric_param  PrioritySearch  num_steps=2  seed 7"
    two = "000000000002  internal:numeric_param  PrioritySearch  x=1  seed 7"
    assert _lines(capsys) == [
        f"run    {RUN_ID}  4 jobs",
        "warning: a warning",
        f"reused 000000000000  {name}  -3 -> -0.5  [1/4, $0.2500]",
        f"wait   000000000001  {name}  for GPUs, cores or quiet that others have, on far",
        f"start  000000000001  {name}",
        f"start  {two}  adopted",
        f"up     000000000001  {name}  on far",
        f"wait   000000000001  {name}  21 s for its model: m answered 429: slowly",
        f"retry  {two}  attempt 2 after sandbox: sandbox_died: It does not build.",
        f"ok     000000000001  {name}  -3 -> -0.5  2.0 s  $0.2500  [2/4, $0.5000]",
        f"failed {two}  task: build_error: It does not build.  $0.2500  [3/4, $0.7500]",
        f"skip   000000000003  {name}  another job failed, and fail_fast is set  [4/4, $0.7500]",
        "gap    scoring 2 reference programs on the same instances",
    ]


def test_verbose_lines_show_candidates_and_events(capsys: pytest.CaptureFixture[str]) -> None:
    _whole_run(Lines(verbosity=1))
    lines = _lines(capsys)
    assert "step   00000000  step 3  score -0.5  best -0.25" in lines
    assert 'event  00000000  build.end  parameters=["x"]' in lines
    assert not [line for line in lines if "phase.start" in line or "hello" in line]


def test_very_verbose_lines_show_the_output_of_sandboxes(capsys: pytest.CaptureFixture[str]) -> None:
    _whole_run(Lines(verbosity=2))
    lines = _lines(capsys)
    assert "00000000 train | hello" in lines
    left = lines.index("00000000 train | wor")
    assert lines[left + 1].startswith("ok     000000000001"), "what had no end of line comes before the job's end"


def test_a_job_that_is_cut_off_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.notify(start([job(1)], continued=True))
    lines.notify(JobFinished(job(1), row(job(1), stop_reason="interrupted")))
    begun, cut = _lines(capsys)
    assert begun.endswith("1 jobs, continued")
    assert cut.startswith("cut    000000000001") and "will run again" in cut and cut.endswith("[1/1, $0.2500]")


def test_a_job_that_a_budget_ended_says_whose(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.notify(start([job(1), job(2)]))
    lines.notify(JobFinished(job(1), row(job(1), stop_reason="budget")))
    lines.notify(JobFinished(job(2), row(job(2), stop_reason="budget", cut_by_run_budget=True)))
    _, own, runs = _lines(capsys)
    assert own.endswith("  2.0 s  $0.2500  ended by its budget  [1/2, $0.2500]")
    assert runs.endswith("  2.0 s  $0.2500  cut off by the run's budget  [2/2, $0.5000]")


def test_output_comes_in_whole_lines_per_job_and_phase() -> None:
    output = Output()
    assert output.add("a" * 12, "train", "one") == []
    assert output.add("b" * 12, "train", "two\n") == ["bbbbbbbb train | two"]
    assert output.add("a" * 12, "score", "three\r\n\n") == ["aaaaaaaa score | three", "aaaaaaaa score | "]
    assert output.add("a" * 12, "train", "!\nmo") == ["aaaaaaaa train | one!"]
    assert output.rest("b" * 12) == []
    assert output.rest("a" * 12) == ["aaaaaaaa train | mo"] and output.rest("a" * 12) == []


def test_a_job_that_waits_again_and_again_says_so_twice_a_minute_and_with_v_always(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = [0.0, 10.0, 29.0, 30.0, 31.0]
    for verbosity, shown in ((0, ["0", "30"]), (1, ["0", "10", "29", "30", "31"])):
        moments = iter(times)
        display = Lines(verbosity=verbosity, clock=lambda moments=moments: next(moments))
        for moment in times:
            display.notify(ModelCallDelayed(job(1), 5.0, f"since {moment:.0f}"))
        said = [line.rpartition("  5 s for its model: since ") for line in _lines(capsys)]
        assert [when for _, _, when in said] == shown
    assert all(line.startswith("wait   000000000001  ") for line, _, _ in said)


def test_a_line_without_end_is_shown_in_parts_and_not_kept() -> None:
    output = Output()
    shown = [line for _ in range(50) for line in output.add("a" * 12, "train", "x" * 1000)]
    shown += output.rest("a" * 12)
    assert "".join(line.partition(" | ")[2] for line in shown) == "x" * 50_000
    assert max(map(len, shown)) < 2100
    whole = output.add("a" * 12, "train", "y" * 5000 + "\n")
    assert "".join(line.partition(" | ")[2] for line in whole) == "y" * 5000 and len(whole) == 3


@pytest.mark.parametrize("make", [lambda: Lines(verbosity=2), JsonLines])
def test_nothing_that_a_sandbox_says_reaches_the_terminal_raw(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bad = job(1, task_id=f"internal:{NASTY}", trainer_id=NASTY, variant=NASTY, reason=NASTY)
    display = make()
    display.notify(start([bad], warnings=(NASTY,)))
    display.notify(JobStarted(bad, adopted=False))
    display.notify(SandboxEvent(bad, {"t": 0, "event": "warning", "message": NASTY, NASTY: [NASTY]}))
    display.notify(SandboxEvent(bad, {"t": 0, "event": ["build.end"]}))
    display.notify(
        CandidateEvaluated(bad, {"step": NASTY, "score": math.nan, "best_score": 10**400, "extra": {"deep": math.inf}})
    )
    display.notify(CandidateEvaluated(bad, {"candidate": NASTY, "event": "run.end", "extra": {NASTY: NASTY}}))
    display.notify(CandidateEvaluated(bad, {}))
    display.notify(SandboxOutput(bad, NASTY, NASTY))
    display.notify(ModelCallDelayed(bad, 3.0, NASTY))
    display.notify(JobRetried(bad, failed(bad, failure_kind=NASTY, feedback=NASTY), 2))
    display.notify(JobFinished(bad, failed(bad, failure_kind=NASTY, feedback=NASTY)))
    display.notify(JobSkipped(bad, skipped(bad, feedback=NASTY)))
    display.close(1, NASTY)
    out, err = capsys.readouterr()
    assert out or err
    for line in (out + err).splitlines():
        assert line.isprintable(), line
    for line in out.splitlines():
        assert json.loads(line)["event"] in EVENTS


def test_json_lines_say_everything_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    _whole_run(JsonLines())
    lines = _json(capsys)
    assert [(line["event"], line.get("job_id", "")[-1:]) for line in lines] == [
        ("run.start", ""), ("job.reuse", "0"), ("job.queue", "1"), ("job.start", "1"), ("job.start", "2"),
        ("job.up", "1"), ("job.up", "2"),
        ("job.step", "1"), ("job.wait", "1"), ("job.retry", "2"), ("job.end", "1"), ("job.end", "2"), ("job.skip", "3"),
        ("gaps.measure", ""), ("run.end", ""),
    ]  # fmt: skip
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["t"])
        if "row" in line:
            assert Results.model_validate(line["row"]).job_id == line["job_id"]
    start_, step, wait, retry, end = lines[0], *lines[7:10], lines[-1]
    assert [entry["decision"] for entry in start_["jobs"]] == ["reuse", "run", "run", "run"]
    assert (start_["run_id"], start_["folder"], start_["warnings"]) == (RUN_ID, f"runs/{RUN_ID}", ["a warning"])
    assert step.items() >= {k: v for k, v in STEP.items() if k != "parameters"}.items() and "parameters" not in step
    assert (wait["seconds"], wait["reason"]) == (20.6, "m answered 429: slowly")
    assert retry["attempt"] == 2 and retry["row"]["failure_kind"] == "sandbox_died"
    assert end["counts"] == {"ok": 2, "failed": 1, "interrupted": 0, "skipped": 1} and end["planned"] == 4
    assert end["token_totals"] == {"prompt": 300, "completion": 60, "total": 360} and end["cost_usd"] == 0.75
    assert (end["ok"], end["interrupted"], end["exit_code"], end["error"]) == (False, False, 1, None)


@pytest.mark.parametrize(("code", "ok", "interrupted"), [(0, True, False), (3, False, False), (130, False, True)])
def test_the_last_json_line_says_how_it_ended(
    code: int, ok: bool, interrupted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    display = JsonLines()
    display.notify(start([job(1), job(2)]))
    display.notify(JobFinished(job(1), row(job(1))))
    display.close(code, "why" if code else None)
    end = _json(capsys)[-1]
    assert (end["event"], end["ok"], end["interrupted"], end["exit_code"]) == ("run.end", ok, interrupted, code)
    assert end["error"] == ("why" if code else None) and end["counts"]["ok"] == 1 and end["planned"] == 2


def test_a_run_that_never_began_prints_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines().close(2, "a mistake")
    assert capsys.readouterr() == ("", "")


def test_the_reference_has_every_event_and_field(capsys: pytest.CaptureFixture[str]) -> None:
    _whole_run(JsonLines())
    page = (REPOSITORY / "docs" / "reference" / "events.md").read_text()
    sections = dict(re.findall(r"^## `([\w.]+)`.*?\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(EVENTS)
    for line in _json(capsys):
        described = re.findall(r"^\| (`[^|]+`) \|", sections[line["event"]], re.MULTILINE)
        fields = {name for cell in described for name in re.findall(r"`(\w+)`", cell)}
        assert fields == set(line) - {"t", "event"}, line["event"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("version 1.5 is old; take 2", "version 1.5 is old; take 2"),
        ("line\nnext", "line"),
        ("  \n", ""),
        ("x" * 500, "x" * 299 + "…"),
    ],
)
def test_the_first_sentence_is_short(text: str, first: str) -> None:
    assert first_sentence(text) == first


def test_thousands_that_never_ran_are_told_in_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job(number) for number in range(3000)]
    display = Lines()
    display.notify(start(jobs))
    for one in jobs:
        display.notify(JobSkipped(one, skipped(one)))
    display.notify(RunEnded(RUN_ID, LAYOUT))
    lines = _lines(capsys)
    assert len([line for line in lines if line.startswith("skip")]) == 21
    assert lines[-1] == "skip   and 2980 more"
