"""A run whose every text is hostile, before every command that shows one: nothing acts, on a screen or in a file."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.analysis.folders import RUN, entry, job_id, make_run
from tests.artifacts.samples import EVENT, HASH, HISTORY, META, RESULT, RESULTS, TIME
from tests.cli.sample_run import Terminal, job, start
from tests.hostile_texts import FORGED, TEXTS, poisoned
from tests.tables import refresh_tables
from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.layout import RESULT as RESULT_FILE
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import BuildReport, Failure, WorkerResult
from trace_bench.artifacts.records import JobMeta, ManifestEntry, Results
from trace_bench.artifacts.writers import Journal, write_json
from trace_bench.artifacts.yamlio import load_state, write_state
from trace_bench.cli.commands import llm
from trace_bench.cli.commands.logs import logs
from trace_bench.cli.commands.ls import ls
from trace_bench.cli.commands.ps import ps
from trace_bench.cli.commands.show import show
from trace_bench.cli.displays import JsonLines, Lines
from trace_bench.cli.live import LiveTable
from trace_bench.cli.outcome import print_outcome
from trace_bench.cli.problem_checks import problem_text, report_text
from trace_bench.display.console import emit, emit_block, note
from trace_bench.display.terminal import Screen
from trace_bench.display.text import HIDDEN
from trace_bench.errors import Boundary
from trace_bench.execution.events import (
    CandidateEvaluated,
    JobFinished,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    ModelCallDelayed,
    RunEnded,
    SandboxEvent,
    SandboxOutput,
)
from trace_bench.execution.validate import ProblemCheck
from trace_bench.records.reading import read_rows
from trace_bench.sandbox import labels

OURS = re.compile(r"\x1b\[[01]m")
RICH = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?")
KEPT = frozenset({"job_id", "run_id", "fingerprint", "integrity_flags", "cost_usd"})
FAILURE = {"boundary": "candidate", "kind": "bad", "message": "text"}
REPORT = {
    "claims": {"best": {"score": 1.0, "split": "validate", "examples": ["text"]}},
    "found": {"best": 2.0},
    "signs": {"best": [{"kind": "files", "line": 1, "text": "text"}]},
    "candidates": {"train": {"opened": 1, "left_processes": 1}},
    "scorer_files": {"files": 1, "sha256": HASH, "unchanged": True},
    "flags": ["claim_differs"],
}
CALL: dict[str, Any] = {
    "n": 1, "t": TIME, "request_id": "text", "phase": "text", "slot": "text", "request_hash": HASH, "status": 502,
    "provider": "text", "model": "text", "sent": {"text": "text"}, "tries": [{"status": 500, "error": "text"}],
    "request": {"method": "POST", "path": "text", "body": {
        "model": "text", "user": "text", "messages": [{"role": "text", "content": "text"}],
    }},
    "response": {"error": {"message": "text"}},
}  # fmt: skip


def hostile_run(runs: Path, name: str, text: str) -> RunLayout:
    """Two jobs, one failed and one flagged; every text of theirs that the models let be any is `text`."""
    rows = []
    for number, change in enumerate([
        {"status": "failed", "failure_kind": "bad", "failure_boundary": "candidate", "feedback": "text"},
        {"feedback": "text", "integrity_flags": f"claim_differs {' '.join(text.split())}", "score_best": 1.0},
    ]):  # fmt: skip
        whole = {**RESULTS, "run_id": name, "job_id": job_id(number), "llm_provider": "text", "llm_model": "text",
                 "eval_kwargs": {"text": "text"}, "resolved_optimizer_kwargs": {"text": ["text"]},
                 **change}  # fmt: skip
        rows.append(Results.model_validate(poisoned(Results, whole, text, keep=KEPT)))
    entries = [
        ManifestEntry.model_validate(
            poisoned(ManifestEntry, {**entry(n).model_dump(mode="json"), "raw_params": {"text": "text"}}, text,
                     keep=KEPT)
        )
        for n in range(2)
    ]  # fmt: skip
    run = make_run(runs, name, rows=rows, entries=entries, warnings=[text, f"{text} again"])
    run.config_snapshot.write_text(f"name: {json.dumps(text)}\n")
    for row in rows:
        files = run.job(row.job_id)
        whole = {**copy.deepcopy(META), "run_id": name, "job_id": row.job_id, "warnings": ["text"], "failure": FAILURE,
                 "integrity_report": REPORT, "raw_params": {"text": "text"},
                 "attempts": [{"number": 1, "started_at": TIME, "status": "failed", "failure": FAILURE}],
                 "controls": [{"name": "text", "wanted": "text", "in_force": False, "detail": "text"}]}  # fmt: skip
        write_json(files.meta, JobMeta.model_validate(poisoned(JobMeta, whole, text, keep=KEPT)))
        result = poisoned(WorkerResult, copy.deepcopy(RESULT), text)
        write_json(files.attempt_out(1) / RESULT_FILE, WorkerResult.model_validate(result))
        write_state(files.initial_state, {"code": "def f():\n    return 1\n", text or "name": "x"})
        write_state(files.best_state, {"code": f"def f():\n    return {text}\n", text or "name": text})
        with Journal(files.state_history) as history:
            history.append({**HISTORY, "candidate": text, "parents": [text], "extra": {text: text}})
        with Journal(files.events) as events:
            events.append({**EVENT, "event": text or "x", text: text, "nested": {text: [text]}})
        with Journal(files.cassette) as cassette:
            cassette.append(LlmCall.model_validate(poisoned(LlmCall, CALL, text)))
        files.stdout.write_text(f"{text}\n", encoding="utf-8", newline="")
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLayout]:
    """A run for each text, all in one folder, by the text's name."""
    folder = tmp_path_factory.mktemp("runs")
    return {name: hostile_run(folder, f"{RUN}-{n}", text) for n, (name, text) in enumerate(TEXTS.items())}


