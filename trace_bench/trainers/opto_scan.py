"""Finds the trainers in a copy of OpenTrace by reading its source: nothing of it is imported. Standard library only.

Which copy: ``$OPENTRACE`` (the folder of a checkout, or a wheel), and inside a sandbox the one that its image holds.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.trainers.base import Param
from trace_bench.trainers.common_params import UNTIL
from trace_bench.worker import source_scan

VARIABLE = "OPENTRACE"
PREFIX = "opto:"
PLACES = ("opto/trainer/", "opto/features/", "examples/trainers/")
"""Where trainers are looked for. `opto/` and the last of these are what an image gets."""

ROOTS = ("Trainer", "AbstractAlgorithm", "Algorithm", "AlgorithmBase")
"""Base classes; none of them is a trainer by itself."""
NO_TRAINERS = ("SearchTemplate",)
HELD_OUT = ("validate_dataset", "validation_dataset")
"""Names that arguments of ``train`` have for the validation examples."""

GIVEN = (
    *HELD_OUT, "self", "guide", "train_dataset", "validate_guide", "test_dataset", "test_guide", "logger",
    "num_threads", "save_path", "save_frequency", "verbose",
)  # fmt: skip
"""Arguments of ``train`` that the bridge gives, or that have no meaning here."""
BOUNDS = frozenset({
    "num_epochs", "num_steps", "num_iters", "num_iterations", "num_search_iterations", "num_rounds", "max_depth",
    "max_steps",
})  # fmt: skip
"""Arguments that say how long ``train`` goes on by itself."""


@dataclass(frozen=True)
class Found:
    """One trainer: its class, and the parameters of its ``train`` that have a plain default.

    Attributes:
        abstract: the methods that only raise NotImplementedError; a trainer that has any cannot run.
    """

    name: str
    module: str
    params: tuple[Param, ...]
    abstract: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Class:
    name: str
    module: str
    bases: tuple[str, ...]
    methods: Mapping[str, ast.FunctionDef]


def location() -> Path | None:
    """The checkout or wheel that is meant; None if there is none.

    Raises:
        ConfigError: ``$OPENTRACE`` names something else.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named).expanduser().absolute()
    if path.is_file() and path.suffix == ".whl" and zipfile.is_zipfile(path):
        if "opto/__init__.py" in zipfile.ZipFile(path).namelist():
            return path
    elif (path / "opto" / "__init__.py").is_file():
        return path
    raise ConfigError(f"{VARIABLE}: {named} is not a checkout or a wheel with a package opto; name one")


def installed() -> Path:
    """The folder in which the `opto` of this interpreter lies."""
    spec = importlib.util.find_spec("opto")
    if spec is None or spec.origin is None:
        raise ConfigError("no package opto is installed here")
    return Path(spec.origin).parent.parent


def files_of(place: Path) -> dict[str, bytes]:
    """What of a checkout or wheel runs inside a sandbox: path, with slashes, to content; sorted."""
    return {name: content for name, content in sorted(_files(place)) if not _residue(name)}


def version_of(files: Mapping[str, bytes]) -> str:
    """The version that ``opto/version.py`` states; ``unknown`` if none does."""
    stated = re.search(rb"__version__\s*=\s*['\"]([\w.+-]+)['\"]", files.get("opto/version.py", b""))
    return stated[1].decode() if stated else "unknown"


