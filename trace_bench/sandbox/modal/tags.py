"""Labels as tags of Modal, which takes only letters, digits, ``-``, ``_`` and ``.``, at most 63 of them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

LONGEST = 63
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,63}")
_CODED = "x32-"
"""Prefix of a value in base32. A plain value that begins so is encoded too."""
_MORE = "_more"
"""Suffix of a key, before a number from 1 on: the rest of a value that is too long."""
_PIECE = LONGEST - len(_CODED)


def encoded(labels: Mapping[str, str]) -> dict[str, str]:
    """`labels` as tags. Equal labels give equal tags, so that the service can search for a label.

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
    """The labels that `tags` stand for. Tags that this program has not set stay as they are."""
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
                continue  # not set by this program
        labels[key] = value
    return labels
