"""Runs the command as a user would, and reads what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked
from tests.engine import on_runtime
from tests.sandbox.lab import SLOWNESS

REPOSITORY = Path(__file__).resolve().parents[2]
TASKS = REPOSITORY / "tests" / "tasks"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def environment(home: Path | None = None, **extra: str) -> dict[str, str]:
    found = {**os.environ, **extra}
    if home is not None:
        found["TRACE_BENCH_HOME"] = str(home)
    return found


def cli(*arguments: str, home: Path | None = None, timeout: float = 300, cwd: Path | None = None, **env: str) -> Done:
    """Run ``trace-bench ARGUMENTS`` in a process of its own, forked where its imports are done (`tests.forked`)."""
    own = environment(home, **env)
    if forked.can_run(own):
        return Done(*forked.run(arguments, environment=own, cwd=cwd, timeout=timeout))
    return started(*arguments, home=home, timeout=timeout, cwd=cwd, **env)


def started(
    *arguments: str, home: Path | None = None, timeout: float = 300, cwd: Path | None = None, **env: str
) -> Done:
    """As `cli`, by an interpreter that starts afresh: half a second more."""
    done = subprocess.run(
        [sys.executable, "-m", "trace_bench", *arguments],
        capture_output=True, text=True, timeout=timeout * SLOWNESS, cwd=cwd, env=environment(home, **env), check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def start(*arguments: str, home: Path, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start ``trace-bench ARGUMENTS``, forked as by `cli`."""
    pipe = subprocess.PIPE
    return forked.start(*arguments, stdout=pipe, stderr=pipe, cwd=cwd, env=environment(home))


def write_config(folder: Path, **config: Any) -> Path:
    """A config of `config`, on the runtime of these tests (`tests.engine`), and without gaps unless it asks for them: a
    yardstick takes longer than most jobs here."""
    if config.get("backend", "docker") == "docker" and (sandbox := on_runtime(config.get("sandbox", {}))):
        config["sandbox"] = sandbox
    path = folder / "config.json"
    path.write_text(
        json.dumps({"runs_dir": str(folder / "runs"), "mode": "stub", "gaps": False, **config}), encoding="utf-8"
    )
    return path


def run(folder: Path, home: Path | None, *arguments: str, timeout: float = 300, **config: Any) -> dict[str, Any]:
    """Run a config; `result_of` it with ``code`` and ``stderr`` added."""
    path = write_config(folder, **config)
    done = cli("run", "--config", str(path), "--root", str(TASKS), "--json", *arguments, home=home, timeout=timeout)
    assert done.stdout.startswith("{"), (done.returncode, done.stdout, done.stderr)
    return {**result_of(done.stdout), "code": done.returncode, "stderr": done.stderr}


def result_of(stdout: str) -> dict[str, Any]:
    """What ``run --json`` came to: the last line, with ``jobs``, the rows in the order of the plan."""
    lines = [json.loads(line) for line in stdout.splitlines()]
    start, end = lines[0], lines[-1]
    assert (start["event"], end["event"]) == ("run.start", "run.end"), stdout
    rows = {line["job_id"]: line["row"] for line in lines if line["event"] in ("job.reuse", "job.end", "job.skip")}
    return {**end, "jobs": [rows[job["job_id"]] for job in start["jobs"] if job["job_id"] in rows]}


def history(result: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    path = Path(result["folder"]) / row["state_history_path"]
    return [json.loads(line) for line in path.read_text().splitlines()]
