"""Make a config, a task or a trainer that works, to be changed piece by piece.

Example: trace-bench new config
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.display.console import emit, note
from trace_bench.errors import ConfigError


def config(
    name: Annotated[Path, Argument(metavar="FILE", help="The file to write.")] = Path("trace-bench.yaml"),
) -> None:
    """Write a commented config that runs at once, without a key.

    Example: trace-bench new config compare.yaml
    """
    from trace_bench.cli.new import new_config

    if name.suffix not in (".yaml", ".yml"):
        name = name.with_name(f"{name.name}.yaml")
    emit(str(new_config(name)))
    note(f"run it with: trace-bench run {shlex.quote(str(name))}")


def task(  # long, as a command declares its options in its signature
    name: Annotated[str, Argument(metavar="NAME", help="Of the task, and of the function that a program defines.")],
    root: Annotated[Path, Option(metavar="FOLDER", help="Make the task's folder in this one.")] = Path("tasks"),
    prompt: Annotated[
        Path | None,
        Option(metavar="FILE", help="Optimize a prompt on the labelled examples in this file (.csv or .jsonl)."),
    ] = None,
    input_: Annotated[
        str | None, Option("--input", metavar="COLUMN", help="Take inputs of examples from it (question).")
    ] = None,
    target: Annotated[str | None, Option(metavar="COLUMN", help="Take right answers from it (answer).")] = None,
    options: Annotated[
        str | None,
        Option(metavar="COLUMNS", help="Take options from it: one column with lists, or a column for each (A,B,C)."),
    ] = None,
    metric: Annotated[
        str | None,
        Option(
            metavar="METRIC",
            help="Judge answers by it: exact (the default), contains, f1, number, choice, judge (a model).",
        ),
    ] = None,
    seed: Annotated[
        int | None, Option(metavar="N", help="Deal examples to training, validation and test by it (0).")
    ] = None,
    function: Annotated[
        str | None,
        Option(
            metavar="FILE:NAME",
            help="Score programs by this Python function: NAME(program) or NAME(program, seed). program(...) calls the "
            "candidate in its own process. NAME returns a number, or a number and a text.",
        ),
    ] = None,
    program: Annotated[
        Path | None, Option(metavar="FILE", help="With --function: start the search from this program.")
    ] = None,
    direction: Annotated[
        str | None, Option(metavar="WAY", help="With --function: maximize (the default) or minimize the score.")
    ] = None,
    interaction: Annotated[
        str | None, Option(metavar="KIND", help="Without both: have programs solve, or be a policy.")
    ] = None,
) -> None:
    """Make the folder of a task that works.

    Example: trace-bench new task my_prompt --prompt examples.csv
    """
    from trace_bench.cli import new

    if prompt is not None and function is not None:
        raise ConfigError("--prompt and --function make different tasks; give one of them")
    if interaction is not None and (prompt is not None or function is not None):
        raise ConfigError("--interaction: leave it out with --prompt and --function")
    of_prompt = {"--input": input_, "--target": target, "--options": options, "--metric": metric, "--seed": seed}
    of_function = {"--program": program, "--direction": direction}
    folder = f"--root {shlex.quote(str(root))}"
    remedy = f"run it with: trace-bench run {folder} -t internal:{name}"
    if prompt is not None:
        from trace_bench.suites.base import Columns

        _refuse(of_function, "add --function FILE:NAME in place of --prompt")
        given = tuple(column.strip() for column in (options or "").split(",") if column.strip())
        columns = Columns(input_ or "question", target or "answer", given)
        written = new.new_prompt_task(name, root, prompt, columns, metric=metric or "exact", seed=seed or 0)
    elif function is not None:
        _refuse(of_prompt, "add --prompt FILE in place of --function")
        written = new.new_function_task(name, root, function, program, direction or "maximize")
    else:
        _refuse(of_prompt, "add --prompt FILE")
        _refuse(of_function, "add --function FILE:NAME")
        written = new.new_task(name, root, interaction or "solve")
        remedy = f"check it with: trace-bench check-task {folder} llm4ad:{name}"
    for path in written:
        emit(str(path))
    note(remedy)


def _refuse(options: Mapping[str, object], remedy: str) -> None:
    """Raise ConfigError for an option that goes with another kind of task."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"{name}: is for another kind of task; {remedy}, or leave it out")


def tasks(
    suite: Annotated[str, Argument(metavar="SUITE", help="The suite whose data it is: veribench or hf.")],
    source: Annotated[Path, Argument(metavar="PATH", help="The data: a file, or a folder with files.")],
    root: Annotated[Path, Option(metavar="FOLDER", help="Make the tasks' folders in this one.")] = Path("tasks"),
) -> None:
    """Make task folders of a published data set on disk.

    Example: trace-bench new tasks veribench veribench.parquet --root veribench-tasks
    """
    from trace_bench.cli.new import new_tasks

    made = new_tasks(suite, source, root)
    for name in made.folders:
        emit(str(root / name))
    for name, reason in made.left_out.items():
        note(f"left out: {name}: {reason}")
    note(f"{len(made.folders)} tasks made, {len(made.left_out)} rows left out")
    if made.folders:
        note(f"use them with: --root {shlex.quote(str(root))}")


def trainer(
    name: Annotated[str, Argument(metavar="NAME", help="Of the trainer, and of its class, such as MySearch.")],
    root: Annotated[Path, Option(metavar="FOLDER", help="Make the package's folder in this one.")] = Path(),
) -> None:
    """Make the package of a trainer that asks a model and works.

    Example: trace-bench new trainer MySearch
    """
    from trace_bench.cli.new import new_trainer

    written = new_trainer(name, root)
    for path in written:
        emit(str(path))
    folder = shlex.quote(str(written[0].parent))
    note(f"try it with: pip install -e {folder} && trace-bench run {folder}/try.yaml")


COMMANDS = (config, task, tasks, trainer)
