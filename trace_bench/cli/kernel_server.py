"""``kernel-server``: scores kernels that come over HTTP."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from trace_bench.cli.output import emit, note
from trace_bench.cli.progress import alert
from trace_bench.cli.run import StopOnSignals
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.kernel_server.evaluate import SandboxEvaluator, check_machine
from trace_bench.kernel_server.jobs import Job, Jobs
from trace_bench.kernel_server.problems import Problems
from trace_bench.secrets import known

_STOPPING = "stopping: the evaluations are ended and their sandboxes removed"


def kernel_server_command(
    host: str,
    port: int,
    *,
    token_file: Path | None,
    roots: Sequence[Path],
    queue: int,
    runs_dir: Path | None,
    gpu: bool,
    build: bool,
) -> None:
    """Answer requests until a signal ends it.

    Raises:
        ConfigError: the options are wrong. EnvironmentUnavailable: something is missing, or the address is taken.
    """
    if lacking := [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]:
        raise EnvironmentUnavailable(
            f"the kernel server needs {' and '.join(lacking)}, not installed here: pip install 'trace-bench[server]'"
        )
    if queue < 1:
        raise ConfigError(f"--queue must be 1 or more, not {queue}")
    from trace_bench.kernel_server.serve import listen, serve, token_of, url_of

    gc.enable()  # commands that end soon do without
    if runs_dir is not None:
        runs_dir.mkdir(parents=True, exist_ok=True)
    token = token_of(os.environ, token_file)
    known.add([token] if token else [])
    problems = Problems.below(roots)
    evaluate = SandboxEvaluator(problems, gpu, runs_dir)
    with contextlib.closing(listen(host, port, token)) as listener:
        devices = check_machine(gpu=gpu, build=build, say=note)
        with StopOnSignals(lambda _: alert(_STOPPING)) as stop:
            emit(f"listening on {url_of(listener)}")
            serve(
                Jobs(evaluate, devices, room=queue, on_end=_say),
                problems,
                token,
                listener,
                stop_wanted=lambda: stop.wanted() is not None,
            )


def _say(job: Job) -> None:
    """A line about a job that has ended."""
    what = ", ".join(f"{key.removesuffix('_id')} {value}" for key, value in job.name.items() if value is not None)
    if job.result is None:
        outcome = f"failed: {job.error}"
    elif job.result["correctness"]:
        outcome = f"speed-up {job.result['runtime_stats']['speedup']:.3g}"
    else:
        outcome = "wrong" if job.result["compiled"] else "does not compile"
    note(f"{job.id}  {what}  {outcome}" + (f"  {job.seconds:.1f} s" if job.seconds is not None else ""))