Shown = Callable[[RunLayout], None]


def _show(run: RunLayout, job: str | None = None, as_json: bool = False) -> None:
    show(run.run_id, job, run.root.parent, every=True, status=None, as_json=as_json)


def _logs(run: RunLayout, job: str | None = None, *, events: bool = False, as_json: bool = False) -> None:
    logs(run.run_id, job, run.root.parent, events=events, as_json=as_json)


def _llm_ls(run: RunLayout, as_json: bool = False) -> None:
    llm.ls(run.run_id, None, run.root.parent, as_json=as_json)


def _llm_show(run: RunLayout, as_json: bool = False) -> None:
    llm.show(run.run_id, job_id(0), None, run.root.parent, full=True, as_json=as_json)


def _text_of(run: RunLayout) -> str:
    return TEXTS[list(TEXTS)[int(run.run_id.rsplit("-", 1)[1])]]


def _going(display: Lines | JsonLines, run: RunLayout) -> None:
    """All that a run tells whoever shows it."""
    text, rows = _text_of(run), read_rows(run)
    planned = [replace(job(n), job_id=row.job_id, task_id=text, trainer_id=text, variant=text, model=text, reason=text)
               for n, row in enumerate(rows)]  # fmt: skip
    display.notify(start(planned, warnings=(text,)))
    for one, row in zip(planned, rows, strict=True):
        display.notify(JobStarted(one, adopted=True))
        display.notify(
            CandidateEvaluated(
                one, {"step": 1, "score": 1.0, "best_score": text, "candidate": text, "extra": {text: text}}
            )
        )
        display.notify(SandboxEvent(one, {"t": 0.0, "event": "warning", text: text, "message": text}))
        display.notify(SandboxOutput(one, text, f"{text}\n{text}"))
        display.notify(ModelCallDelayed(one, 31.0, text))
        display.notify(JobRetried(one, row, 2))
        display.notify(JobFinished(one, row))
    display.notify(JobReused(planned[0], rows[1]))
    display.notify(JobSkipped(planned[0], rows[0]))
    display.notify(RunEnded(run.run_id, run, rows, error=text))
    display.close(1, text)


