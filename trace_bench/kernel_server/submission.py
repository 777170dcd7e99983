"""Reads and checks what a client sends."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_bench.artifacts.jsonio import JsonError, explain, loads
from trace_bench.display.text import quoted

LARGEST_BODY = 1 << 20
"""Bytes of a request."""
LONGEST = 3600
"""Seconds that a client may ask for."""
_Number = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Source = Annotated[str, Field(min_length=1)]


class BadSubmission(Exception):
    """A request that cannot be evaluated.

    Attributes:
        status: of the HTTP response, 400 or 422.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Submission(BaseModel):
    """The body of ``POST /evaluate``.

    Attributes:
        custom_cuda: source of the kernel, which defines `ModelNew`.
        ref_arch_src: source of the reference, in KernelBench's format.
        timeout: seconds.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    problem_id: _Number
    sample_id: _Number
    custom_cuda: _Source
    ref_arch_src: _Source
    level: _Number | None = None
    timeout: Annotated[int, Field(ge=1, le=LONGEST)] = 300

    @property
    def unknown_fields(self) -> list[str]:
        """Fields of the body that have no meaning here."""
        return [quoted(name, 60) for name in sorted(self.model_extra or {})[:20]]


def read_submission(body: bytes) -> Submission:
    """The submission in a request's body.

    Raises:
        BadSubmission: it is not JSON, or a field is wrong; the message names the field.
    """
    try:
        value = loads(body)
    except JsonError as error:
        raise BadSubmission(400, f"the body cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise BadSubmission(422, "the body must be a JSON object")
    try:
        return Submission.model_validate({key: field for key, field in value.items() if (key, field) != _NO_TIMEOUT})
    except ValidationError as error:
        raise BadSubmission(422, explain(error)) from None


_NO_TIMEOUT = ("timeout", None)
"""A client without a timeout of its own sends null."""
