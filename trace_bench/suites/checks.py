"""Turns what a candidate returned into the data that an evaluator needs, or into the candidate's failure.

A candidate's output is hostile. Every function here either returns checked plain data or raises
``CandidateError("output", sentence)``; nothing a candidate can return makes it raise anything else, and no
message repeats more than a few characters of what came back. ``name`` is what the value is called in the
sentence.

NumPy is imported only by functions that return arrays: problems of images without it use the others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from trace_bench.worker.problem import CandidateError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHOWN = 40


def refuse(sentence: str) -> CandidateError:
    """The error for an output that breaks the task's rules; the caller raises it."""
    return CandidateError("output", sentence)


def describe(value: object) -> str:
    """A short phrase for any value: its type, and the value itself where that is short."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        # str() of a huge integer raises, and takes quadratic time before it does.
        return f"the integer {value}" if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= _SHOWN else f"a text of {len(value)} characters"
    if isinstance(value, list | tuple | dict | bytes):
        return f"a {type(value).__name__} of length {len(value)}"
    if _is_array(value):
        return f"an array of shape {_shape_text(value.shape)} and type {value.dtype.name[:_SHOWN]}"
    return f"a value of type {type(value).__name__[:_SHOWN]}"


def real(value: object, name: str, *, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number within ``[low, high]``, as a float."""
    number = _leaf(value, name)
    if not math.isfinite(number):
        raise refuse(f"{name} must be finite, not {number}")
    if not low <= number <= high:
        raise refuse(f"{name} must be within {low:g} .. {high:g}, not {number!r}")
    return number


def integer(value: object, name: str, *, low: int, high: int) -> int:
    """An integer within ``[low, high]``. A bool or a float with no fraction is not an integer."""
    found = _scalar(value)
    if isinstance(found, bool) or not isinstance(found, int):
        raise refuse(f"{name} must be an int, not {describe(value)}")
    if not low <= found <= high:
        raise refuse(f"{name} must be within {low} .. {high}, not {describe(found)}")
    return found


def integers(value: object, name: str, *, length: int | None = None, low: int, high: int) -> list[int]:
    """A list of integers within ``[low, high]``, of exactly `length` entries if given."""
    items = sequence(value, name, length=length)
    return [integer(item, f"{name}[{i}]", low=low, high=high) for i, item in enumerate(items)]


def permutation(value: object, name: str, size: int) -> list[int]:
    """Each of 0 .. size - 1 once, in any order."""
    found = integers(value, name, length=size, low=0, high=size - 1)
    seen = [False] * size
    for item in found:
        if seen[item]:
            raise refuse(f"{name} must name each of 0 .. {size - 1} once, and names {item} twice")
        seen[item] = True
    return found


def mapping(value: object, name: str, keys: Sequence[str]) -> dict[str, Any]:
    """A dict that has all of `keys`; what else is in it is left out."""
    if not isinstance(value, dict):
        raise refuse(f"{name} must be a dict with {', '.join(map(repr, keys))}, not {describe(value)}")
    for key in keys:
        if key not in value:
            raise refuse(f"{name} lacks the key {key!r}")
    return {key: value[key] for key in keys}


def sequence(value: object, name: str, *, length: int | None = None, longest: int | None = None) -> list[Any]:
    """The items of a list, tuple or array (along its first axis): exactly `length`, at most `longest`."""
    if _is_array(value) and value.ndim >= 1:
        size = value.shape[0]
    elif isinstance(value, list | tuple):
        size = len(value)
    else:
        raise refuse(f"{name} must be a list, not {describe(value)}")
    if length is not None and size != length:
        raise refuse(f"{name} must have {length} entries, not {size}")
    if longest is not None and size > longest:
        raise refuse(f"{name} must have at most {longest} entries, not {size}")
    return list(value)


def text(value: object, name: str, *, longest: int) -> str:
    """A string of at most `longest` characters."""
    if not isinstance(value, str):
        raise refuse(f"{name} must be a string, not {describe(value)}")
    if len(value) > longest:
        raise refuse(f"{name} must have at most {longest} characters, not {len(value)}")
    return value


def float_array(
    value: object, name: str, *, shape: tuple[int, ...], infinite: bool = False, nan: bool = False
) -> NDArray[np.float64]:
    """A float64 array of exactly `shape`.

    Arrays of integers or floats and (nested) lists of numbers or such arrays are taken; booleans, complex
    numbers, objects and text are not. Infinities pass only if `infinite`, and everything passes if `nan`. The
    result may share memory with `value`.
    """
    import numpy as np

    if not _is_array(value):
        flat = np.fromiter(_leaves(value, name, shape), dtype=np.float64)
        array = flat.reshape(shape)
    else:
        array = _converted(value, name, shape)
    good = ~np.isnan(array) if infinite else np.isfinite(array)
    if not nan and not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        what = "a number" if infinite else "finite"
        raise refuse(f"{name}{_index_text(where)} must be {what}, not {float(array[where])}")
    return array


def _converted(value: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    import numpy as np

    if value.dtype.kind not in "fiu":
        raise refuse(f"{name} must hold real numbers, not {describe(value)}")
    if value.shape != shape:
        raise refuse(f"{name} must have shape {_shape_text(shape)}, not {_shape_text(value.shape)}")
    if value.dtype == np.float64:
        return np.asarray(value)
    with np.errstate(over="ignore", invalid="ignore"):  # a wider float may become infinite, which is then refused
        return np.asarray(value).astype(np.float64)


def _leaves(value: object, name: str, shape: tuple[int, ...]) -> Iterator[float]:
    """The numbers of a nested sequence in order. Lengths are checked before anything is copied."""
    if not shape:
        yield _leaf(value, name)
        return
    if _is_array(value):
        yield from _converted(value, name, shape).ravel()
        return
    if not isinstance(value, list | tuple):
        raise refuse(f"{name} must have shape {_shape_text(shape)}, not be {describe(value)}")
    if len(value) != shape[0]:
        raise refuse(f"{name} must have {shape[0]} entries, not {len(value)}")
    for i, item in enumerate(value):
        yield from _leaves(item, f"{name}[{i}]", shape[1:])


def _leaf(value: object, name: str) -> float:
    """A real number as a float, which may be infinite or NaN."""
    found = _scalar(value)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise refuse(f"{name} must be a number, not {describe(value)}")
    try:
        return float(found)
    except OverflowError:
        raise refuse(f"{name} must be a number that fits a float, not {describe(found)}") from None


def _scalar(value: object) -> object:
    """Unwrap a NumPy scalar or an array of no dimension; anything else as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) in (int, float):
        return value
    if isinstance(value, numpy.generic) or (isinstance(value, numpy.ndarray) and value.ndim == 0):
        return value.item() if value.dtype.kind in "fiub" and value.dtype.itemsize <= 8 else value
    return value


def _is_array(value: object) -> TypeGuard[NDArray[Any]]:
    """True for a NumPy array. If NumPy was never imported, nothing can be one."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _shape_text(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"


def _index_text(where: tuple[int, ...]) -> str:
    return "".join(f"[{i}]" for i in where)
