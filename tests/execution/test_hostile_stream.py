"""A supervisor that was taken over: whatever it writes into the control stream, the controller and other jobs go on."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from tests.execution.bench import Bench
from tests.execution.listening import Listener
from tests.execution.supervisor import Script, Supervisor
from trace_bench.cli.displays import Display, JsonLines, Lines
from trace_bench.cli.live import LiveTable
from trace_bench.execution import live
from trace_bench.execution.events import JobView
from trace_bench.worker.control_stream import CHUNK, MAGIC

ODD: tuple[Any, ...] = (
    None, True, -(10**30), 10**4000, 0.5, float("nan"), float("inf"), "", "x\ud800\r\n\x00\x1b[2J", "x" * 100_000,
    [[], {}, None, [1]], {"a": {"b": [None]}, "": 0}, json.loads("[" * 900 + "]" * 900),
)  # fmt: skip
MESSAGES: dict[str, dict[str, Any]] = {
    "event": {"event": {"t": 0.1, "event": "phase.start", "phase": "train"}},
    "history": {
        "line": {
            "step": 1, "candidate": "c", "split": "validate", "score": 0.5, "best_score": 0.5, "seconds": 0.0,
            "evaluations": 1, "parameters": {"x": 0.5},
        }
    },
    "log": {"phase": "train", "text": "words\n"},
    "llm.request": {"id": "odd", "phase": "train", "method": "POST", "path": "/v1/chat/completions", "headers": {}},
    "checkpoint": {"seconds": 0.1},
    "ack": {"received": 0},
    "hello": {"received": 0, "forgotten": 0},
    "heartbeat": {},
    "heldout": {"test_seed": 1},
}  # fmt: skip
LINES = ("event", "line")


def attacks() -> list[tuple[str, dict[str, Any]]]:
    """Each message with each of its fields, down to those of its line, replaced by each oddity, or left out."""
    found: list[tuple[str, dict[str, Any]]] = []
    for kind, fields in MESSAGES.items():
        for name in (*fields, "type", "n"):
            found += [(kind, {**fields, name: odd}) for odd in ODD]
        found += [(kind, {k: v for k, v in fields.items() if k != name}) for name in fields]
        for name in LINES:
            for inner in fields.get(name, ()):
                found += [(kind, {**fields, name: {**fields[name], inner: odd}}) for odd in ODD]
    return found


def frames_of(header: dict[str, Any]) -> bytes:
    """As `trace_bench.worker.control_stream.encode`, without its care for what the header holds."""
    data = json.dumps(header).encode()
    body, out = struct.pack(">I", len(data)) + data, b""
    for start in range(0, len(body), CHUNK - 1):
        payload = (b"\x01" if start + CHUNK - 1 >= len(body) else b"\x00") + body[start : start + CHUNK - 1]
        out += struct.pack(">4sII", MAGIC, len(payload), zlib.crc32(payload)) + payload
    return out


FACES: dict[str, Callable[[], Display]] = {
    "lines": lambda: Lines(verbosity=2),
    "json": JsonLines,
    "table": lambda: LiveTable(console=Console(file=io.StringIO(), force_terminal=True, width=100)),
}


def test_what_a_supervisor_says_fills_neither_disk_nor_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LIVE_BYTES", 10_000)
    told: dict[str, int] = {}

    class Heard(Listener):
        def sandbox_output(self, job: JobView, phase: str, text: str) -> None:
            told[phase] = told.get(phase, 0) + len(text)

    def say(self: Supervisor, step: int, score: float) -> None:
        for number in range(100):
            self._send("log", phase=f"phase {number}", text="x" * 1000)
        real(self, step, score)

    real = Supervisor._told
    monkeypatch.setattr(Supervisor, "_told", say)
    bench.backend.script = lambda job_id, number: Script(ends="dies")
    layout = bench.run(Heard(), tasks=["internal:numeric_param"], seeds=[1]).layout
    assert len(told) == live.MOST_PHASES
    written = [path.stat().st_size for path in layout.jobs.rglob("stdout.log")]
    assert written and all(size <= 11_000 for size in written)


@pytest.mark.parametrize("face", FACES)
def test_no_word_of_a_supervisor_ends_the_run_or_another_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """One job for each attack, and honest ones beside them; each way to show a run meets a third of the attacks."""
    odd, real = attacks()[list(FACES).index(face) :: len(FACES)], Supervisor._told
    honest = 5

    def say(self: Supervisor, step: int, score: float) -> None:
        assert self._job is not None
        number = self._job["seed"] - honest
        if number >= 0:
            kind, fields = odd[number]
            self.outgoing += frames_of({"type": kind, **fields})  # without a number: it is heard in any case
            numbered = self._mailbox.sent + 1
            if "n" not in fields:
                self._mailbox.pack(kind, {})
                self.outgoing += frames_of({"type": kind, "n": numbered, **fields})
        real(self, step, score)

    monkeypatch.setattr(Supervisor, "_told", say)
    search = {"id": "PrioritySearch", "params_variants": [{"num_steps": 1}]}
    shown = FACES[face]()
    result = bench.run(
        shown.notify, tasks=["internal:numeric_param"], trainers=[search], seeds=list(range(honest + len(odd)))
    )
    shown.close(0)
    rows = {row.seed: row for row in result.rows}
    assert sorted(rows) == list(range(honest + len(odd)))
    for seed, row in rows.items():
        if seed < honest:
            assert row.status == "ok"
        else:
            told = (odd[seed - honest], row.feedback)
            assert row.failure_boundary in (None, "sandbox"), told
    assert bench.backend.alive == 0
