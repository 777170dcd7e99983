"""The base of the config's sections, and the kinds of values that several of them hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict


def _name(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("must not hold control characters")
    return value


def matching(pattern: str, rule: str) -> AfterValidator:
    """Return a validator that refuses text unless all of it matches `pattern`; the message is "must be `rule`"."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"must be {rule}")
        return value

    return AfterValidator(check)


def _no_time_limit(value: Any) -> Any:
    """0 is how other harnesses write "no limit"; the loader records that it was read so."""
    return None if value == 0 and not isinstance(value, bool) and isinstance(value, int | float) else value


def any_case(words: Iterable[str]) -> str:
    """A regular expression, of JSON Schema too, for `words` in any case and with blanks around them.

    >>> any_case(["on", "no"])
    '^\\\\s*([oO][nN]|[nN][oO])\\\\s*$'
    """
    patterns = ("".join(f"[{letter.lower()}{letter.upper()}]" for letter in word) for word in words)
    return rf"^\s*({'|'.join(patterns)})\s*$"


def measured(unit: str, better: str = "") -> Any:
    """The unit of a number and, for a score, which values are better; both become part of its description in a
    schema."""
    return Field(json_schema_extra={"unit": unit, "better": better} if better else {"unit": unit})


Text = Annotated[str, AfterValidator(_name)]
Names = Annotated[tuple[Text, ...], Strict(False)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Calls = Annotated[Count, measured("calls")]
Tokens = Annotated[Count, measured("tokens")]
Evaluations = Annotated[Count, measured("evaluations")]
Seconds = Annotated[float, Field(gt=0), measured("seconds")]
Usd = Annotated[float, Field(ge=0), measured("US dollars")]
UsdPerMillion = Annotated[float, Field(ge=0), measured("US dollars per million tokens")]
TimeLimit = Annotated[
    Seconds | None,
    BeforeValidator(_no_time_limit, json_schema_input_type=Annotated[float, Field(ge=0), measured("seconds")] | None),
]


class Section(BaseModel):
    """Base: frozen, no unknown keys, no conversions, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
