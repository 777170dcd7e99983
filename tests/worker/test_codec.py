"""Plain data crosses exactly; nothing else does; hostile bytes raise one kind of error."""

from __future__ import annotations

import contextlib
import enum
import math
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
