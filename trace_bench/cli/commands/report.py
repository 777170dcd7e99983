"""``report``: a page, or a Markdown text, that shows the results of runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunsDir
from trace_bench.display.console import emit, emit_json, note
from trace_bench.errors import ConfigError
from trace_bench.secrets import known, secrets_in

if TYPE_CHECKING:
    from trace_bench.artifacts.layout import RunLayout

_ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
_HEAD = 1024


def report(
    runs: Annotated[list[str], Argument(metavar="RUN...", help="Folders or ids of runs, or latest.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write this .html or .md; default: report-RUN.html.")
    ] = None,
    no_audit: Annotated[bool, Option("--no-audit", help="Leave the audit's verdict out.")] = False,
    force: Annotated[bool, Option("--force", help="Write over a file that is no report.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a page with the pictures, tables and diffs of runs.

    Example: trace-bench report latest -o report.html
    """
    from trace_bench.artifacts.writers import write_text
    from trace_bench.audit.verify import audit
    from trace_bench.records.runs import find_run
    from trace_bench.report import Report, markdown, page, read_source
    from trace_bench.report.tables import verdict_sentence

    known.add(secrets_in(os.environ))
    layouts = [find_run(run, runs_dir) for run in runs]
    names = [str(layout.root.resolve()) for layout in layouts]
    if len(set(names)) < len(names):
        raise ConfigError("a run is named twice; name each once")
    path = output or Path(_name(layouts))
    kind = _kind(path)
    _check_place(path, force=force)
    sources = [read_source(layout, audit(layout) if not no_audit else None) for layout in layouts]
    whole = Report.of(sources)
    text = page(whole) if kind == "html" else markdown(whole)
    write_text(path, text, durable=False)
    if as_json:
        emit_json(
            {
                "path": str(path),
                "format": kind,
                "bytes": len(text.encode()),
                "runs": [source.layout.run_id for source in sources],
                "jobs": len(whole.jobs),
                "tasks": len(whole.tasks),
                "ways": len(whole.configurations),
                "audit": {source.layout.run_id: verdict_sentence(source.audit) for source in sources},
                "notes": list(whole.notes),
            }
        )
        return
    emit(str(path))
    for said in whole.notes:
        note(f"not read: {said}")
    for source in sources:
        if any(claim.verdict == "contradicted" for claim in source.claims):
            note(f"{source.name}: the audit contradicts a claim; trace-bench audit {source.name} says which")


def _name(layouts: Sequence[RunLayout]) -> str:
    more = f"-and-{len(layouts) - 1}-more" if len(layouts) > 1 else ""
    return f"report-{layouts[0].run_id}{more}.html"


def _kind(path: Path) -> str:
    kind = _ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(f"{path}: its ending does not say what the report is to be; call it .html or .md")
    return kind


def _check_place(path: Path, *, force: bool) -> None:
    """
    Raises:
        ConfigError: the file cannot be there, or there is one that is no report of ours.
    """
    from trace_bench.records.runs import is_run
    from trace_bench.report import BEGINNING, MARK

    folder = path.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; make it, or choose another with -o")
    if any(is_run(above) for above in (folder, *folder.parents)):
        raise ConfigError(
            f"{path}: it lies in the folder of a run, which holds what the run wrote; choose another place"
        )
    if not path.exists() or force:
        if path.is_dir():
            raise ConfigError(f"{path}: is a folder; name a file")
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; choose another file with -o") from None
    if MARK not in head and not head.startswith(BEGINNING):
        raise ConfigError(f"{path}: is there and no report of ours; choose another file with -o, or say --force")
