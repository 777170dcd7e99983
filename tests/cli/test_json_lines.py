"""The JSON lines of whole runs, compared with lines that were recorded once.

``TRACE_BENCH_RECORD=1 pytest tests/cli/test_json_lines.py`` records them again. Values that vary from run to run
(times, folders, hashes of sources, hardware) are replaced by the name of their field.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench
from tests.execution.conftest import bench as bench
from tests.execution.simulated import Script
from tests.integration.cli import TASKS, cli, write_config
from trace_bench.cli.attach import attach_command
from trace_bench.cli.displays import JsonLines
from trace_bench.cli.run import DisplayOptions
from trace_bench.errors import EnvironmentUnavailable, ExitCode, Interrupted, TraceBenchError
from trace_bench.sandbox.base import Host

FOLDER = Path(__file__).parent / "json_lines"
VARYING = frozenset({
    "t", "folder", "fingerprint", "hardware", "run_id", "seconds", "time_seconds", "train_seconds", "sandbox_id",
    "started_at", "ended_at", "image_key", "warnings",
})  # fmt: skip
SEARCH = {"id": "PrioritySearch", "params_variants": [{"num_steps": 2}]}
SLOW = {"id": "internal:slow", "eval_kwargs": {"seconds": 0.05}}


def normalised(value: Any) -> Any:
    """`value` with the names of varying fields in the place of their values."""
    if isinstance(value, dict):
        return {key: f"<{key}>" if key in VARYING and each else normalised(each) for key, each in value.items()}
    return [normalised(each) for each in value] if isinstance(value, list) else value


def compare(name: str, text: str) -> None:
    """Compare the JSON lines in `text` with the recorded ones of `name`, which are sorted by field."""
    lines = [json.dumps(normalised(json.loads(line)), sort_keys=True) for line in text.splitlines()]
    path = FOLDER / f"{name}.jsonl"
    if os.environ.get("TRACE_BENCH_RECORD"):
        path.write_text("".join(line + "\n" for line in lines))
    recorded = path.read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == [json.loads(line)["event"] for line in recorded]
    for line, expected in zip(lines, recorded, strict=True):
        assert line == expected


def _run(bench: Bench, **config: Any) -> None:
    """Run a config one job at a time, with JSON lines on stdout, as ``run --json`` does."""
    display = JsonLines()
    try:
        result = bench.run(display.notify, **{"run_id": "one", "max_workers": 1, **config})
    except Interrupted as error:
        display.close(ExitCode.INTERRUPTED, str(error))
    except TraceBenchError as error:
        display.close(error.exit_code, str(error))
    else:
        display.close(ExitCode.OK if result.ok else ExitCode.JOB_FAILED)


def _whole(bench: Bench) -> None:
    _run(bench)


def _retried_elsewhere(bench: Bench) -> None:
    hosts = tuple(Host(name, slots=1, memory_bytes=64 << 30) for name in ("far", "near"))
    bench.backend.several = hosts
    bench.backend.script = lambda job_id, number: Script(ends="dies") if number == 1 else Script()
    _run(bench, retries=1, tasks=["internal:numeric_param"])


def _failed_fast(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="task")
    _run(bench, fail_fast=True)


def _interrupted_and_continued(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="hangs") if len(bench.backend.created) == 3 else Script()
    layout = bench.plan(run_id="one").layout

    def stop_wanted() -> str | None:
        """End the run when the third job has evaluated a candidate."""
        third = bench.backend.created[2:3]
        return "interrupted" if third and layout.job(third[0]).state_history.exists() else None

    _run(bench, stop_wanted=stop_wanted)
    bench.backend.script = lambda job_id, number: Script()
    _run(bench)


def _adopted(bench: Bench) -> None:
    plan = bench.records(run_id="one", max_workers=1)
    bench.sandbox(plan, plan.jobs[plan.order[-1]])
    _run(bench)


def _environment_missing(bench: Bench) -> None:
    def create(_: Any) -> None:
        raise EnvironmentUnavailable("no such machine")

    bench.backend.on_create = create
    _run(bench)


def _out_of_budget(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(calls=3)
    _run(bench, budget={"run": {"calls": 4}})


@pytest.mark.parametrize(
    "scenario",
    [_whole, _retried_elsewhere, _failed_fast, _interrupted_and_continued, _adopted, _environment_missing,
     _out_of_budget],
    ids=lambda scenario: scenario.__name__[1:],
)  # fmt: skip
def test_a_simulated_run_prints_the_recorded_lines(
    scenario: Callable[[Bench], None], bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario(bench)
    compare(scenario.__name__[1:], capsys.readouterr().out)


def test_attach_prints_the_recorded_lines(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    _retried_elsewhere(bench)
    capsys.readouterr()
    attach_command("one", bench.folder / "runs", DisplayOptions(as_json=True))
    compare("attached", capsys.readouterr().out)


def test_a_run_of_the_local_backend_prints_the_recorded_lines(tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=[SLOW], trainers=[SEARCH], seeds=[1, 2], backend="local", run_id="one")
    done = cli("run", "--config", str(config), "--root", str(TASKS), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    compare("local", done.stdout)
