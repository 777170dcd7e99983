"""The claims that an audit checks, and the collection of its findings on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from trace_bench.artifacts.audits import AuditReport, Claim, Evidence, Verdict
from trace_bench.display.text import clean_line

__all__ = ["CLAIMS", "AuditReport", "Claim", "Evidence", "Findings", "Verdict"]

CLAIMS: Mapping[str, str] = {
    "files.hashes": "every file in the index exists with the listed size and SHA-256",
    "files.unlisted": "the index lists every file",
    "files.links": "the run holds only files and folders: no links and no devices",
    "files.schemas": "every file fits its schema",
    "files.places": "every file names the run and the job that it belongs to",
    "tables.results_csv": "results.csv follows from the job files",
    "tables.parquet": "results.parquet follows from the job files",
    "tables.summary": "summary.json follows from the job files",
    "tables.leaderboard": "the leaderboard follows from the job files",
    "tables.manifest": "the manifest agrees with the job files",
    "tables.replay": "replay.json agrees with the jobs of the run",
    "derivation.results": "every column of results.json follows from the job's record, result and calls",
    "derivation.record": "the job record states the outcome of the last attempt",
    "derivation.usage": "calls, tokens and cost are the exact sums over the cassette",
    "derivation.prices": "the cost of each call follows from its tokens and the prices in the lock",
    "derivation.cassette": "cassettes are complete and in order, and each request has its recorded hash",
    "derivation.services": "service records have correct hashes, and their model calls are in cassettes",
    "derivation.answers": "the tokens of each call are those that its answer reports",
    "derivation.history": "histories only grow, and their best score follows from their lines",
    "derivation.states": "saved states are those that the sandbox returned and that the history contains",
    "derivation.scores": "official means follow from the scores of their examples",
    "derivation.pareto": "Pareto fronts follow from histories",
    "derivation.integrity": "claimed scores, found scores and flags follow from what the sandbox recorded",
    "derivation.seconds": "durations agree with the journal",
    "identity.job_ids": "job ids are the hashes of the job definitions",
    "identity.fingerprints": "fingerprints are the hashes of everything that determines the results",
    "identity.config": "the config hash is the hash of the config snapshot and the task hashes",
    "identity.matrix": "the config snapshot expands to the jobs of the manifest",
    "identity.images": "jobs ran in the images of the lock, and the image keys match the recipes installed here",
    "identity.packages": "env.json and the lock list the same package versions",
    "identity.tasks": "task hashes match the tasks installed here",
    "identity.code": "the code that ran in sandboxes (worker, suites, trainers) is the code installed here",
    "identity.git": "the git checkout had no uncommitted changes",
    "conduct.controls": "every expected sandbox control was in force",
    "conduct.limits": "limits, budgets and parameters of jobs match the config",
    "conduct.budgets": "no job spent more than its budget",
    "conduct.seeds": "seeds match the config",
    "conduct.attempts": "attempts are consecutive and lie within the time of the run",
    "conduct.journal": "the journal records the start and the outcome of every job",
    "conduct.scripts": "the rules of each scripted model have the hash that names them",
    "held_out.salt": "the salt of held-out data was published when the run had finished, and not before",
    "held_out.seeds": "the published salt gives the held-out seeds that the jobs used",
    "integrity.flags": "flagged jobs are marked as flagged",
    "integrity.unprotected": "the leaderboard counts no job whose candidate could write its own score",
    "integrity.withheld": "withheld scores appear nowhere",
    "secrets.none": "no file contains a key or token",
    "unknown.provider": "the recorded answers came from the provider",
    "unknown.scores": "running the jobs again gives the same scores",
    "unknown.author": "the files are those that the author published",
}
"""Every claim by name, in the order of a report, with the sentence that is checked."""

MAX_EVIDENCE = 8
"""Problems of one claim that the report shows; further ones are counted."""
_TEXT = 200
_ITEMS = 8


@dataclass
class _Entry:
    checked: int = 0
    problems: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    remark: str = ""


@dataclass(frozen=True)
class Findings:
    """What an audit finds on each of `CLAIMS`, in one file of the run or in the run as a whole.

    All recorded texts are made printable, masked and cut: they come from untrusted files. A claim with a problem is
    contradicted. Otherwise, a claim that could not be checked everywhere is unverifiable. All others are verified.
    """

    file: str = ""
    _entries: Mapping[str, _Entry] = field(default_factory=lambda: {name: _Entry() for name in CLAIMS})

    def in_file(self, path: str) -> Findings:
        """The same findings, to which those on the file `path` are added."""
        return Findings(path, self._entries)

    def checked(self, claim: str, number: int = 1) -> None:
        """Count `number` checks."""
        self._entries[claim].checked += number

    def wrong(self, claim: str, key: str = "", found: Any = None, expected: Any = None) -> None:
        """Record a problem at `key`: a JSON path, a column or a line."""
        entry = self._entries[claim]
        entry.problems += 1
        if len(entry.evidence) < MAX_EVIDENCE:
            evidence = Evidence(file=_text(self.file), key=_text(key), was=_short(found), due=_short(expected))
            entry.evidence.append(evidence)

    def unknown(self, claim: str, why: str) -> None:
        """Record that something cannot be checked; `why` is a clause."""
        reasons, why = self._entries[claim].unknown, _text(why)
        if why not in reasons and len(reasons) < 2:
            reasons.append(why)

    def remark(self, claim: str, text: str) -> None:
        """Set the text that follows the verdict."""
        self._entries[claim].remark = _text(text)

    def check(self, ok: bool, claim: str, key: str, found: Any, expected: Any) -> bool:
        """Count one check, and record a problem unless `ok`. Returns `ok`."""
        self.checked(claim)
        if not ok:
            self.wrong(claim, key, found, expected)
        return ok

    def equal(self, claim: str, key: str, found: Any, expected: Any) -> bool:
        """Check that two values are equal as JSON: tuples are lists, numbers are equal by value, and true is not 1."""
        one, other = as_json(found), as_json(expected)
        return self.check(_same(one, other), claim, key, one, other)

    def equal_fields(self, claim: str, prefix: str, found: Any, expected: Any, names: Iterable[str]) -> None:
        """Check that two values are equal in each of the attributes `names`."""
        for name in names:
            self.equal(claim, f"{prefix}{name}", getattr(found, name), getattr(expected, name))

    def claims(self) -> tuple[Claim, ...]:
        """The verdicts on all claims, in order."""
        return tuple(_verdict_on(name, entry) for name, entry in self._entries.items())


def as_json(value: object) -> Any:
    """Return `value` with models as mappings, also inside of mappings and lists."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _verdict_on(name: str, entry: _Entry) -> Claim:
    verdict: Verdict = "contradicted" if entry.problems else "unverifiable" if entry.unknown else "verified"
    if verdict == "contradicted":
        result = f": does not hold in {entry.problems} place{'s' if entry.problems > 1 else ''}"
    elif verdict == "unverifiable":
        result = f": cannot be checked ({'; '.join(entry.unknown)})"
    else:
        result = f" ({entry.checked:,} checked)" if entry.checked else " (nothing to check)"
    says = CLAIMS[name] + result + (f"; {entry.remark}" if entry.remark else "")
    return Claim(claim=name, verdict=verdict, says=says, found=entry.problems, evidence=tuple(entry.evidence))


def _text(text: str, limit: int = _TEXT) -> str:
    return clean_line(text, limit)


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
