"""The page on analysis from Python: every block runs, in order, on a real run, and its numbers are the run's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY
from trace_bench.artifacts.layout import RunLayout

PAGE = REPOSITORY / "docs" / "how-to" / "analyse.md"


def test_every_block_runs(recorded: RunLayout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(recorded.root.parents[1])
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 9
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
        assert capsys.readouterr().out.strip(), block
    assert len(names["counted"]) == 18 and len(names["normalised"]) == 6  # type: ignore[arg-type]
    assert list(names["by_task"].round(6)) and names["pairs"]["difference"].max() > 0  # type: ignore[attr-defined,index]
    spent = names["asked"]["prompt_tokens"].sum()  # type: ignore[index]
    assert spent == names["jobs"]["prompt_tokens"].sum() > 0  # type: ignore[index]


def test_it_knows_every_frame() -> None:
    text = PAGE.read_text()
    for name in ("jobs", "scores", "steps", "calls"):
        assert f"`result.{name}()`" in text
    assert Path(PAGE).name in (REPOSITORY / "docs" / "README.md").read_text()
