"""Folders in the shape of OpenEvolve (``initial_program.py``, and ``evaluator.py`` with ``evaluate(program_path)``) and
of ShinkaEvolve (``initial.py``, and ``evaluate.py`` with ``main(program_path, results_dir)``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError
from trace_bench.suites.evolve_blocks import Marked
from trace_bench.suites.foreign.source import common, parsed
from trace_bench.worker import source_scan

SUITE = "llm4ad"
PROGRAMS = {"evaluator.py": "initial_program.py", "evaluate.py": "initial.py"}
"""By the file of the evaluator: the program that a search starts from."""
CONFIG = "config.yaml"
SECONDS = 300.0
"""Time limit of an evaluation there, unless `CONFIG` says otherwise."""
THRESHOLDS = [0.5, 0.75, 0.9]
STAGE = "evaluate_stage1"
_DEFINED = {
    "evaluator.py": re.compile(rb"^def (?:evaluate|evaluate_stage1)\s*\(", re.MULTILINE),
    "evaluate.py": re.compile(rb"^def main\s*\(", re.MULTILINE),
}


def module_of(folder: Path) -> str | None:
    """The file of the evaluator, if it and its program are in `folder`."""
    return next((m for m, p in PROGRAMS.items() if (folder / p).is_file() and _defines(folder / m)), None)


def lacking(folder: Path) -> str:
    """The sentence about a folder with an evaluator and without a program; empty for any other folder."""
    if module_of(folder) is None and _defines(folder / "evaluator.py"):
        return f"{folder / 'evaluator.py'} has no initial_program.py beside it"
    return ""


def described(folder: Path, module: str) -> dict[str, Any]:
    """The substitute for the ``task.toml`` of such a folder.

    Raises:
        ConfigError: a file cannot be read, or a mark has no partner.
    """
    path = folder / PROGRAMS[module]
    functions = source_scan.functions(parsed(folder / module))
    parsed(path)
    try:
        Marked.of(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except ValueError as error:
        raise ConfigError(f"{path}, {error}; pair the marks") from None
    config = _config(folder / CONFIG)
    evaluator, prompt = _table(config, "evaluator"), _table(config, "prompt")
    name = folder.resolve().name
    stated = prompt.get("system_message")
    seconds = _number(evaluator.get("timeout"), SECONDS)
    arguments: dict[str, Any] = {
        "timeout_seconds": {"type": "float", "default": seconds, "minimum": 0.001, "doc": "Limit of an evaluation."}
    }
    if STAGE in functions:
        wanted = evaluator.get("cascade_evaluation", True) is not False or "evaluate" not in functions
        given = evaluator.get("cascade_thresholds")
        fits = isinstance(given, list) and all(_is_threshold(each) for each in given)
        arguments |= {
            "cascade": {"type": "bool", "default": wanted, "doc": "Evaluate in stages, and stop at a low score."},
            "cascade_thresholds": {
                "type": "list", "default": given if fits else THRESHOLDS,
                "doc": "Scores that a program must reach in a stage to come to the next one.",
            },
        }  # fmt: skip
    spec: dict[str, Any] = {
        "title": name.replace("_", " ").capitalize(),
        "statement": stated.strip() if isinstance(stated, str) and stated.strip() else f"Improve the program {name}.",
        "interaction": "solve",
        "eval_kwargs": arguments,
        **common(folder, seconds),
    }
    spec["foreign"] |= {"module": module, "free": False}
    return spec


def _defines(path: Path) -> bool:
    try:
        return _DEFINED[path.name].search(path.read_bytes()) is not None
    except OSError:
        return False


def _config(path: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    return found if isinstance(found, dict) else {}


def _table(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = config.get(key)
    return found if isinstance(found, dict) else {}


def _is_threshold(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # and no NaN


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e6 else default
