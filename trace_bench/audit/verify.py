"""Audits a run: whether its files are whole, follow from each other, and say what the run did."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from trace_bench import __version__
from trace_bench.artifacts.layout import JOB_ID, JobLayout, RunLayout
from trace_bench.artifacts.provenance import now
from trace_bench.audit import conduct, identity, tables
from trace_bench.audit.claims import AuditReport, Book
from trace_bench.audit.context import Audited, look_at
from trace_bench.audit.files import Inventory
from trace_bench.audit.job import check_job
from trace_bench.audit.reading import Folder
from trace_bench.errors import ConfigError
from trace_bench.images.recipe import worker_sources_hash


def audit(
    run: RunLayout,
    *,
    expect: str | None = None,
    roots: Sequence[Path] = (),
    environ: Mapping[str, str] | None = None,
) -> AuditReport:
    """Check every claim of `run`; nothing is written into it, and nothing of it is executed.

    Jobs are looked at one after another, so that memory does not grow with their cassettes.

    Args:
        expect: the digest that the author published.
        roots: extra folders with task folders. Those that the run's config names are not looked into.
        environ: values of its secret-named variables may be in no file; default: this process's.

    Raises:
        ConfigError: there is no such folder. NewerRun: a later version wrote it.
    """
    book = Book()
    try:
        opened = Folder(run.root)
    except OSError as error:
        raise ConfigError(f"{run.root}: {error.strerror or error}; name a run's folder") from None
    with opened as folder:
        audited = look_at(folder, run, book)
        identity.load_config(audited, roots)
        digest = _through(audited, os.environ if environ is None else environ)
    _author(book, digest, expect)
    return AuditReport(
        run_id=audited.run_id[:200],
        digest=digest,
        audited_at=now(),
        code_version=__version__,
        sources_hash=worker_sources_hash(),
        claims=book.claims(),
    )


def _through(audited: Audited, environ: Mapping[str, str]) -> str:
    """Everything, file by file and job by job; returns the digest."""
    inventory = Inventory(audited.folder, audited.layout, audited.book, environ, audited.why_unfinished)
    at: JobLayout | None = None
    read: frozenset[str] = frozenset()
    for path, status in audited.folder.walk():
        job = _job_of(audited.layout, path)
        if job is not None and (at is None or job.root != at.root):
            at = job
            read = check_job(audited, job)
        inventory.take(path, status, is_read=path in read)
    identity.check_run(audited)
    rows = tables.check_tables(audited)
    tables.check_leaderboard_integrity(audited, rows)
    conduct.check_end(audited, audited.rows)
    return inventory.end()


def _job_of(layout: RunLayout, path: str) -> JobLayout | None:
    parts = path.split("/", 2)
    if len(parts) == 3 and parts[0] == layout.relative(layout.jobs) and JOB_ID.fullmatch(parts[1]):
        return layout.job(parts[1])
    return None


def _author(book: Book, digest: str, expect: str | None) -> None:
    """What no file of the run can say."""
    book.unknown("unknown.provider", "providers do not sign what they say")
    book.unknown("unknown.scores", "nothing was run again: trace-bench reproduce does that")
    if expect is None:
        book.unknown("unknown.author", "no digest was given to compare: quote this one, and give it with --expect")
    else:
        book.equal("unknown.author", "", "digest", digest, expect.strip().lower())
