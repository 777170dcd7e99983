"""Lean tasks in containers. The program `lean` of the image answers from recordings of a real one."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY, cli
from tests.suites.veribench.support import toolchain

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def lean(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lock's home, with the image of Lean."""
    archive = toolchain(tmp_path_factory.mktemp("toolchain") / "lean-stand-in.zip")
    done = cli("images", "build", "lean", "--toolchain", str(archive), home=images, timeout=600)
    assert done.returncode == 0, done.stderr
    return images


def test_searches_find_better_files_in_containers(lean: Path, tmp_path: Path) -> None:
    config = REPOSITORY / "configs" / "veribench_smoke.yaml"
    done = cli("run", str(config), "--runs-dir", str(tmp_path), home=lean, timeout=600)
    assert done.returncode == 0, done.stderr
    (table,) = tmp_path.glob("*/results.csv")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert all(row["integrity"] == "protected" for row in rows)
    better = [row for row in rows if float(row["score_best"]) > float(row["score_initial"])]
    assert len(better) >= 2, rows
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*/jobs/*/results.json")]
    assert all({"compiles", "tests", "theorems", "axioms_ok"} <= set(json.dumps(found).split('"')) for found in results)


def test_an_image_without_a_toolchain_says_what_to_download(home: Path, tmp_path: Path) -> None:
    done = cli("images", "build", "lean", home=tmp_path, timeout=120)
    assert done.returncode == 3 and "--toolchain FILE" in done.stderr and "leanprover/lean4" in done.stderr


def test_an_archive_with_another_hash_is_refused(tmp_path: Path) -> None:
    archive = toolchain(tmp_path / "lean.zip")
    done = cli("images", "build", "lean", "--toolchain", str(archive), "--checksum", "0" * 64, home=tmp_path)
    assert done.returncode == 2 and "download it again" in done.stderr
