"""What the command line makes of services of the host: what is missing, and what killed controllers left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.artifacts.folder_lock import open_folder, try_lock
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.clean import clean_services


class Left:
    """A service that has left something for runs."""

    name = "oven"

    def __init__(self, *runs: str) -> None:
        self.runs = set(runs)

    def left(self, label: str, name: str) -> set[str]:
        assert label.startswith("trace-bench.service.owner=") and name == "trace-bench.service.run"
        return set(self.runs)

    def sweep(self, label: str) -> list[str]:
        self.runs.discard(label.partition("=")[2])
        return []


@pytest.mark.parametrize(
    ("run", "gone", "said"),
    [
        (None, {"here"}, ["left alone: what oven made for gone", "left alone: what oven does for alive"]),
        ("gone", {"gone"}, []),
        ("alive", set(), ["belongs to a controller that is running"]),
    ],
)
def test_what_nobody_works_with_is_removed(
    run: str | None, gone: set[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import fcntl

    for name in ("here", "alive"):
        (tmp_path / name / "meta").mkdir(parents=True)
    lock = open_folder(RunLayout(tmp_path / "alive"))
    assert try_lock(lock, fcntl.LOCK_EX)
    service = Left("here", "gone", "alive")
    monkeypatch.setattr("trace_bench.execution.service_host.load_services", lambda names: {"m:C": service})
    removed: list[dict[str, str | None]] = []
    clean_services(run, tmp_path, removed, as_json=False)
    assert {row["run_id"] for row in removed} == gone and service.runs == {"here", "gone", "alive"} - gone
    told = capsys.readouterr().err
    assert all(sentence in told for sentence in said)


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_run_whose_service_is_missing_is_refused_before_anything_is_written(more: list[str], tmp_path: Path) -> None:
    config = REPOSITORY / "configs" / "terminal_bench_local.yaml"
    runs = tmp_path / "runs"
    done = cli(
        "run", str(config), "--backend", "local", "--runs-dir", str(runs), *more, HARBOR_BIN="/nonexistent/harbor"
    )
    assert done.returncode == 3 and "trace-bench harbor install" in done.stderr, done.stderr
    assert not runs.exists()
