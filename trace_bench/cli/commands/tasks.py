"""``tasks``: lists tasks with what is known of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.arguments import hint
from trace_bench.cli import complete
from trace_bench.cli.listing import tasks_of
from trace_bench.cli.options import Json, Roots, Suites
from trace_bench.display.console import emit_json, emit_rows
from trace_bench.display.table import Table
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.suites.registry import TaskEntry


def tasks(
    patterns: Annotated[
        list[str] | None,
        Argument(
            metavar="PATTERN",
            help="Only tasks with this in id or title, or as a config selects them: llm4ad:tag=NAME, 'llm4ad:tsp*'.",
            autocompletion=complete.tasks,
        ),
    ] = None,
    tag: Annotated[list[str] | None, Option("--tag", metavar="TAG", help="List only tasks with this tag.")] = None,
    root: Roots = None,
    bench: Suites = None,
    as_json: Json = False,
) -> None:
    """List tasks with titles, tags and what they ask for.

    Example: trace-bench tasks packing --tag online
    """
    listed = [_described(entry) for entry in tasks_of(bench, root or [])]
    rows = listed
    for pattern in patterns or ():
        if not any(_fits(row, pattern) for row in listed):
            raise ConfigError(f"no task has {pattern!r} in its id or title{_near(pattern, listed)}")
    if patterns:
        rows = [row for row in rows if any(_fits(row, pattern) for pattern in patterns)]
    if tag:
        known = {each for row in listed for each in row["tags"]}
        for each in tag:
            if each not in known:
                raise ConfigError(f"--tag {each}: no task has this tag{hint(each, known)}")
        rows = [row for row in rows if set(tag) & set(row["tags"])]
    if as_json:
        emit_json(rows)
        return
    emit_rows(
        Table.of(
            ("task", "title", "tags", "what it asks for"),
            [(row["id"], row["title"], ",".join(row["tags"]), row["summary"]) for row in rows],
            shrink={"what it asks for": 24, "title": 20},
            drop=("what it asks for", "tags"),
        )
    )


def _described(entry: TaskEntry) -> dict[str, Any]:
    """The description of a task from `task.toml`. If it cannot be read, the reason is the task's summary."""
    from trace_bench.suites.spec import load_task_spec

    row: dict[str, Any] = {"id": entry.id, "suite": entry.suite, "folder": str(entry.folder)}
    try:
        spec = load_task_spec(entry.folder)
    except ConfigError as error:
        return {**row, "title": "", "tags": [], "summary": f"broken: {error}", "direction": None}
    direction = spec.score.direction
    return {
        **row, "title": spec.title, "tags": list(spec.tags), "summary": _first_sentence(spec.statement),
        "direction": direction,
    }  # fmt: skip


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?:])\s", paragraph, maxsplit=1)[0]


def _fits(row: Mapping[str, Any], pattern: str) -> bool:
    """Whether `pattern` is in the id or the title of a task, or selects it as a config does."""
    from trace_bench.config.selectors import ALL, TAG
    from trace_bench.suites.registry import normalise_id

    suite, _, name = normalise_id(pattern).partition(":")
    if ":" in pattern and (name == ALL or name.startswith(TAG)):
        return bool(suite == row["suite"] and (name == ALL or name.removeprefix(TAG) in row["tags"]))
    if any(c in pattern for c in "*?["):
        return fnmatchcase(row["id"], pattern) or fnmatchcase(row["id"].partition(":")[2], pattern)
    return pattern.lower() in row["id"].lower() or pattern.lower() in row["title"].lower()


def _near(pattern: str, rows: Sequence[Mapping[str, Any]]) -> str:
    words = {word for row in rows for word in re.split(r"[:/\s]+", f"{row['id']} {row['title'].lower()}")}
    near = hint(pattern, words)
    return near if "did you mean" in near else "; 'trace-bench tasks' lists all of them"
