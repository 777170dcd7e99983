"""Get published data sets that tasks can read, and look at what is there.

Example: trace-bench data fetch co-bench
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import Json
from trace_bench.display.console import emit, emit_json, emit_rows, note
from trace_bench.display.table import Table
from trace_bench.errors import ConfigError, ExitCode


def fetch(
    name: Annotated[str, Argument(metavar="COLLECTION", help="The collection: co-bench or or-library.")],
    copy: Annotated[
        Path | None, Option("--from", metavar="FOLDER", help="Take a copy that is on disk, in CO-Bench's layout.")
    ] = None,
    revision: Annotated[
        str | None, Option(metavar="REVISION", help="Get this revision of the repository (co-bench).")
    ] = None,
    mirror: Annotated[str | None, Option(metavar="URL", help="Ask this server in place of the publisher's.")] = None,
    checksums: Annotated[
        Path | None, Option(metavar="FILE", help="Take only files with these SHA-256 sums, as sha256sum writes them.")
    ] = None,
) -> None:
    """Get a collection of published data.

    Example: trace-bench data fetch co-bench
    """
    from trace_bench.suites import data_sources

    source = data_sources.source_of(name)
    if copy is not None and (revision or mirror):
        raise ConfigError("--from takes a copy on disk; leave out --revision and --mirror")
    if copy is not None:
        found = data_sources.take(source, copy, sums=checksums, say=note)
    else:
        found = data_sources.fetch(source, mirror=mirror, revision=revision, sums=checksums, say=note)
    if found.lacking:
        note(f"the server does not have {len(found.lacking)} files, such as {', '.join(found.lacking[:3])}")
    at = f", revision {found.revision}" if found.revision else ""
    emit(f"{source.name}: {found.files} files, {found.size / 2**20:.1f} MiB{at}, in {found.folder}")
    note(f"use them: trace-bench run --data {source.name} …")


def list_(as_json: Json = False) -> int:
    """Print the collections, and what is here of each.

    Example: trace-bench data list
    """
    from trace_bench.suites import data_sources

    rows = []
    for source in data_sources.SOURCES.values():
        found = data_sources.kept(source)
        bad = data_sources.damaged(source) if found is not None else []
        state = "not fetched" if found is None else f"{len(bad)} files damaged" if bad else "ok"
        rows.append(
            {
                "name": source.name,
                "title": source.title,
                "state": state,
                "files": found.files if found else 0,
                "bytes": found.size if found else 0,
                "revision": found.revision if found else "",
                "folder": str(found.folder) if found else "",
                "licence": source.licence,
                "cite": source.citation,
                "damaged": bad,
            }
        )
    if as_json:
        emit_json(rows)
    else:
        shown = [(r["name"], r["state"], str(r["files"]), r["title"], r["licence"]) for r in rows]
        emit_rows(Table.of(("collection", "state", "files", "title", "licence"), shown, ("files",)))
    return int(ExitCode.ENVIRONMENT if any(row["damaged"] for row in rows) else ExitCode.OK)


COMMANDS = (fetch, list_)
