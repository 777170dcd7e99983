"""``export``: a run as an archive, or a table of it in long form, in a file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir
from trace_bench.display.console import emit, emit_json, emit_pairs, note
from trace_bench.errors import ConfigError, HarnessError

if TYPE_CHECKING:
    from trace_bench.artifacts.layout import RunLayout

ARCHIVES = (".tar.gz", ".tgz", ".tar")
TABLES = (".parquet", ".csv")
SHOWN = 5


def export(
    run: RunArgument,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="Write this file: .tar.gz, .tar, .parquet or .csv.")
    ],
    table: Annotated[
        str | None, Option(metavar="NAME", help="Write this table: scores (if not given), jobs, steps or calls.")
    ] = None,
    where: Annotated[
        str | None, Option(metavar="CONDITION", help="Of a table, write only jobs such as trainer=NoOp,seed=1|2.")
    ] = None,
    unfinished: Annotated[
        bool, Option("--unfinished", help="Archive a run that is not finished, without its salt.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Overwrite a file that is there.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a run as an archive with checksums, or as a table.

    Example: trace-bench export latest -o run.tar.gz
    """
    from trace_bench.records.runs import find_run

    layout = find_run(run, runs_dir)
    name = output.name.lower()
    _refuse_place(layout, output, force=force)
    if name.endswith(ARCHIVES):
        if table is not None or where is not None:
            raise ConfigError("an archive is of the whole run: --table and --where are for .parquet and .csv")
        _export_archive(layout, output, unfinished=unfinished, as_json=as_json)
    elif name.endswith(TABLES):
        _export_table(layout, output, table or "scores", where, as_json=as_json)
    else:
        known = ", ".join((*ARCHIVES, *TABLES))
        raise ConfigError(f"-o {output}: unknown extension; use one of {known}")


def _refuse_place(layout: RunLayout, output: Path, *, force: bool) -> None:
    if output.is_dir() or (output.exists() and not output.is_file()):
        raise ConfigError(f"-o {output}: it is not a file; name one that ends in {', '.join((*ARCHIVES, *TABLES))}")
    if output.resolve().is_relative_to(layout.root.resolve()):
        raise ConfigError(f"-o {output}: it lies in the run itself, which stays as it is; write it elsewhere")
    if output.exists() and not force:
        raise ConfigError(f"-o {output}: it exists; name another file, or overwrite it with --force")


def _export_archive(layout: RunLayout, output: Path, *, unfinished: bool, as_json: bool) -> None:
    from trace_bench.artifacts.folder_lock import held_for_reading
    from trace_bench.artifacts.versions import NewerRun
    from trace_bench.records.archive import pack
    from trace_bench.records.runs import describe

    with held_for_reading(layout):
        line = describe(layout)
        if line.state == "newer":
            raise NewerRun(line.damage or "")
        if line.state != "finished" and not unfinished:
            why = f"it is damaged ({line.damage})" if line.damage else "it is not finished"
            raise ConfigError(f"{layout.root}: {why}; continue it, or export it as it is with --unfinished")
        made = pack(layout, output)
        secret_files = _files_with_secrets(layout)
    if as_json:
        emit_json({"path": str(made.path), "sha256": made.sha256, "digest": made.digest, "run_id": layout.run_id,
                   "finished": line.state == "finished", "files": made.files, "bytes": made.bytes,
                   "changed": made.changed, "left_out": made.left_out,
                   "secrets": secret_files})  # fmt: skip
    else:
        emit_pairs([
            ("archive", f"{output}  ({output.stat().st_size} bytes)"),
            ("sha256", made.sha256),
            ("run", f"{layout.run_id}  ({made.files} files, {made.bytes} bytes)"),
            ("digest", made.digest),
        ])  # fmt: skip
    for what in made.left_out:
        note(f"left out: {what}")
    if made.changed:
        note(changed_sentence(made.changed))
    if secret_files:
        names = ", ".join(secret_files[:SHOWN]) + (" …" if len(secret_files) > SHOWN else "")
        note(
            f"warning: {len(secret_files)} files, and so the archive, hold what looks like a key or token: {names}; do "
            "not share it before trace-bench audit has named them"
        )


def _files_with_secrets(layout: RunLayout) -> list[str]:
    """Files with something in them that looks like a key, or is the value of a secret variable of this environment."""
    from trace_bench.audit.secrets import Scanner
    from trace_bench.records.digest import regular_files

    scanner, paths = Scanner(os.environ), []
    for path in sorted(regular_files(layout.root)):
        scanner.begin()
        with (layout.root / path).open("rb") as file:
            if any(any(scanner.feed(block)) for block in iter(partial(file.read, 1 << 20), b"")):
                paths.append(path)
    return paths


def changed_sentence(changed: tuple[str, ...]) -> str:
    """Return a sentence about files that differ from the run's own index."""
    names = ", ".join(changed[:SHOWN]) + (" …" if len(changed) > SHOWN else "")
    return f"{len(changed)} files are not as the run's own index says, which trace-bench audit looks into: {names}"


def _export_table(layout: RunLayout, output: Path, table: str, where: str | None, *, as_json: bool) -> None:
    from trace_bench.analysis import long_form
    from trace_bench.arguments import hint
    from trace_bench.records.reading import read_rows

    if table not in long_form.TABLES:
        raise ConfigError(f"--table: there is no table {table!r}{hint(table, long_form.TABLES)}")
    rows = read_rows(layout)
    if where is not None:
        from trace_bench.analysis.frames import jobs_frame
        from trace_bench.analysis.where import parse_where

        kept = set(parse_where(where).of(jobs_frame(rows))["job_id"])
        rows = [row for row in rows if row.job_id in kept]
    columns, batches = long_form.table(layout, rows, table)  # type: ignore[arg-type]
    write = long_form.write_csv_table if output.name.lower().endswith(".csv") else long_form.write_parquet_table
    try:
        count = write(output, columns, batches)
    except (ValueError, TypeError) as error:  # of pandas and Arrow: no value that our own writers leave
        raise HarnessError(
            f"{layout.root}: a file holds what its schema does not allow ({error}); trace-bench audit names it"
        ) from None
    summary: dict[str, Any] = {"path": str(output), "table": table, "jobs": len(rows), "rows": count,
                            "columns": list(columns)}  # fmt: skip
    if as_json:
        emit_json(summary)
    else:
        emit(f"{output}: {count} rows of table {table}, of {len(rows)} jobs")
