"""Whether Trace-Bench can use an account of Modal: what ``scripts/check-modal`` runs, and what it comes to.

It needs an account, an image that was pushed, and a config that says where. It makes sandboxes in the config's app, a
few dozen of them one after another, and leaves none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, note
from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, ExitCode, TraceBenchError
from trace_bench.images.pins import pushed
from trace_bench.planning.backends import backend_of, registry_of
from trace_bench.sandbox.base import Backend
from trace_bench.sandbox.conformance import CHECKS, Lab, examine
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
"""Checks of every backend without which nothing works, in front of the others."""
SETTLING = 60.0
"""Seconds that the service has to stop listing what was ended."""
_MARKS = {"ok": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


@dataclass
class Verdict:
    """What was tried, and what came of it; printed line by line."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MARKS, 0))
    failed: list[str] = field(default_factory=list)

    def add(self, name: str, state: Literal["ok", "failed", "skipped"], detail: str = "") -> None:
        self.counts[state] += 1
        if state == "failed":
            self.failed.append(name)
        emit(f"{_MARKS[state]} {name}" + (f": {printable(detail, 1000)}" if detail else ""))

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """One thing to be tried; what it says is shown, and no error ends the others."""
        said: list[str] = []
        began = time.monotonic()
        try:
            yield said.append
        except (TraceBenchError, AssertionError, OSError, subprocess.SubprocessError) as error:
            self.add(name, "failed", f"{type(error).__name__}: {error}")
        else:
            self.add(name, "ok", ", ".join([*said, f"{time.monotonic() - began:.1f} s"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try everything and print a verdict; 0 if nothing has failed, 3 if something has.

    Raises:
        ConfigError, EnvironmentUnavailable: nothing could be tried: the config is wrong, there is no account, no app,
            or no image.
    """
    given = _arguments(arguments)
    began = time.monotonic()
    config = load_config(given.config, {"backend": "modal"})
    verdict = Verdict()
    backend = backend_of(config)
    verdict.add("account", "ok", f"the credentials are taken, and the app {config.modal.app} is there")
    image = given.image or pushed("core", registry_of(config)).ref
    verdict.add("image", "ok", f"{image}, which the service has yet to pull")
    lab = Lab(backend, image)
    try:
        _try_one(lab, verdict)
        _try_checks(lab, verdict, until=began + 60 * given.minutes)
        if not given.no_job:
            with verdict.step("a job") as said:
                said(_job(config, backend))
    finally:
        with verdict.step("nothing is left"):
            _leave_nothing(backend, lab.run)
    minutes = (time.monotonic() - began) / 60
    emit(
        f"{verdict.counts['ok']} ok, {verdict.counts['failed']} failed, {verdict.counts['skipped']} skipped, "
        f"in {minutes:.1f} minutes"
    )
    if verdict.failed:
        emit(f"verdict: do not trust it: {', '.join(verdict.failed)}")
        return int(ExitCode.ENVIRONMENT)
    emit("verdict: jobs run on this account as they do on an engine, but for the controls that it cannot set")
    return int(ExitCode.OK)


def _try_one(lab: Lab, verdict: Verdict) -> None:
    """The first sandbox, which waits for the image, and the controls that are in force in it."""
    with verdict.step("first sandbox"), lab.running("say('hello')\nput('file', b'1')\n") as (sandbox, stream):
        said = b""
        while data := stream.read(60):
            said += data
        assert said == b"hello\n", f"it said {said!r}"
        for control in sandbox.controls():
            state: Literal["ok", "skipped"] = "ok" if control.in_force else "skipped"
            verdict.add(f"control {control.name}", state, control.detail)


def _try_checks(lab: Lab, verdict: Verdict, until: float) -> None:
    """What every backend passes, the essential ones first, until the time is up."""
    by_name = {check.name: check for check in CHECKS}
    ordered = [by_name.pop(name) for name in FIRST] + list(by_name.values())
    late = 0
    for check in ordered:
        if time.monotonic() > until and check.name not in FIRST:
            late += 1
            continue
        for outcome in examine(lab, [check]):
            verdict.add(outcome.check, "ok" if outcome.state == "passed" else outcome.state, outcome.detail)
    if late:
        verdict.add(f"{late} further checks", "skipped", "the time is up; give --minutes more")


def _job(config: RunConfig, backend: Backend) -> str:
    """A run of one job with the stub model; returns what it came to."""
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
        _leave_nothing(backend, lines[-1]["run_id"])
        return f"scored {rows[0]['score_best']}"


def _leave_nothing(backend: Backend, run_id: str) -> None:
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
    parser.add_argument("--no-job", action="store_true", help="leave out the whole job, which needs the image of core")
    return parser.parse_args(arguments)


def guarded() -> int:
    """`main`, with a sentence for what a user can correct."""
    try:
        return main()
    except TraceBenchError as error:
        note(f"error: {error}")
        return int(error.exit_code if isinstance(error, ConfigError) else ExitCode.ENVIRONMENT)


if __name__ == "__main__":
    sys.exit(guarded())
