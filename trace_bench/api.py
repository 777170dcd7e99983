"""The package from Python, at the top of `trace_bench`: `load_config`, `expand`, `run`, `open_run` and `RunResult`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench import matrix
from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.controller.progress import Progress, Quiet
from trace_bench.controller.result import RunResult
from trace_bench.controller.start import completed, run_config
from trace_bench.matrix import Job
from trace_bench.mirrors.attached import mirrored, with_warnings
from trace_bench.results.runs import find_run

__all__ = ["Job", "RunResult", "expand", "load_config", "open_run", "run"]

Config = RunConfig | str | Path | Mapping[str, Any]
"""A loaded config, or anything that `load_config` takes."""


def expand(config: Config, *, roots: Sequence[Path] = ()) -> list[Job]:
    """The jobs of `config`, in the order task, trainer, variant, model, seed. No engine is asked, and no task
    code imported.

    Args:
        roots: extra folders with task folders.

    Raises:
        ConfigError: the config is wrong, or does not fit its tasks and trainers; one line per problem.
    """
    config = completed(select(_loaded(config), roots))
    resolved = resolve(config, roots)
    return matrix.expand(config, resolved.tasks, resolved.trainers)


def run(
    config: Config,
    *,
    roots: Sequence[Path] = (),
    build: bool = True,
    progress: Progress | None = None,
    stop_wanted: Callable[[], str | None] = lambda: None,
) -> RunResult:
    """Run every job of `config` as ``trace-bench run`` does, continuing an unfinished run of it.

    Args:
        roots: extra folders with task folders.
        build: build images that are missing; False refuses instead.
        progress: hears how it goes on, from many threads, one call at a time.
        stop_wanted: asked often; None, ``"interrupted"`` (jobs end in order) or ``"kill"``.

    Raises:
        ConfigError: before anything is written. EnvironmentUnavailable: no engine, no image, no disk. Interrupted:
            after everything that had finished was recorded. A job that fails raises nothing: see `RunResult.ok`.
    """
    config = with_warnings(_loaded(config), os.environ)
    with mirrored(config, progress or Quiet(), logging.getLogger(__name__).info) as heard:
        return run_config(config, roots=roots, build=build, progress=heard, stop_wanted=stop_wanted)


def open_run(name: str | Path, *, runs_dir: str | Path = "runs") -> RunResult:
    """What a run has come to: a finished one, one that was killed, or one that is still going on.

    Args:
        name: its folder, its id or the beginning of it, or ``latest``.
        runs_dir: where ids are looked for.

    Raises:
        ConfigError: no run, or more than one. HarnessError: a file of it is damaged.
    """
    return RunResult.read(find_run(str(name), Path(runs_dir)))


def _loaded(config: Config) -> RunConfig:
    return config if isinstance(config, RunConfig) else load_config(config)
