"""The page on analysis from Python: every block runs, in order, on a real run, and its numbers are the run's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY
from trace_bench.artifacts.layout import RunLayout

PAGE = REPOSITORY / "docs" / "how-to" / "analyse.md"


Names = dict[str, Any]


def run_blocks(capsys: pytest.CaptureFixture) -> tuple[Names, list[str]]:
    """What the blocks leave behind, and what each prints."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 9
    names: Names = {}
    printed = []
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
        printed.append(capsys.readouterr().out.strip())
    return names, printed


def test_every_block_runs(recorded: RunLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(recorded.root.parents[1])
    names, printed = run_blocks(capsys)
    assert all(printed)
    assert len(names["counted"]) == 18 and len(names["normalised"]) == 6
    assert list(names["by_task"].round(6)) and names["pairs"]["difference"].max() > 0
    assert names["asked"]["prompt_tokens"].sum() == names["jobs"]["prompt_tokens"].sum() > 0


def test_every_block_runs_on_a_run_without_held_out_data(
    copied: RunLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for job in copied.job_dirs():
        row = json.loads(job.results.read_text())
        job.results.write_text(json.dumps({**row, "score_test": None, "metrics_test": {}}))
    monkeypatch.chdir(copied.root.parents[1])
    names, printed = run_blocks(capsys)
    assert all(printed) and names["score"] == "score_best"
    assert names["table"]["mean"].notna().all() and names["pairs"]["difference"].max() > 0


def test_it_knows_every_frame() -> None:
    text = PAGE.read_text()
    for name in ("jobs", "scores", "steps", "calls"):
        assert f"`result.{name}()`" in text
    assert Path(PAGE).name in (REPOSITORY / "docs" / "README.md").read_text()
