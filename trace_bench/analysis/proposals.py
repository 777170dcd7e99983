"""Classify the proposals of a search: new states, known ones, or answers without a proposal.

New is each candidate of ``state_history.jsonl`` that has a parent or comes after the start; the rest is in the job's
``events.jsonl``. Both files are what a sandbox wrote: a line that is not what it should be counts for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from trace_bench.artifacts.jsonio import json_objects
from trace_bench.artifacts.layout import JobLayout, RunLayout

KINDS = ("new", "duplicate", "unusable")
_EVENTS = {"proposal.dropped": "duplicate", "proposal.unusable": "unusable"}


def proposals_of(job: JobLayout) -> dict[str, int]:
    """The number of proposals of a job by `KINDS`."""
    found = Counter(dict.fromkeys(KINDS, 0))
    for line in _lines(job.events, b"proposal."):
        kind = _EVENTS.get(str(line.get("event")))
        if kind:
            found[kind] += 1
    names = {str(line.get("candidate")) for line in _lines(job.state_history, b"") if line.get("parents")}
    found["new"] = len(names)
    return {kind: found[kind] for kind in KINDS}


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


def _lines(path: Path, mark: bytes) -> Iterable[Mapping[str, object]]:
    """The objects of a journal whose lines have `mark` in them."""
    try:
        raw = path.read_bytes()
    except OSError:
        return
    if mark in raw:
        yield from json_objects(line for line in raw.splitlines() if mark in line)
