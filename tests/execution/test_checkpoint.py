"""What the host keeps of a search for another attempt: whole lines of a certain form and size, of this very job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import JobLayout
from trace_bench.execution import checkpoint
from trace_bench.execution.attempt_files import keep_attempt, next_attempt
from trace_bench.execution.checkpoint import CheckpointFile

ROLLOUT = {"example_id": "a", "score": 1.0, "feedback": "fine", "failed": False}
MINE, OTHER = "f" * 64, "0" * 64


def line(number: int, **change: Any) -> bytes:
    return json.dumps({"key": f"{number:064x}", "nth": 0, "rollouts": [ROLLOUT], "signs": {}, **change}).encode()


def opened(folder: Path, fingerprint: str = MINE) -> CheckpointFile:
    return CheckpointFile(folder / "checkpoint.jsonl", fingerprint, folder / "aside.jsonl")


def known(found: CheckpointFile) -> list[int]:
    return [int(json.loads(text)["key"], 16) for text in found.known.splitlines()]


def written(folder: Path, *numbers: int) -> None:
    found = opened(folder)
    for number in numbers:
        found.add(line(number), 0.5 * number)
    found.close()


def test_the_next_attempt_gets_what_was_learnt_each_evaluation_once(tmp_path: Path) -> None:
    written(tmp_path, 1, 2, 2, 3)
    again = opened(tmp_path)
    assert known(again) == [1, 2, 3] and again.seconds == 1.5 and again.warnings == []
    again.add(line(4), 9.0)
    again.close()
    last = opened(tmp_path)
    assert known(last) == [1, 2, 3, 4] and last.seconds == 9.0
    for text in (tmp_path / "checkpoint.jsonl").read_text().splitlines():
        schema.validate("checkpoint", json.loads(text))
    last.close()


@pytest.mark.parametrize("torn", [b'{"key": "00', b"\0\0\0\0", b'{"key"'])
def test_a_torn_end_is_dropped_and_the_rest_counts(tmp_path: Path, torn: bytes) -> None:
    written(tmp_path, 1, 2)
    with (tmp_path / "checkpoint.jsonl").open("ab") as file:
        file.write(torn)
    again = opened(tmp_path)
    assert known(again) == [1, 2] and again.warnings == []
    again.add(line(3), 5.0)
    again.close()
    last = opened(tmp_path)
    assert known(last) == [1, 2, 3]
    last.close()


@pytest.mark.parametrize(
    "content",
    [
        b"[]\n{}\n",
        b'{"surprise": 1}\n',
        b'{"fingerprint": 5}\n',
        b"not json\n{}\n",
        b'{"fingerprint":"x"}\n{"key":1}\n',
    ],
)
def test_one_that_is_damaged_is_put_aside_with_a_warning(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint.jsonl").write_bytes(content)
    found = opened(tmp_path)
    (warning,) = found.warnings
    assert "damaged and was not used" in warning and found.known == b""
    assert (tmp_path / "aside.jsonl").read_bytes() == content
    found.add(line(1), 1.0)
    found.close()
    again = opened(tmp_path)
    assert known(again) == [1]
    again.close()


def test_one_of_another_fingerprint_is_put_aside_with_a_warning(tmp_path: Path) -> None:
    written(tmp_path, 1, 2)
    found = opened(tmp_path, OTHER)
    (warning,) = found.warnings
    assert "of another task, image, code" in warning and found.known == b"" and found.seconds == 0.0
    found.close()
    assert (tmp_path / "aside.jsonl").is_file()


ODD: tuple[bytes, ...] = (
    b"", b"5", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 5000, b'{"key": "x"}', line(1)[:-1],
    line(1, key="../../etc/passwd"), line(1, nth=-1), line(1, nth=10**400), line(1, rollouts=5), line(1, surprise=1),
    line(1, signs=[]), line(1, rollouts=[json.loads("[" * 60 + "]" * 60)]), b"x" * (2 << 20),
)  # fmt: skip


def test_what_is_no_line_is_not_kept_whatever_it_is(tmp_path: Path) -> None:
    found = opened(tmp_path)
    for data in ODD:
        found.add(data, 1.0)
    for seconds in (None, "1", True, -1.0, float("nan"), float("inf"), [], 10**400):
        found.add(line(2), seconds)
    found.add(line(3), 2.0)
    found.close()
    again = opened(tmp_path)
    assert known(again) == [3]
    again.close()


@pytest.mark.parametrize("afresh", [False, True])
def test_only_an_attempt_that_begins_afresh_does_without_it(tmp_path: Path, afresh: bool) -> None:
    job = JobLayout(tmp_path / "0123456789ab").make()
    next_attempt(job)
    job.checkpoint.write_bytes(b'{"fingerprint": "x"}\n')
    keep_attempt(job, calls=afresh)
    assert job.checkpoint.exists() != afresh
    assert (job.attempt(1) / "checkpoint.jsonl").exists() == afresh


def test_one_that_has_no_room_beside_the_task_is_not_sent_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 1, 2)
    found = opened(tmp_path)
    assert found.beside(b"task") == (found.known, 1.0) and found.warnings == []
    monkeypatch.setattr(checkpoint, "MAX_MESSAGE", (1 << 20) + 100)
    assert found.beside(b"task") == (b"", 0.0)
    assert "no room beside the task" in found.warnings[0]
    found.close()


def test_no_more_is_kept_than_it_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_BYTES", 5 * len(line(1)))
    written(tmp_path, *range(1, 10))
    again = opened(tmp_path)
    assert known(again) == [1, 2, 3, 4, 5]
    again.close()
