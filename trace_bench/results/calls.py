"""The LLM calls of a job, as its cassette has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from trace_bench.artifacts.jsonio import explain
from trace_bench.artifacts.records import LlmCall
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import HarnessError


def read_calls(cassette: Path) -> Iterator[LlmCall]:
    """The lines of `cassette` in order; none if it is not there. It may be written to meanwhile.

    Raises:
        HarnessError: it is damaged.
    """
    for number, line in enumerate(read_journal(cassette).lines, start=1):
        try:
            yield LlmCall.model_validate(line)
        except ValidationError as error:
            raise HarnessError(f"{cassette}, line {number}: {explain(error)}") from None
