"""What foreign code finds by the names that it imports: its own files, stand-ins, and what the image has.

A `World` is entered while code of a task runs, and left no trace of: `sys.modules` is as it was before.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_bench.suites.llm4ad.compat import evolvers, loader, opto_guide, opto_trace
from trace_bench.worker.problem import ProblemError

_lock = threading.RLock()
_numbers = itertools.count()
_TASKS = "llm4ad.task."
_OURS = {"opto", "llm4ad", "llm4ad_loader", "trace_bench", "numpy", "scipy", "gymnasium"}
_QUIET = (
    "matplotlib",
    "matplotlib.pyplot",
    "matplotlib.patches",
    "matplotlib.colors",
    "matplotlib.cm",
    "tqdm",
    "pygame",
)
_OLD = {"float_": "float64", "Inf": "inf", "NaN": "nan", "infty": "inf", "product": "prod", "alltrue": "all",
        "sometrue": "any"}  # fmt: skip
_LAST = {"numba", "gym", *_QUIET}
_NUMBA_TYPES = (
    "types", "boolean", "b1", "void", "none", "uintp", "intp", "uintc", "intc", "size_t", "ssize_t", "char", "uchar",
    "short", "complex64", "complex128", "float32", "float64", "float_", "double", "f4", "f8", "c8", "c16", "int_",
    "uint",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)),
)  # fmt: skip


class World:
    """The modules of one task folder.

    Args:
        folder: whose files are importable by their bare names, and as ``llm4ad.task.….NAME``; what else of llm4ad they
            may import is stood in for. None has no files, and the package llm4ad as it is installed.
    """

    def __init__(self, folder: Path | None) -> None:
        self._own: dict[str, ModuleType] = _stand_ins() | (_llm4ad() | evolvers.modules() if folder is not None else {})
        self._siblings = _Siblings(folder) if folder is not None else None
        self._last = _LastResort()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """While code of the task runs."""
        with _lock:
            hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if self._is_own(name)}
            sys.modules.update(self._own)
            self._last.episodes = itertools.count()
            finders: list[MetaPathFinder] = [self._last, *([self._siblings] if self._siblings else [])]
            unwritten, sys.dont_write_bytecode = sys.dont_write_bytecode, True
            sys.meta_path.append(self._last)
            if self._siblings is not None:
                sys.meta_path.insert(0, self._siblings)
            old_names = _old_names_of_numpy()
            try:
                yield
            finally:
                for name in old_names:
                    delattr(sys.modules["numpy"], name)
                for finder in finders:
                    sys.meta_path.remove(finder)
                sys.dont_write_bytecode = unwritten
                self._own = {name: sys.modules.pop(name) for name in list(sys.modules) if self._is_own(name)}
                sys.modules.update(hidden)

    def load(self, path: Path) -> ModuleType:
        """Import the file at `path` as a package, so that it finds its neighbours by relative imports. Enter before."""
        name = f"_trace_bench_foreign_{next(_numbers)}"
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
        if spec is None or spec.loader is None:
            raise ProblemError(f"{path.parent.name}/{path.name} cannot be imported as Python source")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def namespace(self, name: str, places: list[str]) -> None:
        """A package without code, in place of one whose own code is not to run. Enter before."""
        module: Any = ModuleType(name)
        module.__path__ = places
        sys.modules[name] = self._own[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)

    def _is_own(self, name: str) -> bool:
        top = name.partition(".")[0]
        found = (self._siblings.found if self._siblings else set()) | self._last.found
        return top in {"opto", "llm4ad", "llm4ad_loader"} or name in self._own or top in found


class _Siblings(MetaPathFinder):
    """Files of the task's folder, ahead of installed packages; never in place of the standard library.

    LLM4AD's own tasks name their files from the top of its package: below ``llm4ad.task``, the last word of a name is
    a file of the folder, or else the name is that of a package without code.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.found: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith(_TASKS):
            made = PathFinder.find_spec(name, [self._folder])
            if made is None or made.loader is None:
                made = ModuleSpec(name, None, is_package=True)
                made.submodule_search_locations = [self._folder]
            return made
        if path is not None or name in sys.stdlib_module_names or name in _OURS:
            return None
        spec = PathFinder.find_spec(name, [self._folder])
        if spec is None or spec.loader is None:
            return None
        self.found.add(name)
        return spec


