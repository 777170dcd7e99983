"""The commands' names, arguments and help. What they do is in the module of each command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_bench import __version__
from trace_bench.artifacts.secrets import known, secrets_in
from trace_bench.cli.app_results import results_commands
from trace_bench.cli.options import (
    RUNS,
    BackendName,
    Base,
    DataRoot,
    Families,
    JobArgument,
    Json,
    PlacesOf,
    Roots,
    RunArgument,
    RunsDir,
    Verbose,
    Where,
)
from trace_bench.cli.usage import InOrder, limit_in_seconds, plain, sentence, whole_number
from trace_bench.errors import ConfigError, ExitCode

UNWRAPPED = 100_000
"""Columns of help that goes into a pipe or a file."""

app = typer.Typer(
    name="trace-bench",
    cls=InOrder,
    help="Measure LLM-driven optimizers: isolated jobs, scores that cannot be forged, runs that can be repeated.",
    epilog="Example: trace-bench run --config configs/smoke.yaml",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
images_app = typer.Typer(
    short_help="Build, check, push and pull the images that jobs run in.",
    help="The images that jobs run in: one per family, built from pinned recipes.",
    epilog="Example: trace-bench images build core llm4ad",
)
app.add_typer(images_app, name="images")
llm_app = typer.Typer(
    short_help="Look at the LLM calls of a run, or of one job.",
    help="The LLM calls of a run as its cassettes have them, and the response cache.",
    epilog="Example: trace-bench llm ls latest",
)
app.add_typer(llm_app, name="llm")
new_app = typer.Typer(
    short_help="Make the folder of a new task.",
    help="Folders to start from.",
    epilog="Example: trace-bench new task my_task",
)
app.add_typer(new_app, name="new")

# typer depended on click and now brings a copy of its own; in both, this is the base of every mistake in arguments.
_UsageError: Any = typer.BadParameter.__base__


def run_app() -> int:
    """Do what the command line says; returns the exit code.

    Raises:
        TraceBenchError: with its own exit code; a `ConfigError` for a mistake in the arguments.
    """
    # Whatever a command prints, or writes for others to read, holds no secret of this environment.
    known.add(secrets_in(os.environ))
    wide = {} if sys.stdout.isatty() else {"terminal_width": UNWRAPPED, "max_content_width": UNWRAPPED}
    try:
        code = app(prog_name="trace-bench", standalone_mode=False, **wide)
    except _UsageError as error:
        raise ConfigError(sentence(error)) from error
    if code == ExitCode.INTERRUPTED:  # what typer makes of a KeyboardInterrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else int(ExitCode.OK)


def _help_without_command(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(int(ExitCode.USAGE))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trace-bench {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    _help_without_command(ctx)


@images_app.callback(invoke_without_command=True)
def _images(ctx: typer.Context) -> None:
    _help_without_command(ctx)


@llm_app.callback(invoke_without_command=True)
def _llm(ctx: typer.Context) -> None:
    _help_without_command(ctx)


@new_app.callback(invoke_without_command=True)
def _new(ctx: typer.Context) -> None:
    _help_without_command(ctx)


@app.command(epilog="Example: trace-bench run --config configs/smoke.yaml")
def run(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="YAML or JSON; a shipped one by its file name."),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Answer every call as RUN recorded it; --config is that run's if not given."),
    ] = None,
    root: Roots = None,
    data_root: DataRoot = None,
    runs_dir: Annotated[
        str | None, typer.Option("--runs-dir", "--output-dir", metavar="FOLDER", help="Where runs are written.")
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run; an unfinished one is continued.")
    ] = None,
    max_workers: Annotated[
        int | None,
        typer.Option("--max-workers", "--n-concurrent", metavar="NUMBER", parser=whole_number, help="Jobs at a time."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="WHAT", help="auto, failed (only what has failed) or none (run all again).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run every job again: --resume none.")] = False,
    job_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", parser=limit_in_seconds, help="Limit of one job's training; 0 is none."),
    ] = None,
    logger: Annotated[str | None, typer.Option(metavar="NAME", help="Logger of all trainers, or none.")] = None,
    backend: BackendName = None,
    mirror: Annotated[
        list[str] | None, typer.Option("--mirror", metavar="NAME", help="Copy the run as it goes on: mlflow.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run, and run nothing.")] = False,
    no_build: Annotated[bool, typer.Option("--no-build", help="Fail where an image is missing.")] = False,
    accept_drift: Annotated[
        bool, typer.Option("--accept-drift", help="Use locked images although their recipe has changed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line per event.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Run every job of a config and print the leaderboard."""
    from trace_bench.cli.run import Shown, run_command

    if config is None and replay is None:
        raise ConfigError("Missing option '--config' / '-c'; see trace-bench run --help")
    shown = Shown(as_json, quiet, verbose)
    if force and resume not in (None, "none"):
        raise ConfigError(f"--force runs every job again, and --resume {resume} does not; give one of them")
    given: dict[str, object] = {
        "runs_dir": runs_dir,
        "data_root": data_root,
        "run_id": run_id,
        "max_workers": max_workers,
        "backend": backend,
        "resume": "none" if force else resume,
        "job_timeout": job_timeout or None,
        "logger": logger,
        "mirror": mirror or None,
    }
    overrides = {key: value for key, value in given.items() if value is not None}
    if job_timeout == 0:
        overrides["job_timeout"] = None
    code = run_command(
        config,
        overrides,
        replay=replay,
        roots=root or [],
        build=not no_build,
        accept_drift=accept_drift,
        only_plan=dry_run,
        shown=shown,
    )
    raise typer.Exit(code)


