"""The base of the config's sections, and the kinds of values that several of them hold."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict


def _name(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("must not hold control characters")
    return value


def _no_time_limit(value: Any) -> Any:
    """0 is how other harnesses write "no limit"; the loader records that it was read so."""
    return None if value == 0 and not isinstance(value, bool) and isinstance(value, int | float) else value


Text = Annotated[str, AfterValidator(_name)]
Names = Annotated[tuple[Text, ...], Strict(False)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Seconds = Annotated[float, Field(gt=0)]
Usd = Annotated[float, Field(ge=0)]
TimeLimit = Annotated[Seconds | None, BeforeValidator(_no_time_limit)]


class Section(BaseModel):
    """Base: frozen, no unknown keys, no conversions, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