def _validate(run: RunLayout) -> None:
    text = _text_of(run)
    parameters = [{"name": text, "kind": text[:100] or "x", "trainable": False}]
    report = BuildReport.model_validate({"direction": "maximize", "parameters": parameters, "examples": {"train": 1}})
    failure = Failure(boundary=Boundary.TASK, kind="bad", message=text)
    for check in (ProblemCheck(text, {text: text}, report), ProblemCheck(text, {}, failure=failure)):
        emit(problem_text(check, with_kwargs=True))
    emit(report_text(report))


def _ps(run: RunLayout) -> None:
    text = _text_of(run)
    sandbox = SimpleNamespace(
        labels={labels.RUN: text, labels.JOB: text}, name=text, host=text, status=lambda: "running"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_bench.cli.backends.backend_for", lambda *_: None)
        patch.setattr("trace_bench.cli.sandboxes.own_sandboxes", lambda _: [sandbox])
        patch.setattr("trace_bench.cli.sandboxes.controller_is_alive", lambda *_: True)
        ps(None, run.root.parent, "docker", None)


COMMANDS: dict[str, Shown] = {
    "ls": lambda run: ls(run.root.parent, as_json=False),
    "show RUN": _show,
    "show RUN JOB, failed": lambda run: _show(run, job_id(0)),
    "show RUN JOB, ok": lambda run: _show(run, job_id(1)),
    "logs RUN": _logs,
    "logs RUN JOB": lambda run: _logs(run, job_id(0)),
    "logs RUN JOB --events": lambda run: _logs(run, job_id(0), events=True),
    "llm ls": _llm_ls,
    "llm show": _llm_show,
    "run, plain": lambda run: _going(Lines(verbosity=2), run),
    "the end of run": lambda run: print_outcome(run, read_rows(run), 2),
    "validate": _validate,
    "ps": _ps,
}
JSON_COMMANDS: dict[str, Shown] = {
    "ls": lambda run: ls(run.root.parent, as_json=True),
    "show RUN": lambda run: _show(run, as_json=True),
    "show RUN JOB": lambda run: _show(run, job_id(0), as_json=True),
    "llm ls": lambda run: _llm_ls(run, as_json=True),
    "llm show": lambda run: _llm_show(run, as_json=True),
}
JSON_LINES: dict[str, Shown] = {
    "logs RUN": lambda run: _logs(run, as_json=True),
    "logs RUN JOB --events": lambda run: _logs(run, job_id(0), events=True, as_json=True),
    "run": lambda run: _going(JsonLines(), run),
}


@pytest.fixture(params=["pipe", "terminal"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where commands print to: tables are fitted to a terminal."""
    if request.param == "terminal":
        monkeypatch.setattr("trace_bench.display.console.screen", lambda: Screen(100))


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_acts_on_a_terminal_or_begins_a_line(
    command: str, runs: dict[str, RunLayout], width: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, run in looked_at(command, runs):
        COMMANDS[command](run)
        said = capsys.readouterr()
        assert said.out or said.err
        assert_harmless(said.out + said.err, name, command)


def looked_at(command: str, runs: dict[str, RunLayout]) -> list[tuple[str, RunLayout]]:
    """The runs to give to `command`: ``ls`` takes them all at once."""
    return list(runs.items())[: 1 if command == "ls" else None]


def assert_harmless(said: str, name: str, command: str) -> None:
    """What a job printed is shown by its own lines, and what a model said, indented; tabs are tabs there."""
    whole = command in ("logs RUN JOB", "llm show")
    for line in OURS.sub("", said).split("\n"):
        assert (line.replace("\t", "") if whole else line).isprintable(), (name, line[:300])
        if command != "logs RUN JOB":
            assert not (line if whole else line.lstrip()).startswith(FORGED), (name, line)


def test_what_was_forgotten_is_stopped_at_the_door(capsys: pytest.CaptureFixture[str]) -> None:
    for text in TEXTS.values():
        emit(f"\x1b[1m{text}\x1b[0m")
        note(text)
        said = capsys.readouterr()
        for out in (said.out, said.err):
            assert HIDDEN.search(OURS.sub("", out)) is None
    emit_block("a\x1b[2J\x1b[1mb\x1b[0m\tc\n\x9b")
    assert capsys.readouterr().out == "a\\x1b[2J\x1b[1mb\x1b[0m\tc\n\\x9b\n"


def test_the_live_table_neither_acts_nor_takes_markup(runs: dict[str, RunLayout]) -> None:
    for name, run in runs.items():
        file = Terminal()
        console = Console(file=file, force_terminal=True, width=400, height=50, color_system=None, legacy_windows=False)
        _going(LiveTable(console=console), run)  # type: ignore[arg-type]
        for line in re.split(r"\r?\n|\r", RICH.sub("", file.getvalue())):
            assert line.isprintable(), (name, line[:300])
            assert not line.startswith(FORGED), name
        if "[" in TEXTS[name] and TEXTS[name].isprintable():
            assert TEXTS[name] in file.getvalue(), "no markup"


@pytest.mark.parametrize("command", JSON_COMMANDS)
def test_json_says_the_text_as_it_is_and_shows_none_of_it(
    command: str, runs: dict[str, RunLayout], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, run in looked_at(command, runs):
        JSON_COMMANDS[command](run)
        out = capsys.readouterr().out
        assert HIDDEN.search(out) is None and "\t" not in out, name
        wanted = set(TEXTS.values()) if command == "ls" else {TEXTS[name]}
        assert wanted - {""} <= set(_leaves(json.loads(out))), name


@pytest.mark.parametrize("command", JSON_LINES)
def test_json_lines_are_lines_of_ascii(
    command: str, runs: dict[str, RunLayout], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, run in runs.items():
        JSON_LINES[command](run)
        *lines, end = capsys.readouterr().out.split("\n")
        assert end == "" and all(line.isascii() and line.isprintable() for line in lines), name
        found = {leaf for line in lines for leaf in _leaves(json.loads(line))}
        assert command == "logs RUN" or TEXTS[name] in found, name


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_spreadsheet_takes_a_cell_for_a_formula(delimiter: str, runs: dict[str, RunLayout]) -> None:
    """Whatever it believes separates cells."""
    csv.field_size_limit(1 << 24)
    for name, run in runs.items():
        refresh_tables(run)
        for path in (run.results_csv, run.leaderboard):
            text = path.read_bytes().decode()
            assert HIDDEN.search(text) is None and len(text.splitlines()) == text.count("\n"), (name, path.name)
            for row in csv.reader(io.StringIO(text), delimiter=delimiter):
                for cell in row:
                    bare = cell.lstrip(' "\xa0\u3000')
                    assert not bare.startswith(FORMULA) or NUMBER.fullmatch(cell), (name, path.name, cell[:100])
        assert len(list(csv.reader(io.StringIO(run.results_csv.read_bytes().decode())))) == 3


def test_files_hold_the_text_and_show_nothing_of_it(runs: dict[str, RunLayout]) -> None:
    """Somebody will look at them without our commands."""
    for name, run in runs.items():
        text, files = TEXTS[name], run.job(job_id(0))
        written = [path for path in run.root.rglob("*") if path.suffix in (".json", ".jsonl", ".yaml")]
        assert len(written) > 12
        for path in written:
            if path != run.config_snapshot:
                shown = path.read_bytes().decode()
                assert HIDDEN.search(shown) is None, (name, path.name)
        assert json.loads(files.meta.read_text())["warnings"] == [text]
        assert load_state(files.best_state.read_text())[text or "name"] == text
