"""Audits a run: checks that its files are complete, follow from each other, and state what the run did."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trace_bench import __version__
from trace_bench.artifacts.layout import JOB_ID, RunLayout
from trace_bench.artifacts.provenance import now
from trace_bench.audit import conduct, plan, tables
from trace_bench.audit.claims import AuditReport, Findings
from trace_bench.audit.files import Inventory
from trace_bench.audit.job import check_job
from trace_bench.audit.reading import Folder
from trace_bench.audit.run import AuditedRun, open_run
from trace_bench.errors import ConfigError
from trace_bench.images.recipe import worker_sources_hash

RUN_CHECKS: tuple[Callable[[AuditedRun], None], ...] = (
    plan.check_lock, plan.check_git, plan.check_seeds, tables.check_tables, conduct.check_journal, conduct.check_salt,
    conduct.check_run_budget, conduct.check_scripts,
)  # fmt: skip
"""The checks of a run as a whole, after those of its files and jobs."""


def audit(
    run: RunLayout,
    *,
    expect: str | None = None,
    roots: Sequence[Path] = (),
    environ: Mapping[str, str] | None = None,
) -> AuditReport:
    """Check every claim of `run`. Nothing is written into it, and nothing of it is executed.

    Jobs are checked one after another, so that the memory does not grow with their cassettes.

    Args:
        expect: the digest that the author published.
        roots: additional folders with task folders. Those that the run's config names are not opened.
        environ: no file may contain the values of its variables with secret-sounding names; default: those of this
            process.

    Raises:
        ConfigError: no such folder. NewerRun: a later version wrote the run.
    """
    findings = Findings()
    try:
        opened = Folder(run.root)
    except OSError as error:
        raise ConfigError(f"{run.root}: {error.strerror or error}; name the folder of a run") from None
    with opened as folder:
        audited = open_run(folder, run, findings)
        plan.load_config(audited, roots)
        digest = _check_files_and_jobs(audited, os.environ if environ is None else environ)
        for check in RUN_CHECKS:
            check(audited)
    findings.unknown("unknown.provider", "providers do not sign their answers")
    findings.unknown("unknown.scores", "an audit runs nothing; use trace-bench reproduce")
    if expect is None:
        findings.unknown("unknown.author", "no digest was given; quote this one, and compare it with --expect")
    else:
        findings.equal("unknown.author", "digest", digest, expect.strip().lower())
    return AuditReport(
        run_id=audited.run_id[:200],
        digest=digest,
        audited_at=now(),
        code_version=__version__,
        sources_hash=worker_sources_hash(),
        claims=findings.claims(),
    )


def _check_files_and_jobs(run: AuditedRun, environ: Mapping[str, str]) -> str:
    """Check file after file, and each job before its files. Returns the digest of the run."""
    inventory = Inventory(run, environ)
    current, read = "", set[str]()
    for path, status in run.folder.walk():
        parts = path.split("/", 2)
        in_job = len(parts) == 3 and parts[0] == run.path(run.layout.jobs) and JOB_ID.fullmatch(parts[1])
        if in_job and parts[1] != current:
            current = parts[1]
            read = check_job(run, run.layout.job(current))
        inventory.take(path, status, is_read=path in read)
    return inventory.finish()
