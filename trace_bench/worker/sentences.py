"""Make text of candidates readable for optimizers and terminals, and equal in two runs.

An exception's text is the candidate's to choose. It goes into feedback, histories and prompts, so it may not move a
cursor, begin a line of its own, or hold what differs from one process or machine to the next.
"""

from __future__ import annotations

import re
import signal
import sys

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_UNSEEN_BUT_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")


def visible(text: str, *, lines: bool = False) -> str:
    r"""`text` with every control character, escape sequence and half surrogate pair as ``\x1b``, ``\n``, ``\u202e``.

    Args:
        lines: line ends and tabs stay, and so do the joiners that some scripts need.
    """
    unseen = _UNSEEN_BUT_LINES if lines else _UNSEEN
    return unseen.sub(lambda found: repr(found[0])[1:-1], text)


def sentence(text: str, limit: int = 4000, *, lines: bool = False) -> str:
    """`text` as one visible line of at most `limit` characters, without memory addresses and this machine's folders.

    Args:
        lines: its line ends stay.
    """
    text = visible(text[: 2 * limit], lines=lines)
    text = _ADDRESS.sub("0x…", text)
    if "/" in text:
        for folder in _folders():
            text = text.replace(folder, "…/")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; real-time signals have no names of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _folders() -> list[str]:
    """Where modules are imported from, the longest first: what an ImportError tells."""
    places = {sys.prefix, sys.base_prefix, *sys.path}
    return sorted((f"{place.rstrip('/')}/" for place in places if place.count("/") > 1), key=len, reverse=True)
