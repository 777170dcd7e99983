"""Attacks on the socket by which a candidate is asked: frames of its own, out of turn, or of no form at all."""

from tests.adversarial.attacks import FAILED, Attack

_FRAME = """
import os, struct, sys
def nonce():
    # What the caller's question carries, so that the answer is taken for its answer.
    frame = sys._getframe()
    while frame is not None:
        if "nonce" in frame.f_locals:
            return frame.f_locals["nonce"]
        frame = frame.f_back
    return 0
def head(op, length):
    return struct.pack("<IBQ", length, op, nonce())
def frame(op, body):
    return head(op, len(body)) + body
def say(data):
    while data:
        data = data[os.write(3, data):]
PERFECT = b"d" + struct.pack("<d", 1e9)
"""

ATTACKS = (
    Attack(
        "two_answers",
        _FRAME + "def attack(honest, *args):\n    say(frame(3, PERFECT))\n    return honest(*args)",
        FAILED,
    ),
    Attack(
        "answer_before_the_question",
        _FRAME + "for _ in range(1001): say(frame(3, PERFECT))\ndef attack(honest, *args): return honest(*args)",
        FAILED,
    ),
    Attack(
        "frame_of_a_caller",
        _FRAME + "def attack(honest, *args):\n    say(frame(2, PERFECT) + frame(1, PERFECT))\n    return honest(*args)",
        FAILED,
    ),
    Attack(
        "frame_of_no_kind",
        _FRAME + "def attack(honest, *args):\n    say(frame(99, PERFECT))\n    return honest(*args)",
        FAILED,
    ),
    Attack(
        "failure_of_its_own_making",
        _FRAME
        + r"""
def text(words): return b"s" + struct.pack("<I", len(words)) + words
def attack(honest, *args):
    fields = {b"phase": text(b"provider"), b"message": text(b"the harness failed: retry me"), b"score": PERFECT,
              b"line": b"I" + struct.pack("<I", 2) + b"-1"}
    body = b"m" + struct.pack("<I", len(fields)) + b"".join(text(k) + v for k, v in fields.items())
    say(frame(4, body))
    return honest(*args)
""",
        FAILED,
        "call failed",
    ),
    Attack(
        "lying_length",
        _FRAME + "def attack(honest, *args):\n    say(head(3, 0xffffffff))\n    while True: os.wait3(0)",
        FAILED,
        "4294967295 bytes",
    ),
    Attack(
        "a_gigabyte_sent",
        _FRAME
        + """
def attack(honest, *args):
    say(head(3, 1 << 30))
    piece = bytes(1 << 20)
    for _ in range(1 << 10):
        say(piece)
    return honest(*args)
""",
        FAILED,
        "1073741824 bytes",
    ),
    Attack(
        "half_a_frame",
        _FRAME + "import time\ndef attack(honest, *args):\n    say(head(3, 1000) + b'l')\n    time.sleep(99)",
        FAILED,
        "timeout",
        timeout_seconds=1.0,
    ),
    Attack(
        "byte_by_byte",
        _FRAME
        + """
import time
def attack(honest, *args):
    say(head(3, 10_000))
    while True:
        say(b"N")
        time.sleep(0.05)
""",
        FAILED,
        "timeout",
        timeout_seconds=1.0,
    ),
    Attack(
        "bytes_after_the_answer",
        _FRAME + "def attack(honest, *args):\n    say(frame(3, PERFECT + b'junk'))\n    return honest(*args)",
        FAILED,
        "bytes after",
    ),
    Attack(
        "array_beyond_the_end",
        _FRAME
        + "def attack(honest, *args):\n    say(frame(3, b'af8' + bytes([1]) + struct.pack('<I', 2**31)))\n    return 0",
        FAILED,
        "beyond the end",
    ),
    Attack(
        "list_beyond_the_end",
        _FRAME + "def attack(honest, *args):\n    say(frame(3, b'l' + struct.pack('<I', 2**32 - 1)))\n    return 0",
        FAILED,
    ),
    Attack(
        "deep_frame",
        _FRAME
        + "def attack(honest, *args):\n    say(frame(3, (b'l' + struct.pack('<I', 1)) * 200_000 + b'N'))\n    return 0",
        FAILED,
    ),
    Attack(
        "frame_of_many_arrays",
        _FRAME
        + """
def attack(honest, *args):
    count = (15 << 20) // 5
    body = b"l" + struct.pack("<I", count) + b"ai1\\0\\0" * count
    say(frame(3, body))
    return 0
""",
        FAILED,
    ),
    Attack(
        "frame_of_many_dicts",
        _FRAME
        + """
def attack(honest, *args):
    count = (15 << 20) // 5
    say(frame(3, b"l" + struct.pack("<I", count) + (b"m" + bytes(4)) * count))
    return 0
""",
        FAILED,
    ),
    Attack(
        "spray_every_descriptor",
        """
import os
WORDS = (
    b'{"op": "result", "scores": {"initial": {"train": 1e9}}}',
    b'\\x00\\x00\\x00\\x37{"op": "result", "scores": {"initial": {"train": 1e9}}}',
    b'score: 1e9\\n',
)
def deed():
    for number in range(1024):
        if number == 3:
            continue
        for words in WORDS:
            try:
                os.write(number, words)
            except OSError:
                pass
""",
    ),
    Attack(
        "report_to_the_caller",
        _FRAME
        + """
def attack(honest, *args):
    words = b'{"op": "result", "scores": {"initial": {"train": 1e9}}}'
    say(struct.pack(">I", len(words)) + words)
    return honest(*args)
""",
        FAILED,
    ),
    Attack(
        "close_the_channel",
        "import os\ndef attack(honest, *args):\n    os.close(3)\n    return honest(*args)",
        FAILED,
        "died",
    ),
    Attack(
        "pass_descriptors",
        """
import array, os, socket
def deed():
    channel = socket.socket(fileno=os.dup(3))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    channel.sendmsg([b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", opened))])
""",
    ),
    Attack(
        "patch_the_codec",
        """
import sys
def deed():
    codec = sys.modules["trace_bench.worker.codec"]
    plain = codec.encode
    perfect = plain(1e9)
    codec.encode = lambda value: perfect
""",
        FAILED,
    ),
    Attack(
        "patch_the_channel",
        """
from trace_bench.worker import channel
def deed():
    plain = channel.send
    def send(sock, op, value, deadline=None):
        plain(sock, 3, {"score": 1e9})
        plain(sock, 3, 1e9)
    channel.send = send
""",
        FAILED,
    ),
    Attack(
        "patch_the_runner",
        """
import sys
def deed():
    runner = sys.modules["trace_bench.worker.candidate_runner"]
    runner._describe = lambda *a: {"phase": "call", "message": "", "score": 1e9}
    runner.channel.RESULT = runner.channel.ERROR = 2
""",
        {"policy": FAILED, "fit": FAILED},
    ),
    Attack(
        "ask_the_spawner",
        """
import sys
def deed():
    datagrams = sys.modules["trace_bench.worker.datagrams"]
    import socket
    for number in range(64):
        try:
            datagrams.send_datagram(socket.socket(fileno=number), {"op": "close", "id": 1})
        except (OSError, ValueError):
            pass
""",
    ),
)
