# ruff: noqa: E501, PTH102, PTH123, SIM105
"""Attacks on supervisor, spawner and relay from the process that trains (``trainer``), and on the scorer from a
candidate (``CANDIDATES``). While scoring, it looks for what is left of them, and says so in the feedback.

It is for containers: elsewhere it refuses to start.
"""

import json
import os
import socket
import struct
import time
from dataclasses import replace
from pathlib import Path

from trace_bench.worker.problem import CandidateError, Limits, Parameter, Problem, ProblemError, examples

EXTRA = Path("/out/extra")
LIMITS = Limits(wall_seconds=5.0, cpu_seconds=20.0, needs=frozenset({"files", "processes"}))
HANGING = {"c_killer", "c_slow_reader", "c_stopper", "c_visible_stopper"}
"""Candidates that only their wall limit ends: it is short."""


def tell(text):
    """Send `text` over the trainer's connection to the supervisor, as a report."""
    data = text.encode() if isinstance(text, str) else text
    with socket.socket(fileno=os.dup(3)) as ctl:
        ctl.sendall(struct.pack(">I", len(data)) + data)


def ask(data):
    """Send `data` to the spawner, as a request."""
    with socket.socket(fileno=os.dup(4)) as spawner:
        spawner.send(data)


def relay_ports():
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(f[1].split(":")[1], 16) for f in lines if f[3] == "0A"]


def relay():
    for port in relay_ports():
        sock = socket.create_connection(("127.0.0.1", port), 5)
        sock.settimeout(5)
        try:
            sock.sendall(b"GET /v1/models HTTP/1.1\r\n\r\n")
            if sock.recv(1 << 16):
                return sock
        except OSError:
            sock.close()
    raise AssertionError("no relay answers")


def rest():
    time.sleep(2)


def report_evaluations():
    tell('{"op": "result", "evaluations": "many", "stop_reason": "completed"}')
    os._exit(0)


def report_reason():
    tell('{"op": "result", "evaluations": 1, "stop_reason": {"a": 1}}')
    os._exit(0)


def report_boundary():
    tell('{"op": "failed", "boundary": "provider", "kind": "provider_error", "message": "not me"}')
    os._exit(0)


def report_nan_state():
    tell('{"op": "state", "kind": "best", "values": {"x": NaN}}')
    rest()


def report_odd_state():
    tell('{"op": "state", "kind": "best", "values": {"x": {"y": [1, {}]}}}')


def report_surrogate():
    tell('{"op": "event", "kind": "odd", "fields": {"x": "\\ud800"}}')
    tell('{"op": "warn", "message": "\\ud800"}')


def report_odd_history():
    tell('{"op": "history", "line": {"step": "first", "surprise": 1}}')
    rest()


def report_train_end():
    tell('{"op": "event", "kind": "train.end", "fields": {}}')
    rest()


def report_score():
    tell('{"op": "event", "kind": "score", "fields": {"state": "best", "train": 1e9}}')
    rest()


def report_big_event():
    tell(json.dumps({"op": "event", "kind": "big", "fields": {"x": "x" * (20 << 20)}}))
    rest()


def report_deep():
    tell('{"op": "event", "kind": "deep", "fields": {"x": ' + "[" * 900 + "]" * 900 + "}}")
    rest()


def report_lists():
    tell('{"op": "event", "kind": "lists", "fields": {"x": [' + ",".join(["[]"] * (15 << 20)) + "]}}")
    rest()


def report_flood():
    end = time.monotonic() + 60
    text = json.dumps({"op": "event", "kind": "flood", "fields": {"x": "x" * 60_000}})
    while time.monotonic() < end:
        tell(text)


def report_flood_of_states():
    end = time.monotonic() + 60
    text = json.dumps({"op": "state", "kind": "best", "values": {"x": 1.0, "y": "x" * 1_000_000}})
    while time.monotonic() < end:
        tell(text)


def spawner_words():
    for data in (b"[", b"5", b"{}", b'{"op": "close"}', b'{"op": "close", "id": "x"}', b'{"op": "open"}',
                 b'{"op": "open", "modules": 3, "limits": {}}', b'{"op": "open", "modules": [], "limits": []}',
                 b'{"op": "open", "limits": {"cpu_seconds": -1, "memory_bytes": -5, "processes": 1e400}}',
                 b'{"op": "open", "limits": {"cpu_seconds": NaN, "memory_bytes": "x", "processes": null}}',
                 b'{"op": "close", "id": 1e400}', b"[" * 60_000, b"{" + b" " * 100_000 + b"}", b"\xff"):  # fmt: skip
        ask(data)
    rest()


