"""The commands' names, arguments and help. What they do is in the module of each command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_bench import __version__
from trace_bench.cli import complete
from trace_bench.cli.app_harbor import harbor_app
from trace_bench.cli.app_images import images_app
from trace_bench.cli.app_results import results_commands
from trace_bench.cli.app_runs import runs_commands
from trace_bench.cli.app_tasks import tasks_commands
from trace_bench.cli.options import (
    RUNS,
    BackendName,
    ConfigArgument,
    ConfigOption,
    DataRoot,
    Json,
    PlacesOf,
    Roots,
    RunsDir,
    TaskOption,
    TrainerOption,
    Verbose,
    Where,
    one_config,
)
from trace_bench.cli.usage import (
    Commands,
    InPanels,
    help_without_command,
    limit_in_seconds,
    seed_list,
    sentence,
    whole_number,
)
from trace_bench.errors import ConfigError, ExitCode
from trace_bench.secrets import known, secrets_in

UNWRAPPED = 100_000
"""Columns of help that goes into a pipe or a file."""

app = typer.Typer(
    name="trace-bench",
    cls=InPanels,
    help="Measure LLM-driven optimizers: isolated jobs, scores that cannot be forged, runs that can be repeated.",
    epilog="Example: trace-bench run smoke.yaml",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
main_commands = typer.Typer()

# typer depended on click and now brings a copy of its own; in both, this is the base of every mistake in arguments.
_UsageError: Any = typer.BadParameter.__base__


def run_app() -> int:
    """Do what the command line says; returns the exit code.

    Raises:
        TraceBenchError: with its own exit code; a `ConfigError` for a mistake in the arguments.
    """
    # Whatever a command prints, or writes for others to read, holds no secret of this environment.
    known.add(secrets_in(os.environ))
    asked = os.environ.get("_TRACE_BENCH_COMPLETE", "")
    if not asked.startswith("complete_"):
        return _answer()
    with complete.without_rich():
        return complete.whole_in_bash(_answer) if asked == "complete_bash" else _answer()


def _answer() -> int:
    wide = {} if sys.stdout.isatty() else {"terminal_width": UNWRAPPED, "max_content_width": UNWRAPPED}
    try:
        code = root_command()(prog_name="trace-bench", standalone_mode=False, **wide)
    except _UsageError as error:
        raise ConfigError(sentence(error)) from error
    if code == ExitCode.INTERRUPTED:  # what typer makes of a KeyboardInterrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else int(ExitCode.OK)


def root_command() -> Any:
    """The whole command line, as typer hands it to its click."""
    root: Any = typer.main.get_command(app)
    root.commands = Commands(main_commands, runs_commands, results_commands, tasks_commands)
    return root


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
    help_without_command(ctx)


@main_commands.command(epilog="Example: trace-bench run -t llm4ad:circle_packing -T PrioritySearch -T NoOp --seeds 5")
def run(
    config: ConfigArgument = None,
    config_option: ConfigOption = None,
    task: TaskOption = None,
    trainer: TrainerOption = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Ask this model, such as openai/gpt-4o-mini, or stub.",
            autocompletion=complete.models,
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="SEEDS", help="Use 5 seeds (5), or exactly these (1,2,7).")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="KEY=VALUE",
            help="Set a parameter of all trainers, or TRAINER.KEY.",
            autocompletion=complete.params,
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Answer every call as RUN recorded it; without CONFIG, with RUN's own."),
    ] = None,
    replay_services: Annotated[
        bool, typer.Option("--replay-services", help="With --replay: also what the host did for jobs, such as trials.")
    ] = False,
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
    """Run tasks with trainers, and print the leaderboard."""
    from trace_bench.cli.run import Shown, run_command

    shown = Shown(as_json, quiet, verbose)
    if force and resume not in (None, "none"):
        raise ConfigError(f"--force runs every job again, and --resume {resume} does not; give one of them")
    given: dict[str, object] = {
        "task": task or None,
        "trainer": trainer or None,
        "model": model or None,
        "seeds": seed_list(seeds) if seeds is not None else None,
        "param": param or None,
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
    if replay_services:
        overrides["replay_services"] = True
    code = run_command(
        one_config(config, config_option),
        overrides,
        replay=replay,
        roots=root or [],
        build=not no_build,
        accept_drift=accept_drift,
        only_plan=dry_run,
        shown=shown,
    )
    raise typer.Exit(code)


@main_commands.command(
    short_help="Check a config and build its problems; nothing is trained.",
    epilog="Example: trace-bench validate smoke.yaml --strict",
)
def validate(
    config: ConfigArgument = None,
    config_option: ConfigOption = None,
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

    path = one_config(config, config_option)
    if path is None:
        raise ConfigError("no config is named; name one, such as trace-bench validate smoke.yaml")
    overrides: dict[str, object] = {
        "runs_dir": runs_dir, "data_root": data_root, "max_workers": max_workers, "backend": backend,
    }  # fmt: skip
    code = validate_command(
        path,
        {key: value for key, value in overrides.items() if value is not None},
        roots=root or [],
        bench=bench,
        strict=strict,
        build=not no_build,
        as_json=as_json,
    )
    raise typer.Exit(code)


@main_commands.command(epilog="Example: trace-bench doctor")
def doctor(
    conformance: Annotated[
        bool, typer.Option("--conformance", help="Run the checks that every backend passes, on one of them.")
    ] = False,
    backend: Where = "auto",
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG", help="Check the hosts, or Modal, as it has them.", autocompletion=complete.configs
        ),
    ] = None,
    config_option: ConfigOption = None,
    image: Annotated[
        str | None, typer.Option(metavar="REF", help="An image with a python3; without it, that of core.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="TEXT", help="Checks with TEXT in their name.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine has and lacks."""
    path = one_config(config, config_option)
    if conformance:
        from trace_bench.cli.conformance import conformance_command

        raise typer.Exit(conformance_command(backend=backend, config=path, image=image, only=only, as_json=as_json))
    if image or only:
        raise ConfigError("--image and --only go with --conformance; add it, or leave them out.")
    from trace_bench.cli.doctor import doctor_command

    raise typer.Exit(doctor_command(backend, path, as_json=as_json))


@main_commands.command(epilog="Example: trace-bench clean --run 20260101-120000-0123abcd")
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


main_commands.add_typer(images_app, name="images")
main_commands.add_typer(harbor_app, name="harbor")
