"""A small host: starts the real worker as a process and speaks the real control stream to it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.worker.control_stream import Decoder, Mailbox, Message

Answer = Callable[[dict[str, Any], bytes], tuple[int, bytes, dict[str, Any]] | None]
"""None: the model never answers."""


def no_model(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
    return 503, b'{"error": {"message": "no model here"}}', {}


@dataclass
class Outcome:
    code: int | None
    result: dict[str, Any] | None
    events: list[dict[str, Any]]
    history: list[dict[str, Any]]
    log: str
    stderr: str
    files: dict[str, bytes]
    requests: list[dict[str, Any]] = field(default_factory=list)
    checkpoint: list[dict[str, Any]] = field(default_factory=list)
    """What the search learnt, as the host keeps it."""

    @property
    def states(self) -> dict[str, Any]:
        return json.loads(self.files["states.json"])


class WorkerProcess:
    """The worker on this machine: with uids if `uid_base` is given (needs root), else ``--local``."""

    def __init__(
        self,
        uid_base: int | None = None,
        lease: float = 20.0,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.top = Path(tempfile.mkdtemp(prefix="trace-bench-test-"))
        self.top.chmod(0o755)
        self.out, self.tmp = self.top / "out", self.top / "tmp"
        self.out.mkdir()
        self.tmp.mkdir()
        where = ["--uid-base", str(uid_base)] if uid_base is not None else ["--local"]
        self.process = subprocess.Popen(
            [python, "-sP", "-m", "trace_bench.worker", *where, "--lease", str(lease),
             "--out", str(self.out), "--tmp", str(self.tmp)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", **(env or {})},
        )  # fmt: skip
        self.mailbox, self.decoder = Mailbox(), Decoder()

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def messages(self, timeout: float) -> list[Message] | None:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return []
        data = os.read(self.process.stdout.fileno(), 1 << 18)
        return list(self.decoder.feed(data)) if data else None

    def close(self) -> str:
        self.process.kill()
        stderr = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        return stderr

    def remove(self) -> None:
        shutil.rmtree(self.top, ignore_errors=True)


def job(task: dict[str, Any], trainer: dict[str, Any], **over: Any) -> dict[str, Any]:
    """A ``job.json`` with defaults."""
    return {
        "contract": 1, "run_id": "test", "job_id": "0" * 12, "fingerprint": "0" * 64,
        "task": {"id": "internal:test", "suite": "internal", "content_hash": "0" * 64, "eval_kwargs": {}, "spec": {},
                 **task},
        "trainer": {"params": {}, **trainer},
        "optimizer": {"id": "OptoPrime", "kwargs": {}}, "seed": 1, "mode": "stub",
        "model": {"id": "stub", "provider": "stub", "model": "stub", "sampling": {}}, "budget": {},
        "limits": {"job_timeout": None, "score_timeout": 30, "stdout_bytes": 1 << 20, "out_bytes": 8 << 20,
                   "memory_bytes": None, "pids": None},
        **over,
    }  # fmt: skip


def run_worker(
    spec: dict[str, Any],
    blob: bytes = b"",
    *,
    answer: Answer = no_model,
    uid_base: int | None = None,
    timeout: float = 60.0,
    on_message: Callable[[WorkerProcess, Message], None] | None = None,
    env: dict[str, str] | None = None,
    python: str = sys.executable,
    checkpoint: list[dict[str, Any]] | None = None,
    states: bytes = b"",
) -> Outcome:
    """Run one job to its end, or on from `checkpoint`, what an earlier attempt had learnt. `states` are those of a job
    with ``states_given``."""
    worker = WorkerProcess(uid_base, env=env, python=python)
    outcome = Outcome(None, None, [], [], "", "", {})
    deadline = time.monotonic() + timeout
    last_beat = 0.0
    found: list[Message] | None = []
    try:
        worker.send(worker.mailbox.pack_ephemeral("hello", {"controller": "t", "received": 0, "lease": 20}))
        lines = b"".join(json.dumps(line).encode() + b"\n" for line in checkpoint or ())
        seconds = max((line.get("seconds", 0.0) for line in checkpoint or ()), default=0.0)
        known = {"checkpoint_bytes": len(lines), "seconds_before": seconds, "states_bytes": len(states)}
        worker.send(worker.mailbox.pack("job", {"job": spec, **known}, blob + lines + states))
        while time.monotonic() < deadline:
            if time.monotonic() - last_beat > 2:
                last_beat = time.monotonic()
                with contextlib.suppress(BrokenPipeError):
                    worker.send(worker.mailbox.pack_ephemeral("heartbeat"))
            found = worker.messages(1.0)
            if found is None:
                break
            for message in found:
                kind, header = message.type, message.header
                if kind == "ack":
                    worker.mailbox.acknowledged(header["received"])
                    continue
                if not worker.mailbox.accept(message):
                    continue
                if "n" in header:
                    worker.send(worker.mailbox.ack())
                if kind == "event":
                    outcome.events.append(header["event"])
                    if header["event"]["event"] == "train.end":
                        worker.send(worker.mailbox.pack("heldout", {"test_seed": 4242}))
                elif kind == "history":
                    outcome.history.append(header["line"])
                elif kind == "checkpoint":
                    outcome.checkpoint.append({**json.loads(message.blob), "seconds": header["seconds"]})
                elif kind == "log":
                    outcome.log += header["text"]
                elif kind == "llm.request":
                    outcome.requests.append({**header, "body": message.blob})
                    if (answered := answer(header, message.blob)) is not None:
                        status, body, extra = answered
                        fields = {"id": header["id"], "status": status, **extra}
                        worker.send(worker.mailbox.pack("llm.response", fields, body))
                elif kind == "done":
                    outcome.result = header["result"]
                if on_message is not None:
                    on_message(worker, message)
        outcome.code = worker.process.wait(10) if found is None or outcome.result else worker.process.poll()
    finally:
        outcome.stderr = worker.close()
        for path in sorted(worker.out.rglob("*")):
            if path.is_file() and not path.is_symlink():
                outcome.files[str(path.relative_to(worker.out))] = path.read_bytes()
        worker.remove()
    return outcome
