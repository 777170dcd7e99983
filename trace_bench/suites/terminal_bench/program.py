"""Where the program ``harbor`` is found. Standard library only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "HARBOR_BIN"
"""Names the program, where it is not on PATH."""
NO_HARBOR = (
    "Harbor is not here, and trials need it; run trace-bench harbor install, or put 'harbor' on PATH, or name it in "
    f"{VARIABLE}"
)


def find_harbor(environ: Mapping[str, str]) -> Path | None:
    """The program ``harbor`` by `VARIABLE`, on ``PATH``, or in `own_environment`; None if none can be run."""
    named = environ.get(VARIABLE)
    candidates = [named] if named else ["harbor", str(own_environment(environ) / "bin" / "harbor")]
    for candidate in candidates:
        if found := shutil.which(candidate, path=environ.get("PATH", os.defpath)):
            return Path(found).absolute()
    return None


def own_environment(environ: Mapping[str, str]) -> Path:
    """The Python environment that ``trace-bench harbor install`` makes. May not exist."""
    if named := environ.get("TRACE_BENCH_HOME"):
        return Path(named).expanduser().absolute() / "harbor"
    given = environ.get("XDG_DATA_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
    return base / "trace-bench" / "harbor"
