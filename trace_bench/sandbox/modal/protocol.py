"""The protocol between the host and the holder, the program that keeps a job's command in a Modal sandbox.

Standard library only: the host and the programs inside both use this module.

A peer joins the holder over a Unix socket, through an exec of `bridge`. Both sides send frames: ``kind (1 byte) |
length u32, big-endian | payload``. Kind `DATA` is bytes of stdin or stdout. Kind `SAY` is a JSON object. The first
message of a peer is ``{"op": …}``:

=========  ===========================================================================================================
attach     take over the stream. The answer is a report; then data goes both ways, and the ops below are allowed
start      start the command. The answer is a report
status     the answer is a report
wait       the answer is a report, once the command has ended
kill       end the command and all its descendants. The answer is a report, once they have ended
hold       no answer. While such a peer is there, the sandbox does not end by itself
=========  ===========================================================================================================

A report is ``{"state": "created" | "running" | "exited", "ended": null | {"code", "error"}, "stderr", "facts"}``. The
attached peer gets a report whenever the state changes, and ``{"eof": true}`` after the last byte of stdout. The holder
closes the connection of any other peer after the answer.

Neither side sends more data than the other has granted by ``{"credit": bytes}``. The first grants are part of the op
and of its answer. So a reader that does not read holds up data, and never a message.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from trace_bench.worker.frames import FrameFormat, FrameReader

DATA, SAY = b"D", b"S"
WINDOW = 4 << 20
"""Bytes of data that one side may send before the other has read them."""
CHUNK = 64 * 1024
LONGEST_FRAME = 1 << 20
STDERR_BYTES = 64 * 1024
"""How much of the end of stderr is kept."""
SOCKET = "/run/trace-bench/holder"
OUT = "/out"
_FRAMES = FrameFormat(struct.Struct(">cI"), LONGEST_FRAME)


def pack(kind: bytes, payload: bytes) -> bytes:
    """One frame."""
    return _FRAMES.pack(payload, kind)


def say(**fields: Any) -> bytes:
    """One frame of kind `SAY`."""
    return pack(SAY, json.dumps(fields).encode())


def frame_reader() -> FrameReader:
    """Splits bytes into frames, each as kind and payload."""
    return FrameReader(_FRAMES)
