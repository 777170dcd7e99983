"""Golden files of ``run --json``: its events, their order and their fields do not change unnoticed.

``GOLDEN=write pytest tests/cli/test_json_golden.py`` writes the files anew; a change of one is a change for programs
that read them, and belongs in the changelog.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli

FOLDER = REPOSITORY / "tests" / "data" / "golden"
CONFIG: dict[str, Any] = {
    "name": "golden",
    "mode": "stub",
    "backend": "local",
    "seeds": [1],
    "max_workers": 1,
    "run_id": "20260102-030405-golden",
    "tasks": ["internal:code_param", "internal:non_trainable"],
    "trainers": [
        {"id": "NoOp"},
        {"id": "PrioritySearch", "params_variants": [{"num_steps": 1, "num_candidates": 1, "num_proposals": 1}]},
    ],
}
VARYING = {
    "t", "folder", "seconds", "time_seconds", "train_seconds", "fingerprint", "image_key", "latency", "hardware",
    "score_test", "metrics_test",
}  # fmt: skip
"""Fields of which only the type is compared: clocks, places, hashes of sources, and what the salt decides."""


def normalised(value: Any, key: str = "") -> Any:
    if key in VARYING and value is not None:
        return f"<{type(value).__name__}>"
    if isinstance(value, dict):
        return {name: normalised(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [normalised(item) for item in value]
    return value


def printed(folder: Path, *more: str) -> str:
    """The normalised lines of a run in `folder`."""
    done = cli("run", "--config", "config.json", "--json", *more, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    lines = [normalised(json.loads(line)) for line in done.stdout.splitlines()]
    return "".join(json.dumps(line) + "\n" for line in lines)


def compare(name: str, found: str) -> None:
    path = FOLDER / f"{name}.jsonl"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found.splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "runs_dir": "runs"}), encoding="utf-8")
    return tmp_path


def test_the_events_of_a_run_and_of_its_repetition(folder: Path) -> None:
    """Two jobs are ok and two have no trainable parameter; continued, the run takes all four results as they are."""
    compare("first", printed(folder))
    compare("continued", printed(folder))


def test_the_events_of_a_replay(folder: Path) -> None:
    printed(folder)
    compare("replay", printed(folder, "--replay", CONFIG["run_id"], "--run-id", "20260102-030405-again"))


def test_the_events_of_a_run_whose_budget_ends(folder: Path) -> None:
    """The job that is at work when the calls are used up ends with what it has; later ones are skipped."""
    config = {**CONFIG, "runs_dir": "runs", "budget": {"run": {"calls": 1}}, "trainers": CONFIG["trainers"][::-1]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    compare("budget", printed(folder))
