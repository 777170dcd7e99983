"""Classify the proposals of a search: new states, known ones, or answers without a proposal.

New is each candidate of ``state_history.jsonl`` that has a parent or comes after the start; the rest is in the job's
``events.jsonl``. Both files are what a sandbox wrote: a line that is not what it should be counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.records.answers import events_with
from trace_bench.worker.unusable import kind_of

KINDS = ("new", "duplicate", "unusable")


def proposals_of(job: JobLayout) -> dict[str, int]:
    """The number of proposals of a job by `KINDS`."""
    duplicate = unusable = 0
    for line in events_with(job.events, b"proposal.dropped", b".unusable"):
        duplicate += line.get("event") == "proposal.dropped"
        unusable += kind_of(line) is not None
    names = {str(line.get("candidate")) for line in events_with(job.state_history) if line.get("parents")}
    return {"new": len(names), "duplicate": duplicate, "unusable": unusable}


def yields_of(run: RunLayout, job_ids: Iterable[str]) -> dict[str, list[int]]:
    """`proposals_of` each job, a list for each of `KINDS`."""
    found = [proposals_of(run.job(job_id)) for job_id in job_ids]
    return {kind: [one[kind] for one in found] for kind in KINDS}


def proposals_text(counts: Mapping[str, int]) -> str:
    """``34 new, 5 duplicate, 2 unusable``; empty where there was no proposal.

    >>> proposals_text({"new": 3, "duplicate": 0, "unusable": 1}), proposals_text({"new": 0})
    ('3 new, 0 duplicate, 1 unusable', '')
    """
    return ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in KINDS) if any(counts.values()) else ""
