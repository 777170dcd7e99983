"""The JSON lines of a run in containers, compared with lines that were recorded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_json_lines import SEARCH, compare
from tests.integration.cli import cli, write_config

pytestmark = pytest.mark.docker


def test_a_run_in_containers_prints_the_recorded_lines(images: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=[SEARCH], seeds=[1], run_id="one")
    done = cli("run", "--config", str(config), "--json", home=images, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    compare("containers", done.stdout)
