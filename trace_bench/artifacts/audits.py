"""The record of an audit (``trace-bench audit --json``); the rules are those of `trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import Count, Model, Name, UtcTime

Verdict = Literal["verified", "unverifiable", "contradicted"]


class Evidence(Model):
    """One problem.

    Attributes:
        file: relative to the run; printable, cut.
        key: where in the file: a JSON path, a column or a line; empty for the whole file.
        was: the value that was found; None for nothing. Texts and lists are cut.
        due: the value that was expected.
    """

    file: str
    key: str = ""
    was: JsonValue = None
    due: JsonValue = None


class Claim(Model):
    """The verdict on one claim of a run.

    Attributes:
        claim: its name, ``group.what``; stable.
        says: a sentence: the claim, and how much was checked or why it cannot be checked.
        found: number of problems; `evidence` lists the first ones.
    """

    claim: Name
    verdict: Verdict
    says: str
    found: Count = 0
    evidence: tuple[Evidence, ...] = ()


class AuditReport(Model):
    """The result of an audit of a run.

    Attributes:
        digest: the digest of all files of the run (`trace_bench.records.digest.run_digest`), which authors quote.
        code_version: the version that made the audit. `sources_hash` is the hash of its code for sandboxes.
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
        """Whether no claim is contradicted."""
        return not self.contradicted
