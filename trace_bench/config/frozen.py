"""A dict that cannot be changed, for the free-form mappings inside frozen config values.

It is a `dict`, so that `json`, `yaml` and ``==`` take it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator


class FrozenDict(dict[str, Any]):
    """Raises TypeError on every change."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("this mapping is part of a frozen value; build a new one")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return (FrozenDict, (dict(self),))


def freeze(value: Any) -> Any:
    """`value` with frozen dicts for its mappings and tuples for its lists, all the way down."""
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """The plain dicts and lists of `value`, as YAML and JSON write them."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value


FrozenMap = Annotated[dict[str, Any], AfterValidator(freeze)]
"""A free-form mapping of a config."""
