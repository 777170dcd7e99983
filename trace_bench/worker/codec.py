"""Plain data as typed bytes, for the socket between a scorer and a candidate.

What a candidate sends is hostile, so there is no pickle and no `eval`: a value is a tag and its content, lengths are
checked against what is left, nesting and the number of values are bounded. Types: None, bool, int (up to 3699 decimal
digits, so that ``str`` of it is always possible), float,
str, bytes, list, tuple, dict (keys: str, int, float, bool, None), numpy arrays of bool, int, uint and float, and numpy
scalars (which arrive as Python scalars). NumPy is used only if it is already imported.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

MAX_DEPTH = 32
MAX_BITS = 12288
MAX_ITEMS = 1 << 20
"""Values in one decoded value. A byte of an encoding can cost forty in memory, and a microsecond."""
_ARRAY_ITEMS = 16
"""An array counts as so many: its object is larger, and takes longer to make."""
ARRAY_DTYPES = frozenset(
    kind + size for kind, sizes in (("i", "1248"), ("u", "1248"), ("f", "248"), ("b", "1")) for size in sizes
)

_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")
_U32 = struct.Struct("<I")


class CodecError(ValueError):
    """The value has a type that does not cross, or the bytes are not an encoding."""


def encode(value: Any) -> list[bytes | memoryview]:
    """Buffers to send, in order (arrays are not copied).

    Raises:
        CodecError: with the type that cannot cross, or nesting deeper than `MAX_DEPTH`.
    """
    out: list[bytes | memoryview] = []
    _encode(value, out, 0)
    return out


def _encode(value: Any, out: list[bytes | memoryview], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CodecError(f"the value is nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is float:
        out.append(b"d" + _F64.pack(value))
    elif kind is int:
        _encode_int(value, out)
    elif value is None:
        out.append(b"N")
    elif kind is bool:
        out.append(b"T" if value else b"F")
    elif kind is str:
        data = value.encode("utf-8", "surrogatepass")
        out.append(b"s" + _U32.pack(len(data)))
        out.append(data)
    elif kind in (bytes, bytearray):
        out.append(b"b" + _U32.pack(len(value)))
        out.append(bytes(value))
    elif kind in (list, tuple):
        out.append((b"l" if kind is list else b"t") + _U32.pack(len(value)))
        for item in value:
            _encode(item, out, depth + 1)
    elif kind is dict:
        out.append(b"m" + _U32.pack(len(value)))
        for key, item in value.items():
            if not (key is None or isinstance(key, str | int | float)):
                raise CodecError(f"a dict key of type {type(key).__name__} cannot cross")
            _check_key(key)
            _encode(key, out, depth + 1)
            _encode(item, out, depth + 1)
    else:
        _encode_numpy(value, out, depth)


def _check_key(key: object) -> None:
    # Multiples of 2**61 - 1 all have one hash: 60,000 of them would hold a scorer up for minutes.
    if isinstance(key, int) and not -(1 << 63) <= key < 1 << 63:
        raise CodecError("a dict key beyond 64 bits cannot cross")
    if key != key:
        raise CodecError("a dict key that is NaN cannot cross: nothing can find it again")


def _encode_int(value: int, out: list[bytes | memoryview]) -> None:
    if -(1 << 63) <= value < 1 << 63:
        out.append(b"i" + _I64.pack(value))
        return
    if value.bit_length() > MAX_BITS:
        raise CodecError("an integer is too large to cross")
    data = format(value, "x").encode()
    out.append(b"I" + _U32.pack(len(data)))
    out.append(data)


def _encode_numpy(value: Any, out: list[bytes | memoryview], depth: int) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        code = value.dtype.kind + str(value.dtype.itemsize)
        if code not in ARRAY_DTYPES:
            raise CodecError(f"an array of dtype {value.dtype} cannot cross; use a numeric dtype")
        array = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        shape = value.shape
        out.append(b"a" + code.encode() + bytes([len(shape)]) + struct.pack(f"<{len(shape)}I", *shape))
        out.append(memoryview(array.reshape(-1).view(numpy.uint8)) if array.size else b"")
    elif numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "iufb":
        _encode(value.item(), out, depth)
    elif isinstance(value, int):
        # A subclass crosses as its base (an Enum, a namedtuple, a defaultdict): only the data arrives.
        _encode(int(value), out, depth)
    elif isinstance(value, float):
        _encode(float(value), out, depth)
    elif isinstance(value, str):
        _encode(str.__str__(value), out, depth)
    elif isinstance(value, list):
        _encode(list(value), out, depth)
    elif isinstance(value, tuple):
        _encode(tuple(value), out, depth)
    elif isinstance(value, dict):
        _encode(dict(value), out, depth)
    else:
        raise CodecError(f"a value of type {type(value).__name__} cannot cross; return plain data")


def decode(data: bytes | bytearray | memoryview, max_items: int | None = MAX_ITEMS) -> Any:
    """The value that `data` encodes, of exact base types. Arrays share `data` and are writable if it is.

    Args:
        max_items: how many values it may hold; None where the sender is trusted.

    Raises:
        CodecError: the bytes are not an encoding, or hold too many values.
    """
    view = memoryview(data)
    try:
        value, end = _decode(view, 0, 0, [len(view) * _ARRAY_ITEMS if max_items is None else max_items])
    except (struct.error, IndexError, OverflowError, TypeError, ValueError, ImportError, MemoryError) as error:
        if isinstance(error, CodecError):
            raise
        raise CodecError(f"the bytes are not an encoded value ({type(error).__name__})") from None
    if end != len(view):
        raise CodecError("there are bytes after the encoded value")
    return value


def _take(left: list[int], items: int) -> None:
    """Count `items` off what may still come. A container takes all of its own at once, before it is made."""
    left[0] -= items
    if left[0] < 0:
        raise CodecError("the value holds too many items; return large data as one array")


def _decode(view: memoryview, at: int, depth: int, left: list[int]) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise CodecError(f"the value is nested deeper than {MAX_DEPTH} levels")
    tag = view[at]
    at += 1
    if tag == 0x64:  # d
        return _F64.unpack_from(view, at)[0], at + 8
    if tag == 0x69:  # i
        return _I64.unpack_from(view, at)[0], at + 8
    if tag == 0x61:  # a
        _take(left, _ARRAY_ITEMS)
        return _decode_array(view, at)
    if tag == 0x4E:
        return None, at
    if tag == 0x54:
        return True, at
    if tag == 0x46:
        return False, at
    (length,) = _U32.unpack_from(view, at)
    at += 4
    if length > len(view) - at:
        raise CodecError("a length reaches beyond the end")
    if tag in (0x73, 0x62, 0x49):  # s b I
        raw = bytes(view[at : at + length])
        at += length
        if tag == 0x73:
            return raw.decode("utf-8", "surrogatepass"), at
        if tag == 0x62:
            return raw, at
        if length > MAX_BITS // 4 + 1:
            raise CodecError("an integer is too large")
        number = int(raw.decode("ascii"), 16)
        if number.bit_length() > MAX_BITS:
            raise CodecError("an integer is too large")
        return number, at
    if tag in (0x6C, 0x74):  # l t
        _take(left, length)
        items = []
        for _ in range(length):
            item, at = _decode(view, at, depth + 1, left)
            items.append(item)
        return (items if tag == 0x6C else tuple(items)), at
    if tag == 0x6D:  # m
        _take(left, 3 * length)
        result: dict[Any, Any] = {}
        for _ in range(length):
            key, at = _decode(view, at, depth + 1, left)
            if not (key is None or isinstance(key, str | int | float)):
                raise CodecError("a dict key of this type cannot cross")
            _check_key(key)
            result[key], at = _decode(view, at, depth + 1, left)
        if len(result) != length:
            raise CodecError("a dict names a key twice")
        return result, at
    raise CodecError(f"unknown tag {tag}")


def _decode_array(view: memoryview, at: int) -> tuple[Any, int]:
    code = bytes(view[at : at + 2]).decode("ascii")
    if code not in ARRAY_DTYPES:
        raise CodecError("an array of this dtype cannot cross")
    ndim = view[at + 2]
    at += 3
    if ndim > 32:
        raise CodecError("an array has too many dimensions")
    shape = struct.unpack_from(f"<{ndim}I", view, at)
    at += 4 * ndim
    count = extent = 1
    for size in shape:
        count *= size
        extent *= max(size, 1)
    if count == 0 and extent > MAX_ITEMS:
        # It is empty, and a loop over its rows would not end.
        raise CodecError("an empty array has absurd dimensions")
    nbytes = count * int(code[1])
    if nbytes > len(view) - at:
        raise CodecError("an array reaches beyond the end")
    import numpy

    dtype = numpy.dtype("?" if code == "b1" else "<" + code)
    if code == "b1" and numpy.frombuffer(view, numpy.uint8, count, at).max(initial=0) > 1:
        raise CodecError("a boolean array holds something else")
    array = numpy.frombuffer(view, dtype=dtype, count=count, offset=at).reshape(shape)
    return array, at + nbytes
