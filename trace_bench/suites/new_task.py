"""Makes the folder of a new task: a small one that works, to be changed piece by piece."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from trace_bench.errors import ConfigError

SCAFFOLD = Path(__file__).parent / "scaffold"
INTERACTIONS = ("solve", "policy")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


def new_task(name: str, root: Path, interaction: str = "solve") -> list[Path]:
    """Write the folder ``root/name`` of a task of the suite ``llm4ad``; returns its files.

    Raises:
        ConfigError: the name is none, the interaction is unknown, or the folder is there and not empty.
    """
    last = name.rpartition("/")[2]
    if not _NAME.fullmatch(name) or keyword.iskeyword(last):
        raise ConfigError(
            f"{name!r} is no name for a task: give letters, digits and underscores, '/' between groups (my_group/sum)"
        )
    if interaction not in INTERACTIONS:
        raise ConfigError(f"--interaction {interaction}: there is no scaffold for it; give {' or '.join(INTERACTIONS)}")
    folder = root / name
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is there already and not empty; choose another name, or another --root")
        written = []
        source = SCAFFOLD / interaction
        for path in sorted(source.rglob("*")):
            if not path.is_file() or path.suffix not in (".py", ".toml"):
                continue
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            target.write_text(text.replace("task_entry", last).replace("task_title", _title(last)), encoding="utf-8")
            written.append(target)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}") from error
    return written


def _title(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]
