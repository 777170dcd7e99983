"""An engine whose disk is full: a second one, whose data lies on a small disk of the test's own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, TASKS, cli, result_of, write_config

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk and start an engine"),
]
TASK = {"id": "internal:limits", "eval_kwargs": {"who": "trainer", "deed": "full_disk"}}


@dataclass
class SmallEngine:
    data: Path
    host: str

    @property
    def free(self) -> int:
        stat = os.statvfs(self.data)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave: int) -> None:
        with (self.data / "somebody-elses").open("wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, self.free - max(leave, 2 << 20))
            file.seek(0, os.SEEK_END)
            with contextlib.suppress(OSError):  # the last of it goes into the file system's own books, too
                while leave == 0:
                    file.write(bytes(4096))

    def empty(self) -> None:
        (self.data / "somebody-elses").unlink(missing_ok=True)

    def docker(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["docker", "-H", self.host, *arguments], capture_output=True, **options)

    def containers(self) -> list[str]:
        return self.docker("ps", "-aq", check=True).stdout.decode().split()

    def volumes(self) -> list[str]:
        return self.docker("volume", "ls", "-q", check=True).stdout.decode().split()


@pytest.fixture(scope="module")
def small(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallEngine]:
    top = tmp_path_factory.mktemp("engine")
    disk, data, run = top / "disk", top / "data", Path(f"/tmp/tb-full-{os.getpid()}")  # a socket's path must be short
    data.mkdir()
    with disk.open("wb") as file:
        file.truncate(700 << 20)
    for command in (["mkfs.ext4", "-q", "-m", "0", str(disk)], ["mount", "-o", "loop", str(disk), str(data)]):
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip(f"no small disk can be made here: {' '.join(command[:2])}")
    script = str(REPOSITORY / "scripts" / "second-engine")
    where = {**os.environ, "TRACE_BENCH_ENGINE26_RUN": str(run), "TRACE_BENCH_ENGINE26_DATA": str(data)}
    try:
        started = subprocess.run([script, "start"], capture_output=True, text=True, env=where, check=False)
        if started.returncode == 3:
            pytest.skip(started.stderr.strip())
        assert started.returncode == 0, started.stderr
        engine = SmallEngine(data, f"unix://{run}/docker.sock")
        lock = json.loads((images / "images.lock.json").read_text())
        ref = lock["images"]["core"]["ref"]
        saved = subprocess.Popen(["docker", "save", ref], stdout=subprocess.PIPE)
        loaded = engine.docker("load", stdin=saved.stdout)
        assert saved.wait() == 0 and loaded.returncode == 0, loaded.stderr
        yield engine
    finally:
        subprocess.run([script, "stop"], env=where, capture_output=True, check=False)
        subprocess.run(["umount", "-l", str(data)], capture_output=True, check=False)


@pytest.fixture(autouse=True)
def _room_again(small: SmallEngine) -> Iterator[None]:
    yield
    small.empty()


def run(folder: Path, home: Path, engine: SmallEngine, **config: Any) -> tuple[int, str, list[dict[str, Any]]]:
    path = write_config(folder, **config)
    done = cli("run", "--config", str(path), "--root", str(TASKS), "--no-build", "--json", home=home,
               DOCKER_HOST=engine.host)  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr, result_of(done.stdout)["jobs"] if done.stdout else []


def test_no_room_for_a_sandbox_ends_the_run_with_the_remedy_and_the_next_finishes_it(
    images: Path, tmp_path: Path, small: SmallEngine
) -> None:
    config: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "seeds": [1, 2], "retries": 3}
    small.fill(leave=0)
    code, err, _ = run(tmp_path, images, small, **config)
    assert code == 3, err
    assert "the engine's disk is full" in err and "free some" in err
    assert small.containers() == [] and small.volumes() == [], "nothing half made is left"
    metas = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/jobs/*/job_meta.json")]
    assert all(len(meta["attempts"]) <= 1 for meta in metas), "no other attempt would fare better"
    small.empty()
    code, err, rows = run(tmp_path, images, small, **config)
    assert code == 0 and [row["status"] for row in rows] == ["ok", "ok"], err


def test_a_volume_on_a_full_disk_still_takes_the_result(images: Path, tmp_path: Path, small: SmallEngine) -> None:
    """The trainer is within its own limit; the disk below is not."""
    small.fill(leave=24 << 20)
    code, err, (row,) = run(tmp_path, images, small, tasks=[TASK], trainers=["NoOp"], sandbox={"disk": "200m"})
    assert code == 1, err
    assert (row["failure_boundary"], row["failure_kind"]) == ("task", "train_error"), row["feedback"]
    assert "No space left on device" in row["feedback"]
    assert row["score_initial"] == 1.0, "scored, and the result was written with what was kept free"
    assert small.containers() == [] and small.volumes() == []
