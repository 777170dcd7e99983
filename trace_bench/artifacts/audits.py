"""The record of an audit (``trace-bench audit --json``); the rules are those of `trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import Count, Model, Name, RunId, UtcTime

Verdict = Literal["verified", "unverifiable", "contradicted"]


class Evidence(Model):
    """One problem."""

    file: str
    """File relative to the run; printable, cut."""
    key: str = ""
    """Place in the file: a JSON path, a column or a line; empty for the whole file."""
    was: JsonValue = None
    """Value that was found; null for nothing. Texts and lists are cut."""
    due: JsonValue = None
    """Value that was expected."""


class Claim(Model):
    """The verdict on one claim of a run."""

    claim: Name
    """Name of the claim, `group.what`; it does not change between versions."""
    verdict: Verdict
    """`verified`, `unverifiable` or `contradicted`."""
    says: str
    """The claim in a sentence, and how much was checked or why it cannot be checked."""
    found: Count = 0
    """Number of problems."""
    evidence: tuple[Evidence, ...] = ()
    """First problems."""


class AuditReport(Model):
    """The result of an audit of a run."""

    run_id: RunId
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Digest of all files of the run (`trace_bench.records.digest.run_digest`), which authors quote."""
    audited_at: UtcTime
    """Time of the audit."""
    code_version: str
    """Version of Trace-Bench that made the audit."""
    sources_hash: str
    """Hash of the auditor's code for sandboxes."""
    claims: tuple[Claim, ...]
    """Verdict on each claim."""

    @property
    def contradicted(self) -> tuple[Claim, ...]:
        """The claims that do not hold."""
        return tuple(claim for claim in self.claims if claim.verdict == "contradicted")

    @property
    def ok(self) -> bool:
        """Return True if no claim is contradicted."""
        return not self.contradicted
