"""The stand-in for `lean` as a program, and its recordings."""

from __future__ import annotations

import shlex
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
TASKS = HERE.parents[2] / "benchmarks" / "veribench"
FOLDERS = sorted(path.parent for path in TASKS.glob("*/task.toml"))


def stand_in(folder: Path) -> Path:
    """A program `lean` in `folder` that answers from the recordings."""
    return program(folder, f'exec {shlex.join([sys.executable, str(HERE / "stand_in.py"), str(RECORDINGS)])} "$@"')


def program(folder: Path, script: str) -> Path:
    """A program `lean` in `folder` that is a shell script."""
    path = folder / "lean"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def toolchain(path: Path) -> Path:
    """An archive at `path` (``.zip``) that is laid out as a toolchain of Lean, with the stand-in in place of `lean`."""
    script = '#!/bin/sh\nexec python3 -I /opt/lean/share/stand_in.py /opt/lean/share/recordings "$@"\n'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lean-stand-in/bin/lean", script)
        archive.write(HERE / "stand_in.py", "lean-stand-in/share/stand_in.py")
        for recording in sorted(RECORDINGS.glob("*.json.xz")):
            archive.write(recording, f"lean-stand-in/share/recordings/{recording.name}")
    return path