@app.command(
    short_help="Check a config and build its problems; nothing is trained.",
    epilog="Example: trace-bench validate --config configs/smoke.yaml --strict",
)
def validate(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="YAML or JSON; a shipped one by its file name.")
    ],
    root: Roots = None,
    data_root: DataRoot = None,
    bench: Annotated[
        str | None, typer.Option(metavar="SUITES", help="Only tasks of these suites, with commas or plus signs.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Trainable parameters too; print every job and write the manifest.")
    ] = False,
    runs_dir: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where --strict writes the manifest.")] = None,
    backend: BackendName = None,
    no_build: Annotated[bool, typer.Option("--no-build", help="Fail where an image is missing.")] = False,
    max_workers: Annotated[
        int | None, typer.Option(metavar="NUMBER", parser=whole_number, help="Problems built at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a config and build its problems, without training, scoring or asking a model."""
    from trace_bench.cli.validate import validate_command

    overrides: dict[str, object] = {
        "runs_dir": runs_dir, "data_root": data_root, "max_workers": max_workers, "backend": backend,
    }  # fmt: skip
    code = validate_command(
        config,
        {key: value for key, value in overrides.items() if value is not None},
        roots=root or [],
        bench=bench,
        strict=strict,
        build=not no_build,
        as_json=as_json,
    )
    raise typer.Exit(code)


@app.command("list-tasks", epilog="Example: trace-bench list-tasks --bench llm4ad 'llm4ad:tag=routing'")
def list_tasks(
    selectors: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK]...", help="Only these, as in a config: llm4ad:optimization/*, llm4ad:tag=NAME."),
    ] = None,
    root: Roots = None,
    bench: Annotated[
        str | None, typer.Option(metavar="SUITES", help="Suites, with commas or plus signs between them.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the ids of all tasks, one a line."""
    from trace_bench.cli.listing import tasks_command

    tasks_command(root or [], bench, selectors or [], as_json=as_json)


@app.command("check-task", epilog="Example: trace-bench check-task --root my-tasks llm4ad:my_task")
def check_task(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="Ids, patterns or tags, as in a config.")],
    root: Roots = None,
    data_root: DataRoot = None,
    backend: BackendName = None,
    no_build: Annotated[bool, typer.Option("--no-build", help="Fail where an image is missing.")] = False,
    max_workers: Annotated[
        int | None, typer.Option(metavar="NUMBER", parser=whole_number, help="Tasks checked at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the programs that come with tasks; say what they score."""
    from trace_bench.cli.check_task import check_task_command

    overrides = {"data_root": data_root, "backend": backend, "max_workers": max_workers}
    raise typer.Exit(check_task_command(tasks, overrides, roots=root or [], build=not no_build, as_json=as_json))


@new_app.command("task", epilog="Example: trace-bench new task my_group/my_task --root my-tasks")
def new_task(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the task, and of the function that a program defines.")
    ],
    root: Annotated[Path, typer.Option(metavar="FOLDER", help="Where task folders lie.")] = Path("tasks"),
    interaction: Annotated[str, typer.Option(metavar="KIND", help="solve, or policy.")] = "solve",
) -> None:
    """Make the folder of a new task: one that works, to be changed."""
    from trace_bench.cli.check_task import new_task_command

    new_task_command(name, root, interaction)


@app.command("list-trainers", epilog="Example: trace-bench list-trainers --all")
def list_trainers(
    names: Annotated[
        list[str] | None, typer.Argument(help="Trainers to be shown with all of their parameters.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Unavailable ones too, with the reason.")] = False,
    as_json: Json = False,
) -> None:
    """Print the trainers, one a line, or all about some."""
    from trace_bench.cli.listing import trainers_command

    trainers_command(names or [], every=every, as_json=as_json)


@app.command(epilog="Example: trace-bench schema results")
def schema(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A schema; all names if none is given.")] = None,
) -> None:
    """Print the JSON Schema of a file of a run."""
    from trace_bench.cli.listing import schema_command

    schema_command(name)


@app.command(epilog="Example: trace-bench doctor")
def doctor(
    conformance: Annotated[
        bool, typer.Option("--conformance", help="Run the checks that every backend passes, on one of them.")
    ] = False,
    backend: Where = "auto",
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Check the hosts, or Modal, as FILE has them.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="REF", help="An image with a python3; without it, that of core.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="TEXT", help="Checks with TEXT in their name.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine has and lacks."""
    if conformance:
        from trace_bench.cli.conformance import conformance_command

        raise typer.Exit(conformance_command(backend=backend, config=config, image=image, only=only, as_json=as_json))
    if image or only:
        raise ConfigError("--image and --only go with --conformance; add it, or leave them out.")
    from trace_bench.cli.doctor import doctor_command

    raise typer.Exit(doctor_command(backend, config, as_json=as_json))


@app.command(epilog="Example: trace-bench clean --run 20260101-120000-0123abcd")
def clean(
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only the sandboxes of this run.")] = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="Only those that have ended; run may still adopt the others.")
    ] = False,
    runs_dir: RunsDir = RUNS,
    backend: Where = "auto",
    config: PlacesOf = None,
    as_json: Json = False,
) -> None:
    """Remove sandboxes that controllers of yours left behind. Live ones are not touched."""
    from trace_bench.cli.clean import clean_command

    clean_command(run_id, runs_dir, backend, config, expired=expired, as_json=as_json)


@app.command(epilog="Example: trace-bench ls --runs-dir runs")
def ls(runs_dir: RunsDir = RUNS, as_json: Json = False) -> None:
    """Print the runs, one a line: running ones, then the newest."""
    from trace_bench.cli.ls import ls_command

    ls_command(runs_dir, as_json=as_json)


@app.command(
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


@app.command(
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


@app.command(epilog="Example: trace-bench ps")
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


@app.command(epilog="Example: trace-bench attach latest")
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


@app.command(epilog="Example: trace-bench cancel latest")
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


@images_app.command("build", epilog="Example: trace-bench images build core llm4ad")
def images_build(
    families: Families = None,
    base: Base = None,
    opentrace: Annotated[
        str | None,
        typer.Option(
            "--opentrace",
            metavar="PATH",
            help="A checkout or wheel of OpenTrace: FAMILY+opentrace is built too. Default: $OPENTRACE.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build images and lock them."""
    from trace_bench.cli.images import build_command

    build_command(families or [], base, opentrace, as_json=as_json)


@images_app.command(
    "list",
    short_help="Print the families, what is locked, and what has drifted.",
    epilog="Example: trace-bench images list",
)
def images_list(as_json: Json = False) -> None:
    """Print the families, what is locked for each, and whether it has drifted."""
    from trace_bench.cli.images import list_command

    list_command(as_json=as_json)


@images_app.command("verify", epilog="Example: trace-bench images verify core")
def images_verify(families: Families = None, as_json: Json = False) -> None:
    """Check that lock, recipe and engine agree."""
    from trace_bench.cli.images import verify_command

    verify_command(families or [], as_json=as_json)


@images_app.command("lock", epilog="Example: trace-bench images lock")
def images_lock() -> None:
    """Print the lock as JSON."""
    from trace_bench.cli.images import lock_command

    lock_command()


@images_app.command("push", epilog="Example: trace-bench images push core --registry 127.0.0.1:5000")
def images_push(
    registry: Annotated[str, typer.Option("--registry", metavar="HOST[:PORT][/PREFIX]", help="Where to.")],
    families: Families = None,
    as_json: Json = False,
) -> None:
    """Push images; from then on they run by the registry's digest."""
    from trace_bench.cli.images import push_command

    push_command(families or [], registry, as_json=as_json)


@images_app.command("pull", epilog="Example: trace-bench images pull 127.0.0.1:5000/trace-bench/core@sha256:…")
def images_pull(
    references: Annotated[
        list[str], typer.Argument(metavar="REPOSITORY@sha256:DIGEST", help="Images that `images push` made.")
    ],
    as_json: Json = False,
) -> None:
    """Pull images by digest and lock them."""
    from trace_bench.cli.images import pull_command

    pull_command(references, as_json=as_json)


app.registered_commands += results_commands.registered_commands
plain(app, images_app, llm_app, new_app)
