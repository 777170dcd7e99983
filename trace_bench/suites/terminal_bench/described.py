"""What stands for the spec of a Harbor task: for a folder in Harbor's own format, and for a ``task.toml`` of ours with
a table ``[harbor]``, which names a task of a data set.

Standard library only: the host reads specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites.joined import joined
from trace_bench.suites.toml_lines import read_toml

INSTRUCTION = "instruction.md"
DATASET = "terminal-bench@2.0"
SERVICE = "harbor"
TERMINUS = "terminus-2"
ENVIRONMENTS = ("docker", "podman", "modal", "daytona", "e2b", "runloop", "gke")
SENT = ("task.toml", INSTRUCTION)
"""The files of a Harbor task that a job's sandbox gets. The solution and the tests stay on the host."""


def _count(doc: str, default: int, most: int) -> dict[str, Any]:
    return {"type": "int", "default": default, "minimum": 1, "maximum": most, "doc": doc}


COMMON: Mapping[str, Any] = {
    "interaction": "trial",
    "tags": ["agent", "terminal"],
    "score": {"direction": "maximize", "failure": 0.0, "range": [0, 1]},
    "splits": {"train": 1, "validate": 0, "test": 0},
    "harbor": {},
    "eval_kwargs": {
        "harbor_dataset": {"type": "str", "doc": f"Data set that the task is of, such as {DATASET}."},
        "harbor_task_path": {"type": "str", "doc": "Folder of a task in Harbor's format, on the host."},
        "harbor_registry_path": {"type": "str", "doc": "A registry file of data sets, on the host."},
        "harbor_env": {
            "type": "str",
            "default": "docker",
            "choices": list(ENVIRONMENTS),
            "doc": "Where Harbor runs the task's container.",
        },
        "harbor_agent": {
            "type": "str",
            "default": TERMINUS,
            "doc": f"{TERMINUS}: its prompt template is optimized; any other that Harbor installs: a prefix of the "
            "instruction is.",
        },
        "harbor_model": {
            "type": "str",
            "doc": "For agents that do not ask through this program; empty: the job's own model.",
        },
        "harbor_agent_kwargs": {
            "type": "pairs",
            "default": ["max_turns=20"],
            "doc": "Arguments of the agent, each NAME=VALUE with a value of JSON or a text; or a mapping of them.",
        },
        "harbor_extra_env": {
            "type": "pairs",
            "default": [],
            "doc": "Variables that Harbor gets too: NAME=VALUE, or the NAME of a variable of the host, such as "
            "DAYTONA_API_KEY; or a mapping of them.",
        },
        "harbor_timeout_seconds": {
            "type": "float",
            "default": 1800.0,
            "minimum": 1.0,
            "doc": "Limit on a whole trial.",
        },
        "harbor_attempts": _count("Trials of each evaluation, of which the mean counts.", 1, 20),
        "harbor_network": {
            "type": "bool",
            "default": False,
            "doc": "Whether the task's container has a network (of docker alone; elsewhere the task says).",
        },
    },
}


def is_harbor_task(folder: Path) -> bool:
    """Whether `folder` has a task in Harbor's format."""
    return (folder / INSTRUCTION).is_file() and (folder / "task.toml").is_file()


def described(raw: Mapping[str, Any]) -> dict[str, Any]:
    """`raw`, a ``task.toml`` of ours with a table ``[harbor]``, and what it does not say itself."""
    dataset = {"harbor_dataset": {**COMMON["eval_kwargs"]["harbor_dataset"], "default": DATASET}}
    return joined(joined(COMMON, {"eval_kwargs": dataset}), raw)


def described_folder(folder: Path) -> dict[str, Any]:
    """Return the spec that stands for a folder in Harbor's format.

    Raises:
        ConfigError: a file of it cannot be read.
    """
    _, raw = read_toml(folder / "task.toml")
    path = folder / INSTRUCTION
    try:
        instruction = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8: {error}") from None
    task = raw.get("task")
    said = task.get("description") if isinstance(task, Mapping) else None
    name = folder.resolve().name.replace("_", " ").replace("-", " ").strip() or "task"
    own = {
        "title": name[0].upper() + name[1:],
        "statement": instruction.strip() or str(said or name),
        "source": "a task in Harbor's format",
    }
    return joined(COMMON, own)
