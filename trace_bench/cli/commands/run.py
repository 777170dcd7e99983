"""``run``: runs tasks with trainers."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli import collect_garbage, complete
from trace_bench.cli.options import (
    AcceptDrift,
    BackendOption,
    ConfigArgument,
    ConfigOption,
    DataRoot,
    JsonLines,
    NoBuild,
    Quiet,
    Roots,
    Verbose,
    given,
    limit_in_seconds,
    one_config,
    seed_list,
    whole_number,
)
from trace_bench.errors import ConfigError, ExitCode

Tasks = Annotated[
    list[str] | None,
    Option(
        "--task",
        "-t",
        metavar="TASK",
        help="Run this task, or all that a pattern or tag selects; can be repeated.",
        autocompletion=complete.tasks,
    ),
]
Trainers = Annotated[
    list[str] | None,
    Option(
        "--trainer",
        "-T",
        metavar="TRAINER",
        help="Run this trainer; can be repeated.",
        autocompletion=complete.trainers,
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Ask this model, such as openai/gpt-4o-mini, or stub.",
        autocompletion=complete.models,
    ),
]
Params = Annotated[
    list[str] | None,
    Option(
        "--param",
        "-p",
        metavar="KEY=VALUE",
        help="Set a parameter of all trainers, or TRAINER.KEY.",
        autocompletion=complete.params,
    ),
]
Budget = Annotated[
    str | None,
    Option(
        metavar="KIND=NUMBER,...",
        help="Limit what a job spends: evaluations=200,calls=60,tokens=,usd=,seconds=; none is no limit.",
    ),
]
Seeds = Annotated[str | None, Option("--seeds", metavar="SEEDS", help="Use 5 seeds (5), or exactly these (1,2,7).")]
Replay = Annotated[
    str | None, Option(metavar="RUN", help="Answer every call as RUN recorded it; without CONFIG, with RUN's own.")
]
ReplayServices = Annotated[
    bool, Option("--replay-services", help="With --replay, replay what the host did for jobs too, such as trials.")
]
OutputDir = Annotated[str | None, Option("--runs-dir", metavar="FOLDER", help="Write runs to this folder.")]
RunId = Annotated[str | None, Option(metavar="NAME", help="Name the run; an unfinished one is continued.")]
MaxWorkers = Annotated[
    int | None,
    Option("--max-workers", metavar="NUMBER", parser=whole_number, help="Run this many jobs at a time."),
]
Resume = Annotated[
    str | None, Option(metavar="WHAT", help="Continue: auto, failed (run what has failed) or none (run all again).")
]
Timeout = Annotated[
    float | None, Option(metavar="SECONDS", parser=limit_in_seconds, help="Limit one job's training; 0 is no limit.")
]
Mirrors = Annotated[list[str] | None, Option("--mirror", metavar="NAME", help="Copy each job at its end: mlflow.")]


def run(  # long, as it has many options
    config: ConfigArgument = None,
    config_option: ConfigOption = None,
    task: Tasks = None,
    trainer: Trainers = None,
    model: Models = None,
    seeds: Seeds = None,
    param: Params = None,
    budget: Budget = None,
    replay: Replay = None,
    replay_services: ReplayServices = False,
    root: Roots = None,
    data_root: DataRoot = None,
    runs_dir: OutputDir = None,
    run_id: RunId = None,
    max_workers: MaxWorkers = None,
    resume: Resume = None,
    force: Annotated[bool, Option("--force", help="Run every job again: --resume none.")] = False,
    job_timeout: Timeout = None,
    logger: Annotated[str | None, Option(metavar="NAME", help="Set the logger of all trainers, or none.")] = None,
    backend: BackendOption = None,
    mirror: Mirrors = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be run, and run nothing.")] = False,
    strict: Annotated[
        bool, Option("--strict", help="Refuse to start if a job cannot run here, where it would be skipped.")
    ] = False,
    no_build: NoBuild = False,
    accept_drift: AcceptDrift = False,
    fetch: Annotated[
        bool, Option("--fetch", help="Get published data first that tasks read and are not here.")
    ] = False,
    as_json: JsonLines = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> int:
    """Run tasks with trainers, and print the leaderboard.

    Example: trace-bench run -t llm4ad:circle_packing -T PrioritySearch -T NoOp --seeds 5
    """
    from trace_bench.cli.run import DisplayOptions, errors_of_machine, read_config, run_and_show

    collect_garbage()
    shown = DisplayOptions(as_json, quiet, verbose)
    if force and resume not in (None, "none"):
        raise ConfigError(f"--force runs every job again, and --resume {resume} does not; give one of them")
    overrides = given(
        task=task,
        trainer=trainer,
        model=model,
        seeds=None if seeds is None else seed_list(seeds),
        param=param,
        budget=budget,
        runs_dir=runs_dir,
        data_root=data_root,
        run_id=run_id,
        max_workers=max_workers,
        backend=backend,
        resume="none" if force else resume,
        job_timeout=job_timeout or None,
        logger=logger,
        mirror=mirror,
        replay_services=replay_services or None,
        require_all=strict or None,
    )
    if job_timeout == 0:
        overrides["job_timeout"] = None
    path = one_config(config, config_option)
    whole = read_config(path, overrides, replay=replay, accept_drift=accept_drift)
    if fetch and dry_run:
        raise ConfigError("--fetch gets data, and --dry-run leaves nothing behind; give one of them")
    if fetch:
        from trace_bench.cli.commands.data import fetch_needed

        fetch_needed(whole, root or [])
    if not dry_run:
        return run_and_show(whole, shown, roots=root or [], build=not no_build)
    from trace_bench.cli.plan_page import print_dry_run

    with errors_of_machine(whole):
        print_dry_run(whole, roots=root or [], build=not no_build, say=shown.say, as_json=as_json)
    return int(ExitCode.OK)
