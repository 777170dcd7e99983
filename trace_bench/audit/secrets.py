"""Searches blocks of bytes for secrets: texts with the form of a key or token, and values of this environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trace_bench.secrets import Secrets, secrets_in

OVERLAP = 4096
"""Bytes at the end of a block that are searched again with the next one."""

_B = rb"(?<![A-Za-z0-9_\-])"
FORMATS: tuple[tuple[str, tuple[bytes, ...], re.Pattern[bytes]], ...] = tuple(
    (name, needles, re.compile(pattern))
    for name, needles, pattern in (
        ("key of OpenAI's kind", (b"sk-",), _B + rb"sk-(?=[A-Za-z_\-]*\d)(?=[\d_\-]*[A-Za-z])[A-Za-z0-9_\-]{20,200}"),
        ("key of Stripe's kind", (b"k_live_",), _B + rb"[rs]k_live_[A-Za-z0-9]{16,}"),
        ("AWS key id", (b"AKIA", b"ASIA"), _B + rb"A(?:KI|SI)A(?=[A-Z]*\d)[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("GitHub token", (b"gh",), _B + rb"gh[pousr]_[A-Za-z0-9]{36}"),
        ("GitHub token", (b"github_pat_",), _B + rb"github_pat_[A-Za-z0-9_]{40,}"),
        ("GitLab token", (b"glpat-",), _B + rb"glpat-[A-Za-z0-9_\-]{20,}"),
        ("Hugging Face token", (b"hf_",), _B + rb"hf_(?=[A-Za-z]*\d|[a-z]*[A-Z])[A-Za-z0-9]{30,}"),
        ("Google key", (b"AIza",), _B + rb"AIza[0-9A-Za-z_\-]{35}"),
        ("Groq key", (b"gsk_",), _B + rb"gsk_[A-Za-z0-9]{40,}"),
        ("Slack token", (b"xox",), _B + rb"xox[abprs]-[0-9A-Za-z\-]{12,}"),
        ("private key", (b"PRIVATE KEY-----",), rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY-----"),
        (
            "bearer token",
            (b"earer ",),
            rb"[Bb]earer +(?=[A-Za-z._~+/\-]*\d)[A-Za-z0-9._~+/\-]{20,}",
        ),
        ("web token", (b"eyJ",), _B + rb"eyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}"),
    )
)
"""Name, texts that every match contains (cheap to search for), and the form."""
_OF_HERE = "value of a variable of this environment"


class Scanner:
    """Searches one file after another.

    Args:
        environ: the values of its variables with secret-sounding names are searched for too.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._ours = Secrets()
        self._ours.add(secrets_in(environ))
        self.begin()

    def begin(self) -> None:
        """Start a new file."""
        self._held = b""
        self._offset = 0
        self._reported: set[int] = set()

    def feed(self, block: bytes) -> Iterator[tuple[int, str, str]]:
        """Search the next block. Returns the position in bytes, the kind, and the beginning of each secret."""
        seen, start = self._held + block, self._offset - len(self._held)
        for name, needles, form in FORMATS:
            if not any(needle in seen for needle in needles):
                continue
            for found in form.finditer(seen):
                if (place := start + found.start()) not in self._reported:
                    self._reported.add(place)
                    yield place, name, f"{found[0][:4].decode('latin-1')}…"
        if -1 not in self._reported and self._ours.data(seen) != seen:
            self._reported.add(-1)
            yield start, _OF_HERE, "***"
        self._offset += len(block)
        self._held = seen[-OVERLAP:]
