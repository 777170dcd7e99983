"""The disk of the runs folder is full, at any stage: one sentence, nothing half believed, and the next run finishes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench
from tests.execution.simulated import Script
from tests.integration.files import check_files
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import TraceBenchError

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
NEEDED = range(4, 268, 8)
"""KiB; a whole run of the bench needs about 250."""


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def become(self, size: str, *, inodes: int = 100_000, option: str = "rw") -> None:
        options = f"remount,{option},size={size},nr_inodes={inodes}"
        subprocess.run(["mount", "-o", options, str(self.folder)], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "runs"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield Disk(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def attempt(bench: Bench, **config: Any) -> OSError | TraceBenchError | None:
    """What ended the run; `trace-bench run` makes one sentence and exit code 3 of either."""
    try:
        bench.run(**config)
    except (OSError, TraceBenchError) as error:
        return error
    return None


def finished(bench: Bench) -> dict[str, int]:
    found = {}
    for path in (bench.folder / "runs").glob("*/jobs/*/results.json"):
        row = json.loads(path.read_text())
        if row["status"] == "ok" and row["stop_reason"] != "interrupted":
            found[path.parent.name] = path.stat().st_mtime_ns
    return found


def paid(layout: RunLayout) -> Counter[tuple[str, str]]:
    """How often each request of a job was paid."""
    found: Counter[tuple[str, str]] = Counter()
    for path in layout.jobs.glob("*/llm.jsonl"):
        for line in path.read_text().splitlines():
            call = json.loads(line)
            if call["reused_from"] is None:
                found[path.parent.name, call["slot"]] += 1
    return found


def check_finished(bench: Bench, before: dict[str, int]) -> None:
    after = finished(bench)
    assert {job: after[job] for job in before} == before, "what was finished did not run again"
    layouts = [RunLayout(path) for path in bench.runs()]
    whole = [layout for layout in layouts if layout.files_index.exists()]
    assert len(whole) == 1 and len(after) == 4
    check_files(whole[0].root)
    assert set(paid(whole[0]).values()) <= {1}, "no answer that was written down is paid again"
    assert bench.backend.alive == 0, "and no sandbox is left"


@pytest.mark.parametrize("room", NEEDED)
def test_a_disk_that_is_full_at_any_instant_loses_nothing(bench: Bench, disk: Disk, room: int) -> None:
    bench.backend.script = lambda job_id, number: Script(calls=3)
    disk.become(f"{room}k")
    error = attempt(bench, max_workers=1)
    continue_after(error, bench, disk)


def continue_after(error: OSError | TraceBenchError | None, bench: Bench, disk: Disk) -> None:
    before = finished(bench)
    if error is not None:
        assert "no space left" in str(error).lower(), error
        disk.become("64m")
        assert attempt(bench) is None
    check_finished(bench, before)


@pytest.mark.parametrize("inodes", range(3, 90, 6))
def test_nor_does_one_that_takes_no_more_files(bench: Bench, disk: Disk, inodes: int) -> None:
    disk.become("64m", inodes=inodes)
    error = attempt(bench, max_workers=1)
    continue_after(error, bench, disk)


def test_a_disk_that_is_read_only_ends_the_run_before_anything_starts(bench: Bench, disk: Disk) -> None:
    disk.become("64m", option="ro")
    error = attempt(bench)
    assert isinstance(error, OSError) and error.errno == errno.EROFS
    assert bench.backend.created == []
    disk.become("64m")
    assert attempt(bench) is None
    check_finished(bench, {})
