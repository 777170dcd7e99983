"""Make a config, a task or a trainer that works, to be changed piece by piece.

Example: trace-bench new config
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.display.console import emit, note


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


def task(
    name: Annotated[str, Argument(metavar="NAME", help="Of the task, and of the function that a program defines.")],
    root: Annotated[Path, Option(metavar="FOLDER", help="Make the task's folder in this one.")] = Path("tasks"),
    interaction: Annotated[str, Option(metavar="KIND", help="Have programs solve, or be a policy.")] = "solve",
) -> None:
    """Make the folder of a task that works.

    Example: trace-bench new task my_group/my_task --root my-tasks
    """
    from trace_bench.cli.new import new_task

    for path in new_task(name, root, interaction):
        emit(str(path))
    note(f"check it with: trace-bench check-task --root {root} llm4ad:{name}")


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