def trainers_of(files: Mapping[str, bytes]) -> dict[str, Found]:
    """The trainers in `files`, by the name of their class, in alphabetical order.

    A class is one if it comes of one of `ROOTS`, through classes of any name, and has a ``train`` of its own or of such
    a class. Of two of one name the first in alphabetical order of modules counts.
    """
    classes: dict[str, _Class] = {}
    for name, content in files.items():
        if name.endswith(".py") and name.startswith(PLACES):
            for found in _classes(name, content):
                classes.setdefault(found.name, found)
    trainers = {}
    for found in classes.values():
        if found.name in (*ROOTS, *NO_TRAINERS) or found.name.startswith("_"):
            continue
        lineage = list(_lineage(found, classes))
        train = next((c.methods["train"] for c in lineage if "train" in c.methods and c.name not in ROOTS), None)
        if train is not None and any(base in ROOTS for c in lineage for base in c.bases):
            trainers[found.name] = Found(found.name, found.module, tuple(_params(train)), _abstract(lineage))
    return dict(sorted(trainers.items()))


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    wanted = ("opto/", PLACES[-1])
    if place.is_file():
        with zipfile.ZipFile(place) as wheel:
            for name in wheel.namelist():
                if name.startswith(wanted) and not name.endswith("/") and ".." not in name.split("/"):
                    yield name, wheel.read(name)
        return
    for folder in wanted:
        for path in (place / folder).rglob("*"):
            if path.is_file():
                yield path.relative_to(place).as_posix(), path.read_bytes()


def _residue(name: str) -> bool:
    return name.endswith(".pyc") or any(part == "__pycache__" or part.startswith(".") for part in name.split("/"))


def _classes(name: str, content: bytes) -> Iterator[_Class]:
    tree = source_scan.parse(content)
    if tree is None:
        return
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = tuple(base for base in (_last(expression) for expression in node.bases) if base)
            methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
            yield _Class(node.name, module, bases, methods)


def _last(expression: ast.expr) -> str:
    """``Trainer`` of ``Trainer``, ``algorithms.Trainer`` and ``Trainer[T]``."""
    if isinstance(expression, ast.Subscript):
        return _last(expression.value)
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def _lineage(found: _Class, classes: Mapping[str, _Class]) -> Iterator[_Class]:
    """`found` and its bases, nearest first; a circle ends it."""
    seen: set[str] = set()
    waiting = [found]
    while waiting:
        one = waiting.pop(0)
        if one.name not in seen:
            seen.add(one.name)
            yield one
            waiting += [classes[base] for base in one.bases if base in classes]


def _abstract(lineage: Iterable[_Class]) -> tuple[str, ...]:
    """The methods, sorted, whose nearest definition below `ROOTS` does nothing but raise NotImplementedError."""
    nearest: dict[str, ast.FunctionDef] = {}
    for one in lineage:
        if one.name not in ROOTS:
            nearest = {**one.methods, **nearest}
    return tuple(sorted(name for name, method in nearest.items() if _only_raises(method)))


def _only_raises(method: ast.FunctionDef) -> bool:
    body = method.body[1:] if ast.get_docstring(method) is not None else method.body
    if len(body) != 1 or not isinstance(body[0], ast.Raise) or body[0].exc is None:
        return False
    raised = body[0].exc
    return _last(raised.func if isinstance(raised, ast.Call) else raised) == "NotImplementedError"


def _params(train: ast.FunctionDef) -> Iterator[Param]:
    for argument, default in source_scan.defaults(train):
        if argument.arg in GIVEN or default is None:
            continue
        try:
            value = ast.literal_eval(default)
        except ValueError:
            continue
        kind = type(value) if value is not None else _annotated(argument.annotation)
        if kind in (bool, int, float, str):
            if kind is int and _annotated(argument.annotation) is float:
                kind, value = float, float(value)
            doc = f"`{argument.arg}` of its `train`"
            if kind is int and argument.arg in BOUNDS:
                yield Param(argument.arg, value, kind, f"{doc}; {UNTIL}", minimum=0, endless=0)
            else:
                yield Param(argument.arg, value, kind, doc)


def _annotated(annotation: ast.expr | None) -> type | None:
    """The one plain type that an annotation names, as in ``int``, ``Optional[int]``, ``int | None``."""
    names = source_scan.names_in(annotation)
    named = [kind for kind in (bool, int, float, str) if kind.__name__ in names]
    return named[0] if len(named) == 1 else None