def spawner_never_read():
    while True:
        ask(b'{"op": "close", "id": 1}')


def spawner_modules():
    ask(b'{"op": "open", "modules": ["numpy.f2py.__main__", "numpy.conftest"], "limits": {"cpu_seconds": 1}}')
    rest()


def connections():
    port = relay().getpeername()[1]
    kept = []
    for _ in range(3000):
        try:
            kept.append(socket.create_connection(("127.0.0.1", port), 1))
        except OSError:
            break
    tell('{"op": "state", "kind": "best", "values": {"x": 1.0}}')
    rest()


def superscript_length():
    relay().sendall("POST /v1/x HTTP/1.1\r\nContent-Length: ²\r\n\r\n".encode("latin-1"))
    relay().sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n")
    rest()


def pipelining():
    sock = relay()
    sock.sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    block = b"x" * (1 << 20)
    try:
        for _ in range(300):
            sock.sendall(block)
    except OSError:
        pass


def endless_chunk():
    sock = relay()
    sock.sendall(b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    block = b"1" * (1 << 20)
    try:
        for _ in range(300):
            sock.sendall(block)
    except OSError:
        pass


def large_bodies():
    block = b"x" * (1 << 20)
    kept = []
    for _ in range(40):
        sock = relay()
        kept.append(sock)
        try:
            sock.sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n")
            for _ in range(20):
                sock.sendall(block)
        except OSError:
            pass


def request_flood():
    block = b"x" * (7 << 20)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", relay_ports()[0]), 5) as sock:
            sock.settimeout(5)
            try:
                sock.sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(block) + block)
            except OSError:
                pass


def deep_requests():
    for depth in range(50, 70):
        deep = b"[" * depth + b"]" * depth
        body = b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"a": %s}}' % deep
        head = b"POST /v1/chat/completions HTTP/1.1\r\nX-Trace-Bench-Slot: s%d\r\nContent-Length: %d\r\n\r\n"
        sock = relay()
        sock.sendall(head % (depth, len(body)) + body)
        sock.recv(4096)


def crumbs():
    """Bodies and heads in as many parts as there is room for, and then a byte at a time."""
    parts = [
        b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1_000_000,
        b"POST /v1/x HTTP/1.1\r\n" + b"a: b\r\n" * 1_000_000,
        b"POST /v1/x HTTP/1.1\r\n" + b"a: b\r\n" * 900 + b"Content-Length: 30000000\r\n\r\n",
    ]
    for part in parts:
        sock = relay()
        try:
            sock.sendall(part)
            for _ in range(300):
                sock.sendall(b"1")
                time.sleep(0.001)
        except OSError:
            pass


