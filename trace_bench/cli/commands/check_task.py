"""``check-task``: see `trace_bench.cli.check_task`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli import complete
from trace_bench.cli.options import BackendOption, DataRoot, Json, NoBuild, Roots, given, whole_number


def check_task(
    tasks: Annotated[
        list[str],
        Argument(metavar="TASK...", help="Ids, patterns or tags, as in a config.", autocompletion=complete.tasks),
    ],
    root: Roots = None,
    data_root: DataRoot = None,
    backend: BackendOption = None,
    no_build: NoBuild = False,
    max_workers: Annotated[
        int | None, Option(metavar="NUMBER", parser=whole_number, help="Check this many tasks at a time.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Run the programs that come with tasks; say what they score.

    Example: trace-bench check-task --root my-tasks llm4ad:my_task
    """
    from trace_bench.cli.check_task import check_tasks

    overrides = given(data_root=data_root, backend=backend, max_workers=max_workers)
    return check_tasks(tasks, overrides, roots=root or [], build=not no_build, as_json=as_json)
