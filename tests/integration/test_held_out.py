"""While a job trains, its held-out seed is nowhere in the sandbox: looked for from outside, as root on the engine's
host, in the memory, environment and files of every process there."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine import RUNTIME
from tests.integration.cli import TASKS, start, write_config
from trace_bench.artifacts.layout import RunLayout
from trace_bench.identity import test_seed as held_out_seed

pytestmark = pytest.mark.docker
SEED = 123456789123
"""Of the job: what is not secret, and is to be found."""


def written(number: int) -> list[bytes]:
    """A number as text, as the machine has it, and as Python's own integers do."""
    digits = [(number >> shift) & ((1 << 30) - 1) for shift in range(0, max(number.bit_length(), 1), 30)]
    return [
        str(number).encode(),
        f"{number:x}".encode(),
        struct.pack("<Q", number),
        struct.pack(f"<{len(digits)}I", *digits),
    ]


def memory_of(pid: int) -> Iterator[bytes]:
    """What a process can read of itself, region by region."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, mode = line.split()[:2]
            if mode[0] != "r" or "[v" in line:
                continue
            low, high = (int(end, 16) for end in span.split("-"))
            try:
                memory.seek(low)
                yield memory.read(high - low)
            except (OSError, OverflowError):
                continue


def files_of(pid: int) -> Iterator[bytes]:
    """Files of the sandbox that are not of its image, and what the process was started with."""
    for name in ("tmp", "out", "run"):
        for path in Path(f"/proc/{pid}/root/{name}").rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path.read_bytes()
    for name in ("environ", "cmdline"):
        yield Path(f"/proc/{pid}/{name}").read_bytes()


def held_by(blocks: Iterator[bytes], wanted: dict[str, list[bytes]]) -> dict[str, bool]:
    """Of each name, whether one of its texts is in a block: one look through them, for there are many."""
    found = dict.fromkeys(wanted, False)
    for block in blocks:
        for name in [name for name, seen in found.items() if not seen]:
            found[name] = any(needle in block for needle in wanted[name])
    return found


@pytest.fixture(scope="module")
def looked(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A job held in training: its processes by role, and what each holds of the seeds."""
    folder = tmp_path_factory.mktemp("held")
    task = {"id": "internal:families", "eval_kwargs": {"hold": True}}
    name = f"20000103-{time.strftime('%H%M%S')}-{time.time_ns() & 0xFFFFFFFF:08x}"
    config = write_config(folder, tasks=[task], trainers=["NoOp"], run_id=name, seeds=[SEED])
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    layout = RunLayout(folder / "runs" / name)
    try:
        found = _held(name, process)
        salt = layout.salt.read_text().strip()
        seed = held_out_seed(salt, "internal:families", SEED)
        secret = [*written(seed), salt.encode()]
        wanted = {"held out": secret, "job": written(SEED), "mark": [b"candidate-held"]}
        seen = {}
        for role, pid in found.items():
            seen[role] = held_by(memory_of(pid), wanted)
            seen[role]["held out"] |= held_by(files_of(pid), {"held out": secret})["held out"]
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()
    assert json.loads(layout.lock.read_text())["salt"] == salt
    return seen


def _held(run: str, process: subprocess.Popen[str]) -> dict[str, int]:
    """Pids, on this host, of trainer, candidate, supervisor and spawner, once there is a candidate."""
    deadline, elsewhere = time.monotonic() + 120, 0
    while time.monotonic() < deadline and process.poll() is None:
        ask = ["docker", "ps", "-q", "--filter", f"label=trace-bench.run={run}"]
        container = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        pids = _pids(container) if container else []
        if pids and not any(Path(f"/proc/{pid}/mem").exists() for pid in pids) and process.poll() is None:
            elsewhere += 1  # not once: a process may have ended meanwhile
            if elsewhere == 20:
                pytest.skip("the engine's processes are not this host's")
        roles: dict[str, int] = {}
        for pid in pids:
            try:
                uid = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
            except FileNotFoundError:
                continue
            if uid == 0:
                roles[f"root {len(roles)}"] = pid
            elif uid % 16 == 1:
                roles["trainer"] = pid
            elif uid % 16 >= 4:
                roles["candidate"] = pid
        if "candidate" in roles and _started(roles["candidate"]):
            return roles
        time.sleep(0.1)
    pytest.fail("no candidate was there before the job ended")


def _pids(container: str) -> list[int]:
    told = subprocess.run(
        ["docker", "top", container, "-eo", "pid"], capture_output=True, text=True, check=False
    ).stdout
    return [int(word) for word in told.split() if word.isdigit()]


def _started(pid: int) -> bool:
    return any(b"candidate-held" in block for block in memory_of(pid))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of others")
@pytest.mark.skipif(RUNTIME is not None, reason="the processes of another runtime need not be this host's")
class TestWhileTraining:
    def test_what_is_looked_for_would_be_found(self, looked: dict[str, Any]) -> None:
        assert looked["trainer"]["job"], "the job's own seed is there"
        assert looked["candidate"]["mark"], "the candidate's own text is there"

    def test_the_held_out_seed_is_in_no_process_and_no_file(self, looked: dict[str, Any]) -> None:
        assert {role for role, seen in looked.items() if seen["held out"]} == set()

    def test_a_candidate_does_not_hold_what_the_trainer_knows_of_the_job(self, looked: dict[str, Any]) -> None:
        assert not looked["candidate"]["job"]
