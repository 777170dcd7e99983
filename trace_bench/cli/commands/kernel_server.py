"""``kernel-server``: scores kernels that come over HTTP."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from trace_bench.cli import collect_garbage
from trace_bench.cli.options import NoBuild, folders, whole_number
from trace_bench.display.console import emit, note
from trace_bench.errors import ConfigError, EnvironmentUnavailable

if TYPE_CHECKING:
    from trace_bench.kernel_server.jobs import Job


def kernel_server(
    host: Annotated[str, Option(metavar="ADDRESS", help="Listen at this address.")] = "127.0.0.1",
    port: Annotated[
        int, Option(metavar="NUMBER", parser=whole_number, help="Listen at this port; 0 takes a free one.")
    ] = 6000,
    token_file: Annotated[
        Path | None, Option(metavar="FILE", help="Read the token that each request must bear from this file.")
    ] = None,
    root: Annotated[
        list[Path] | None,
        Option(
            "--root", metavar="FOLDER", callback=folders, help="Take only the problems of this copy of KernelBench."
        ),
    ] = None,
    queue: Annotated[int, Option(metavar="NUMBER", parser=whole_number, help="Let this many evaluations wait.")] = 64,
    runs_dir: Annotated[
        Path | None, Option("--runs-dir", metavar="FOLDER", help="Keep each evaluation as a run there.")
    ] = None,
    gpu: Annotated[bool, Option("--gpu", help="Score on this machine's GPUs, one kernel at a time on each.")] = False,
    no_build: NoBuild = False,
) -> None:
    """Score kernels that come over HTTP, each in a sandbox.

    Example: trace-bench kernel-server --port 6000
    """
    if lacking := [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]:
        raise EnvironmentUnavailable(
            f"the kernel server needs {' and '.join(lacking)}, not installed here: pip install 'trace-bench[server]'"
        )
    if queue < 1:
        raise ConfigError(f"--queue must be 1 or more, not {queue}")
    from trace_bench.cli.signals import stopping
    from trace_bench.kernel_server.evaluate import SandboxEvaluator, check_machine
    from trace_bench.kernel_server.jobs import Jobs
    from trace_bench.kernel_server.problems import Problems
    from trace_bench.kernel_server.serve import listen, serve, token_of, url_of
    from trace_bench.secrets import known

    collect_garbage()
    if runs_dir is not None:
        runs_dir.mkdir(parents=True, exist_ok=True)
    token = token_of(os.environ, token_file)
    known.add([token] if token else [])
    problems = Problems.below(root or [])
    evaluate = SandboxEvaluator(problems, gpu, runs_dir)
    with contextlib.closing(listen(host, port, token)) as listener:
        devices = check_machine(gpu=gpu, build=not no_build, say=note)
        with stopping("stopping: the evaluations are ended and their sandboxes removed") as stop:
            emit(f"listening on {url_of(listener)}")
            serve(
                Jobs(evaluate, devices, room=queue, on_end=_print),
                problems,
                token,
                listener,
                stop,
            )


def _print(job: Job) -> None:
    """Print a line about a job that has ended."""
    what = ", ".join(f"{key.removesuffix('_id')} {value}" for key, value in job.name.items() if value is not None)
    if job.result is None:
        outcome = f"failed: {job.error}"
    elif job.result["correctness"]:
        outcome = f"speed-up {job.result['runtime_stats']['speedup']:.3g}"
    else:
        outcome = "wrong" if job.result["compiled"] else "does not compile"
    note(f"{job.id}  {what}  {outcome}" + (f"  {job.seconds:.1f} s" if job.seconds is not None else ""))
