"""``mirror``: a copy of a run on another server, or as another tool's files."""

from __future__ import annotations

import os
from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.errors import ConfigError
from trace_bench.mirrors.registry import Mirrored, alone, find_kind
from trace_bench.records.runs import find_run
from trace_bench.secrets import known, secrets_in


def mirror_command(
    name: str,
    run: str,
    runs_dir: Path,
    *,
    follow: bool,
    tracking_uri: str | None,
    experiment: str | None,
    files: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Copy a run.

    Raises:
        ConfigError: no such mirror or run, or options of another mirror. EnvironmentUnavailable: what it needs is not
            there, or the other side does not take it.
    """
    known.add(secrets_in(os.environ))
    kind = find_kind(name)
    _check(kind.name, {"--follow": follow, "--tracking-uri": tracking_uri, "--experiment": experiment,
                       "--no-files": not files}, {"--output": output})  # fmt: skip
    layout = find_run(run, runs_dir)
    if kind.name == "tensorboard":
        from trace_bench.mirrors.tensorboard import write_run

        done = write_run(layout, output)
    else:
        from trace_bench.mirrors.following import follow as keep_up
        from trace_bench.mirrors.mlflow import MlflowMirror

        if follow:
            os.nice(10)  # the run comes first
        mirror = MlflowMirror(tracking_uri, experiment, files=files)
        with alone(layout, kind.name, mirror.shown, wait=follow):
            done = keep_up(mirror, layout, note) if follow else mirror.sync(layout)
    _tell(layout.run_id, done, changed=not follow, as_json=as_json)


def _check(name: str, of_mlflow: dict[str, object], of_tensorboard: dict[str, object]) -> None:
    other, options = ("mlflow", of_mlflow) if name == "tensorboard" else ("tensorboard", of_tensorboard)
    for option, given in options.items():
        if given:
            raise ConfigError(f"option {option} is of mirror {other}, not of {name}; take it out")


def _tell(run_id: str, done: Mirrored, *, changed: bool, as_json: bool) -> None:
    """Args:
    changed: say how many jobs this look has changed, too; of many looks the last one's say nothing.
    """
    for problem in done.problems:
        note(f"warning: {printable(problem, 500)}")
    if as_json:
        emit_json(
            {"run_id": run_id, "place": done.place, "jobs": done.jobs, "changed": done.changed,
             "problems": list(done.problems)}
        )  # fmt: skip
    else:
        jobs = "1 job" if done.jobs == 1 else f"{done.jobs} jobs"
        emit(
            f"{printable(run_id)}: {jobs} at {printable(done.place, 500)}"
            + (f", {done.changed} of them changed" if changed else "")
        )
