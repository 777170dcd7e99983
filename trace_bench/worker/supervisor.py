"""The first process of a sandbox: it speaks with the host, starts the phases one after another, and writes the files.

It runs for the whole job as uid 0 and never imports code of a task, a trainer or a plug-in, nor parses anything that a
candidate said. Forking is the spawner's business (see there why); this is the other half.

The order: read ``job`` → build and (importing ahead) train start → build says what is trainable → train runs → the
host hands over the held-out seed → score, fresh → ``result.json`` → ``done`` → exit once the host has acknowledged, or
the lease has ended.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import socket
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.worker import spawner, wire
from trace_bench.worker.frames import CHUNK, PADDING, Decoder, Mailbox, Message
from trace_bench.worker.recorder import Recorder
from trace_bench.worker.relay import Relay, RelayRequest

LEASE_ENDED = 75
"""Exit code: no controller renewed the lease."""
PROTOCOL_BROKEN = 76
"""Exit code: the host hung up before it sent a job."""
STOP_GRACE = 5.0
"""Seconds that a phase has, after it was asked to stop, before it is killed."""
DISK_INTERVAL = 0.25
_ALLOWED_PENDING = 64 << 20


@dataclass
class _PhaseProcess:
    name: str
    ctl: socket.socket
    out: int
    unpacker: wire.Unpacker = field(default_factory=wire.Unpacker)
    relay: Relay | None = None
    result: dict[str, Any] | None = None
    failure: dict[str, str] | None = None
    exited: dict[str, Any] | None = None
    started: float = field(default_factory=time.monotonic)
    kill_at: float | None = None
    drained: bool = False
    unsent: bytearray = field(default_factory=bytearray)


class Supervisor:
    """One job, from ``job`` to ``done``."""

    def __init__(self, options: spawner.Options, out: Path, lease: float) -> None:
        # Before anything else: the spawner must be forked from memory that has read nothing.
        self._spawn = spawner.fork(options)
        self._options = options
        self._out_dir = out
        self._tmp = options.tmp
        self._lease = lease
        self._selector = selectors.DefaultSelector()
        self._decoder = Decoder()
        self._mailbox = Mailbox()
        self._outgoing = bytearray()
        self._stdin_open = True
        self._last_heard = time.monotonic()
        self._last_beat = 0.0
        self._last_disk = 0.0
        self._job: dict[str, Any] = {}
        self._recorder: Recorder | None = None
        self._phases: dict[str, _PhaseProcess] = {}
        self._build: dict[str, Any] | None = None
        self._failure: dict[str, str] | None = None
        self._stop_reason: str | None = None
        self._score: dict[str, Any] | None = None
        self._train_evaluations = 0
        self._train_done = False
        self._test_seed: int | None = None
        self._have_test_seed = False
        self._awaiting_seed = False
        self._seconds: dict[str, float] = {}
        self._warnings: list[str] = []
        self._tokens = {"prompt_tokens": 0, "completion_tokens": 0}
        self._llm_calls = 0
        self._llm_inert = 0
        self._llm_waiting: dict[str, tuple[dict[str, Any], bytes, Callable[[int, bytes], None]]] = {}
        self._controller: str | None = None
        self._train_end: dict[str, Any] | None = None
        self._done = False
        self._exit: int | None = None

    # -- loop ----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until the job is over; returns the exit code."""
        for fd in (0, 1):
            os.set_blocking(fd, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ask_to_stop("interrupted"))
        self._selector.register(0, selectors.EVENT_READ, lambda _: self._on_stdin())
        self._selector.register(self._spawn, selectors.EVENT_READ, lambda _: self._on_spawner())
        self._say_hello()
        while self._exit is None:
            for key, mask in self._selector.select(timeout=0.2):
                handler: Callable[[int], None] = key.data
                handler(mask)
                if self._exit is not None:
                    break
            self._tick()
        self._spawn.close()
        self._drain_stdout()
        return self._exit

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._last_heard > self._lease:
            sys.stderr.write("trace-bench: no controller renewed the lease; ending\n")
            self._exit = LEASE_ENDED
            return
        if self._done and self._mailbox.pending == 0:
            self._exit = 0
            return
        if now - self._last_beat > self._lease / 4:
            self._last_beat = now
            self._send(self._mailbox.pack_ephemeral("heartbeat"))
        if self._recorder is None:
            return
        if now - self._last_disk > DISK_INTERVAL:
            self._last_disk = now
            self._watch_disk()
        for phase in list(self._phases.values()):
            self._watch_clock(phase, now)

    def _watch_clock(self, phase: _PhaseProcess, now: float) -> None:
        limits = self._job["limits"]
        elapsed = now - phase.started
        if phase.kill_at is not None and now > phase.kill_at:
            self._kill(phase.name)
            return
        if phase.name == "train" and self._build is not None and phase.kill_at is None:
            seconds = limits.get("job_timeout")
            if seconds is not None and elapsed > seconds:
                self._failure = self._failure or {
                    "boundary": "trainer",
                    "kind": "job_timeout",
                    "message": f"training took more than job_timeout = {seconds:g} s; its best state was scored",
                }
                self._ask_to_stop("timeout")
            allowed = self._job["budget"].get("seconds")
            if allowed is not None and elapsed > allowed:
                self._ask_to_stop("budget")
        elif phase.name in ("build", "score") and phase.kill_at is None:
            seconds = limits.get("score_timeout")
            if seconds is not None and elapsed > seconds:
                self._fail(
                    "task",
                    f"{phase.name}_timeout",
                    f"{phase.name} took more than score_timeout = {seconds:g} s",
                )
                self._kill(phase.name)
                phase.kill_at = now + STOP_GRACE

    def _watch_disk(self) -> None:
        used = _tree_bytes(self._out_dir / "extra", self._job["limits"]["out_bytes"])
        if used > self._job["limits"]["out_bytes"] and "train" in self._phases:
            self._fail(
                "trainer",
                "disk_limit",
                f"the trainer left more than {self._job['limits']['out_bytes']} bytes in its output folder",
            )
            self._kill("train")
            wire.send_datagram(self._spawn, {"op": "purge", "name": "train", "path": str(self._out_dir / "extra")})

    # -- the host ------------------------------------------------------------------------------------------------

    def _on_stdin(self) -> None:
        try:
            data = os.read(0, 1 << 18)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(0)
            self._stdin_open = False
            if self._recorder is None:
                self._exit = PROTOCOL_BROKEN
            return
        for message in self._decoder.feed(data):
            self._last_heard = time.monotonic()
            if message.type == "hello":
                self._on_hello(message)
            elif message.type == "ack":
                self._mailbox.acknowledged(int(message.header["received"]))
            elif self._mailbox.accept(message):
                self._on_message(message)
                if "n" in message.header:
                    self._send(self._mailbox.ack())
            elif message.header.get("n", 0) > self._mailbox.received:
                self._say_hello()

    def _on_hello(self, message: Message) -> None:
        self._lease = float(message.header.get("lease", self._lease))
        controller = str(message.header.get("controller"))
        self._send(PADDING)
        self._say_hello()
        self._send(self._mailbox.resend(int(message.header.get("received", 0))))
        if self._controller not in (None, controller):
            self._ask_again()
        self._controller = controller

    def _ask_again(self) -> None:
        """What the last controller took but may not have answered: LLM calls, and the held-out seed."""
        for fields, body, _ in list(self._llm_waiting.values()):
            self._send(self._mailbox.pack("llm.request", fields, body))
        if self._train_end is not None and not self._have_test_seed:
            self._send(self._mailbox.pack("event", {"event": self._train_end}))

    def _say_hello(self) -> None:
        fields = {"received": self._mailbox.received, "forgotten": self._mailbox.forgotten}
        self._send(self._mailbox.pack_ephemeral("hello", fields))

    def _on_message(self, message: Message) -> None:
        kind, header = message.type, message.header
        if kind == "job" and not self._job:
            self._begin(header["job"], message.blob)
        elif kind == "llm.response":
            self._on_llm_response(header, message.blob)
        elif kind == "heldout":
            self._test_seed, self._have_test_seed = header["test_seed"], True
            if self._awaiting_seed:
                self._start_score()
        elif kind == "stop":
            self._ask_to_stop(header.get("reason", "interrupted"))

    def _send(self, data: bytes) -> None:
        self._outgoing += data
        self._drain_stdout()

    def _drain_stdout(self) -> None:
        try:
            while self._outgoing:
                written = os.write(1, self._outgoing[: 4 * CHUNK])
                del self._outgoing[:written]
        except BlockingIOError:
            if 1 not in self._selector.get_map():
                self._selector.register(1, selectors.EVENT_WRITE, lambda _: self._drain_stdout())
            if len(self._outgoing) > _ALLOWED_PENDING:
                # Nobody reads. What matters is numbered and will be asked for again.
                self._outgoing.clear()
            return
        except BrokenPipeError:
            self._outgoing.clear()
        if 1 in self._selector.get_map():
            self._selector.unregister(1)

    # -- the job -------------------------------------------------------------------------------------------------

    def _begin(self, job: dict[str, Any], task: bytes) -> None:
        self._job = job
        self._recorder = Recorder(self._out_dir, job["limits"]["stdout_bytes"])
        task_dir = self._tmp / "task"
        task_dir.mkdir(mode=0o755)
        if task:
            _unpack(task, task_dir)
        extra = self._out_dir / "extra"
        extra.mkdir(exist_ok=True)
        if self._options.uid_base is not None:
            uid = self._options.uid_base + spawner.PHASE_OFFSETS["train"]
            os.chown(extra, uid, uid)
        self._event("job.start", {"task": job["task"]["id"], "trainer": job["trainer"]["id"], "seed": job["seed"]})
        self._start_phase("build", {"job": job})
        self._start_phase("train", {"job": job, "extra_dir": str(extra)})

    def _start_phase(self, name: str, start: dict[str, Any]) -> None:
        ctl, theirs = socket.socketpair()
        ctl.setblocking(False)
        out_read, out_write = os.pipe()
        os.set_blocking(out_read, False)
        phase = _PhaseProcess(name, ctl, out_read)
        self._phases[name] = phase
        if name != "build":
            uid = self._options.uid_base
            phase.relay = Relay(
                self._selector,
                None if uid is None else uid + spawner.PHASE_OFFSETS[name],
                lambda request, answer: self._on_llm_request(name, request, answer),
            )
        wire.send_datagram(self._spawn, {"op": "phase", "name": name}, (theirs.fileno(), out_write))
        theirs.close()
        os.close(out_write)
        self._selector.register(ctl, selectors.EVENT_READ, lambda mask: self._on_phase(phase, mask))
        self._selector.register(out_read, selectors.EVENT_READ, lambda _: self._on_output(phase))
        port = phase.relay.port if phase.relay else None
        self._tell(phase, {"op": "start", "task_dir": str(self._tmp / "task"), "gateway_port": port, **start})
        self._event("phase.start", {"phase": name})

    def _tell(self, phase: _PhaseProcess, message: dict[str, Any]) -> None:
        phase.unsent += wire.pack(message)
        self._flush_phase(phase)

    def _flush_phase(self, phase: _PhaseProcess) -> None:
        try:
            while phase.unsent:
                sent = phase.ctl.send(phase.unsent)
                del phase.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            phase.unsent.clear()
        if phase.ctl.fileno() in {key.fd for key in self._selector.get_map().values()}:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if phase.unsent else 0)
            self._selector.modify(phase.ctl, events, lambda mask: self._on_phase(phase, mask))

    def _ask_to_stop(self, reason: str) -> None:
        if self._stop_reason is not None and self._stop_reason != "completed":
            return
        self._stop_reason = reason
        if reason == "interrupted":
            self._event("stop.requested", {"reason": reason})
        for phase in self._phases.values():
            if phase.name == "train":
                self._tell(phase, {"op": "go"})
                self._tell(phase, {"op": "stop", "reason": reason})
                phase.kill_at = time.monotonic() + STOP_GRACE

    def _kill(self, name: str) -> None:
        wire.send_datagram(self._spawn, {"op": "kill", "name": name})

    def _fail(self, boundary: str, kind: str, message: str) -> None:
        # The first failure is the cause; what follows from it would only hide it.
        if self._failure is None:
            self._failure = {"boundary": boundary, "kind": kind, "message": message}
            self._event("failure", self._failure)

    def _event(self, kind: str, fields: dict[str, Any]) -> dict[str, Any] | None:
        if self._recorder is None:
            return None
        line = self._recorder.event(kind, fields)
        self._send(self._mailbox.pack("event", {"event": line}))
        return line

    # -- phases --------------------------------------------------------------------------------------------------

    def _on_phase(self, phase: _PhaseProcess, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush_phase(phase)
        if not mask & selectors.EVENT_READ:
            return
        try:
            data = phase.ctl.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(phase.ctl)
            phase.drained = True
            self._end_if_over(phase)
            return
        try:
            for message in phase.unpacker.feed(data):
                self._on_report(phase, message)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            boundary = "trainer" if phase.name == "train" else "task"
            self._fail(boundary, "bad_report", f"{phase.name} sent what is no report: {error}")
            self._kill(phase.name)

    def _on_report(self, phase: _PhaseProcess, message: dict[str, Any]) -> None:
        assert self._recorder is not None
        op = message["op"]
        if op == "event":
            self._event(str(message["kind"])[:100], dict(message["fields"]))
        elif op == "history" and phase.name == "train":
            line = {**message["line"], **self._tokens, "seconds": round(time.monotonic() - phase.started, 6)}
            self._recorder.history(line)
            self._send(self._mailbox.pack("history", {"line": line}))
        elif op == "state" and phase.name == "train" and message["kind"] in ("best", "final"):
            self._recorder.state(message["kind"], dict(message["values"]))
        elif op == "warn":
            self._warn(str(message["message"])[:2000])
        elif op == "result":
            phase.result = message
        elif op == "failed":
            phase.failure = {k: str(message[k])[:4000] for k in ("boundary", "kind", "message")}

    def _warn(self, message: str) -> None:
        if len(self._warnings) < 100:
            self._warnings.append(message)
        self._event("warning", {"message": message})

    def _on_output(self, phase: _PhaseProcess) -> None:
        assert self._recorder is not None
        try:
            data = os.read(phase.out, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(phase.out)
            os.close(phase.out)
            phase.out = -1
            return
        if self._recorder.log(data):
            text = data.decode("utf-8", "replace")
            self._send(self._mailbox.pack_ephemeral("log", {"phase": phase.name, "text": text}))
        elif self._failure is None or self._failure["kind"] != "output_limit":
            boundary = "trainer" if phase.name == "train" else "task"
            limit = self._job["limits"]["stdout_bytes"]
            self._fail(boundary, "output_limit", f"{phase.name} printed more than {limit} bytes")
            self._kill(phase.name)

    def _on_spawner(self) -> None:
        received = wire.receive_datagram(self._spawn)
        if received is None:
            sys.stderr.write("trace-bench: the spawner ended\n")
            self._exit = 70
            return
        message, _ = received
        if message["op"] == "exit":
            phase = self._phases[message["name"]]
            phase.exited = message
            self._end_if_over(phase)

    def _end_if_over(self, phase: _PhaseProcess) -> None:
        # Both the process and its last words: an exit may overtake what was written before it.
        if phase.exited is None or not phase.drained or phase.name not in self._phases:
            return
        if phase.out >= 0:
            self._on_output(phase)
        if phase.out >= 0:
            self._selector.unregister(phase.out)
            os.close(phase.out)
        phase.ctl.close()
        if phase.relay is not None:
            phase.relay.close()
        del self._phases[phase.name]
        self._seconds[phase.name] = round(time.monotonic() - phase.started, 6)
        self._event("phase.end", {"phase": phase.name, "seconds": self._seconds[phase.name]})
        failure = phase.failure
        if failure is None and phase.result is None:
            failure = _death(phase, self._stop_reason)
        if failure is not None and not (
            phase.name == "train" and self._stop_reason in ("timeout", "interrupted", "budget")
        ):
            self._fail(**failure)
        getattr(self, f"_after_{phase.name}")(phase)

    def _after_build(self, phase: _PhaseProcess) -> None:
        assert self._recorder is not None
        if phase.result is None:
            if "train" in self._phases:
                self._kill("train")
            else:
                self._finish()
            return
        self._build = phase.result
        self._recorder.state("initial", phase.result["initial"])
        self._event("build.end", {k: phase.result[k] for k in ("direction", "parameters", "examples")})
        train = self._phases.get("train")
        if train is not None:
            train.started = time.monotonic()
            self._tell(train, {"op": "go"})
        elif self._train_done:
            self._request_seed()

    def _after_train(self, phase: _PhaseProcess) -> None:
        self._train_done = True
        if phase.result is not None:
            self._train_evaluations = int(phase.result.get("evaluations", 0))
            if self._stop_reason is None:
                self._stop_reason = phase.result.get("stop_reason", "completed")
        if self._build is not None:
            self._request_seed()
        elif "build" not in self._phases:
            self._finish()

    def _request_seed(self) -> None:
        self._awaiting_seed = True
        self._train_end = self._event("train.end", {"stop_reason": self._stop_reason})
        if self._have_test_seed:
            self._start_score()

    def _start_score(self) -> None:
        assert self._recorder is not None
        self._awaiting_seed = False
        states = {
            kind: self._recorder.states[kind] for kind in ("initial", "best", "final") if kind in self._recorder.states
        }
        self._start_phase("score", {"job": self._job, "states": states, "test_seed": self._test_seed})

    def _after_score(self, phase: _PhaseProcess) -> None:
        self._score = phase.result
        self._finish()

    def _finish(self) -> None:
        assert self._recorder is not None
        ok = self._failure is None
        score = self._score or {}
        if self._llm_calls and self._llm_inert == self._llm_calls:
            self._warn("the stub model is inert for this trainer: no request carried variables that it could change")
        result = {
            "contract": 1,
            "status": "ok" if ok else "failed",
            "failure": self._failure,
            "stop_reason": self._stop_reason if self._build is not None else None,
            "scores": score.get("scores", {}),
            "evaluations": self._train_evaluations + int(score.get("evaluations", 0)),
            "llm_calls": self._llm_calls,
            "seconds": self._seconds,
            "warnings": self._warnings,
            "stub_inert": bool(self._llm_calls) and self._llm_inert == self._llm_calls,
        }
        self._event("job.end", {"status": result["status"]})
        self._recorder.result(result)
        self._send(self._mailbox.pack("done", {"result": result}))
        self._done = True

    # -- the gateway ---------------------------------------------------------------------------------------------

    def _on_llm_request(self, phase: str, request: RelayRequest, answer: Callable[[int, bytes], None]) -> None:
        self._llm_calls += 1
        number = f"{phase}-{self._llm_calls}"
        fields = {
            "id": number,
            "phase": phase,
            "method": request.method,
            "path": request.path,
            "headers": request.headers,
        }
        self._llm_waiting[number] = (fields, request.body, answer)
        self._send(self._mailbox.pack("llm.request", fields, request.body))

    def _on_llm_response(self, header: dict[str, Any], body: bytes) -> None:
        waiting = self._llm_waiting.pop(header["id"], None)
        if waiting is None:
            # Asked of two controllers, answered by both.
            return
        self._llm_inert += bool(header.get("inert"))
        usage = header.get("usage") or {}
        for key in self._tokens:
            self._tokens[key] += int(usage.get(key, 0))
        waiting[2](int(header["status"]), body)


def _death(phase: _PhaseProcess, stop_reason: str | None) -> dict[str, str]:
    assert phase.exited is not None
    boundary = "trainer" if phase.name == "train" else "task"
    number, code = phase.exited.get("signal"), phase.exited.get("code")
    if number == signal.SIGKILL:
        text = f"the {phase.name} process was killed (SIGKILL), most likely for want of memory"
    elif number is not None:
        text = f"the {phase.name} process was killed by {signal.Signals(number).name}"
    else:
        text = f"the {phase.name} process exited with code {code} before it reported"
    return {"boundary": boundary, "kind": f"{phase.name}_died", "message": text}


def _unpack(task: bytes, folder: Path) -> None:
    """Unpack the task's folders and plain files. (`tarfile`'s own filters are missing from Python before 3.11.4.)"""
    with tarfile.open(fileobj=io.BytesIO(task)) as tar:
        for member in tar:
            path = folder / member.name
            if ".." in path.parts or member.name.startswith("/"):
                raise ValueError(f"the task's archive has a member outside the task: {member.name}")
            if member.isdir():
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
            elif member.isfile():
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                source = tar.extractfile(member)
                assert source is not None
                path.write_bytes(source.read())
                path.chmod(0o644)


def _tree_bytes(top: Path, enough: int) -> int:
    """Bytes of all files below `top`, links not followed; stops counting beyond `enough`."""
    total = 0
    stack = [str(top)]
    while stack and total <= enough:
        try:
            entries = list(os.scandir(stack.pop()))
        except FileNotFoundError:
            continue
        except OSError:
            # A folder that is hidden from the watcher counts as full.
            return enough + 1
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                stack.append(entry.path)
            else:
                with contextlib.suppress(FileNotFoundError):
                    total += max(4096, entry.stat(follow_symlinks=False).st_size)
    return total
