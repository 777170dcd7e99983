# mypy: ignore-errors
"""What runs before a program, and before the tests of a program, in two processes of their own.

`trace_bench_call` calls the program's function. `trace_bench_step` runs the tests to their next call of that function.
Arguments and answers go from one process to the other through a third one, as plain data, so sets, ranges and other
values that are not plain are marked. None of this is a defence: a program may replace all of it in its own process.
"""

import _thread  # the process has loaded these modules, so they cost no time here
import builtins
import collections
import sys
import types

_MODULE = globals()
_MARK = "\0"
"""The only key of a dict that stands for a value that is not plain."""
_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_COLLECTIONS = (set, frozenset, collections.deque, bytearray)
_ITERATORS = (map, zip, filter, enumerate, reversed, type(_ for _ in ()), type(reversed([])), type(iter(range(0))),
              *(type(iter(kind())) for kind in (list, tuple, set, dict, str)))  # fmt: skip
_VIEWS = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}


class _Unfit(Exception):
    """The value cannot cross. The text names its type."""


class _Object:
    """In the tests, an answer that is no data: all that is known of it are its type's name and its truth value."""

    def __init__(self, name, truth):
        self.name, self.truth = name, truth

    def __bool__(self):
        return self.truth

    def __repr__(self):
        return f"<an object of type {self.name}>"


def _packed(value, other):
    """`value` as plain data. A value of a subclass becomes one of its base, and iterators are exhausted.

    Args:
        other: called with a value that is no data, for what to send in its place.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, list):
        return [_packed(item, other) for item in value]
    if isinstance(value, tuple):
        return tuple([_packed(item, other) for item in value])
    if isinstance(value, dict) and _MARK not in value and all(type(key) is str for key in value):
        return {key: _packed(item, other) for key, item in value.items()}
    if isinstance(value, (int, float, str)):
        return value
    name, parts = _parts(value)
    return other(value) if name is None else {_MARK: [name, [_packed(part, other) for part in parts]]}


def _parts(value):
    """What `_made` makes `value` of; None for what is no data."""
    kind = type(value)
    if isinstance(value, dict):
        return "dict", value.items()
    for base in _COLLECTIONS:
        if isinstance(value, base):
            return base.__name__, value
    if isinstance(value, _ITERATORS):
        return "iterator", value
    for name, view in _VIEWS.items():
        if isinstance(value, view):
            return name, value
    if kind is range:
        return "range", (value.start, value.stop, value.step)
    if kind is complex:
        return "complex", (value.real, value.imag)
    if (kind.__module__, kind.__name__) == ("decimal", "Decimal"):
        return "Decimal", (str(value),)
    if (kind.__module__, kind.__name__) == ("fractions", "Fraction"):
        return "Fraction", (value.numerator, value.denominator)
    return None, ()


def _restored(value):
    """The value of which `_packed` made `value`.

    Raises:
        _Unfit: `_packed` makes no such value.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_restored(item) for item in value]
    if kind is tuple:
        return tuple([_restored(item) for item in value])
    if kind is not dict:
        raise _Unfit(kind.__name__)
    if _MARK not in value:
        return {key: _restored(item) for key, item in value.items()}
    match value[_MARK]:
        case [str(name), [*parts]] if len(value) == 1 and name in _MADE:
            return _made(name, [_restored(part) for part in parts])
    raise _Unfit("a mark")


_MADE = {
    "range": (int, int, int), "complex": (float, float), "Decimal": (str,), "Fraction": (int, int),
    "object": (str, bool),
    **dict.fromkeys(("set", "frozenset", "deque", "iterator", "keys", "values"), object), "bytearray": int,
    **dict.fromkeys(("dict", "items"), tuple),
}  # fmt: skip
"""What marks stand for, and the type of each of their parts, or the types of all of them, in order."""


def _made(name, parts):
    """A value of the type that `name` stands for; nothing else is ever made of a mark."""
    kinds = _MADE[name]
    if type(kinds) is not tuple:
        kinds = (kinds,) * len(parts)
    if len(kinds) != len(parts) or not all(map(isinstance, parts, kinds)):
        raise _Unfit(f"a mark of {name}")
    makers = {
        "set": set,
        "frozenset": frozenset,
        "deque": collections.deque,
        "bytearray": bytearray,
        "dict": dict,
        "iterator": iter,
        "keys": lambda items: dict.fromkeys(items).keys(),
        "values": lambda items: dict(enumerate(items)).values(),
        "items": lambda items: dict(items).items(),
        "range": lambda ends: range(*ends),
        "complex": lambda numbers: complex(*numbers),
        "Decimal": lambda text: sys.modules["decimal"].Decimal(*text),
        "Fraction": lambda numbers: sys.modules["fractions"].Fraction(*numbers),
        "object": lambda said: _Object(*said),
    }
    return makers[name](parts)


def _object(value):
    """What stands for an answer that is no data. A number of NumPy is data."""
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return {_MARK: ["object", [kind.__name__, bool(value)]]}


