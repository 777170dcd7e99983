"""The control stream survives torn frames, garbage, repeats and gaps."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.worker.control_stream import CHUNK, MAGIC, PADDING, Decoder, Mailbox, Message, encode

headers = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=20), max_size=4)


@given(st.lists(st.tuples(headers, st.binary(max_size=3 * CHUNK)), max_size=4), st.integers(1, 50_000))
def test_messages_survive_any_split_of_the_stream(messages: list, step: int) -> None:
    data = b"".join(encode(Message(h, b)) for h, b in messages)
    decoder = Decoder()
    got = [m for i in range(0, len(data), step) for m in decoder.feed(data[i : i + step])]
    assert [(m.header, m.blob) for m in got] == messages
    assert decoder.skipped == 0


@given(st.binary(max_size=400), st.integers(0, 100_000))
def test_a_reader_finds_the_next_message_after_a_torn_one_and_garbage(garbage: bytes, cut: int) -> None:
    torn = encode(Message({"type": "lost"}, bytes(2 * CHUNK)))
    torn = torn[: cut % len(torn)]
    decoder = Decoder()
    got = list(decoder.feed(torn + garbage + PADDING + encode(Message({"type": "found"}))))
    assert [m.type for m in got][-1] == "found"


def test_padding_ends_a_torn_frame_even_when_nothing_follows_soon() -> None:
    frame = encode(Message({"type": "lost"}, b"x" * 20_000))
    decoder = Decoder()
    assert list(decoder.feed(frame[:30])) == []
    assert [m.type for m in decoder.feed(PADDING + encode(Message({"type": "hello"})))] == ["hello"]


def test_a_magic_inside_a_blob_does_not_confuse_the_reader() -> None:
    blob = MAGIC * 100
    assert [m.blob for m in Decoder().feed(encode(Message({"type": "x"}, blob)))] == [blob]


def test_a_flipped_bit_loses_that_message_only() -> None:
    bad = bytearray(encode(Message({"type": "bad"}, b"payload")))
    bad[-1] ^= 1
    got = list(Decoder().feed(bytes(bad) + encode(Message({"type": "good"}))))
    assert [m.type for m in got] == ["good"]


def test_a_message_over_the_limit_is_dropped_without_being_kept_in_memory() -> None:
    decoder = Decoder(limit=CHUNK)
    assert list(decoder.feed(encode(Message({"type": "huge"}, bytes(4 * CHUNK))))) == []
    assert [m.type for m in decoder.feed(encode(Message({"type": "next"})))] == ["next"]


def deliver(data: bytes, mailbox: Mailbox) -> list[str]:
    return [m.type for m in Decoder().feed(data) if mailbox.accept(m)]


def test_what_was_not_acknowledged_is_sent_again_and_taken_once() -> None:
    sender, receiver = Mailbox(), Mailbox()
    first, second = sender.pack("a"), sender.pack("b")
    assert deliver(first, receiver) == ["a"]
    assert deliver(first + second, receiver) == ["b"]
    assert sender.pending == 2
    assert deliver(sender.resend(after=receiver.received), receiver) == []
    assert sender.pending == 0


def test_after_a_gap_nothing_is_taken_until_it_is_filled() -> None:
    sender, receiver = Mailbox(), Mailbox()
    sender.pack("lost")
    assert deliver(sender.pack("early"), receiver) == []
    assert deliver(sender.resend(after=receiver.received), receiver) == ["lost", "early"]


def test_ephemeral_messages_have_no_number_and_are_always_taken() -> None:
    receiver = Mailbox()
    assert deliver(Mailbox.pack_ephemeral("heartbeat") * 2, receiver) == ["heartbeat", "heartbeat"]


def test_an_endless_message_of_tiny_frames_is_dropped() -> None:
    decoder = Decoder(limit=1000)
    payload = b"\x00xy"
    frame = struct.pack(">4sII", MAGIC, len(payload), zlib.crc32(payload)) + payload
    assert list(decoder.feed(frame * 10_000)) == []
    assert decoder.skipped >= 19_000


def test_a_header_beyond_the_limit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.worker.control_stream.MAX_HEADER", 100)
    decoder = Decoder()
    small, large = Message({"type": "a"}), Message({"type": "b", "x": "y" * 200})
    assert list(decoder.feed(encode(large) + encode(small))) == [small]
