"""Short forms of names that still tell rows apart: ids of tasks, variants with their parameters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence

_NEXT_PARAMETER = re.compile(r",(?=[A-Za-z_]\w*=)")


def shortened(names: Sequence[str], width: int) -> list[str]:
    """`names` in at most `width` columns each; those that differ still do, if that is possible.

    What they all begin with goes first, then the beginning of each, then its middle. An ellipsis stands for it.

    >>> shortened(["llm4ad:tsp_construct", "llm4ad:set_cover"], 14)
    ['…tsp_construct', '…set_cover']
    """
    if all(width_of(name) <= width for name in names):
        return list(names)
    every = list(dict.fromkeys(names))
    found: list[str] = []
    for form in (_without_beginning, list[str], _middles(width)):
        short = [_end(text, width) for text in form(every)]
        if len(set(short)) > len(set(found)):
            found = short
        if len(set(found)) == len(every):
            break
    forms = dict(zip(every, found, strict=True))
    return [forms[name] for name in names]


def width_of(text: str) -> int:
    """Columns that `text` takes on a terminal. (rich can count them, and takes a tenth of a command's start.)"""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, with an ellipsis for an end that is missing."""
    return text if width_of(text) <= width else _beginning(text, width - 1) + "…"


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
    found: dict[str, str] = {}
    parts = [part for variant in dict.fromkeys(variants) for part in parameters_of(variant) if "=" in part]
    names = list(dict.fromkeys(part.partition("=")[0] for part in parts))
    for name in names:
        short = "".join(word[0] for word in name.split("_") if word)
        while short in found.values() or short in names:
            short += "'"
        if len(short) < len(name):
            found[name] = short
    return found


def with_initials(variant: str, initials: Mapping[str, str]) -> str:
    """`variant` with the short names of its parameters."""
    parts = [part.partition("=") for part in parameters_of(variant)]
    return ",".join(f"{initials.get(name, name)}{equals}{value}" for name, equals, value in parts)


def _without_beginning(names: list[str]) -> list[str]:
    """Without the beginning that all ids of tasks among them share."""
    ids = [name for name in names if ":" in name]
    differ = (n for n, letters in enumerate(zip(*ids, strict=False)) if len(set(letters)) > 1)
    shared = ids[0][: next(differ, min(map(len, ids)))] if ids else ""
    place = max(shared.rfind(":"), shared.rfind("/")) + 1
    return ["…" + name[place:] if place and ":" in name else name for name in names]


def _middles(width: int) -> Callable[[list[str]], list[str]]:
    """Cuts the middle out of names that are too long."""
    half = width // 2
    return lambda names: [
        name if width_of(name) <= width else _beginning(name, width - half - 1) + _end(name, half + 1) for name in names
    ]


def _end(text: str, width: int) -> str:
    """`text` without its beginning, if it is too long."""
    return text if width_of(text) <= width else "…" + _beginning(text[::-1], width - 1)[::-1]


def _beginning(text: str, width: int) -> str:
    kept = ""
    for letter in text:
        width -= _columns(letter)
        if width < 0:
            break
        kept += letter
    return kept
