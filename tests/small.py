"""A small run, made once per session on the local backend: two jobs that are ok, two that have failed twice, with calls
that cost something; for tests that audit it again and again."""

from __future__ import annotations

import json

import pytest

from tests.integration.cli import cli
from trace_bench.artifacts.layout import RunLayout

RUN_ID = "20260102-030405-tampered"
GOOD = """
prices: {prompt: 1.0, completion: 4.0}
rules:
  - match: {proposal: 0}
    set: {code: {alternative: 0}}
  - match: {proposal: 1}
    set: {code: {alternative: -2}}
"""
REFUSES = "rules: [{match: {phase: train}, fail: {status: 403}}]\n"


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    """The run; nobody may change it."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "good.yaml").write_text(GOOD)
    (folder / "refuses.yaml").write_text(REFUSES)
    config = {
        "name": "small",
        "run_id": RUN_ID,
        "runs_dir": "runs",
        "mode": "stub",
        "backend": "local",
        "seeds": [1, 2],
        "max_workers": 2,
        "retries": 0,
        "llms": [{"model": f"scripted:{name}.yaml", "id": name} for name in ("good", "refuses")],
        "budget": {"evaluations": 100, "calls": 50},
        "tasks": [{"id": "llm4ad:optimization/knapsack_construct", "eval_kwargs": {"n_instance": 3}}],
        "trainers": [
            {"id": "PrioritySearch", "params_variants": [{"num_steps": 2, "num_candidates": 1, "num_proposals": 2}]}
        ],
    }
    (folder / "config.json").write_text(json.dumps(config))
    for resume in ("auto", "failed"):
        done = cli("run", "--config", "config.json", "--quiet", "--resume", resume, cwd=folder)
        assert done.returncode == 1, (done.stdout, done.stderr)  # two jobs fail, again and again
    return RunLayout(folder / "runs" / RUN_ID)
