from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.audit.forger import Forger
from trace_bench.artifacts.layout import RunLayout


@pytest.fixture
def forger(small: RunLayout, tmp_path: Path) -> Forger:
    """A copy of the small run, to be changed."""
    return Forger.of(RunLayout(Path(shutil.copytree(small.root, tmp_path / "runs" / small.run_id))))
