"""Short forms of names that still tell rows apart: ids of tasks, variants with their parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence

_NEXT_PARAMETER = re.compile(r",(?=[A-Za-z_]\w*=)")


def shortened(names: Sequence[str], width: int) -> list[str]:
    """`names` in at most `width` letters each; different names stay different, if that is possible.

    The beginning that all ids of tasks share goes first, then the beginning of each name, then its middle. An ellipsis
    stands for it.

    >>> shortened(["llm4ad:tsp_construct", "llm4ad:set_cover"], 14)
    ['…tsp_construct', '…set_cover']
    """
    if all(len(name) <= width for name in names):
        return list(names)
    ids = [name for name in names if ":" in name]
    shared = os.path.commonprefix(ids)  # noqa: RUF071 (of letters, not of folders)
    begin = max(shared.rfind(":"), shared.rfind("/")) + 1
    bare = [f"…{name[begin:]}" if begin and ":" in name else name for name in names]
    half = width // 2
    forms = [
        [_end(name, width) for name in bare],
        [_end(name, width) for name in names],
        [name if len(name) <= width else name[: width - half - 1] + _end(name, half + 1) for name in names],
    ]
    return max(forms, key=lambda form: len(set(form)))


def shared_parameters(variants: Collection[str]) -> list[str]:
    """Each ``name=value`` that all variants with parameters have in common; none for a single variant."""
    split = [parameters_of(variant) for variant in dict.fromkeys(variants) if "=" in variant]
    if len(split) < 2:
        return []
    return [part for part in split[0] if all(part in parts for parts in split[1:])]


def parameters_of(variant: str) -> list[str]:
    """Each ``name=value`` of a variant; the variant itself where it has no parameters."""
    return _NEXT_PARAMETER.split(variant)


def without(variant: str, shared: Collection[str]) -> str:
    """`variant` without the parameters in `shared`."""
    return ",".join(part for part in parameters_of(variant) if part not in shared)


def initials_of(variants: Sequence[str]) -> dict[str, str]:
    """A short form of each name of a parameter that is long.

    >>> initials_of(["num_steps=3,num_candidates=2,k=1", "default"])
    {'num_steps': 'ns', 'num_candidates': 'nc'}
    """
    initials: dict[str, str] = {}
    parts = [part for variant in dict.fromkeys(variants) for part in parameters_of(variant) if "=" in part]
    names = list(dict.fromkeys(part.partition("=")[0] for part in parts))
    for name in names:
        short = "".join(word[0] for word in name.split("_") if word)
        while short in initials.values() or short in names:
            short += "'"
        if len(short) < len(name):
            initials[name] = short
    return initials


def with_initials(variant: str, initials: Mapping[str, str]) -> str:
    """`variant` with the short names of its parameters."""
    parts = [part.partition("=") for part in parameters_of(variant)]
    return ",".join(f"{initials.get(name, name)}{equals}{value}" for name, equals, value in parts)


def _end(text: str, width: int) -> str:
    """`text` without its beginning, if it is too long."""
    return text if len(text) <= width else "…" + text[len(text) - max(0, width - 1) :]
