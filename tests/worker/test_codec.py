"""Plain data crosses exactly; nothing else does; hostile bytes raise one kind of error."""

from __future__ import annotations

import collections
import contextlib
import enum
import math
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trace_bench.worker import codec

scalars = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(-(1 << 63), (1 << 63) - 1), inner, max_size=4)
    ),
    max_leaves=12,
)


def cross(value: Any) -> Any:
    return codec.decode(bytearray(b"".join(codec.encode(value))))


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


@given(values)
def test_plain_data_crosses_exactly(value: Any) -> None:
    assert same(cross(value), value)


@given(hnp.arrays(st.sampled_from(["f8", "f4", "i8", "i4", "u1", "?", "f2", ">f8"]), hnp.array_shapes(max_dims=4)))
def test_arrays_cross_exactly_and_arrive_writable(array: np.ndarray) -> None:
    got = cross(array)
    assert got.shape == array.shape and got.dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(got, array)
    assert got.flags.writeable


def test_a_transposed_view_crosses_by_value() -> None:
    array = np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(cross(array), array)


def test_empty_arrays_keep_their_shape() -> None:
    assert cross(np.zeros((0, 3))).shape == (0, 3)


class Colour(enum.IntEnum):
    RED = 3


class Sly(float):
    def __float__(self) -> float:
        return 1e9


@pytest.mark.parametrize(("value", "base"), [(Colour.RED, 3), (np.float32(0.5), 0.5), (np.int64(7), 7)])
def test_subclasses_and_numpy_scalars_arrive_as_plain_scalars(value: Any, base: Any) -> None:
    assert cross(value) == base and type(cross(value)) is type(base)


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 0, np.array([object()]), np.array([1j]), {(1,): 2}])
def test_what_is_not_data_is_refused(value: Any) -> None:
    with pytest.raises(codec.CodecError, match="cannot cross"):
        codec.encode(value)


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(codec.CodecError, match="nested"):
        codec.encode(loop)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_codec_error(data: bytes) -> None:
    with contextlib.suppress(codec.CodecError):
        codec.decode(data)


@given(values, st.integers(0, 500), st.integers(0, 255))
def test_damaged_encodings_decode_or_raise_codec_error(value: Any, at: int, byte: int) -> None:
    data = bytearray(b"".join(codec.encode(value)))
    data[at % len(data)] = byte
    with contextlib.suppress(codec.CodecError):
        codec.decode(data)


def test_an_announced_length_costs_no_memory() -> None:
    with pytest.raises(codec.CodecError, match="beyond"):
        codec.decode(b"l\xff\xff\xff\xff")


def framed(tag: bytes, *parts: bytes, length: int | None = None) -> bytes:
    """A container of `tag` that announces `length` items, or as many as it has."""
    return tag + struct.pack("<I", len(parts) if length is None else length) + b"".join(parts)


def text(value: str) -> bytes:
    return b"s" + struct.pack("<I", len(value)) + value.encode()


EMPTY_ARRAY = b"af8" + bytes([1]) + struct.pack("<I", 0)


@pytest.mark.parametrize(
    "body",
    [
        framed(b"l", b"N" * (1 << 18), length=1 << 18),
        framed(b"l", framed(b"l") * (1 << 16), length=1 << 16),
        framed(b"m", (b"i" + bytes(8) + b"N") * (1 << 14), length=1 << 14),
        framed(b"l", EMPTY_ARRAY * (1 << 12), length=1 << 12),
        framed(b"l", *[framed(b"l", b"N" * (1 << 11), length=1 << 11)] * 20),
    ],
    ids=["nones", "lists", "dict", "arrays", "many lists"],
)
def test_a_frame_within_its_bytes_cannot_take_many_times_their_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(codec.CodecError, match="too many items"):
            codec.decode(body, 1 << 14)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20, "64 bytes for each value that may come"


def test_as_many_values_as_are_allowed_cross_and_one_more_does_not() -> None:
    values = [0.5] * 1000
    assert codec.decode(b"".join(codec.encode(values)), 1000) == values
    with pytest.raises(codec.CodecError, match="too many items"):
        codec.decode(b"".join(codec.encode(values)), 999)
    with pytest.raises(codec.CodecError, match="too many items"):
        cross([None] * (codec.MAX_ITEMS + 1))
    assert len(codec.decode(b"".join(codec.encode([None] * (codec.MAX_ITEMS + 1))), None)) > codec.MAX_ITEMS


def test_a_large_array_is_one_value() -> None:
    assert cross([np.zeros(2_000_000)])[0].shape == (2_000_000,)


@pytest.mark.parametrize("shape", [(1 << 32) - 1, (1 << 20) + 1])
def test_an_empty_array_with_rows_without_end_is_refused(shape: int) -> None:
    body = b"af8" + bytes([2]) + struct.pack("<II", shape, 0)
    with pytest.raises(codec.CodecError, match="absurd"):
        codec.decode(body)


def test_a_dict_has_each_key_once_and_none_is_nan() -> None:
    one = b"i" + struct.pack("<q", 1)
    with pytest.raises(codec.CodecError, match="twice"):
        codec.decode(framed(b"m", one + b"N", b"T" + b"N"))
    with pytest.raises(codec.CodecError, match="NaN"):
        codec.decode(framed(b"m", b"d" + struct.pack("<d", math.nan) + b"N"))
    with pytest.raises(codec.CodecError, match="NaN"):
        codec.encode({math.nan: 1})


def test_every_integer_that_crosses_can_be_written_down() -> None:
    largest = (1 << codec.MAX_BITS) - 1
    assert len(str(cross(largest))) > 3000 and cross(-largest) == -largest
    for digits in ("f" * (codec.MAX_BITS // 4 + 1), "f" * 4096, "0x" + "f" * 4000):
        with pytest.raises(codec.CodecError, match="too large"):
            codec.decode(b"I" + struct.pack("<I", len(digits)) + digits.encode())


class Listing(list[Any]):
    def __len__(self) -> int:
        return 99

    def __iter__(self) -> Any:
        return iter("other")


class Table(dict[Any, Any]):
    def items(self) -> Any:
        return [("forged", 1)]


class Pose(np.ndarray[Any, Any]):
    def __array_finalize__(self, other: Any) -> None:
        self.marked = True


class Label(str):
    def __str__(self) -> str:
        return "other"

    def encode(self, *args: Any) -> bytes:
        return b"other"


@pytest.mark.parametrize(
    "value",
    [Sly(1.5), Listing([1]), Table(a=1), Label("a"), np.zeros(2).view(Pose), collections.namedtuple("P", "a")(1),
     collections.defaultdict(list, a=[1]), collections.Counter("a"), Colour.RED, np.float64(1.0), np.bool_(True)],
)  # fmt: skip
def test_whatever_poses_as_data_arrives_as_an_exact_base_type(value: Any) -> None:
    exact = {type(None), bool, int, float, str, bytes, list, tuple, dict, np.ndarray}
    left = [cross(value)]
    while left:
        found = left.pop()
        assert type(found) in exact
        if isinstance(found, list | tuple):
            left += found
        elif isinstance(found, dict):
            left += [*found.keys(), *found.values()]
