"""Check whether Trace-Bench can use an account of Modal: what ``scripts/check-modal`` runs.

It needs an account, an image that was pushed, and a config that names both. It makes a few dozen sandboxes in the
config's app, one after another, and removes them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.sandbox.conformance import CHECKS, Lab, examine
from trace_bench.cli.check_report import CheckReport
from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.display.console import emit, note_block
from trace_bench.errors import ConfigError, ExitCode, TraceBenchError
from trace_bench.images.pins import pushed
from trace_bench.planning.backends import backend_of, registry_of
from trace_bench.sandbox.base import Backend
from trace_bench.sandbox.labels import RUN

FIRST = (
    "every_control_is_reported",
    "nothing_outside_can_be_reached",
    "stream_carries_all_bytes_exactly",
    "exit_codes_come_back",
    "kill_ends_grandchildren",
    "collect_works_while_it_runs_and_afterwards",
    "find_works_by_labels_in_every_state",
    "killed_controller_leaves_an_adoptable_sandbox",
    "taken_name_is_a_conflict",
    "remove_is_complete_and_harmless_twice",
    "root_inside_has_no_power",
    "memory_stops_at_the_limit",
)
"""The essential checks, which run before the others."""
SETTLING = 60.0
"""Seconds that the service has to stop listing sandboxes that were ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks and print a verdict. Return 0 if none has failed, else 3.

    Raises:
        ConfigError, EnvironmentUnavailable: nothing could be checked: the config is wrong, or there is no account, no
            app, or no image.
    """
    given = _arguments(arguments)
    began = time.monotonic()
    config = load_config(given.config, {"backend": "modal"})
    report = CheckReport()
    backend = backend_of(config)
    report.add("account", "passed", f"the credentials are accepted, and the app {config.modal.app} is there")
    image = given.image or pushed("core", registry_of(config)).ref
    report.add("image", "passed", f"{image}, which the service has yet to pull")
    lab = Lab(backend, image)
    try:
        _check_one(lab, report)
        _run_checks(lab, report, until=began + 60 * given.minutes)
        if not given.no_job:
            with report.step("a job") as add_detail:
                add_detail(_job(config, backend))
    finally:
        with report.step("nothing is left"):
            _remove_all(backend, lab.run)
    minutes, counts = (time.monotonic() - began) / 60, report.counts
    emit(f"{counts['passed']} ok, {counts['failed']} failed, {counts['skipped']} skipped, in {minutes:.1f} minutes")
    if report.failed:
        emit(f"verdict: do not trust it: {', '.join(report.failed)}")
    else:
        emit("verdict: jobs run on this account as they do on an engine, but for the controls that it cannot set")
    return report.exit_code


def _check_one(lab: Lab, report: CheckReport) -> None:
    """The first sandbox, which waits for the image, and the controls that are in force in it."""
    with report.step("first sandbox"), lab.running("say('hello')\nput('file', b'1')\n") as (sandbox, stream):
        output = b""
        while data := stream.read(60):
            output += data
        assert output == b"hello\n", f"it wrote {output!r}"
        for control in sandbox.controls():
            report.add(f"control {control.name}", "passed" if control.in_force else "skipped", control.detail)


def _run_checks(lab: Lab, report: CheckReport, until: float) -> None:
    """The checks of every backend, the essential ones first, until the time is up."""
    by_name = {check.name: check for check in CHECKS}
    ordered = [by_name.pop(name) for name in FIRST] + list(by_name.values())
    late = 0
    for check in ordered:
        if time.monotonic() > until and check.name not in FIRST:
            late += 1
            continue
        for outcome in examine(lab, [check]):
            report.add(outcome.check, outcome.state, outcome.detail)
    if late:
        report.add(f"{late} further checks", "skipped", "the time is up; give --minutes more")


def _job(config: RunConfig, backend: Backend) -> str:
    """Run one job with the stub model. Return its score as text."""
    settings: dict[str, Any] = config.to_snapshot()["modal"]
    with tempfile.TemporaryDirectory(prefix="trace-bench-check-") as folder:
        path = Path(folder) / "config.json"
        task = {"tasks": ["internal:numeric_param"], "trainers": [{"id": "NoOp"}], "retries": 0}
        path.write_text(json.dumps({**task, "runs_dir": folder, "backend": "modal", "modal": settings}))
        command = [sys.executable, "-m", "trace_bench", "run", "--config", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines, done.stderr[-500:]
        rows = [line["row"] for line in lines if line["event"] == "job.end"]
        assert done.returncode == 0 and rows, rows[0]["feedback"] if rows else lines[-1]["error"]
        _remove_all(backend, lines[-1]["run_id"])
        return f"scored {rows[0]['score_best']}"


def _remove_all(backend: Backend, run_id: str) -> None:
    """Remove all sandboxes of `run_id`, and wait until the service lists none."""
    deadline = time.monotonic() + SETTLING
    while left := backend.find({RUN: run_id}):
        for sandbox in left:
            sandbox.remove()
        assert time.monotonic() < deadline, f"{len(left)} sandboxes of {run_id} are still listed"
        time.sleep(1)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/check-modal",
        description="Try a Modal account with sandboxes of its own, about ten minutes, and print a verdict.",
    )
    parser.add_argument("--config", "-c", type=Path, required=True, help="a config with a section modal")
    parser.add_argument("--image", help="REPOSITORY@sha256:DIGEST to try it with; else that of the family core")
    parser.add_argument("--minutes", type=float, default=10.0, help="after that no further check begins (10)")
    parser.add_argument("--no-job", action="store_true", help="leave out the job, which needs the image of core")
    return parser.parse_args(arguments)


def guarded() -> int:
    """Run `main`. An error that the user can correct is one sentence."""
    try:
        return main()
    except TraceBenchError as error:
        note_block(f"error: {error}")
        return int(error.exit_code if isinstance(error, ConfigError) else ExitCode.ENVIRONMENT)


if __name__ == "__main__":
    sys.exit(guarded())
