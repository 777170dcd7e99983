"""The variables that a built-in model may change: how a request describes them, and how an answer gives new values."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, StrictFloat, StrictInt, StrictStr, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Value
from trace_bench.gateway.base import ProviderRequest, Refusal

MAX_HEADER_BYTES = 4 << 20
"""Of the variables header once unpacked."""
Number = Annotated[StrictInt | StrictFloat, Field(ge=-1e300, le=1e300)]
"""A number whose magnitude a double holds."""


@dataclass(frozen=True, config={"extra": "forbid"})
class Variable:
    """One value that the model may change, as our proposer describes it in the private header.

    Attributes:
        bounds: inclusive; numbers only.
        alternatives: other admissible values; the only ones for code and text.
        ladder: values from bad to good; a change is to the next or the one before.
        format: how an answer gives new values: ``json`` in the ``suggestion`` of a JSON object, ``tags`` each with its
            name, ``improved`` one value alone, ``verbatim`` the value and nothing else, which is what an agent gets.
            That of a request's first variable counts.
    """

    name: Annotated[StrictStr, Field(min_length=1)]
    kind: Literal["int", "float", "code", "text"]
    value: StrictStr | Number
    bounds: tuple[Number, Number] | None = None
    alternatives: tuple[StrictStr | Number, ...] | None = ()
    ladder: tuple[StrictStr | Number, ...] = ()
    format: Literal["json", "tags", "improved", "verbatim"] = "json"

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float)}
        if not all(
            isinstance(value, kinds.get(self.kind, (str,)))
            for value in (self.value, *(self.alternatives or ()), *self.ladder)
        ):
            raise ValueError(f"a value or alternative of {self.name!r} is not of kind {self.kind}")
        if self.bounds is not None and self.bounds[0] > self.bounds[1]:
            raise ValueError(f"the bounds of {self.name!r} are the wrong way round")
        return self


_VARIABLES = TypeAdapter(list[Variable])


def variables_of(request: ProviderRequest) -> list[Variable]:
    """The variables that the header of `request` describes: base64 of zlib of a JSON list. None without a header.

    Raises:
        Refusal: 400, the header cannot be unpacked, is too large, or does not describe variables.
    """
    text = request.hints.variables if request.hints else None
    if text is None:
        return []
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_HEADER_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"it unpacks to more than {MAX_HEADER_BYTES} bytes")
        if not unpacker.eof:
            raise ValueError("it is cut short")
        variables = _VARIABLES.validate_python(jsonio.loads(data))
        if len({v.name for v in variables}) != len(variables):
            raise ValueError("a name occurs twice")
        return variables
    except (ValueError, binascii.Error, zlib.error) as error:
        why = jsonio.explain(error) if isinstance(error, ValidationError) else error
        raise Refusal(400, "bad_variables", f"the header X-Trace-Bench-Variables is unusable: {why}") from None


def answer_text(variables: Sequence[Variable], suggestion: Mapping[str, Value], reasoning: str) -> str:
    """The text of an answer that suggests new values for `variables`, in the form that they ask for."""
    match variables[0].format if variables else "json":
        case "tags":
            changes = "".join(
                f"\n<variable>\n<name>{name}</name>\n<value>\n{value}\n</value>\n</variable>"
                for name, value in suggestion.items()
            )
            return f"<reasoning>\n{reasoning}\n</reasoning>{changes}"
        case "verbatim":
            return str(next(iter(suggestion.values()), reasoning))
        case "improved":
            value = next(iter(suggestion.values()), None)
            return reasoning if value is None else f"<IMPROVED_VARIABLE>{value}</IMPROVED_VARIABLE>"
        case _:
            return jsonio.dumps({"reasoning": reasoning, "answer": "", "suggestion": suggestion})
