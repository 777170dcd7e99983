"""Declares the commands on tasks, trainers and what they are made of; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli import complete
from trace_bench.cli.options import BackendName, DataRoot, Json, Roots
from trace_bench.cli.usage import folders, help_without_command, whole_number

tasks_commands = typer.Typer()
new_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    short_help="Make a config, a task or a trainer to start from.",
    help="Make a config, a task or a trainer that works, to be changed piece by piece.",
    epilog="Example: trace-bench new config",
)

Suites = Annotated[str | None, typer.Option(metavar="SUITES", help="Only tasks of these suites, with commas between.")]


@new_app.callback(invoke_without_command=True)
def _new(ctx: typer.Context) -> None:
    help_without_command(ctx)


# ---------------------------------------------------------------------------------------------- tasks and trainers


@tasks_commands.command(epilog="Example: trace-bench tasks packing --tag online")
def tasks(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATTERN",
            help="Only tasks with this in id or title, or as a config selects them: llm4ad:tag=NAME, 'llm4ad:tsp*'.",
            autocompletion=complete.tasks,
        ),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Only tasks with this tag.")] = None,
    root: Roots = None,
    bench: Suites = None,
    as_json: Json = False,
) -> None:
    """List tasks with titles, tags and what they ask for."""
    from trace_bench.cli.listing import tasks_command

    tasks_command(patterns or [], tags=tag or [], roots=root or [], bench=bench, as_json=as_json)


@tasks_commands.command(
    "list-tasks", hidden=True, epilog="Example: trace-bench list-tasks --bench llm4ad 'llm4ad:tag=routing'"
)
def list_tasks(
    selectors: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK", help="Only these, as in a config: llm4ad:optimization/*, llm4ad:tag=NAME."),
    ] = None,
    root: Roots = None,
    bench: Suites = None,
    as_json: Json = False,
) -> None:
    """Print the ids of all tasks, one a line; see tasks."""
    from trace_bench.cli.listing import task_ids_command

    task_ids_command(root or [], bench, selectors or [], as_json=as_json)


@tasks_commands.command(epilog="Example: trace-bench trainers PrioritySearch")
def trainers(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TRAINER", help="Show these with all of their parameters.", autocompletion=complete.trainers
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List other names and unavailable trainers too.")] = False,
    as_json: Json = False,
) -> None:
    """List trainers with what they do, or show all about some."""
    from trace_bench.cli.listing import trainers_command

    trainers_command(names or [], every=every, as_json=as_json)


@tasks_commands.command("list-trainers", hidden=True, epilog="Example: trace-bench list-trainers --all")
def list_trainers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TRAINER", help="Trainers to be shown with their parameters.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Unavailable ones too, with the reason.")] = False,
    as_json: Json = False,
) -> None:
    """Print the trainers, one a line, or all about some; see trainers."""
    from trace_bench.cli.listing import trainer_ids_command

    trainer_ids_command(names or [], every=every, as_json=as_json)


@tasks_commands.command("check-task", epilog="Example: trace-bench check-task --root my-tasks llm4ad:my_task")
def check_task(
    tasks: Annotated[
        list[str],
        typer.Argument(metavar="TASK...", help="Ids, patterns or tags, as in a config.", autocompletion=complete.tasks),
    ],
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


@tasks_commands.command("kernel-server", epilog="Example: trace-bench kernel-server --port 6000")
def kernel_server(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="NUMBER", parser=whole_number, help="Of the address; 0 takes a free one.")
    ] = 6000,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the token that each request must bear.")
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            "--root", metavar="FOLDER", callback=folders, help="Take only the problems of this copy of KernelBench."
        ),
    ] = None,
    queue: Annotated[int, typer.Option(metavar="NUMBER", parser=whole_number, help="Evaluations that may wait.")] = 64,
    runs_dir: Annotated[
        Path | None, typer.Option("--runs-dir", metavar="FOLDER", help="Keep each evaluation as a run there.")
    ] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Score on this machine's GPUs, one kernel at a time on each.")
    ] = False,
    no_build: Annotated[bool, typer.Option("--no-build", help="Fail where the image is missing.")] = False,
) -> None:
    """Score kernels that come over HTTP, each in a sandbox."""
    from trace_bench.cli.kernel_server import kernel_server_command

    kernel_server_command(
        host,
        port,
        token_file=token_file,
        roots=root or [],
        queue=queue,
        runs_dir=runs_dir,
        gpu=gpu,
        build=not no_build,
    )


# ------------------------------------------------------------------------------------------------------------- new


@new_app.command("config", epilog="Example: trace-bench new config compare.yaml")
def new_config(
    name: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("trace-bench.yaml"),
) -> None:
    """Write a commented config that runs at once, without a key."""
    from trace_bench.cli.new import new_config_command

    new_config_command(name)


@new_app.command("task", epilog="Example: trace-bench new task my_group/my_task --root my-tasks")
def new_task(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the task, and of the function that a program defines.")
    ],
    root: Annotated[Path, typer.Option(metavar="FOLDER", help="Where task folders lie.")] = Path("tasks"),
    interaction: Annotated[str, typer.Option(metavar="KIND", help="solve, or policy.")] = "solve",
) -> None:
    """Make the folder of a task that works."""
    from trace_bench.cli.new import new_task_command

    new_task_command(name, root, interaction)


@new_app.command("tasks", epilog="Example: trace-bench new tasks veribench veribench.parquet --root veribench-tasks")
def new_tasks(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="The suite whose data it is: veribench.")],
    source: Annotated[Path, typer.Argument(metavar="PATH", help="The data: a file, or a folder with files.")],
    root: Annotated[Path, typer.Option(metavar="FOLDER", help="Where task folders are made.")] = Path("tasks"),
) -> None:
    """Make task folders of a published data set on disk."""
    from trace_bench.cli.new import new_tasks_command

    new_tasks_command(suite, source, root)


@new_app.command("trainer", epilog="Example: trace-bench new trainer MySearch")
def new_trainer(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the trainer, and of its class, such as MySearch.")],
    root: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the package's folder is made.")] = Path(),
) -> None:
    """Make the package of a trainer that asks a model and works."""
    from trace_bench.cli.new import new_trainer_command

    new_trainer_command(name, root)


tasks_commands.add_typer(new_app, name="new")


# ---------------------------------------------------------------------------------------------------------- schema


@tasks_commands.command(epilog="Example: trace-bench schema results")
def schema(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A schema; all names if none is given.")] = None,
) -> None:
    """Print the JSON Schema of a file of a run."""
    from trace_bench.cli.listing import schema_command

    schema_command(name)