def _refused(value):
    raise _Unfit(type(value).__name__)


def _traceback(error, file):
    """Lines of `file` in the traceback of `error`, outer calls first."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines


def _evaluate_annotations():
    """Evaluate the annotations of the program, which may name what it does not import.

    Python does so where a function is defined. A candidate's process leaves them as text.
    """
    if type(_MODULE.get("annotations")).__name__ == "_Feature":  # from __future__ import annotations
        return
    classes = [value for value in _MODULE.values() if isinstance(value, type) and value.__module__ == "candidate"]
    for scope in (_MODULE, *map(vars, classes)):
        found = [scope.get("__annotations__", {})]
        for value in scope.values():
            function = value if isinstance(value, types.FunctionType) else getattr(value, "__wrapped__", None)
            if isinstance(function, types.FunctionType) and function.__globals__ is _MODULE:
                found.append(function.__annotations__)
        for annotations in found:
            for text in annotations.values():
                if isinstance(text, str):
                    eval(text, _MODULE, dict(scope))


_LOADED = []


def trace_bench_call(entry, arguments, named):
    """Call the program's function `entry`.

    Returns:
        ``["answered", value]``, ``["raised", [names of its classes, text], line or None]``, ``["unloadable", why]`` or
        ``["missing"]``.
    """
    function = _MODULE.get(entry)
    if not callable(function):
        return ["missing"]
    if not _LOADED:
        _LOADED.append(True)
        try:
            _evaluate_annotations()
        except Exception as error:
            return ["unloadable", f"{type(error).__name__}: {error}"]
    try:
        return ["answered", _packed(function(*_restored(arguments), **_restored(named)), _object)]
    except Exception as error:
        lines = _traceback(error, "<candidate>")
        said = [[kind.__name__ for kind in type(error).__mro__], str(error)[:2000]]
        return ["raised", said, lines[-1] if lines else None]


class _Handover:
    """Passes one value at a time from a thread to another one."""

    def __init__(self):
        self._full = _thread.allocate_lock()
        self._full.acquire()

    def put(self, value):
        self._value = value
        self._full.release()

    def get(self):
        self._full.acquire()
        return self._value


_TO_TESTS, _FROM_TESTS = _Handover(), _Handover()
_LAST = {}
"""Of the last call: ``call`` and ``answer`` as text, and the exception that it ``raised``."""


def trace_bench_step(happened, value):
    """Run the tests to their next call of the program, or to their end.

    Args:
        happened: ``start`` (of the function that `value` names), or what the call did: ``answered`` or ``raised``.

    Returns:
        ``["call", arguments, named arguments]``, ``["passed"]``, ``["broken", why]`` or ``["failed", lines of the
        traceback, exception, whether the program raised it, arguments of the last call, its answer]``.
    """
    if happened == "start":
        _MODULE[value] = _stand_in
        _thread.start_new_thread(_run, ())
    else:
        _TO_TESTS.put((happened, _restored(value)))
    return _FROM_TESTS.get()


def _stand_in(*arguments, **named):
    """The program's function, as the tests see it."""
    _LAST.clear()
    _LAST["call"] = ", ".join([*map(_shown, arguments), *(f"{name}={_shown(item)}" for name, item in named.items())])
    try:
        call = ["call", _packed(arguments, _refused), _packed(named, _refused)]
    except _Unfit as error:
        call = ["broken", f"they call it with a value of type {error}, which is no data"]
    _FROM_TESTS.put(call)
    happened, value = _TO_TESTS.get()
    if happened == "answered":
        _LAST["answer"] = _shown(value)
        return value
    names, text = value
    kinds = [getattr(builtins, name, None) for name in names]
    kind = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)), Exception)
    _LAST["raised"] = kind.__new__(kind, text)
    raise _LAST["raised"]


def _run():
    try:
        _MODULE["trace_bench_tests"]()
    except BaseException as error:
        text = type(error).__name__
        try:
            text += f": {error}" if str(error) else ""
        except Exception:  # an argument of it has no text
            text += ": (no text)"
        own = error is _LAST.get("raised")
        lines = _traceback(error, "<support>")
        _FROM_TESTS.put(["failed", lines, text[:2000], own, _LAST.get("call", ""), _LAST.get("answer", "")])
    else:
        _FROM_TESTS.put(["passed"])


def _shown(value):
    try:
        text = repr(value)
    except Exception as error:
        text = f"({type(error).__name__})"
    return text if len(text) <= 300 else text[:299] + "…"


def _keep_apart(module):
    """Leave of all the above two functions in `module`, whose global variables are a copy of those of now.

    A program may have a variable named ``list``, and one that does not import ``sys`` must not find it.
    """
    own = dict(module)
    for name, value in own.items():
        if isinstance(value, types.FunctionType):
            own[name] = types.FunctionType(value.__code__, own, name)
    for name in [name for name in module if not name.startswith("__")]:
        del module[name]
    module.update({name: own[name] for name in ("trace_bench_call", "trace_bench_step")})


_keep_apart(globals())
