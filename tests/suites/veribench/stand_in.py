"""Stands in for the program `lean`: answers from recordings of a real one, and never guesses.

    python3 stand_in.py RECORDINGS [--record LEAN] --json --stdin [-D…] -o FILE < TEXT

A recording is what a real Lean printed, returned and compiled for the same text. For a text without one it says so and
ends with 69. With ``--record`` it asks the real program LEAN then, and keeps its answer. Standard library only: the
image of the tests has it too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

PARTS = (".olean", ".olean.server", ".olean.private")
UNAVAILABLE = 69


def path_of(folder: Path, text: str) -> Path:
    """Where the recording for `text` lies."""
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.json.xz"


def load(path: Path) -> dict[str, Any]:
    """A recording: ``lean`` (its version), ``text``, ``code``, ``printed``, ``said``, and ``files`` by their ending."""
    found: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    return found


def record(lean: str, arguments: list[str], text: str) -> dict[str, Any]:
    """What `lean` answers."""
    done = subprocess.run([lean, *arguments], input=text.encode(), capture_output=True, check=False)
    output = Path(arguments[arguments.index("-o") + 1])
    files = {part: output.with_suffix(part) for part in PARTS}
    printed = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("{")]
    return {
        "lean": _version(files[PARTS[0]]),
        "text": text,
        "code": done.returncode,
        "printed": printed,
        "files": {
            part: base64.b64encode(path.read_bytes()).decode() for part, path in files.items() if path.exists()
        },
    }  # fmt: skip


def _version(compiled: Path) -> str:
    """The version that has written the file; of a text with errors there is none."""
    if not compiled.exists():
        return ""
    head = compiled.read_bytes()[:80]
    return f"{head[7:40].rstrip(bytes(1)).decode()} ({head[40:80].decode()})"


def answer(found: dict[str, Any], output: Path) -> int:
    """Do what Lean did."""
    for line in found["printed"]:
        print(line)
    for part, data in found["files"].items():
        output.with_suffix(part).write_bytes(base64.b64decode(data))
    return int(found["code"])


def main(arguments: list[str]) -> int:
    """The program."""
    folder = Path(arguments.pop(0))
    lean = arguments.pop(1) if arguments[0] == "--record" else None
    if lean is not None:
        arguments.pop(0)
    if arguments == ["--version"]:
        versions = sorted({load(path)["lean"] for path in folder.glob("*.json.xz")} - {""})
        print("; ".join(versions))
        return 0
    text = sys.stdin.read()
    path = path_of(folder, text)
    if lean is not None and not path.exists():
        found = record(lean, arguments, text)
        if found["code"] in (0, 1):
            path.write_bytes(lzma.compress(json.dumps(found).encode(), preset=9))
        else:
            return answer(found, Path(arguments[-1]))
    if not path.exists():
        print("stand_in.py has no recording of what Lean says about this file", file=sys.stderr)
        return UNAVAILABLE
    return answer(load(path), Path(arguments[arguments.index("-o") + 1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
