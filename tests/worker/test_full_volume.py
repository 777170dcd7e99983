"""A volume without room: the supervisor's own files are whole, and its result is there as long as it can be."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker import host
from tests.worker.host import Outcome, WorkerProcess
from tests.worker.support import run
from trace_bench.worker.exit_codes import VOLUME_FULL
from trace_bench.worker.recorder import Recorder

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")

FILL = """
def fill(leave):
    # All that there is but `leave` bytes, as somebody else on the engine's disk does it.
    out = os.environ["TEST_OUT"]
    stat = os.statvfs(out)
    with open(out + "/somebody-elses", "ab") as file:
        left = stat.f_bavail * stat.f_frsize - leave
        if left > 0:
            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, left)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def on_small_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worker's ``out`` lies on it."""
    made = WorkerProcess.__init__

    def init(self: WorkerProcess, *args: Any, **kwargs: Any) -> None:
        mkdir = Path.mkdir

        def elsewhere(path: Path, *a: Any, **k: Any) -> None:
            if path.name == "out":
                path.symlink_to(small_disk)
            else:
                mkdir(path, *a, **k)

        with monkeypatch.context() as patch:
            patch.setattr(host.Path, "mkdir", elsewhere)
            made(self, *args, **kwargs)
        self.out = small_disk

    monkeypatch.setattr(WorkerProcess, "__init__", init)
    return small_disk


def result_of(got: Outcome) -> dict[str, Any]:
    assert got.result is not None, got.stderr
    assert json.loads(got.files["result.json"]) == got.result, "it is on the volume too"
    return got.result


def whole_lines(data: bytes) -> list[Any]:
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


TRAIN = """
class Trainer(Trainer):
    def train(self, problem, params, context):
        for i in range(20):
            state = {"x": float(i)}
            rollouts = context.evaluate(state, [0], "train")
            if i == 0:  # nothing else is being written
                fill(LEAVE)
            record(context, step=i, candidate=f"c{i}", parent=None, state=state, rollouts=rollouts, split="train",
                         padding="x" * PADDING)
        return state
"""


def fill_in_the_middle(tmp_path: Path, disk: Path, *, leave: int, padding: int, out_bytes: int) -> Outcome:
    code = FILL + TRAIN.replace("LEAVE", str(leave)).replace("PADDING", str(padding))
    return run(tmp_path, code, env={"TEST_OUT": str(disk)}, limits={"out_bytes": out_bytes})


def test_what_was_kept_free_takes_the_rest_of_a_job_whose_disk_somebody_else_fills(
    tmp_path: Path, on_small_disk: Path
) -> None:
    got = fill_in_the_middle(tmp_path, on_small_disk, leave=0, padding=1000, out_bytes=8 << 20)
    result = result_of(got)
    assert result["status"] == "ok" and result["scores"]["best"]["train"] == 0.0
    assert len(whole_lines(got.files["state_history.jsonl"])) == 20, "nothing is lacking"
    assert any("/out had no room; 0 pieces" in warning for warning in result["warnings"]), "and it is said"


def test_a_job_that_lost_a_line_for_want_of_room_fails_at_the_sandbox(tmp_path: Path, on_small_disk: Path) -> None:
    got = fill_in_the_middle(tmp_path, on_small_disk, leave=0, padding=80_000, out_bytes=4 << 20)
    result = result_of(got)
    assert (result["failure"]["boundary"], result["failure"]["kind"]) == ("sandbox", "out_of_disk")
    lines = whole_lines(got.files["state_history.jsonl"])
    assert 0 < len(lines) < 20, "what is there is whole"
    assert [e for e in whole_lines(got.files["events.jsonl"]) if e["event"] == "failure"]


def test_without_room_for_the_result_the_exit_code_says_so(tmp_path: Path, on_small_disk: Path) -> None:
    code = """
    def build(context):
        return problem(lambda q, r, ref: (0.0, "x" * 2000), train=examples([str(i) for i in range(2000)]))
    """
    got = run(tmp_path, code, limits={"out_bytes": 32 << 20})
    assert got.result is None and got.code == VOLUME_FULL, got.stderr
    assert "no room for the result" in got.stderr
    assert "result.json" not in got.files and ".result.json.tmp" not in got.files
    assert whole_lines(got.files["events.jsonl"])[-1]["event"] == "job.end"


def test_a_trainer_that_fills_a_volume_with_a_size_of_its_own_is_named(tmp_path: Path, on_small_disk: Path) -> None:
    """With a quota the disk is full a little before the trainer's part of it has reached the limit."""
    code = """
    class Trainer(Trainer):
        def train(self, problem, params, context):
            try:
                with open(os.path.join(str(context.extra_dir), "large"), "wb") as file:
                    while True:
                        file.write(bytes(1 << 12))
                        file.flush()
            except OSError:
                pass
            for i in range(600):
                context.event("beat", padding="x" * 4096)
                time.sleep(0.05)
    """
    got = run(tmp_path, code, limits={"out_bytes": 2 << 20})
    result = result_of(got)
    assert (result["failure"]["boundary"], result["failure"]["kind"]) == ("trainer", "disk_limit"), result["failure"]
    assert result["scores"]["initial"]["train"] == -3.0, "and what it had come to is scored"


def test_a_line_that_does_not_fit_leaves_no_half_of_itself(small_disk: Path) -> None:
    recorder = Recorder(small_disk, stdout_bytes=1 << 20, reserve_bytes=64 << 10)
    recorder.event("first", {})
    recorder.event("large", {"text": "x" * (4 << 20)})
    assert (recorder.full, recorder.lost) == (True, 1)
    recorder.event("last", {})
    recorder.state("initial", {"x": "y" * (4 << 20)})
    assert recorder.result({"status": "ok"}) and recorder.lost == 2
    assert [e["event"] for e in whole_lines((small_disk / "events.jsonl").read_bytes())] == ["first", "last"]
    assert sorted(p.name for p in small_disk.iterdir()) == [
        "events.jsonl", "result.json", "state_history.jsonl", "stdout.log"
    ]  # fmt: skip


def test_the_reserve_is_part_of_the_disk_and_has_no_name(small_disk: Path) -> None:
    def free() -> int:
        stat = os.statvfs(small_disk)
        return stat.f_bavail * stat.f_frsize

    before = free()
    recorder = Recorder(small_disk, stdout_bytes=0, reserve_bytes=256 << 10)
    assert before - free() >= 224 << 10 and not (small_disk / ".reserve").exists()
    recorder.event("large", {"text": "x" * free()})
    assert before - free() >= 112 << 10, "half of it is the result's alone"
    assert recorder.result({"text": "x" * (100 << 10)})
