"""A real run, made once per session on the local backend (no engine), for tests that look at runs.

Eighteen jobs: three tasks (one with two metrics, one with a normalised score), NoOp and two variants of a search, two
seeds; a scripted model improves the task of the suite llm4ad, the others hear nothing that helps them. Tests that
change something change a copy (`copied`).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution.result import RunResult

CONFIG: dict[str, Any] = {
    "name": "recorded",
    "mode": "stub",
    "backend": "local",
    "seeds": [1, 2],
    "max_workers": 2,
    "llm": {"model": f"scripted:{REPOSITORY}/configs/scripted/references.yaml"},
    "tasks": [
        "internal:numeric_param",
        "internal:multiobjective_convex",
        {"id": "llm4ad:optimization/knapsack_construct", "eval_kwargs": {"n_instance": 8}},
    ],
    "trainers": [
        {"id": "NoOp"},
        {
            "id": "PrioritySearch",
            "params_variants": [
                {"num_steps": 2, "num_candidates": 2, "num_proposals": 2},
                {"num_steps": 1, "num_candidates": 1, "num_proposals": 2},
            ],
        },
    ],
}
RUN_ID = "20260102-030405-recorded"


def record(folder: Path, home: Path | None = None, **changes: Any) -> RunLayout:
    """Run `CONFIG` with `changes` below `folder`; every job is ok."""
    config = {**CONFIG, "runs_dir": str(folder / "runs"), "run_id": RUN_ID, **changes}
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    done = cli("run", "--config", str(path), "--quiet", home=home, cwd=folder)
    assert done.returncode == 0, done.stderr
    return RunLayout(folder / "runs" / config["run_id"])


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    """The run; nobody may change it."""
    return record(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="session")
def recorded_result(recorded: RunLayout) -> RunResult:
    return RunResult.read(recorded)


@pytest.fixture
def copied(recorded: RunLayout, tmp_path: Path) -> RunLayout:
    """A copy of the run, to be changed, in a folder ``runs`` of its own."""
    target = tmp_path / "runs" / recorded.run_id
    shutil.copytree(recorded.root, target, symlinks=True)
    return RunLayout(target)
