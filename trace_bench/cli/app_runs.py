"""Declares the commands that look at runs and end them; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, JobArgument, Json, PlacesOf, RunArgument, RunsDir, Verbose, Where
from trace_bench.cli.usage import help_without_command, whole_number

runs_commands = typer.Typer()
llm_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    short_help="Look at the LLM calls of a run, or of one job.",
    help="The LLM calls of a run as its cassettes have them, and the response cache.",
    epilog="Example: trace-bench llm ls latest",
)


@llm_app.callback(invoke_without_command=True)
def _llm(ctx: typer.Context) -> None:
    help_without_command(ctx)


@runs_commands.command(epilog="Example: trace-bench ls --runs-dir runs")
def ls(runs_dir: RunsDir = RUNS, as_json: Json = False) -> None:
    """Print the runs, one a line: running ones, then the newest."""
    from trace_bench.cli.ls import ls_command

    ls_command(runs_dir, as_json=as_json)


@runs_commands.command(
    short_help="Print a run with its jobs and leaderboard, or one job.",
    epilog="Example: trace-bench show latest --status failed",
)
def show(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    every: Annotated[bool, typer.Option("--all", help="All jobs; of a job, all of its change.")] = False,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS,...", help="Only jobs in these states.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a run with its jobs and leaderboard, or all about one job."""
    from trace_bench.cli.show import show_command

    show_command(run, job, runs_dir, every=every, status=status, as_json=as_json)


@runs_commands.command(
    short_help="Print the journal of a run, or the output of a job.", epilog="Example: trace-bench logs latest --follow"
)
def logs(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run, or the job, has ended.")] = False,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", metavar="NUMBER", parser=whole_number, help="Begin with the last lines only."),
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="The job's events instead of its output.")] = False,
    as_json: Json = False,
) -> None:
    """Print the journal of a run, or the output of one of its jobs."""
    from trace_bench.cli.logs import logs_command

    logs_command(run, job, runs_dir, follow=follow, lines=lines, events=events, as_json=as_json)


@runs_commands.command(epilog="Example: trace-bench ps")
def ps(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only sandboxes of this run, on the hosts it was started on.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    backend: Where = "auto",
    config: PlacesOf = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again every two seconds, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Print the sandboxes of yours that exist now."""
    from trace_bench.cli.ps import ps_command

    ps_command(run, runs_dir, backend, config, watch=watch, as_json=as_json)


@runs_commands.command(epilog="Example: trace-bench attach latest")
def attach(
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line per event.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Watch a run of another terminal until it has ended. Ctrl-C leaves it alone."""
    from trace_bench.cli.attach import attach_command
    from trace_bench.cli.run import Shown

    raise typer.Exit(attach_command(run, runs_dir, Shown(as_json, quiet, verbose)))


@runs_commands.command(epilog="Example: trace-bench cancel latest")
def cancel(
    run: RunArgument,
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="JOB", help="Only these jobs, by id or its beginning.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    config: PlacesOf = None,
    kill: Annotated[bool, typer.Option("--kill", help="At once, rather than in order.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask, and return.")] = False,
    as_json: Json = False,
) -> None:
    """End a run, or some of its jobs. What has finished is kept, and the run can be continued."""
    from trace_bench.cli.cancel import cancel_command

    cancel_command(run, jobs or [], runs_dir, config, kill=kill, wait=not no_wait, as_json=as_json)


@llm_app.command("ls", epilog="Example: trace-bench llm ls latest --failed")
def llm_ls(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="PHASE", help="Only calls of this phase: train or score.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only calls whose status is not 200.")] = False,
    as_json: Json = False,
) -> None:
    """Print the calls of a run or a job, and their totals."""
    from trace_bench.cli.llm import ls_command

    ls_command(run, job, runs_dir, phase=phase, failed=failed, as_json=as_json)


@llm_app.command("show", epilog="Example: trace-bench llm show latest 0123 7 --full")
def llm_show(
    run: RunArgument,
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id or the beginning of it.")],
    n: Annotated[
        int | None,
        typer.Argument(metavar="N", parser=whole_number, help="Number of the call in the job; all if none is given."),
    ] = None,
    runs_dir: RunsDir = RUNS,
    full: Annotated[bool, typer.Option("--full", help="All of every text.")] = False,
    as_json: Json = False,
) -> None:
    """Print what was asked and answered in a job's calls."""
    from trace_bench.cli.llm import show_command

    show_command(run, job, n, runs_dir, full=full, as_json=as_json)


@llm_app.command("cache", epilog="Example: trace-bench llm cache --clear")
def llm_cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove them all.")] = False, as_json: Json = False
) -> None:
    """Say how many answers are kept beyond their runs."""
    from trace_bench.cli.llm import cache_command

    cache_command(clear=clear, as_json=as_json)


runs_commands.add_typer(llm_app, name="llm")
