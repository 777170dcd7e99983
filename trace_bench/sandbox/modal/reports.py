"""The state of a command, as `inside.report` prints it, validated: whoever becomes root inside can print anything."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from trace_bench.errors import SandboxError
from trace_bench.sandbox.modal.inside import STDERR_BYTES

LONGEST = 8 * STDERR_BYTES
"""Bytes of a report, at most: JSON writes a byte of stderr as up to six."""
Text = Annotated[str, StringConstraints(max_length=1000)]
Texts = Annotated[list[Text], Field(max_length=100)]
Limit = Annotated[int, Field(ge=-1, le=2**63)]
"""A resource limit; -1 is none."""


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Facts(_Model):
    """The controls in force inside; see `trace_bench.sandbox.modal.confinement.facts`."""

    capabilities: Texts
    usable: Texts
    interfaces: Texts
    no_new_privs: bool
    uid: Limit
    nofile: Limit
    fsize: Limit
    core: Limit
    kernel: Text
    python: Text


class Ended(_Model):
    """The end of the command."""

    code: int = Field(ge=0, le=255)
    error: Text


class Report(_Model):
    """The state of the command."""

    state: Literal["created", "running", "exited"]
    ended: Ended | None
    stderr: Annotated[str, AfterValidator(lambda text: text[-STDERR_BYTES:])]
    facts: Facts

    @model_validator(mode="after")
    def _ended_if_exited(self) -> Report:
        if (self.state == "exited") != (self.ended is not None):
            raise ValueError("`ended` does not fit `state`")
        return self


def parse_report(data: bytes, name: str) -> Report:
    """The report of sandbox `name`.

    Raises:
        SandboxError: `data` is not a report.
    """
    try:
        return Report.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "report"
        raise SandboxError(f"sandbox {name} sent an invalid report ({where}: {first['msg'][:200]}).") from None