def pipelined_answers():
    """Requests that the supervisor answers itself while large ones wait."""
    kept = [relay() for _ in range(8)]
    for sock in kept:
        sock.setblocking(False)
    large = b"POST /v1/x HTTP/1.1\r\nContent-Length: 7900000\r\n\r\n" + b"x" * 7_900_000
    left = dict.fromkeys(kept, large * 2)
    small = relay()
    small.settimeout(0.001)
    for _ in range(400):
        for sock in kept:
            try:
                left[sock] = left[sock][sock.send(left[sock]) :]
            except OSError:
                pass
        try:
            small.sendall(b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi" * 100)
        except OSError:
            small = relay()
            small.settimeout(0.001)


def unreadable_folder():
    (EXTRA / "d").mkdir()
    (EXTRA / "d" / "f").touch()
    (EXTRA / "d").chmod(0o444)
    rest()
    (EXTRA / "d").chmod(0o755)


def odd_signal():
    os.kill(os.getpid(), 40)


def sleeping_bomb():
    for _ in range(2000):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            break
    os._exit(3)


def deep_tree():
    os.chdir(os.environ["TMPDIR"])
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    with open("full", "wb") as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass


HEADLESS = """
import ctypes, os, threading, time
def headless(deed):
    if os.fork() == 0:
        os.setsid()
        threading.Thread(target=deed).start()
        # Only this thread ends: the kernel then shows the whole process as a zombie.
        ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


def headless_daemon():
    scope = {}
    exec(HEADLESS, scope)
    scope["headless"](lambda: time.sleep(600))
    time.sleep(0.3)


def headless_stopper():
    scope = {}
    exec(HEADLESS, scope)

    def stop_everybody():
        while True:
            try:
                os.kill(-1, 19)
            except OSError:
                pass

    scope["headless"](stop_everybody)
    time.sleep(0.3)


CANDIDATES = {
    "c_odd_signal": "import os\ndef f(x): os.kill(os.getpid(), 40)",
    "c_import_main": "import numpy.f2py.__main__\ndef f(x): return x",
    "c_import_many": "\n".join(f"import numpy.a{i:060d}" for i in range(1200)) + "\ndef f(x): return x",
    "c_import_more": "\n".join(f"import numpy.a{i:060d}" for i in range(6000)) + "\ndef f(x): return x",
    "c_array_error": (
        "import os, struct, sys\ndef f(x):\n    nonce = sys._getframe(1).f_locals['nonce']\n    body = b'm' + struct.pack('<I', 1) + b's' + struct.pack('<I', 5) + b'phase'"
        " + b'ai8' + bytes([1]) + struct.pack('<Iqq', 2, 1, 2)\n"
        "    os.write(3, struct.pack('<IBQ', len(body), 4, nonce) + body)\n    return x"
    ),
    "c_headless": HEADLESS + "\ndef f(x):\n    headless(lambda: time.sleep(600))\n    time.sleep(.3)\n    return x",
    "c_stopper": HEADLESS
    + "\ndef stop():\n    while True:\n        try: os.kill(-1, 19)\n        except OSError: pass\n"
    "def f(x):\n    headless(stop)\n    time.sleep(.3)\n    return x",
    "c_visible_stopper": "import os, time\ndef f(x):\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n"
    "            try: os.kill(-1, 19)\n            except OSError: pass\n    time.sleep(.1)\n    return x",
    "c_killer": "import os, time\ndef f(x):\n    for i in range(8):\n        if os.fork() == 0:\n            os.setsid()\n"
    "            while True:\n                try: os.kill(-1, 9)\n                except OSError: pass\n"
    "    time.sleep(.3)\n    return x",
    "c_surrogate": "def f(x): return '\\ud800'",
    "c_collisions": "def f(x): return {k * (2**61 - 1): None for k in range(1, 60000)}",
    "c_slow_reader": "import os, struct, sys, time\ndef f(x):\n    if x == 1:\n"
    "        os.write(3, struct.pack('<IBQ', 1, 3, sys._getframe(1).f_locals['nonce']) + b'N')\n"
    "        while True:\n            time.sleep(1); os.read(3, 40000)",
    "c_memory": "def f(x):\n    a = []\n    while True: a.append(bytearray(1 << 24))",
    "c_bomb": "import os, time\ndef f(x):\n    while True:\n        try:\n            if os.fork() == 0: time.sleep(600)\n"
    "        except OSError: return x",
}


def attack(programs, source, limits):
    try:
        with programs.open(source, "f", limits) as program:
            first = program(1)
            return [first, program(["y" * (4 << 20)])] if "40000" in source else first
    except CandidateError as error:
        return str(error)


def is_dead(entry):
    """Ended, and not yet reaped by the first process: on a busy machine that takes a moment."""
    fields = (entry / "stat").read_text().rpartition(") ")[2].split()
    return fields[0] in "ZX" and int(fields[17]) <= 1


def left_over():
    """Processes of the trainer's uid and of the candidates' uids."""
    base = os.getuid() // 16 * 16
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                uid = entry.stat().st_uid
                if uid != os.getuid() and (uid == base + 1 or uid >= base + 4) and not is_dead(entry):
                    found.append(f"{entry.name} of {uid - base}")
            except OSError:
                pass
    return found


def build(context):
    if os.getuid() < 1000 or Path("/work").exists():
        raise ProblemError("this task is for containers")
    deed = context.eval_kwargs["deed"]

    def guide(query, response, reference):
        said = ""
        if os.getuid() % 16 == 1 and deed in globals():
            globals()[deed]()
        elif os.getuid() % 16 == 2 and deed not in CANDIDATES:
            left = left_over()
            if left:
                raise ProblemError(f"still alive while scoring: {left}")
        if deed in CANDIDATES:
            started = time.monotonic()
            limits = replace(LIMITS, wall_seconds=2.0) if deed in HANGING else LIMITS
            said = str(attack(context.programs, CANDIDATES[deed], limits))[:500]
            left = left_over()
            if left:
                raise ProblemError(f"left by the candidate: {left}")
            if time.monotonic() - started > 40:
                raise ProblemError("the candidate held its caller up")
        with context.programs.open("def f(x): return x + 1", "f", LIMITS) as program:
            if program(1) != 2:
                raise ProblemError("an honest candidate was wrong")
        return -abs(response - 3.0), said

    return Problem(
        parameters=(Parameter("x", 1.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Attack.",
        direction="maximize",
        failure_score=-100.0,
    )
