"""Validate messages of the holder: a process inside that has become root can speak in its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from trace_bench.sandbox.modal.protocol import STDERR_BYTES

Text = Annotated[str, StringConstraints(max_length=1000)]
Texts = Annotated[list[Text], Field(max_length=100)]
Limit = Annotated[int, Field(ge=-1, le=2**63)]
"""A resource limit; -1 is none."""


class InvalidMessage(ValueError):
    """The sandbox sent a message that no holder sends."""


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


class Message(_Model):
    """One frame of kind ``SAY``: a grant, the end of stdout, a report, or several of them."""

    credit: int = Field(0, ge=0, le=2**63)
    eof: bool = False
    report: Report | None = None

    @model_validator(mode="before")
    @classmethod
    def _collect_report(cls, data: Any) -> Any:
        return {**data, "report": data} if isinstance(data, dict) and "state" in data else data


def parse_message(payload: bytes) -> Message:
    """Parse a message of the holder. Raises InvalidMessage if no holder sends it."""
    try:
        return Message.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "message"
        raise InvalidMessage(f"the sandbox sent an invalid message ({where}: {first['msg'][:200]})") from None
