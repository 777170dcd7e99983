"""Frames are separated whatever pieces a stream arrives in, and what is no frame is one kind of error."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.worker.frames import FrameError, FrameFormat, FrameReader, FrameTooLarge, JsonReader, pack_json

KINDS = FrameFormat(struct.Struct(">cI"), 1000)


@given(st.lists(st.tuples(st.sampled_from([b"D", b"S"]), st.binary(max_size=1000)), max_size=5), st.integers(1, 600))
def test_frames_survive_any_split_of_the_stream(frames: list[tuple[bytes, bytes]], step: int) -> None:
    data = b"".join(KINDS.pack(payload, kind) for kind, payload in frames)
    reader = FrameReader(KINDS)
    assert [f for i in range(0, len(data), step) for f in reader.feed(data[i : i + step])] == frames


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.text(max_size=20) | st.floats(allow_nan=False, allow_infinity=False), max_size=3
        )
    )
)
def test_json_messages_cross(messages: list[dict[str, Any]]) -> None:
    assert list(JsonReader().feed(b"".join(map(pack_json, messages)))) == messages


def test_a_frame_over_the_limit_is_refused_at_both_ends() -> None:
    with pytest.raises(FrameTooLarge, match="1001 bytes; the limit is 1000"):
        KINDS.pack(bytes(1001), b"D")
    with pytest.raises(FrameTooLarge, match="1001 bytes; the limit is 1000"):
        list(FrameReader(KINDS).feed(struct.pack(">cI", b"D", 1001)))


@pytest.mark.parametrize("payload", [b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_an_error(payload: bytes) -> None:
    with pytest.raises(FrameError, match="a message is not"):
        list(JsonReader().feed(struct.pack(">I", len(payload)) + payload))


def test_a_message_with_a_number_that_json_lacks_is_not_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack_json({"score": float("nan")})
