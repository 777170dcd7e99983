"""The log: lines of key=value, masked and escaped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_bench.display.log import entry, logged_aside, logged_to, logged_to_file
from trace_bench.secrets import known

LOG = logging.getLogger("trace_bench.somewhere.module")
KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    yield
    known.clear()


def test_a_record_is_one_line_with_time_level_module_and_values() -> None:
    lines: list[str] = []
    with logged_to(lines.append):
        LOG.info(entry("job.start", job_id="0123456789ab", host=None, jobs=[1, 2], why="two words"))
        LOG.debug("not shown")
        LOG.warning("plain")
    LOG.warning("after the block")
    first, second = lines
    stamp, rest = first.split(" ", 1)
    assert len(stamp) == len("2026-01-02T03:04:05.678Z") and stamp.endswith("Z")
    assert rest == 'INFO somewhere.module: job.start job_id=0123456789ab jobs=[1,2] why="two words"'
    assert second.endswith("WARNING somewhere.module: plain")


def test_secrets_are_masked_and_no_text_forges_a_line(tmp_path: Path) -> None:
    known.add([KEY])
    path = tmp_path / "controller.log"
    with logged_to_file(path):
        LOG.info(entry("failed", why=f"key {KEY}\n2026 INFO forged\x1b[2J", long="x" * 5000))
        try:
            raise ValueError("of the cause\nin lines")
        except ValueError:
            LOG.exception("broke")
    text = path.read_text(encoding="utf-8")
    assert KEY not in text and "\x1b" not in text and len(text.splitlines()) == 2
    assert "ValueError: of the cause" in text and len(text) < 1500


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    with logged_to_file(tmp_path / "missing" / "controller.log"):
        LOG.info("goes nowhere")

    def full(line: str) -> None:
        raise OSError("no space left on device")

    with logged_to(full):
        LOG.info("goes nowhere")


def test_a_terminal_that_stands_still_holds_up_no_thread_that_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.display.log.MOST_PENDING", 50)
    lines: list[str] = []
    moves = threading.Event()

    def write(line: str) -> None:
        moves.wait(20)
        lines.append(line)

    with logged_aside(write):
        for number in range(1000):
            LOG.info(entry("step", number=number))
        assert not lines
        moves.set()
    numbers = [int(line.rpartition("=")[2]) for line in lines]
    assert numbers == sorted(numbers) and 50 <= len(numbers) < 100
