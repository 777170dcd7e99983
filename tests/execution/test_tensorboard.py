"""Event files made of a history: TensorBoard's own reader finds every curve in them, and equal histories are equal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorboardX")

from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.records import Results
from trace_bench.config import parse_config
from trace_bench.execution import tensorboard
from trace_bench.execution.tensorboard import SCALARS, with_loggers_that_exist, write_events

LINES: list[dict[str, Any]] = [
    {"step": 0, "candidate": "seed", "split": "train", "score": -3.0, "best_score": -3.0, "seconds": 0.5,
     "evaluations": 2, "parameters": {"x": 0.0}},
    {"step": 1, "candidate": "s1.c0.p0", "parents": ["seed"], "split": "train", "score": 1e300, "best_score": 0.25,
     "seconds": 1.5, "evaluations": 4, "llm_calls": 1, "prompt_tokens": 30, "completion_tokens": 7, "cost_usd": 0.125,
     "parameters": {"x": 2.0}},
    {"step": 1, "candidate": "s1.c0.p1", "parents": ["seed"], "split": "train", "score": -0.5, "best_score": 0.25,
     "seconds": 2.25, "evaluations": 6, "llm_calls": 2, "prompt_tokens": 60, "completion_tokens": 14, "cost_usd": 0.25,
     "parameters": {"x": 2.5}},
]  # fmt: skip
ROW = Results(
    run_id="r", job_id="0123456789ab", task_id="internal:numeric_param", suite="internal", trainer_id="PrioritySearch",
    variant="base", seed=0, status="ok", integrity="protected", score_direction="minimize",
    resolved_optimizer="OptoPrime", resolved_trainer_kwargs={"b": 1, "a": [1, 2], "none": None},
    model="stub", fingerprint="0" * 64,
)  # fmt: skip


def job(folder: Path, lines: list[dict[str, Any]], end: str = "") -> JobLayout:
    found = JobLayout(folder / "0123456789ab").make()
    found.state_history.write_text("".join(json.dumps(line) + "\n" for line in lines) + end)
    return found


def read(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    """What TensorBoard's own reader finds: step, time and value by tag. In a process of its own: it is large."""
    code = (
        "import json, sys; from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E\n"
        "e = E(sys.argv[1], size_guidance={'scalars': 0}); e.Reload()\n"
        "print(json.dumps({t: [(s.step, s.wall_time, s.value) for s in e.Scalars(t)] for t in e.Tags()['scalars']}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {tag: [(s, t, v) for s, t, v in points] for tag, points in json.loads(done.stdout).items()}


def test_the_reader_finds_every_curve(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    made = job(tmp_path, LINES, end='{"step": 2, "cand')
    write_events(made, ROW)
    found = read(made.tb)
    assert set(found) == set(SCALARS)
    for tag, name in SCALARS.items():
        assert [(step, time) for step, time, _ in found[tag]] == [(0, 0.5), (1, 1.5), (2, 2.25)]
        if name != "score":
            assert [value for *_, value in found[tag]] == [line.get(name, 0) for line in LINES], tag
    assert [value for *_, value in found["score/candidate"]] == [-3.0, float("inf"), -0.5]


def test_equal_histories_give_equal_files_and_another_attempt_replaces_them(tmp_path: Path) -> None:
    one, two = job(tmp_path / "one", LINES), job(tmp_path / "two", LINES[:1])
    write_events(one, ROW)
    write_events(two, ROW)
    (first,) = one.tb.iterdir()
    (second,) = two.tb.iterdir()
    assert first.name == second.name and first.read_bytes() != second.read_bytes()
    job(tmp_path / "two", LINES)
    write_events(two, ROW)
    assert [p.name for p in two.tb.iterdir()] == [first.name] and first.read_bytes() == second.read_bytes()


def test_an_attempt_without_a_history_has_no_events_of_an_earlier_one(tmp_path: Path) -> None:
    made = job(tmp_path, LINES)
    write_events(made, ROW)
    made.state_history.unlink()
    write_events(made, ROW)
    assert not made.tb.exists()


def test_without_the_package_the_default_logger_is_used_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_config({"tasks": ["a"], "trainers": ["NoOp", {"id": "NoOp", "logger": "TensorboardLogger"}]})
    assert with_loggers_that_exist(config) is config
    monkeypatch.setattr(tensorboard.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    changed = with_loggers_that_exist(config)
    assert [entry.logger for entry in changed.trainers] == ["default", "default"]
    (warning,) = changed.warnings
    assert "trainers[1].logger: " in warning and "pip install 'trace-bench[tensorboard]'" in warning
    none = parse_config({"tasks": ["a"], "trainers": ["NoOp"]})
    assert with_loggers_that_exist(none) is none


def test_no_logger_takes_arguments(tmp_path: Path) -> None:
    from trace_bench.config.variants import resolve_variants
    from trace_bench.trainers.noop import NoOp

    entry = {"id": "NoOp", "logger": "TensorboardLogger", "logger_kwargs": {"log_dir": "logs"}}
    problems: list[str] = []
    resolve_variants(parse_config({"tasks": ["a"], "trainers": [entry]}), {"NoOp": NoOp}, problems)
    (problem,) = problems
    assert "the logger takes no arguments: its events are in tb/ of each job; delete this key" in problem
