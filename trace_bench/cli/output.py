"""How commands print: JSON for programs, plain lines for pipes, and never a wrapped line in either."""

from __future__ import annotations

import json
import sys
from typing import Any


def emit(text: str = "") -> None:
    """One line to stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """One line to stderr: what is not the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def emit_json(value: Any) -> None:
    """`value` as JSON to stdout."""
    emit(json.dumps(value, indent=2, ensure_ascii=False, default=str))
