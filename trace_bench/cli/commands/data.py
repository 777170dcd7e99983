"""Get published data sets that tasks can read, and look at what is there.

Example: trace-bench data fetch co-bench
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.cli.options import Json, Roots
from trace_bench.display.console import emit, emit_json, emit_rows, note
from trace_bench.display.table import Table
from trace_bench.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from trace_bench.config.models import RunConfig
    from trace_bench.suites.data_sets import DataSet


def fetch(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="NAME",
            help="Get a collection (co-bench, or-library), or the data set of a task (hf:gsm8k, hf:bbeh, hf:all).",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        Option("--config", "-c", metavar="FILE", help="Get all that this config reads and that is not here yet."),
    ] = None,
    copy: Annotated[Path | None, Option("--from", metavar="FOLDER", help="Take a copy that is on disk.")] = None,
    revision: Annotated[
        str | None, Option(metavar="REVISION", help="Get this revision of the repository (not of or-library).")
    ] = None,
    mirror: Annotated[str | None, Option(metavar="URL", help="Ask this server in place of the publisher's.")] = None,
    checksums: Annotated[
        Path | None,
        Option(metavar="FILE", help="Take only files with these SHA-256 sums, as sha256sum writes them (collections)."),
    ] = None,
    root: Roots = None,
) -> None:
    """Get collections, and data sets of the Hugging Face hub.

    Example: trace-bench data fetch hf:gsm8k
    """
    from trace_bench.suites import data_sources

    if copy is not None and (revision or mirror):
        raise ConfigError("--from takes a copy on disk; leave out --revision and --mirror")
    if not names and config is None:
        raise ConfigError("nothing is named to fetch; name data (trace-bench data list shows them), or a --config")
    roots, found = list(root or []), list(names or [])
    if config is not None:
        from trace_bench.config import load_config

        loaded = load_config(config)
        found += _needed(loaded, roots)
        roots += map(Path, loaded.task_roots)
    collections = [data_sources.source_of(name) for name in dict.fromkeys(found) if ":" not in name]
    wanted = _wanted([name for name in dict.fromkeys(found) if ":" in name], roots)
    for option, value in (("--from", copy), ("--revision", revision)):
        if value is not None and len(collections) + len(wanted) > 1:
            called = [source.name for source in collections] + [one.name for one in wanted]
            raise ConfigError(f"{option} is for one data set, and these are {len(called)}: {', '.join(called)}")
    if checksums is not None and wanted:
        raise ConfigError("--checksums is for collections; data sets of the hub have their revision")
    for source in collections:
        _fetch_collection(source, copy, revision, mirror, checksums)
    for one in wanted:
        _fetch_data_set(one, copy, revision, mirror)


def fetch_needed(config: RunConfig, roots: Sequence[Path]) -> None:
    """Get all published data that `config` reads and that are not on this machine; say so on stderr."""
    from trace_bench.suites import data_sources

    names = _needed(config, roots)
    for name in names:
        if ":" not in name:
            _fetch_collection(data_sources.source_of(name), None, None, None, None, say=note)
    for one in _wanted([name for name in names if ":" in name], [*roots, *map(Path, config.task_roots)]):
        _fetch_data_set(one, None, None, None, say=note)


def _needed(config: RunConfig, roots: Sequence[Path]) -> list[str]:
    from trace_bench.planning.data_sets import needed

    if not (names := needed(config, roots)):
        note("all published data that the config reads are here")
    return names


def _fetch_collection(
    source: Any,
    copy: Path | None,
    revision: str | None,
    mirror: str | None,
    checksums: Path | None,
    say: Callable[[str], None] = emit,
) -> None:
    from trace_bench.suites import data_sources

    if copy is not None:
        found = data_sources.take(source, copy, sums=checksums, say=note)
    else:
        found = data_sources.fetch(source, mirror=mirror, revision=revision, sums=checksums, say=note)
    if found.lacking:
        note(f"the server does not have {len(found.lacking)} files, such as {', '.join(found.lacking[:3])}")
    at = f", revision {found.revision}" if found.revision else ""
    say(f"{source.name}: {found.files} files, {found.size / 2**20:.1f} MiB{at}, in {found.folder}")
    note(f"use them: trace-bench run --data {source.name} …")


def _fetch_data_set(
    wanted: DataSet, folder: Path | None, revision: str | None, mirror: str | None, say: Callable[[str], None] = emit
) -> None:
    if folder is not None:
        found = wanted.take(folder, say=note)
    else:
        found = wanted.fetch(mirror=mirror, revision=revision, say=note)
    rows = ", ".join(f"{name} {found.splits[name].rows} rows" for name in wanted.splits)
    say(f"{wanted.name}: {rows}, {found.size / 2**20:.1f} MiB, revision {found.revision}")
    note(f"use it: trace-bench run -t {wanted.tasks[0]} …")


def _wanted(names: Sequence[str], roots: Sequence[Path]) -> list[DataSet]:
    """The data sets of the tasks that `names` are, each once.

    Raises:
        ConfigError: a name fits no task; one line each.
    """
    if not names:
        return []
    from trace_bench.config.selectors import fitting, selector_of
    from trace_bench.suites.catalog import Catalog
    from trace_bench.suites.registry import other_names

    catalog = Catalog(roots)
    entries = catalog.entries(names)
    short = other_names(entries.values())
    ids: dict[str, None] = {}
    problems = []
    for name in names:
        selector = selector_of(name, {*entries, *short})
        chosen = [one.id for one in fitting(selector, catalog, entries.values())]
        found = chosen if selector else [short.get(name, name)]
        ids |= dict.fromkeys(found)
        if not found or found[0] not in entries:
            problems.append(catalog.not_found(name))
    if problems:
        raise ConfigError("\n".join(problems))
    return catalog.data_sets(entries[name] for name in ids)


def list_(root: Roots = None, as_json: Json = False) -> int:
    """Print collections and data sets, and what is here of each.

    Example: trace-bench data list
    """
    rows = [*_collections(), *_data_sets(root or [])]
    if as_json:
        emit_json(rows)
    else:
        shown = [
            (r["name"], r["state"], str(r.get("rows") or r.get("files") or ""), r["revision"][:12], r["licence"])
            for r in rows
        ]
        emit_rows(Table.of(("data", "state", "files or rows", "revision", "licence"), shown, ("files or rows",)))
    return int(ExitCode.ENVIRONMENT if any(row["damaged"] for row in rows) else ExitCode.OK)


def _collections() -> list[dict[str, Any]]:
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
    return rows


def _data_sets(roots: Sequence[Path]) -> list[dict[str, Any]]:
    """A row for each data set that a task reads."""
    from trace_bench.suites.data_sets import missing_splits
    from trace_bench.suites.installed import suites_with

    rows = []
    for wanted in _wanted([f"{name}:all" for name in suites_with("data_sets")], roots):
        found, lacking = wanted.copy(), missing_splits(wanted)
        bad = found.damaged() if found is not None else []
        some = f"{len(lacking)} of {len(wanted.splits)} splits not fetched"
        state = "not fetched" if found is None else f"{len(bad)} splits damaged" if bad else some if lacking else "ok"
        rows.append(
            {
                "name": wanted.name,
                "title": ", ".join(wanted.tasks),
                "state": state,
                "rows": found.rows if found else 0,
                "bytes": found.size if found else 0,
                "revision": found.revision if found else "",
                "fetched": found.fetched if found else "",
                "splits": {name: split.rows for name, split in found.splits.items()} if found else {},
                "licence": found.licence if found else wanted.licence,
                "cite": wanted.cite,
                "damaged": bad,
            }
        )
    return rows


COMMANDS = (fetch, list_)
