"""The imports of a program: all that its source names are made before its first line runs.

A program has no files while it runs, so an import that reads one fails then. What a source names is read from its
compiled code, functions and classes included; nothing of it is executed for that.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import importlib
import mmap
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter
from opcode import opmap
from types import CodeType, ModuleType
from typing import Any

_IMPORT_NAME, _IMPORT_FROM, _EXTENDED_ARG = (opmap[name] for name in ("IMPORT_NAME", "IMPORT_FROM", "EXTENDED_ARG"))
_LATE = {
    "strptime": "_strptime",
    "differential_evolution": "multiprocessing",
    "brute": "multiprocessing",
    "shgo": "scipy.stats",
    "logm": "scipy.linalg._matfuncs_inv_ssq",
    "fractional_matrix_power": "scipy.linalg._matfuncs_inv_ssq",
    "pascal": "scipy.special",
    **dict.fromkeys(("unique", "setdiff1d", "union1d", "intersect1d", "setxor1d", "isin"), "numpy.ma"),
}
"""Modules that a library imports when its function of this name is first called."""
_CODING = frozenset({"encode", "decode"})

Failures = Mapping[str, ImportError]


def import_named(code: CodeType) -> Failures:
    """Import what `code` names: the errors by module. Whatever else an import raises becomes an ImportError."""
    modules, names, words = _named(code)
    failures: dict[str, ImportError] = {}
    for name, members in modules.items():
        module = _import(name, failures)
        if module is None:
            continue
        for member in members:
            if hasattr(module, "__path__") and member not in vars(module):
                # It may be no module but something that `__getattr__` makes: then this failure says nothing.
                _import(f"{name}.{member}", {})
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            _load_lazy(sys.modules.get(".".join(parts[:depth])), names)
    for name in names & _LATE.keys():
        _import(_LATE[name], {})
    if names & _CODING:
        for word in words:
            with contextlib.suppress(LookupError, ValueError):
                codecs.lookup(word)  # imports the codec of that name
    return failures


def close(failures: Failures) -> None:
    """From here on an import finds what is built in or loaded already, and fails with a reason otherwise."""
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, _Closed(failures)]


def read_mapped(known: set[str]) -> None:
    """Have every file that this process maps in the page cache whole, those of `known` excepted; add them to it.

    Otherwise a program could see by the time that a page takes to arrive which pages others had brought in or evicted.
    """
    for path in mapped_files() - known:
        known.add(path)
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:  # noqa: PTH123 - on a hot path
            mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ).close()


def mapped_files() -> set[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        return {line[line.index("/") :].rstrip("\n") for line in lines if "/" in line}


def _named(code: CodeType) -> tuple[dict[str, set[str]], set[str], set[str]]:
    """Modules that `code` imports, each with what is imported from it; all names that it uses; its short texts."""
    modules: dict[str, set[str]] = {}
    names: set[str] = set()
    words: set[str] = set()
    left = [code]
    while left:
        one = left.pop()
        names.update(one.co_names)
        left += (constant for constant in one.co_consts if isinstance(constant, CodeType))
        words.update(constant for constant in one.co_consts if isinstance(constant, str) and len(constant) < 20)
        module: set[str] = set()
        for operation, name in _imports(one):
            if operation == _IMPORT_NAME:
                module = modules.setdefault(name, set())
            else:
                module.add(name)
    return modules, names, words


def _imports(code: CodeType) -> Iterator[tuple[int, str]]:
    raw = code.co_code
    if _IMPORT_NAME not in raw[::2]:
        return
    argument = 0
    for operation, low in zip(raw[::2], raw[1::2], strict=True):
        argument = argument << 8 | low
        if operation == _EXTENDED_ARG:
            continue
        if operation in (_IMPORT_NAME, _IMPORT_FROM):
            yield operation, code.co_names[argument]
        argument = 0


def _import(name: str, failures: dict[str, ImportError]) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        failures[error.name or name] = error
    except ImportError as error:
        failures[name] = error
    except BaseException as error:  # a module may do anything, end the process for one
        failures[name] = ImportError(f"{name} cannot be imported here: {type(error).__name__}: {error}", name=name)
    return None


def _load_lazy(module: Any, names: set[str]) -> None:
    """Have a package that loads parts of itself on first use load those that `names` may mean."""
    if isinstance(module, ModuleType):
        for name in sorted(names & lazy_parts(module)):
            if name not in vars(module):
                with contextlib.suppress(Exception):
                    getattr(module, name)


@functools.cache
def lazy_parts(module: ModuleType) -> frozenset[str]:
    """Names in a package that loads parts of itself on first use; none in others. To list NumPy's takes a while."""
    return frozenset(dir(module)) if "__getattr__" in vars(module) else frozenset()


class _Closed:
    """Finds no module, and says why."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        known = self._failures.get(fullname)
        if known is not None:
            raise type(known)(str(known), name=fullname)
        raise ModuleNotFoundError(
            f"{fullname} cannot be imported now: a program has no files while it runs. Name the module in an import "
            f"statement (import {fullname}); those are made before the program starts",
            name=fullname,
        )
