"""How sets, ranges and keys that are tuples reach a candidate's process and come back: beside plain data, which is all
that crosses by itself."""

from __future__ import annotations

from typing import Any

from trace_bench.worker.codec import MAX_DEPTH

WRAPPED = "_trace_bench_called"
_WRAPPER = """

def _trace_bench_restored(value):
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(_trace_bench_restored, value))
    if kind is not dict:
        return value
    if len(value) == 1 and (name := next(iter(value))) in {marks!r}:
        kinds = (set, frozenset, dict, lambda ends: range(*ends))
        return kinds[{marks!r}.index(name)](_trace_bench_restored(value[name]))
    return {{name: _trace_bench_restored(each) for name, each in value.items()}}

def _trace_bench_plain(value):
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(map(_trace_bench_plain, value))
        except TypeError:
            return list(map(_trace_bench_plain, value))
    if isinstance(value, dict):
        return {{name: _trace_bench_plain(each) for name, each in value.items()}}
    if type(value) in (list, tuple):
        return type(value)(map(_trace_bench_plain, value))
    views = (range, type({{}}.keys()), type({{}}.values()), type({{}}.items()))
    return list(map(_trace_bench_plain, value)) if isinstance(value, views) else value

def _trace_bench_called(positions, names, packed, *arguments):
    if packed:
        arguments = _trace_bench_restored(arguments)
    first = len(arguments) - len(names)
    answer = _trace_bench_plain({entry}(*arguments[:first], **dict(zip(names, arguments[first:]))))
    return [answer, [arguments[i] for i in positions if i < len(arguments)]] if positions else answer
"""
"""Stands after a program that changes its arguments, takes any keyword, is given sets, ranges or keys that are tuples,
or answers with sets or ranges. What it is given crosses as a dict of one of `_MARKS`; sets and ranges of an answer
cross as lists."""
_MARKS = _SET, _FROZEN, _DICT, _RANGE = ("\0set", "\0frozenset", "\0dict", "\0range")


def wrapper_of(entry: str) -> str:
    """What stands after a program, so that `WRAPPED` calls its function `entry`."""
    return _WRAPPER.format(entry=entry, marks=_MARKS)


def needs_packing(value: Any, depth: int = 0) -> bool:
    """Whether a set, a range, or a dict with a tuple for a key is in `value`."""
    if isinstance(value, set | frozenset | range):
        return True
    if depth > MAX_DEPTH:
        return False  # it does not cross at all
    if isinstance(value, dict):
        return any(isinstance(key, tuple) or needs_packing(each, depth + 1) for key, each in value.items())
    return isinstance(value, list | tuple) and any(needs_packing(each, depth + 1) for each in value)


def packed(value: Any) -> Any:
    """`value` with dicts of `_MARKS` in place of sets, ranges and dicts with keys that are tuples."""
    if isinstance(value, set | frozenset):
        return {_SET if isinstance(value, set) else _FROZEN: [packed(each) for each in value]}
    if isinstance(value, range):
        return {_RANGE: [value.start, value.stop, value.step]}
    if isinstance(value, dict):
        if any(isinstance(key, tuple) for key in value):
            return {_DICT: [(key, packed(each)) for key, each in value.items()]}
        return {key: packed(each) for key, each in value.items()}
    return type(value)(map(packed, value)) if type(value) in (list, tuple) else value
