"""Labels as the tags of a service that takes only letters, digits, ``-``, ``_`` and ``.``, at most 63 of them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

LONGEST = 63
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,63}")
_CODED = "x32-"
"""Before what is base32 of a value that cannot stand as it is. A value that begins so is never left as it is."""
_MORE = "_more"
"""After the key, with a number from 1 on: the rest of a value that is too long."""
_PIECE = LONGEST - len(_CODED)


def encoded(labels: Mapping[str, str]) -> dict[str, str]:
    """`labels` as tags: the same for the same, so that who looks for a label finds its tags.

    >>> encoded({"a": "b", "c": "d e"})
    {'a': 'b', 'c': 'x32-MQQGK'}
    """
    tags: dict[str, str] = {}
    for key, value in labels.items():
        if _PLAIN.fullmatch(value) and not value.startswith(_CODED):
            tags[key] = value
            continue
        text = base64.b32encode(value.encode()).decode().rstrip("=")
        tags[key] = _CODED + text[:_PIECE]
        for number, at in enumerate(range(_PIECE, len(text), LONGEST), 1):
            tags[f"{key}{_MORE}{number}"] = text[at : at + LONGEST]
    return tags


def decoded(tags: Mapping[str, str]) -> dict[str, str]:
    """The labels that `tags` are of; what is no label of ours stays as it is."""
    labels: dict[str, str] = {}
    for key, value in tags.items():
        if re.search(rf"{_MORE}\d+$", key):
            continue
        if value.startswith(_CODED):
            text, number = value[len(_CODED) :], 1
            while (more := tags.get(f"{key}{_MORE}{number}")) is not None:
                text, number = text + more, number + 1
            try:
                value = base64.b32decode(text + "=" * (-len(text) % 8)).decode()
            except ValueError:
                continue  # somebody else's
        labels[key] = value
    return labels
