from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images.lock import Base, ImagePin, lock_path, read_lock, record

BASE = Base("b:1", "packages:1", "debian", None, "3.11", "x86_64", "2.36", ("libc6=2.36",))
PIN = ImagePin(
    "core",
    "trace-bench/core:1",
    "1" * 64,
    "sha256:2",
    "packages:1",
    "2025-01-01T00:00:00Z",
    parts={"base": "packages:1"},
)


def test_what_is_recorded_is_read_again(tmp_path: Path) -> None:
    assert read_lock(tmp_path).images == {}
    record(PIN, BASE, home=tmp_path)
    lock = read_lock(tmp_path)
    assert lock.images == {"core": PIN}
    assert lock.bases == {"packages:1": BASE}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["images.lock.json"]


def test_a_base_that_nobody_stands_on_is_forgotten(tmp_path: Path) -> None:
    record(PIN, BASE, home=tmp_path)
    record(replace(PIN, base="packages:2"), replace(BASE, identity="packages:2"), home=tmp_path)
    assert set(read_lock(tmp_path).bases) == {"packages:2"}


def test_drift_is_never_written(tmp_path: Path) -> None:
    record(replace(PIN, drift=("worker",)), BASE, home=tmp_path)
    assert "drift" not in json.loads(lock_path(tmp_path).read_text())["images"]["core"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2}', '{"images": {"core": {}}}', '{"surprise": 1}'])
def test_a_broken_lock_is_one_sentence_with_a_remedy(tmp_path: Path, text: str) -> None:
    lock_path(tmp_path).write_text(text)
    with pytest.raises(EnvironmentUnavailable) as caught:
        read_lock(tmp_path)
    message = str(caught.value)
    assert message.startswith(str(lock_path(tmp_path))) and "remove the file" in message and "\n" not in message


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "named"))
    assert lock_path() == tmp_path / "named" / "images.lock.json"
    monkeypatch.delenv("TRACE_BENCH_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert lock_path() == tmp_path / "xdg" / "trace-bench" / "images.lock.json"
