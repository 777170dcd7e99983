"""What a supervisor writes is whole after a power cut, too: the next controller collects what a container has left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.execution.disk import Disk
from trace_bench.worker.recorder import Recorder


def test_a_result_is_flushed_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        disk = Disk(tmp_path, patch)
        recorder = Recorder(tmp_path, 1000)
        for result in ({"status": "failed"}, {"status": "ok"}):
            recorder.state("initial", {"x": 1.0})
            recorder.result(result)
            least = disk.image("least")
            left = {name: json.loads(file.content) for name, file in least.items() if file and name.endswith(".json")}
            assert left == {"states.json": {"initial": {"x": 1.0}}, "result.json": result}
        names = [(name, path) for name, path in disk.steps]
        result = names.index(("replace", "result.json"))
        assert {("fsync", "states.json"), ("fsync", "."), ("fsync", ".result.json.tmp")} <= set(names[:result])
        assert names[result + 1] == ("fsync", ".")
        disk.close()
