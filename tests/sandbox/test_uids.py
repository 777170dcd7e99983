"""Blocks of uids are disjoint over processes, survive no holder, and can be adopted."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox import locks, uids
from trace_bench.sandbox.uids import BLOCK, DEFAULT_BASE, UidBlocks

HOLD = """
import sys
from pathlib import Path
from trace_bench.sandbox.uids import UidBlocks
block = UidBlocks(directory=Path(sys.argv[1])).acquire()
print(block.base, flush=True)
sys.stdin.read()
"""


def holder(directory: Path) -> tuple[subprocess.Popen[str], int]:
    """Another process that holds a block."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_blocks_are_disjoint_and_come_back(tmp_path: Path) -> None:
    blocks = UidBlocks(directory=tmp_path)
    with blocks.acquire() as first, blocks.acquire() as second:
        assert (first.base, second.base) == (DEFAULT_BASE, DEFAULT_BASE + BLOCK)
    with blocks.acquire() as again:
        assert again.base == DEFAULT_BASE


def test_looking_for_a_free_block_opens_no_file_of_those_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = UidBlocks(directory=tmp_path)
    opened: list[Path] = []
    inner = locks.open_shared
    monkeypatch.setattr(locks, "open_shared", lambda path: (opened.append(path), inner(path))[1])
    held = [blocks.acquire() for _ in range(50)]
    assert len(opened) == 50, "one each: hundreds of jobs at once do not look at each other's"
    held[7].release()
    assert blocks.acquire().base == DEFAULT_BASE + 7 * BLOCK
    for block in held:
        block.release()


def test_threads_get_blocks_of_their_own(tmp_path: Path) -> None:
    blocks = UidBlocks(directory=tmp_path)
    with ThreadPoolExecutor(8) as pool:
        held = list(pool.map(lambda _: blocks.acquire(), range(40)))
    assert len({block.base for block in held}) == 40
    for block in held:
        block.release()
        block.release()


def test_block_of_another_process_is_left_alone_until_it_dies(tmp_path: Path) -> None:
    process, base = holder(tmp_path)
    blocks = UidBlocks(directory=tmp_path)
    try:
        with blocks.acquire() as block:
            assert block.base != base
        with pytest.raises(EnvironmentUnavailable, match=f"{base} is held by a controller that is alive"):
            blocks.adopt(base)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.__exit__(None, None, None)
    with blocks.adopt(base) as block:
        assert block.base == base
        with blocks.acquire() as other:
            assert other.base != base


def test_who_looks_holds_nothing_and_is_waited_for(tmp_path: Path) -> None:
    blocks = UidBlocks(directory=tmp_path)
    with blocks.acquire() as block:
        base = block.base
        assert blocks.is_held(base)
    assert not blocks.is_held(base)
    looker = locks.try_lock(blocks._path(base), fcntl.LOCK_SH)
    assert looker is not None and not blocks.is_held(base)
    threading.Timer(0.1, os.close, [looker]).start()
    with blocks.adopt(base) as adopted:
        assert adopted.base == base


def test_bases_that_sandboxes_still_use_are_skipped(tmp_path: Path) -> None:
    blocks = UidBlocks(directory=tmp_path)
    with blocks.acquire(taken={DEFAULT_BASE, DEFAULT_BASE + BLOCK}) as block:
        assert block.base == DEFAULT_BASE + 2 * BLOCK


def test_no_block_left_is_one_sentence(tmp_path: Path) -> None:
    blocks = UidBlocks(directory=tmp_path, slots=1)
    with blocks.acquire(), pytest.raises(EnvironmentUnavailable, match=r"none of the 1 uid blocks .* run fewer jobs"):
        blocks.acquire()


def test_uids_of_users_are_never_given_out(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="1 of them belong to users of this host"):
        UidBlocks(base=65534 - 15, directory=tmp_path, slots=1).acquire()  # nobody, on every Linux


def test_subordinate_uids_of_users_are_never_given_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "_subuid_ranges", lambda: [(200_000, 24)])
    with UidBlocks(base=200_000, directory=tmp_path).acquire() as block:
        assert block.base == 200_032


def test_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    (tmp_path / f"uid-{DEFAULT_BASE}.lock").symlink_to(target)
    with pytest.raises(EnvironmentUnavailable, match="is a link"):
        UidBlocks(directory=tmp_path).acquire()


def test_base_out_of_range_is_refused(tmp_path: Path) -> None:
    for base in (0, -16, 2**31 - 16):
        with pytest.raises(EnvironmentUnavailable, match="choose another base"):
            UidBlocks(base=base, directory=tmp_path)


def test_lock_folder_is_shared_by_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locks.LOCK_DIR_VARIABLE, str(tmp_path / "locks"))
    found = locks.default_directory()
    assert found == tmp_path / "locks"
    assert found.stat().st_mode & 0o7777 == 0o1777


def test_lock_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(locks.LOCK_DIR_VARIABLE, str(tmp_path / "file" / "locks"))
    with pytest.raises(EnvironmentUnavailable, match=f"set {locks.LOCK_DIR_VARIABLE}"):
        locks.default_directory()
