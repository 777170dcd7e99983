"""What the kernel says of the sandbox's memory, in the files of either version of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.worker import memory
from trace_bench.worker.phase_process import PhaseProcess

OLD = {
    "memory/memory.limit_in_bytes": "167772160\n",
    "memory/memory.max_usage_in_bytes": "167768064\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}
NEW = {
    "memory.max": "167772160\n",
    "memory.peak": "167768064\n",
    "memory.events": "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("files", [OLD, NEW])
def test_limit_peak_and_kills_are_read(tmp_path: Path, files: dict[str, str]) -> None:
    found = memory.account(write(tmp_path, files))
    assert found == {"limit_bytes": 167772160, "peak_bytes": 167768064, "oom_kills": 3}


def test_a_kernel_that_keeps_no_peak_says_none(tmp_path: Path) -> None:
    found = memory.account(write(tmp_path, {k: v for k, v in NEW.items() if k != "memory.peak"}))
    assert found is not None and found["peak_bytes"] is None


@pytest.mark.parametrize(
    "files",
    [
        {},
        {**OLD, "memory/memory.limit_in_bytes": "9223372036854771712\n"},
        {**NEW, "memory.max": "max\n"},
        {**OLD, "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"},
        {**NEW, "memory.events": "oom_kill many\n"},
    ],
)
def test_a_group_that_is_the_machines_or_cannot_be_read_says_nothing(tmp_path: Path, files: dict[str, str]) -> None:
    assert memory.account(write(tmp_path, files)) is None


@pytest.mark.parametrize(
    ("before", "after", "kind", "words"),
    [
        (1, 3, "out_of_memory", "was killed for want of memory"),
        (3, 3, "train_died", "(SIGKILL), and not for want of memory"),
        (None, 3, "train_died", "is not known here"),
        (3, None, "train_died", "is not known here"),
    ],
)
def test_a_phase_was_killed_for_want_of_memory_only_if_the_kernel_says_so(
    monkeypatch: pytest.MonkeyPatch, before: int | None, after: int | None, kind: str, words: str
) -> None:
    monkeypatch.setattr(memory, "oom_kills", lambda: after)
    phase = PhaseProcess.__new__(PhaseProcess)
    phase.name, phase.exited, phase._oom_kills = "train", {"code": None, "signal": 9}, before
    failure = phase.how_it_died()
    assert (failure["boundary"], failure["kind"]) == ("trainer", kind) and words in failure["message"]