class _LastResort(MetaPathFinder, Loader):
    """For what is not installed: plots, which do nothing; functions, uncompiled; gymnasium by its old name."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.episodes = itertools.count()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _LAST:
            return None
        self.found.add(name.partition(".")[0])
        return ModuleSpec(name, self, is_package=name == "matplotlib")

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Quiet(spec.name) if spec.name in _QUIET else ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        found: Any = module
        if module.__name__ == "gym":
            gymnasium: Any = importlib.import_module("gymnasium")
            found.__getattr__ = lambda name: getattr(gymnasium, name)
            found.__path__, found.make = (
                list(gymnasium.__path__),
                lambda name, **given: self._made(gymnasium, name, given),
            )
        elif module.__name__ == "numba":
            found.jit = found.njit = _uncompiled
            found.prange = range
            found.__dict__.update(dict.fromkeys(_NUMBA_TYPES, _Type()))
        elif module.__name__ == "tqdm":
            found.tqdm = found.trange = lambda items, *a, **k: items

    def _made(self, gymnasium: Any, name: str, given: dict[str, Any]) -> Any:
        """An environment, which begins its first episode of each evaluation alike, its second, and so on. Of one whose
        version is gone, the version that there is."""
        try:
            made = gymnasium.make(name, **given)
        except gymnasium.error.DeprecatedEnv:
            made = gymnasium.make(name.rpartition("-v")[0], **given)
        begin = made.reset

        def reset(*, seed: int | None = None, options: Any = None) -> Any:
            return begin(seed=next(self.episodes) if seed is None else seed, options=options)

        made.reset = reset
        return made


class _Quiet(ModuleType):
    """A module of which everything does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()


class _Nothing:
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter((self, self))


def _old_names_of_numpy() -> list[str]:
    """Give NumPy back, for now, names that its version 2 took away and older code uses: which ones."""
    numpy = sys.modules.get("numpy")
    added = [name for name in _OLD if numpy is not None and name not in numpy.__dict__]
    for name in added:
        setattr(numpy, name, getattr(numpy, _OLD[name]))
    return added


class _Type:
    """A type of numba: of arrays by subscripts (``float64[:, :]``), of functions by calls (``float64(int64)``)."""

    def __getattr__(self, name: str) -> _Type:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> _Type:
        return self

    def __call__(self, *arguments: Any) -> _Type:
        return self


def _uncompiled(*function: Any, **options: Any) -> Any:
    if len(function) == 1 and callable(function[0]) and not isinstance(function[0], _Type):
        return function[0]
    return lambda decorated: decorated


def _stand_ins() -> dict[str, ModuleType]:
    opto: Any = ModuleType("opto")
    trainer: Any = ModuleType("opto.trainer")
    opto.__path__, trainer.__path__ = [], []
    opto.trace, opto.trainer = opto_trace, trainer
    trainer.guide = trainer.guides = opto_guide
    return {
        "opto": opto,
        "opto.trace": opto_trace,
        "opto.trace.nodes": opto_trace,
        "opto.trainer": trainer,
        "opto.trainer.guide": opto_guide,
        "opto.trainer.guides": opto_guide,
        "llm4ad_loader": loader,
    }


def _llm4ad() -> dict[str, ModuleType]:
    """The package llm4ad as evaluations in its own shape import it."""
    names = ("llm4ad", "llm4ad.base", "llm4ad.base.evaluate", "llm4ad.task")
    found: dict[str, Any] = {name: ModuleType(name) for name in names}
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(found[parent], last, module)
    for name in ("llm4ad", "llm4ad.base", "llm4ad.task"):
        found[name].__path__ = []
    for name in ("llm4ad.base", "llm4ad.base.evaluate"):
        found[name].Evaluation = loader.LLM4ADEvaluation
    # The functions that read the data of its CO-Bench tasks.
    return found | {"llm4ad.task.optimization.co_bench.utils": loader}
