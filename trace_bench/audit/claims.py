"""What an audit looks at, claim by claim, and the book in which it notes what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.artifacts.audits import AuditReport, Claim, Evidence, Verdict
from trace_bench.artifacts.jsonio import printable
from trace_bench.secrets import known

__all__ = ["CLAIMS", "AuditReport", "Book", "Claim", "Evidence", "Verdict"]

CLAIMS: Mapping[str, str] = {
    "files.hashes": "every listed file is there, with its size and SHA-256",
    "files.unlisted": "no file is there that the index does not list",
    "files.links": "nothing is there but files and folders: no link, no device",
    "files.schemas": "every file fits its schema",
    "files.places": "every file names the run and the job that it lies in",
    "tables.results_csv": "results.csv follows from the jobs' files",
    "tables.parquet": "results.parquet follows from the jobs' files",
    "tables.summary": "summary.json follows from the jobs' files",
    "tables.leaderboard": "the leaderboard follows from the jobs' files",
    "tables.manifest": "the manifest agrees with the jobs' files",
    "tables.replay": "replay.json agrees with the jobs of the run",
    "derivation.results": "every column of results.json follows from the job's record, result and calls",
    "derivation.record": "the job's record says of its end what its last attempt says",
    "derivation.usage": "calls, tokens and cost are the sums over the cassette, to the token",
    "derivation.prices": "each call costs what its tokens cost by the prices in the lock",
    "derivation.cassette": "cassettes are whole and in order, and their requests have the hashes that they name",
    "derivation.services": "records of services have their hashes, and the model calls that they name are in cassettes",
    "derivation.answers": "tokens of a call are those that its answer reports",
    "derivation.history": "histories only grow, and their best score follows from their lines",
    "derivation.states": "saved states are those that the sandbox handed back and that the history has",
    "derivation.scores": "official means follow from the scores of their examples",
    "derivation.pareto": "fronts follow from histories",
    "derivation.integrity": "claims, findings and flags follow from what the sandbox recorded",
    "derivation.seconds": "durations fit the journal",
    "identity.job_ids": "job ids are the hashes of what the jobs are",
    "identity.fingerprints": "fingerprints are the hashes of what determines the results",
    "identity.config": "the config hash is that of the snapshot and the task hashes",
    "identity.matrix": "the snapshot expands to the jobs of the manifest",
    "identity.images": "jobs ran in the images of the lock, and its keys are those of the recipes",
    "identity.packages": "the versions in env.json are those of the lock",
    "identity.tasks": "task hashes are those of the tasks installed here",
    "identity.code": "the code that runs in sandboxes (worker, suites, trainers) is this code",
    "identity.git": "the checkout had no changes of its own",
    "conduct.controls": "every control that was due was in force",
    "conduct.limits": "limits and budgets of jobs are those of the config",
    "conduct.budgets": "no job spent more than its budget",
    "conduct.seeds": "seeds are those of the config",
    "conduct.attempts": "attempts follow each other, inside the time of the run",
    "conduct.journal": "the journal has the start and the end of every job, as the jobs have them",
    "conduct.scripts": "rules of scripted models have the hash that they are named by",
    "held_out.salt": "the salt of held-out data was published when the run had ended, and not before",
    "held_out.seeds": "the published salt gives the seeds of held-out data that the jobs used",
    "integrity.flags": "flagged jobs are marked wherever they count",
    "integrity.unprotected": "no job whose candidate could write its own score counts on the leaderboard",
    "integrity.withheld": "withheld scores are shown nowhere",
    "secrets.none": "no file holds a key or token",
    "unknown.provider": "the recorded answers are what the provider gave",
    "unknown.scores": "the scores come out again",
    "unknown.author": "the files are those that their author published",
}
"""Every claim, in the order of a report, and what it says."""

SHOWN = 8
"""Problems of one claim that are shown; the others are counted."""
_TEXT = 200
_ITEMS = 8


@dataclass
class _Entry:
    checked: int = 0
    found: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    unknown: int = 0
    remark: str = ""


class Book:
    """What was found about each of `CLAIMS`. What is noted is made printable, masked and cut: it comes from strangers.

    A claim with a problem is contradicted; else one that could not be checked everywhere is unverifiable; else it is
    verified.
    """

    def __init__(self) -> None:
        self._entries = {name: _Entry() for name in CLAIMS}

    def checked(self, claim: str, number: int = 1) -> None:
        """`number` further things were looked at."""
        self._entries[claim].checked += number

    def wrong(self, claim: str, file: str, key: str = "", was: Any = None, due: Any = None) -> None:
        """A problem."""
        entry = self._entries[claim]
        entry.found += 1
        if len(entry.evidence) < SHOWN:
            evidence = Evidence(file=_text(file), key=_text(key), was=_short(was), due=_short(due))
            entry.evidence.append(evidence)

    def unknown(self, claim: str, why: str) -> None:
        """Something cannot be checked; `why` is a phrase."""
        entry = self._entries[claim]
        entry.unknown += 1
        why = _text(why)
        if why not in entry.why and len(entry.why) < 2:
            entry.why.append(why)

    def remark(self, claim: str, text: str) -> None:
        """What is to be said beside the verdict."""
        self._entries[claim].remark = _text(text)

    def equal(self, claim: str, file: str, key: str, was: Any, due: Any) -> bool:
        """Note a check of one value; types count: 1 is not 1.0 is not true."""
        self.checked(claim)
        if same(was, due):
            return True
        self.wrong(claim, file, key, was, due)
        return False

    def is_wrong(self, claim: str) -> bool:
        return self._entries[claim].found > 0

    def claims(self) -> tuple[Claim, ...]:
        """All of them, in order."""
        return tuple(_claim(name, entry) for name, entry in self._entries.items())


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: tuples are lists, numbers are equal by value, and true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def _claim(name: str, entry: _Entry) -> Claim:
    sentence = CLAIMS[name]
    verdict: Verdict = "contradicted" if entry.found else "unverifiable" if entry.unknown else "verified"
    if verdict == "contradicted":
        says = f"{sentence}: no, in {entry.found} place{'s' if entry.found > 1 else ''}"
    elif verdict == "unverifiable":
        says = f"{sentence}: not known, as {'; '.join(entry.why)}"
    else:
        says = f"{sentence} ({entry.checked:,} checked)" if entry.checked else f"{sentence} (nothing to check)"
    if entry.remark:
        says = f"{says}; {entry.remark}"
    return Claim(claim=name, verdict=verdict, says=says, found=entry.found, evidence=tuple(entry.evidence))


def _text(text: str, limit: int = _TEXT) -> str:
    return printable(known.text(text), limit)


def _short(value: Any, depth: int = 2) -> Any:
    """`value` as JSON that fits on a screen."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else _text(str(value)[:40])
    if isinstance(value, Mapping) and depth:
        return {_text(str(key), 60): _short(value[key], depth - 1) for key in list(value)[:_ITEMS]}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return [_short(item, depth - 1) for item in list(value)[:_ITEMS]]
    return _text(str(value))
