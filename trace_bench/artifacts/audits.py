"""The record of an audit (``trace-bench audit --json``); the rules are those of `trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import Count, Model, Name, UtcTime

Verdict = Literal["verified", "unverifiable", "contradicted"]


class Evidence(Model):
    """One thing that does not hold.

    Attributes:
        file: relative to the run; printable, cut.
        key: where in it: a JSON path, a column, a line; empty for all of it.
        was: what is there; None for nothing. Texts and lists are cut.
        due: what should be there.
    """

    file: str
    key: str = ""
    was: JsonValue = None
    due: JsonValue = None


class Claim(Model):
    """One claim of a run about itself, and the result of the check.

    Attributes:
        claim: its name, ``group.what``; stable.
        says: a sentence: what was checked, or why it cannot be.
        found: how many problems there are; `evidence` has the first of them.
    """

    claim: Name
    verdict: Verdict
    says: str
    found: Count = 0
    evidence: tuple[Evidence, ...] = ()


class AuditReport(Model):
    """What an audit of a run came to.

    Attributes:
        digest: of every file of the run as it is (`trace_bench.records.digest.run_digest`); what an author quotes.
        code_version: of the installation that audits.
        sources_hash: of the code that this installation would run in sandboxes.
    """

    run_id: str
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    audited_at: UtcTime
    code_version: str
    sources_hash: str
    claims: tuple[Claim, ...]

    @property
    def contradicted(self) -> tuple[Claim, ...]:
        """The claims that do not hold."""
        return tuple(claim for claim in self.claims if claim.verdict == "contradicted")

    @property
    def ok(self) -> bool:
        """Nothing is contradicted."""
        return not self.contradicted
